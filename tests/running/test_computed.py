"""Blocks whose rows come from a function: alone, beside cells, cached by source and arguments."""

import math
import sys

import numpy as np
import pandas as pd
import pytest
from harness import TINY, digests, run

from dpml import code
from dpml.errors import UserError
from dpml.reporting.html import write_report
from dpml.running.computed import Computed, complete
from dpml.running.spec import Experiment
from dpml.running.store import Store

SOURCE = """
import pandas as pd
from .constants import FACTOR

CALLS = []

def curve(M: int, power: float = 2.0) -> pd.DataFrame:
    CALLS.append(M)
    return pd.DataFrame(
        [
            {"tau": tau, "reading": reading, "M": M, "eps": 0.1, "metric": metric, "value": FACTOR * M * tau**p}
            for tau in (0.1, 1.0, 10.0)
            for reading, p in (("theirs", 1.0), ("ours", power))
            for metric in ("delta", "bytes")
        ]
    )
"""
ALONE = {
    "title": "Curves",
    "source": "nobody, 2000",
    "settings": {},
    "grid": {
        "small_tau": {"_target_": "curves.analytic.curve", "M": 2},
        "table": {"_target_": "curves.analytic.curve", "M": 3, "power": 1.5},
    },
    "panels": [{"block": "small_tau", "x": "tau", "y": "delta", "curve": ["reading"], "yscale": "log"}],
}


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    folder = tmp_path / "modules" / "curves"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "analytic.py").write_text(SOURCE)
    (folder / "constants.py").write_text("FACTOR = 1.0\n")
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.setattr(code, "_BEGUN", math.inf)  # this process has written the files itself
    yield folder
    for name in ("curves", "curves.analytic", "curves.constants"):
        sys.modules.pop(name, None)


def calls():
    from curves.analytic import CALLS

    return CALLS


@pytest.mark.slow
def test_an_experiment_of_computed_blocks_only(tmp_path):
    assert run(tmp_path, ALONE) == 0
    made = digests(tmp_path)
    kinds = {"tiny.csv", "tiny.png", "tiny.svg", "tiny.md"}
    assert kinds | {"tiny_rows.csv", "tiny_rows.csv.xz"} == set(made)
    table = pd.read_csv(tmp_path / "mine" / "tiny.csv")
    ours = table[(table["block"] == "small_tau") & (table["metric"] == "delta") & (table["reading"] == "ours")]
    np.testing.assert_allclose(ours["mean"], 2 * ours["tau"] ** 2)
    assert set(table["algo"]) == {"small_tau", "table"}
    # the second time nothing is called and nothing changes
    done = list(calls())
    assert done == [2, 3]
    (tmp_path / "mine" / "tiny.png").unlink()
    (tmp_path / "mine" / "tiny.csv").write_text("scribble")
    assert run(tmp_path, ALONE) == 0
    assert calls() == done
    assert digests(tmp_path) == made
    assert "small_tau" in (write_report(tmp_path).parent / "mine" / "tiny.html").read_text()


@pytest.mark.slow
def test_a_worker_process_makes_the_same_files_and_this_one_computes_no_block(tmp_path):
    content = ALONE | {"grid": {"table": ALONE["grid"]["table"]}, "panels": []}
    assert run(tmp_path / "here", content) == 0
    calls().clear()
    assert run(tmp_path / "there", content, workers=2) == 0
    assert not calls()
    assert digests(tmp_path / "there") == digests(tmp_path / "here")


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_block_that_fails_says_why_and_leaves_nothing(tmp_path, module, workers):
    (module / "analytic.py").write_text(SOURCE.replace("return pd.DataFrame(", "raise ValueError('no curve') or ("))
    with pytest.raises(ValueError, match="no curve"):
        run(tmp_path / "out", ALONE, workers=workers)
    assert [path.name for path in (tmp_path / "out" / "mine").iterdir()] == ["tiny_plan.csv"]


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_beside_cells_the_rows_of_cells_stay_as_they_are(tmp_path):
    content = TINY | {"grid": {"a_eps": {"N": 200, "eps": [0.1, 1, 10]}}, "panels": TINY["panels"][:1]}
    assert run(tmp_path / "without", content) == 0
    block = {"_target_": "curves.analytic.curve", "M": 2}
    assert run(tmp_path / "with", content | {"grid": content["grid"] | {"table": block}}) == 0
    before, after = (pd.read_csv(tmp_path / name / "mine" / "tiny.csv") for name in ("without", "with"))
    after = after[after["block"] != "table"][list(before.columns)]
    pd.testing.assert_frame_equal(before, after, check_dtype=False)


def test_a_change_of_argument_or_source_computes_again(module, tmp_path):
    block, other = (Computed("a", "curves.analytic.curve", {"M": M}) for M in (2, 3))
    block.rows(Store(tmp_path))
    assert block.kept(Store(tmp_path))
    assert not other.kept(Store(tmp_path))
    (module / "constants.py").write_text("FACTOR = 2.0\n")  # imported by it
    code._checksum.cache_clear()
    assert not block.kept(Store(tmp_path))


def test_what_is_missing_is_filled_in():
    rows = complete(pd.DataFrame({"metric": ["bytes"], "value": [3.0], "party": ["site"]}), "here")
    known = {"algo": "here", "variant": "paper", "calibration": "published", "seed": 0, "draw": 0, "party": "site"}
    assert dict(rows.iloc[0][[*known]]) == known
    with pytest.raises(ValueError, match="metric and value"):
        complete(pd.DataFrame({"metric": ["bytes"], "value": ["3"]}), "here")


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        ({"_target_": "curves.analytic.kurve", "M": 1}, "has no 'kurve': did you mean 'curve'"),
        ({"_target_": "no_such_module.curve"}, "No module named 'no_such_module'"),
        ({"_target_": "curves.analytic.curve", "m": 1}, "unknown key 'm' in block a of experiment=mine/tiny: did you"),
        ({"_target_": "curves.analytic.curve"}, "needs a value for 'M'"),
    ],
)
def test_a_mistake_in_a_computed_block_is_one_sentence(block, sentence):
    with pytest.raises(UserError, match=sentence):
        Experiment.from_content("mine/tiny", ALONE | {"grid": {"a": block}, "panels": []})


def test_the_plan_lists_it(tmp_path):
    assert run(tmp_path, ALONE, dry=True) == 0
    assert "small_tau,computed,,curves.analytic.curve," in (tmp_path / "plan.csv").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["modules", "plan.csv"]
