"""The README, generated files and published results say what the code and the metadata say."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import dpml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
NAMES = "overview", "notebook", "metadata", "recompute"
overview, notebook, metadata, recompute = map(pytest.importorskip, NAMES)
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.skipif(not overview.AUDIT.exists(), reason="an sdist has no results")
def test_the_first_table_and_picture_are_those_of_the_committed_results() -> None:
    found = overview.headlines(pd.read_csv(overview.AUDIT))
    table = overview.markdown(found)
    assert table in README
    for headline, line in zip(found, table.splitlines()[2:], strict=True):
        proven, attacked = map(float, line.strip("| ").split(" | ")[-3:-1])
        assert headline.proven <= proven <= 1.01 * headline.proven
        assert 0.99 * headline.attacked <= attacked <= headline.attacked
    figure = overview.picture(found)
    stored = overview.PICTURE.read_text(encoding="utf-8")
    assert overview.drawn(figure) in stored, "python scripts/overview.py draws it again"
    overview.plt.close(figure)


def test_generated_files_are_up_to_date() -> None:
    page = notebook.PAGE.read_text(encoding="utf-8")
    assert notebook.NOTEBOOK.read_text(encoding="utf-8") == notebook.notebook(page)
    for name, content in metadata.files().items():
        assert (ROOT / name).read_text(encoding="utf-8") == content


def test_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == dpml.__version__
    newest = re.search(r"^## (\S+)(?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == "Unreleased" or (newest[1], newest[2]) == (dpml.__version__, str(citation["date-released"]))


def test_nobody_is_told_to_install_a_name_that_is_not_published() -> None:
    """Only a clone has it: a name on an index could be anybody's."""
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "dpml").rglob("*.py")]
    told = re.compile(r"\binstall\s+(?:-[a-zA-Z-]+\s+)*['\"]?(?:multiparty-dp|dpml)\b")
    assert not [path for path in pages if told.search(path.read_text(encoding="utf-8"))]


def rows(**changes):
    plain = {"block": "b", "algo": ["x", "x", "y"], "eps": [1, 2.0, np.inf], "metric": "loss", "tuned": "fixed"}
    return pd.DataFrame({**plain, "value": [0.5, 2e-3, np.nan], "proven_eps": [1.0, 2.0, np.inf], **changes})


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, ""),
        ({"tuned": "rule", "value": [0.5 * (1 + 1e-9), 2e-3, np.nan]}, ""),
        ({"value": [0.5, 2.1e-3, np.nan]}, "1 of 3 value"),
        ({"value": [0.5, 2e-3, 0.0]}, "1 of 3 value"),
        ({"proven_eps": [1.0, 2.0, 3.0]}, "1 of 3 proven_eps"),
        ({"proven_eps": [1.0, 2.0, np.nan]}, "1 of 3 proven_eps"),
        ({"eps": [1, 3.0, np.inf]}, "1 of 3 rows"),
    ],
)
def test_what_differs_is_found(changes, differs):
    found = recompute.compared(rows(**changes), rows())
    assert found.startswith(differs)
    assert bool(found) == bool(differs)


@pytest.mark.parametrize("words", [["heikkila2017/row"], ["--results", "nowhere"]])
def test_a_check_of_nothing_does_not_pass(tmp_path, words):
    with pytest.raises(SystemExit) as stop:
        recompute.main(["--data-dir", str(tmp_path), "--results", str(ROOT / "results"), *words])
    assert stop.value.code


@pytest.mark.slow
def test_published_numbers_are_those_of_the_code(tmp_path, capsys):
    words = ["rajkumar2012/theorem53", "--data-dir", str(tmp_path), "--results", str(ROOT / "results")]
    assert recompute.main([*words, "--cells", "2"]) == 0
    assert capsys.readouterr().out == "rajkumar2012/theorem53: 231 of 1423 rows computed again\n"
