"""Links between the pages lead to a file and a heading that exist."""

import re
from pathlib import Path

import pytest
from pages import DOCS

# of the folders that are written by hand
FOLDERS = (".", "data", "howto", "papers", "privacy", "tutorials")
PAGES = sorted(path.relative_to(DOCS).as_posix() for folder in FOLDERS for path in DOCS.glob(f"{folder}/*.md"))


def prose(path: Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", prose(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = DOCS / page
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"https?:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []
