"""The outputs of experiments, the pages about them, and blocks that functions compute: damaged in every way."""

import re
import shutil
from pathlib import Path

import pytest
from failing import COMMANDS, go, made, prepare
from test_damage import CELLS, DAMAGES

OUTPUTS = ["tiny.csv", "tiny.png", "tiny.svg", "tiny.md", "tiny_rows.csv", "tiny_plan.csv", "tiny.json"]


@pytest.fixture(scope="module")
def whole(folder: Path, light: None) -> Path:
    """An experiment, its outputs, and the report."""
    prepare(folder)
    content = (folder / "own/experiment/mine/tiny.yaml").read_text()
    (folder / "own/experiment/mine/other.yaml").write_text(content.replace("draws: 2", "draws: 3"))
    for name in ("tiny", "other"):
        words = [word.replace("tiny", name) for word in COMMANDS["experiment"]]
        assert go(folder, words)[0] == 0
    status, _, err = go(folder, COMMANDS["report"])
    assert (status, err) == (0, "")
    shutil.copytree(folder, folder.with_name("whole"))
    return folder.with_name("whole")


def damaged(whole: Path, folder: Path, name: str, damage: str) -> Path:
    shutil.rmtree(folder)
    shutil.copytree(whole, folder)
    path = folder / "out" / name
    other = path.with_name(path.name.replace("tiny", "other"))
    path.write_bytes(DAMAGES[damage](path.read_bytes(), other.read_bytes()))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [*(f"mine/{name}" for name in OUTPUTS), "claims.md", "report/mine.html"])
def test_what_is_damaged_is_made_again(whole: Path, folder: Path, name: str, damage: str) -> None:
    damaged(whole, folder, name, damage)
    assert go(folder, COMMANDS["experiment"])[0] == 0
    assert go(folder, COMMANDS["report"])[::2] == (0, "")
    assert made(folder) == made(whole)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_block_that_is_damaged_is_computed_again(whole: Path, folder: Path, damage: str) -> None:
    shutil.rmtree(folder)
    shutil.copytree(whole, folder)
    (path,) = folder.glob("out/.cells/*/*/rows-*.csv")
    content = path.read_bytes()
    other = b"0" * 64 + content[64:]
    path.write_bytes(DAMAGES[damage](content, other))
    for file in (folder / "out/mine").glob("tiny*"):
        file.unlink()
    status, out, _ = go(folder, COMMANDS["experiment"])
    assert status == 0
    assert re.search(CELLS, out)
    assert made(folder) == made(whole)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["tiny.csv", "tiny.svg", "tiny.json"])
def test_the_report_shows_nothing_of_a_damaged_file(whole: Path, folder: Path, name: str, damage: str) -> None:
    """It says so instead, on the page and on the screen."""
    path = damaged(whole, folder, f"mine/{name}", damage)
    if name == "tiny.json" and damage == "another file of its kind":
        return  # it is whole, and about the other
    status, _, err = go(folder, COMMANDS["report"])
    assert status == 0
    assert err.count("\n") == 1
    page = (folder / "out/report/mine.html").read_text()
    if name == "tiny.json":
        assert f"out/mine/{name} is damaged: its experiment is left out until it is run again" in err
        assert '<section id="tiny"' not in page
    else:
        assert f"note: out/mine: not as written: {path.name}; make it again: dpml-run" in err
        assert f"Not as written: {path.name}. The command makes it again." in page
        shown = page.split('<section id="tiny"')[1].split("</section>")[0]
        assert "<svg" not in shown
        assert "application/gzip" not in shown
