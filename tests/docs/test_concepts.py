"""The pages of docs/concepts: an idea, a picture, a number that is computed where the page says so."""

import doctest
import re
import runpy
from pathlib import Path

import pytest
from pages import DOCS, blocks

SCRIPT = DOCS.parent / "scripts" / "concept_pictures.py"
PAGES = sorted(path.stem for path in DOCS.glob("concepts/*.md") if path.stem != "index")
EXAMPLES = ["start.md", *(f"concepts/{name}.md" for name in PAGES)]


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def digits(line: str) -> list[str]:
    """The numbers of some text: 1,864 is 1864."""
    return re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", line))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_short_and_has_a_picture_of_its_own(name) -> None:
    page = text(f"concepts/{name}.md")
    assert page.count("\n") <= 80
    assert re.findall(r"!\[[^\]]+\]\((.*?)\)", page) == [f"{name}.png"]


@pytest.mark.parametrize("name", PAGES)
def test_its_number_is_one_that_a_command_or_an_example_gives(name) -> None:
    """Commands and examples are run elsewhere: test_page_commands, and below."""
    page = text(f"concepts/{name}.md")
    computed = {
        number for block in blocks(page) if block.language in ("text", "python") for number in digits(block.body)
    }
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    shown = [number for bold in re.findall(r"\*\*([^*]+)\*\*", prose) for number in digits(bold)]
    assert shown
    for number in shown:
        assert any(other.startswith(number) for other in computed), number


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_the_page_says(name, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_OFFLINE", "1")
    source = "\n".join(block.body for block in blocks(text(name)) if block.language == "python")
    page = doctest.DocTestParser().get_doctest(source, {}, name, None, 0)
    printed: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(page, out=printed.append)
    assert not result.failed, "".join(printed)
    assert result.attempted or name in ("concepts/views.md", "concepts/claims.md", "concepts/accuracy.md")


def test_every_picture_has_a_page_and_is_small() -> None:
    pictures = {path.stem: path.stat().st_size for path in DOCS.glob("concepts/*.png")}
    assert set(pictures) == set(PAGES)
    assert max(*pictures.values(), (DOCS / "start.png").stat().st_size) < 60_000


def test_the_index_lists_every_page() -> None:
    page = text("concepts/index.md")
    table, tree = page.split("```{toctree}")
    listed = re.findall(r"\]\((\w+)\.md\)", table)
    assert sorted(listed) == PAGES
    assert [line for line in tree.splitlines() if re.fullmatch(r"\w+", line)] == listed


@pytest.mark.slow
def test_the_script_draws_every_picture(tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    assert sorted(script["PICTURES"]) == PAGES
    for path in (script["start"](tmp_path), *(script["write"](name, tmp_path) for name in PAGES)):
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert path.stat().st_size < 60_000


def test_the_start_page_prints_the_command_of_its_picture() -> None:
    assert f"\n{runpy.run_path(str(SCRIPT))['START']}\n" in text("start.md")
