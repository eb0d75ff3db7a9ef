"""The README's first table and the words around the version are what results and code say."""

import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

import dpml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
overview = pytest.importorskip("overview")
notebook = pytest.importorskip("notebook")


def test_the_first_table_is_that_of_the_committed_results() -> None:
    if not overview.AUDIT.exists():
        pytest.skip("an sdist has no results")
    found = overview.headlines(pd.read_csv(overview.AUDIT))
    table = overview.markdown(found)
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")
    for headline, line in zip(found, table.splitlines()[2:], strict=True):
        proven, attacked = map(float, line.strip("| ").split(" | ")[-2:])
        assert headline.proven <= proven <= 1.01 * headline.proven
        assert 0.99 * headline.attacked <= attacked <= headline.attacked


def test_the_picture_has_the_points_of_the_committed_results() -> None:
    if not overview.AUDIT.exists():
        pytest.skip("an sdist has no results")
    figure = overview.picture(overview.headlines(pd.read_csv(overview.AUDIT)))
    stored = overview.PICTURE.read_text(encoding="utf-8")
    assert overview.drawn(figure) in stored, "python scripts/overview.py draws it again"
    overview.plt.close(figure)


def test_of_programs_of_others_accuracies_are_drawn_and_nothing_else() -> None:
    ours = {"block": "binary", "dataset": "adult", "metric": "accuracy", "eps": 1.0, "mean": 0.8, "interval": 0.01}
    rows = [ours | {"algo": algo, "algo.shift": 2.0} for algo in ("wdgd", "dpgd", "gop", "ceiling", "constant")]
    theirs = {"series": "adult", "algo": "DP-SGD", "x": 1.0}
    points = [theirs | {"metric": "accuracy", "mean": 0.82}, theirs | {"metric": "auc", "mean": 0.85}]
    figure, ax = overview.plt.subplots()
    overview.draw_accuracy(ax, pd.DataFrame(rows), pd.DataFrame(points))
    (line,) = [line for line in ax.lines if line.get_label() == "DP-SGD"]
    assert line.get_xydata().tolist() == [[1.0, 0.82]]
    overview.plt.close(figure)


def test_a_headline_is_the_worst_view_that_a_claim_is_about() -> None:
    def rows(algo: str, view: str, **values: float) -> list[dict[str, object]]:
        same = {"noise": "published", "variant": "paper", "algo.protocol": None, "algo": algo, "loss": "logistic"}
        return [{**same, "view": view, "metric": name, "mean": value} for name, value in values.items()]

    table = [
        *rows("capefm", "release", claimed=1, proven=2, attacked=1.5),
        *rows("capefm", "colluders", claimed=1, proven=3, attacked=0.5),
        *rows("capefm", "client", proven=9, attacked=8),
        *(row for algo in ("wddp", "psgd", "soft") for row in rows(algo, "release", claimed=1, proven=1, attacked=0)),
    ]
    first = overview.headlines(pd.DataFrame(table))[0]
    assert (first.view, first.claimed, first.proven, first.attacked) == ("colluders", 1, 3, 0.5)


def test_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == dpml.__version__
    newest = re.search(r"^## (\S+)(?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == "Unreleased" or (newest[1], newest[2]) == (dpml.__version__, str(citation["date-released"]))


def test_the_notebook_is_the_first_tutorial() -> None:
    """Written by scripts/notebook.py; every command of the page is in a cell of its own kind."""
    page = notebook.PAGE.read_text(encoding="utf-8")
    written = notebook.NOTEBOOK.read_text(encoding="utf-8")
    assert written == notebook.notebook(page)
    cells = json.loads(written)["cells"]
    commands = [line for cell in cells if cell["cell_type"] == "code" for line in cell["source"]]
    assert [line.strip().removeprefix("!") for line in commands] == re.findall(r"^dpml.*$", page, flags=re.MULTILINE)


def test_nobody_is_told_to_install_a_name_that_is_not_published() -> None:
    """Only a clone has it: a name on an index could be anybody's."""
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "dpml").rglob("*.py")]
    told = re.compile(r"\binstall\s+(?:-[a-zA-Z-]+\s+)*['\"]?(?:multiparty-dp|dpml)\b")
    assert not [path for path in pages if told.search(path.read_text(encoding="utf-8"))]
