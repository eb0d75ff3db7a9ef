"""`dpml-run`: runs, sweeps and experiments are one plan: kept, resumed, interrupted, overridden alike."""

import json
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from harness import TINY, own_experiment, plan, without_pictures

from dpml import cli
from dpml.errors import UserError
from dpml.running import expansion, runner
from dpml.running.store import Store

METRIC = '''
import numpy as np


def length(weights, parties, loss, lam):
    """The models' norms."""
    return np.linalg.norm(weights, axis=1)
'''

EXPERIMENT = TINY | {"grid": {"a_eps": TINY["grid"]["a_eps"]}, "panels": TINY["panels"][:1]}
EXPERIMENT |= {"settings": TINY["settings"] | {"algo": ["nonpriv", "capefm"]}}


own = partial(own_experiment, content=EXPERIMENT)


def files(folder="results"):
    return sorted(
        str(path.relative_to(folder))
        for path in Path(folder).rglob("*")
        if path.is_file() and ".cells" not in path.parts
    )


def cells():
    return sorted(Path("results/.cells").glob("*/*.json"))


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ran")
    with pytest.MonkeyPatch.context() as patch, without_pictures():
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["dpml-run", *own(folder), "experiment=mine/tiny"])
        cli.dpml_run()
    return lambda there: shutil.copytree(folder / "results", there / "results")


@pytest.mark.usefixtures("sketched")
def test_tables_and_figures_of_earlier_rows_in_a_folder_go_with_them(run_command):
    words, made = ["dpml-run", "algo=capefm", "draws=2", "hydra.run.dir=a"], {"table.md", "figure.png", "figure.svg"}
    assert run_command(*words, "eps=[0.1,1]").code == 0
    assert made <= {path.name for path in Path("a").iterdir()}
    assert run_command(*words, "eps=1").code == 0
    assert not made & {path.name for path in Path("a").iterdir()}


@pytest.mark.slow
def test_runs_sweeps_and_experiments_share_what_is_kept(run_command, tmp_path, ran):
    ran(tmp_path)
    words = ["dataset=synthetic", "dataset.d=3", "M=2", "draws=3", "N=200", "eps=[0.1,1,10]", "run.dry=true"]
    assert "1 cached, 0 to run" in run_command("dpml-run", "algo=capefm", "seed=1", *words).out
    assert "4 cached, 0 to run" in run_command("dpml-run", "-m", "algo=capefm,nonpriv", "seed=[0,1]", *words).out


def test_whatever_is_in_a_cells_file_the_run_goes_on(run_command):
    words = ["dpml-run", "algo=nonpriv", "seed=[0,1,2,3,4]"]
    run_command(*words, "hydra.run.dir=a")
    for number, path in enumerate(cells()):
        content = path.read_bytes()
        lines = content.splitlines(keepends=True)
        digit = content.rindex(b"7", 0, len(content) - 2)
        skipped = json.dumps(json.loads(lines[2]) | {"skipped": "no reason"}).encode()  # with the checksum kept
        flipped, header = content[:digit] + b"8" + content[digit + 1 :], lines[0] + lines[1] + skipped + b"\n"
        path.write_bytes([b"", b"\x00\x01", b"abc\n{}\n", flipped, header][number])
    again = run_command(*words, "hydra.run.dir=b")
    assert again.code == 0
    assert "0 cached, 5 to run" in again.out
    assert Path("a/rows.csv").read_bytes() == Path("b/rows.csv").read_bytes()


def test_many_draws_are_several_cells_whose_first_is_the_same(run_command, monkeypatch):
    monkeypatch.setattr(expansion, "DRAWS", 100)  # of 10,000 a cell takes a second
    run_command("dpml-run", "algo=capefm", "draws=100", "hydra.run.dir=few")
    outcome = run_command("dpml-run", "algo=capefm", "draws=105", "hydra.run.dir=many")
    assert "1 cached, 1 to run" in outcome.out
    few, many = (pd.read_csv(f"{name}/rows.csv").set_index(["metric", "draw"])["value"] for name in ("few", "many"))
    assert sorted(many["loss"].index) == list(range(105))
    pd.testing.assert_series_equal(many.loc[few.index], few, check_exact=True)
    assert many["loss"].nunique() == 105  # no draw stands there twice


@pytest.mark.slow_cases("words1")
@pytest.mark.parametrize(
    "words", [["algo=capefm", "seed=[0,1]"], ["--config-dir=own", "experiment=mine/tiny", "algo=capefm"]]
)
def test_interrupted_the_same_command_goes_on(run_command, tmp_path, monkeypatch, words):
    own(tmp_path)
    measure, left = runner.measure, [None]

    def interrupting(cell, release=None):
        if not left:
            signal.raise_signal(signal.SIGINT)
        left.clear()
        return measure(cell)

    monkeypatch.setattr(runner, "measure", interrupting)
    outcome = run_command("dpml-run", *words)
    assert outcome.code == 130
    assert "interrupted: completed cells are saved; resume with: dpml-run" in outcome.err
    assert all(word in outcome.err for word in words if not word.startswith("--"))
    assert files() == []
    assert len(cells()) == 1
    if len(words) == 2:  # the plain run: that sweeps and experiments find the same cells is tested above
        assert "1 cached, 1 to run" in run_command("dpml-run", *words, "run.dry=true").out


@pytest.mark.slow
def test_terminated_it_leaves_nothing_behind(run_command, tmp_path, monkeypatch):
    write = Store.write

    def write_and_end(*arguments):
        write(*arguments)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Store, "write", write_and_end)
    outcome = run_command("dpml-run", "algo=capefm", "draws=2", "seed=[0,1]")
    assert (outcome.code, outcome.err.strip()) == (128 + signal.SIGTERM, "")  # the end of the line of progress
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [path.absolute() for path in cells()]
    assert len(cells()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_an_override_that_changes_a_number_is_a_trial(run_command, tmp_path, ran):
    ran(tmp_path)
    before = {name: Path("results", name).read_bytes() for name in files()}
    outcome = run_command("dpml-run", *own(tmp_path), "experiment=mine/tiny", "algo=capefm", "draws=4")
    assert outcome.code == 0
    assert {name: Path("results", name).read_bytes() for name in before} == before
    trial = "trials/mine/tiny/algo=capefm_draws=4"
    assert {f"{trial}/tiny.csv", f"{trial}/tiny.md"} <= set(files())
    assert set(pd.read_csv(f"results/{trial}/tiny_rows.csv")["algo"]) == {"capefm"}


def test_an_override_that_changes_nothing_is_an_error(tmp_path):
    for word in ("draws=3", "partition.auxiliary=0", "delta=0.001"):
        with pytest.raises(UserError, match=f"{word} has no effect on experiment=mine/tiny"):
            plan(tmp_path, EXPERIMENT, [word])


@pytest.mark.slow
def test_a_list_of_experiments_is_run_as_one_plan(run_command, tmp_path):
    undrawn = EXPERIMENT | {"panels": [], "metrics": ["loss"]}
    own(tmp_path, content=undrawn | {"grid": {"b_N": {"N": [100, 200], "eps": 1.0}}}, name="mine/other")
    own(tmp_path, content=undrawn)
    outcome = run_command("dpml-run", "--config-dir=own", "experiment=mine")
    assert "mine/other, mine/tiny: 0 cached, 8 to run" in outcome.out
    words = ["--config-dir=own", "-m", "experiment=mine/tiny,mine/other", "run.dry=true"]
    assert "mine/tiny, mine/other: 8 cached, 0 to run" in run_command("dpml-run", *words).out
    assert {"mine/tiny.csv", "mine/other.csv", "claims.md"} <= set(files())


@pytest.mark.usefixtures("undrawn")
def test_a_metric_of_ones_own(run_command, tmp_path):
    (tmp_path / "own_metrics.py").write_text(METRIC)
    outcome = run_command("dpml-run", "algo=nonpriv", "metrics=[own_metrics.length]", "hydra.run.dir=a")
    assert outcome.code == 0
    assert "length" in outcome.out
    rows = pd.read_csv("a/rows.csv")
    assert (rows.loc[rows["metric"] == "length", "value"] > 0).all()
    content = EXPERIMENT | {"panels": [{"block": "a_eps", "x": "eps", "y": "own_metrics.length"}]}
    assert run_command("dpml-run", *own(tmp_path, content=content), "experiment=mine/tiny").code == 0
    assert "length" in Path("results/mine/tiny.csv").read_text()


@pytest.mark.usefixtures("undrawn")
def test_a_budget_without_noise_does_not_end_the_others(run_command):
    words = ["dpml-run", "algo=gop", "eps=[0.1,1]", "draws=2"]
    tables = []
    for folder in ("first", "again"):  # computed, and kept
        result = run_command(*words, "delta=[0.01,null]", f"hydra.run.dir={folder}")
        assert result.code == 1
        assert "left out: eps=0.1 delta=None: algo=gop adds Gaussian noise and needs a delta" in result.err
        assert "left out: eps=1 delta=None" in result.err
        tables.append(pd.read_csv(f"{folder}/rows.csv"))
    assert "1 cached, 0 to run" in result.out
    assert run_command(*words, "delta=0.01", "hydra.run.dir=alone").code == 0
    alone = pd.read_csv("alone/rows.csv")
    assert set(zip(alone["eps"], alone["delta"], strict=True)) == {(0.1, 0.01), (1.0, 0.01)}
    for rows in tables:  # the other budgets' numbers do not depend on it
        pd.testing.assert_frame_equal(alone, rows)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_budget_that_no_solver_can_release_does_not_end_the_others(run_command):
    """Rows that can be separated, noise that vanishes, and no ridge: there is no minimiser."""
    result = run_command("dpml-run", "algo=objpert", "draws=2", "delta=null", "eps=[1,1e5,10]", "hydra.run.dir=out")
    assert result.code == 1
    assert "left out: eps=100000 delta=None: Newton's method stopped at a gradient" in result.err
    assert set(pd.read_csv("out/rows.csv")["eps"]) == {1.0, 10.0}
