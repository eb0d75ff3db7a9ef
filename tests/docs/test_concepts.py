"""docs/concepts.md: to each idea a picture, and a number that is computed where the page says so."""

import doctest
import re
import runpy
from pathlib import Path

import pytest
from pages import DOCS, blocks

SCRIPT = DOCS.parent / "scripts" / "concept_pictures.py"
EXAMPLES = ["start.md", "concepts.md", "api.md"]


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


SECTIONS = {section.splitlines()[0]: section for section in text("concepts.md").split("\n## ")[1:]}
IDEAS = [title for title in SECTIONS if title != "Glossary"]


def pictures(section: str) -> list[str]:
    return re.findall(r"!\[[^\]]+\]\(concepts/(\w+)\.png\)", section)


def digits(line: str) -> list[str]:
    """The numbers of some text: 1,864 is 1864."""
    return re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", line))


@pytest.mark.parametrize("title", IDEAS)
def test_an_idea_is_short_and_has_a_picture_of_its_own(title) -> None:
    assert SECTIONS[title].count("\n") <= 60
    assert len(pictures(SECTIONS[title])) == 1


@pytest.mark.parametrize("title", IDEAS)
def test_its_number_is_one_that_a_command_or_an_example_gives(title) -> None:
    """Commands and examples are run elsewhere: test_page_commands, and below."""
    section = SECTIONS[title]
    computed = {
        number for block in blocks(section) if block.language in ("text", "python") for number in digits(block.body)
    }
    prose = re.sub(r"```.*?```", "", section, flags=re.DOTALL)
    shown = [number for bold in re.findall(r"\*\*([^*]+)\*\*", prose) for number in digits(bold)]
    assert shown
    for number in shown:
        assert any(other.startswith(number) for other in computed), number


@pytest.mark.slow_cases("concepts.md")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "api.md" else []) for name in EXAMPLES]
)
def test_examples_print_what_the_page_says(name, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_OFFLINE", "1")
    monkeypatch.setenv("MPLBACKEND", "agg")
    source = "\n".join(block.body for block in blocks(text(name)) if block.language == "python")
    page = doctest.DocTestParser().get_doctest(source, {}, name, None, 0)
    printed: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(page, out=printed.append)
    assert not result.failed, "".join(printed)
    assert result.attempted


def test_every_picture_is_shown_and_small() -> None:
    sizes = {path.stem: path.stat().st_size for path in DOCS.glob("concepts/*.png")}
    assert sorted(sizes) == sorted(pictures(text("concepts.md")))
    assert max(*sizes.values(), (DOCS / "start.png").stat().st_size) < 60_000


@pytest.mark.slow
def test_the_script_draws_every_picture(tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    assert sorted(script["PICTURES"]) == sorted(pictures(text("concepts.md")))
    for path in (script["start"](tmp_path), *(script["write"](name, tmp_path) for name in script["PICTURES"])):
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert path.stat().st_size < 60_000


def test_the_start_page_prints_the_command_of_its_picture() -> None:
    assert f"\n{runpy.run_path(str(SCRIPT))['START']}\n" in text("start.md")
