"""What the programs of others share (scripts/peers/rows.py): sets that were measured are not measured again."""

import sys
from pathlib import Path

import numpy as np
import pytest

from dpml.reporting.manifest import Manifest
from dpml.reporting.ranking import beside

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts" / "peers"))
rows = pytest.importorskip("rows")
HELDOUT = ROOT / "results" / "frontier" / "heldout.json"


def one_row(name, seed, data):
    return [(name, 1.0, seed, 0, "theirs", "rmse", float(data.y.sum()))]


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with two data sets, and a program whose rows go to all.csv."""
    (tmp_path / "data").mkdir()
    for name in ("a", "b"):
        for seed in rows.SEEDS:
            X, y = np.ones((3, 2)), np.full(3, 0.1 * seed)
            np.savez(tmp_path / "data" / f"{name}_{seed}.npz", X=X, y=y, X_test=X, y_test=y)
    (tmp_path / "program.py").write_text("first")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "program.py"), str(tmp_path / "data"), str(tmp_path / "all.csv")])
    return tmp_path


def test_a_run_that_was_cut_off_goes_on_with_the_rows_it_has(work):
    def cut_off(name, seed, data):
        if name == "b":
            raise KeyboardInterrupt
        return one_row(name, seed, data)

    asked = []

    def counted(name, seed, data):
        asked.append(name)
        return one_row(name, seed, data)

    with pytest.raises(KeyboardInterrupt):
        rows.set_by_set(work / "data", cut_off)
    found = rows.set_by_set(work / "data", counted)
    assert set(asked) == {"b"}
    wanted = [(name, seed, rows.load(work / "data", name, seed)) for name in "ab" for seed in rows.SEEDS]
    assert found == [row for each in wanted for row in one_row(*each)]


@pytest.mark.parametrize("change", ["program", "data"])
def test_another_program_and_other_data_are_measured_anew(work, change):
    rows.set_by_set(work / "data", one_row)
    if change == "program":
        (work / "program.py").write_text("second")
    else:
        X, y = np.ones((3, 2)), np.full(3, 7.0)
        np.savez(work / "data" / "a_0.npz", X=X, y=y, X_test=X, y_test=y)
    asked = []

    def counted(name, seed, data):
        asked.append(name)
        return one_row(name, seed, data)

    rows.set_by_set(work / "data", counted)
    assert set(asked) == ({"a", "b"} if change == "program" else {"a"})


@pytest.mark.skipif(not HELDOUT.is_file(), reason="an sdist has no results")
def test_what_the_page_of_heldout_says_of_programs_of_others_is_so():
    about = Manifest(HELDOUT).read()
    assert (
        "diffprivlib and DP-EBM on every panel at every ε, and than those of DP-SGD and Opacus on most" in about["note"]
    )
    table = beside(about["rankings"], "wdgd")["rows"]
    shares = {program: [[int(part) for part in cell.split(" of ")] for cell in cells] for program, *cells in table}
    assert all(won == panels == 14 for name in ("diffprivlib (pure ε)", "DP-EBM") for won, panels in shares[name])
    assert all(panels == 9 and won > panels / 2 for name in ("DP-SGD", "Opacus") for won, panels in shares[name])
    assert {len(cells) for cells in shares.values()} == {5}
