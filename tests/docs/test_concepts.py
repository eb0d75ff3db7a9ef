"""Examples of the pages run, and every picture of docs/concepts.md can be drawn."""

import doctest
import re
import runpy
from pathlib import Path

import pytest
from pages import DOCS, blocks

SCRIPT = DOCS.parent / "scripts" / "concept_pictures.py"


@pytest.fixture(autouse=True)
def in_an_empty_folder(folder, monkeypatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.slow_cases("concepts.md", "api.md")
@pytest.mark.parametrize("name", ["concepts.md", "api.md"])
def test_examples_print_what_the_page_says(name) -> None:
    source = "\n".join(block.body for block in blocks(text(name)) if block.language == "python")
    page = doctest.DocTestParser().get_doctest(source, {}, name, None, 0)
    printed: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(page, out=printed.append)
    assert not result.failed, "".join(printed)
    assert result.attempted


@pytest.mark.slow
def test_the_script_draws_every_picture(tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    shown = re.findall(r"!\[[^\]]+\]\(concepts/(\w+)\.png\)", text("concepts.md"))
    assert sorted(script["PICTURES"]) == sorted(shown) == sorted(path.stem for path in DOCS.glob("concepts/*.png"))
    assert f"\n{script['START']}\n" in text("start.md")
    for path in (script["start"](tmp_path), *(script["write"](name, tmp_path) for name in script["PICTURES"])):
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert path.stat().st_size < 60_000
