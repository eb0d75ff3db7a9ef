"""The experiment engine: plans, resumes, engines. Everything here runs on a small synthetic experiment."""

import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from harness import CELLS, CONV, TINY, digests, own_experiment, plan, run

from dpml.errors import UserError
from dpml.reporting import artifacts
from dpml.running import cell as experiment
from dpml.running import runner as engines
from dpml.running.store import digest


def written(results):
    return sorted(path.name for path in (results / ".cells").glob("*/*.json"))


UNDRAWN = TINY | {"panels": [], "metrics": ["loss", "err_w"]}
ONE_PANEL = TINY | {"panels": TINY["panels"][1:], "metrics": ["loss", "err_w"]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    results = tmp_path_factory.mktemp("finished")
    assert run(results, ONE_PANEL) == 0
    return results


def test_a_grid_becomes_cells_that_share_their_fits(tmp_path):
    found = plan(tmp_path)
    assert len(found.cells) == CELLS
    assert all(len(point.cell.budgets) == 3 for point in found.points if point.block == "a_eps")
    content = TINY | {"grid": {"a": {"N": 100, "eps": 1.0}, "b": {"N": [100, 200], "eps": 1.0}}, "panels": []}
    twice = plan(tmp_path, content)  # the same cell in two blocks is computed once
    assert (len(twice.points), len(twice.cells)) == (9, 6)
    other = plan(tmp_path, words=["block=a_eps", "draws=5", "algo=capefm", "eps=[1,2]", "run.workers=2"])
    cells = [point.cell for point in other.points]  # overrides win over the file
    assert {(cell.draws, cell.algorithm.name, len(cell.budgets)) for cell in cells} == {(5, "capefm", 2)}


def test_identity_is_settings_and_checksum_and_nothing_else(tmp_path):
    first = plan(tmp_path).points[0]
    assert first.key == plan(tmp_path / "elsewhere", words=["data_dir=/nowhere"]).points[0].key
    assert digest(first.cell.identity("another")) != first.key


def test_more_blas_threads_around_it_do_not_change_the_bits(tmp_path):
    cell = plan(tmp_path).points[0].cell
    found = set()
    for threads in (1, 2):
        with experiment._blas().limit(limits=threads):
            found.add(experiment.measure(cell).metrics["loss"].tobytes())
    assert len(found) == 1


def test_data_and_partition_do_not_depend_on_algorithm_or_budget(tmp_path):
    cells = [point.cell for point in plan(tmp_path).points if point.block == "a_eps"]
    by_seed = {}
    for cell in cells:
        experiment._parties.cache_clear()
        experiment._data.cache_clear()
        parties = experiment.deal(cell)
        by_seed.setdefault(cell.seed, set()).add((parties.X.tobytes(), parties.order.tobytes()))
    assert {seed: len(found) for seed, found in by_seed.items()} == {0: 1, 1: 1}
    assert by_seed[0] != by_seed[1]


def test_a_dry_run_computes_nothing_and_estimates_from_cells_that_are_done(finished, tmp_path, capsys):
    assert run(tmp_path, ONE_PANEL, dry=True) == 0
    assert f"0 cached, {CELLS} to run (no estimate" in capsys.readouterr().out
    assert (tmp_path / "plan.csv").read_text().count(",to run,") == CELLS
    assert [path.name for path in tmp_path.iterdir()] == ["plan.csv"]
    assert run(finished, dry=True, force="conv") == 0
    assert f"{CONV} to run (about a second)" in capsys.readouterr().out
    shutil.copytree(finished / "mine", tmp_path / "mine")  # or from the manifest
    assert run(tmp_path, ONE_PANEL, dry=True) == 0
    assert f"0 cached, {CELLS} to run (about a second)" in capsys.readouterr().out


def test_force_computes_one_algorithm_again(finished):
    stores = {path: path.stat().st_mtime_ns for path in finished.glob(".cells/*/*.json")}
    before = digests(finished)
    assert run(finished, ONE_PANEL, force="conv") == 0
    changed = [path for path, then in stores.items() if path.stat().st_mtime_ns != then]
    assert len(changed) == CONV
    assert digests(finished) == before
    with pytest.raises(UserError, match=r"run\.force=cov.*'conv'"):
        run(finished, force="cov")


def test_a_failure_is_shown_at_once_and_the_rest_goes_on(tmp_path, capsys, monkeypatch):
    drawn, broken = [], {"conv"}

    def measure(cell, release=None):
        if cell.algorithm.name in broken:
            raise ZeroDivisionError("no good")
        return experiment.measure(cell)

    monkeypatch.setattr(engines, "measure", measure)
    monkeypatch.setattr(artifacts, "plot_experiment", lambda charts, *rest: drawn.append(charts) or ([], ""))
    content = TINY | {"panels": TINY["panels"][:1]}
    assert run(tmp_path, content) == 1
    shown = capsys.readouterr().err
    assert shown.count("ZeroDivisionError: no good") == CONV
    assert f"{CONV} cells failed" in shown
    assert len(written(tmp_path)) == CELLS - CONV
    logs = list(tmp_path.glob(".cells/*/*.txt"))
    assert len(logs) == CONV
    assert "Traceback" in logs[0].read_text()
    assert [set(chart.summary["algo"]) for charts in drawn for chart in charts] == [{"nonpriv", "capefm"}]

    broken.clear()
    assert run(tmp_path, content) == 0
    assert len(written(tmp_path)) == CELLS
    assert not list(tmp_path.glob(".cells/*/*.txt"))


@pytest.mark.usefixtures("undrawn")
def test_what_cannot_be_is_skipped_with_its_reason(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DPML_OFFLINE", "1")
    grid = {
        "a_eps": {"N": 50, "eps": [1, 10]},
        "gone": {"dataset": "crime", "eps": 1.0},
        "many": {"N": 5, "M": [2, 10], "eps": 1.0},
        "unknown": {"dataset": "atlantis", "eps": 1.0},
        "other_loss": {"dataset": "wdbc", "loss": "sigmoid", "eps": 1.0, "algo": "capefm"},
    }
    settings = {key: value for key, value in TINY["settings"].items() if key != "dataset.d"}
    content = TINY | {"grid": grid, "panels": TINY["panels"][:1], "settings": settings}
    assert run(tmp_path, content, [f"data_dir={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "needs the file communities.data" in out
    assert "atlantis" in out
    assert "algo=capefm needs loss=squared or loss=logistic" in out
    page = (tmp_path / "mine" / "tiny.md").read_text()
    assert "M=10 parties cannot share N=5" in page
    assert "needs the file communities.data" in page
    for path in (tmp_path / "mine").iterdir():  # what others read names no folder of this machine
        assert path.name.endswith("_plan.csv") or str(tmp_path).encode() not in path.read_bytes(), path.name
    # the reason that took data to find is on record too
    assert run(tmp_path, content, [f"data_dir={tmp_path}"]) == 0
    assert "0 to run" in capsys.readouterr().out


PANEL = TINY["panels"][0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"grids": {}}, "unknown key 'grids' in experiment=mine/tiny"),
        ({"grid": {"a_eps": {"epsilon": 1}}, "panels": []}, "unknown key 'epsilon' in block a_eps"),
        ({"panels": [PANEL | {"block": "a_epsilon"}]}, "did you mean 'a_eps'"),
        ({"panels": [{"block": "a_eps", "x": "eps"}]}, "missing a required argument: 'y'"),
        ({"panels": [PANEL | {"xscale": "cubic"}]}, "panels.xscale cannot be cubic"),
        ({"panels": [PANEL | {"y": "acuracy"}]}, "acuracy"),
        ({"panels": [PANEL | {"x": "epsilon"}]}, "epsilon"),
        ({"panels": [PANEL | {"where": {"algo.lam": 1}}]}, "algo.lam"),
        ({"panels": [PANEL | {"curve": ["calibratoin"]}]}, "did you mean 'calibration'"),
        ({"panels": [PANEL | {"published": "fig1"}]}, "fig1"),
        ({"claims": ["I3.1"]}, "claims"),
        ({"grid": {"a_eps": {"dataset": "atlantis", "eps": 1.0}}, "panels": []}, "atlantis"),
    ],
)
def test_a_mistake_in_an_experiment_file_is_named(tmp_path, change, named):
    with pytest.raises(UserError, match=re.escape(named)):
        run(tmp_path, TINY | change)


@pytest.mark.slow
def test_two_runs_at_once_do_no_harm(tmp_path, finished, monkeypatch):
    """Both have planned all cells: this one begins, and goes on when the other has its first."""
    results, others = tmp_path / "results", []
    program = [sys.executable, "-c", "from dpml.cli import dpml_run; dpml_run()", *own_experiment(tmp_path, UNDRAWN)]
    words = [*program, "experiment=mine/tiny", f"results_dir={results}"]

    def measure(cell, release=None):
        if not others:
            others.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            deadline = time.time() + 60
            while not written(results) and time.time() < deadline:
                time.sleep(0.002)
        return experiment.measure(cell)

    monkeypatch.setattr(engines, "measure", measure)
    assert run(results, UNDRAWN) == 0
    (other,) = others
    said, _ = other.communicate(timeout=120)
    assert other.returncode == 0
    assert f"0 cached, {CELLS} to run" in said
    rows = (finished / "mine" / "tiny_rows.csv").read_bytes()
    assert (results / "mine" / "tiny_rows.csv").read_bytes() == rows
    assert not list(results.rglob(".*-*"))


def launched(run_command, *words):
    """A sweep with joblib's launcher, in this process, into `out`."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    own = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=1", "hydra.sweep.dir=out"]
    return run_command("dpml-run", "-m", *own, "algo=gop", "draws=2", "eps=1", *words)


def test_a_job_without_a_number_is_a_failed_one_and_the_others_go_on(tmp_path, run_command):
    done = launched(run_command, "objective=loss", "delta=null,0.01")
    assert (done.code, done.err.count("adds Gaussian noise and needs a delta")) == (2, 1)
    assert (tmp_path / "out/1/rows.csv").is_file()


def test_a_dry_run_with_a_launcher_writes_no_tables(tmp_path, run_command):
    assert launched(run_command, "seed=0,1", "run.dry=true").code == 0
    assert not list(tmp_path.rglob("rows.csv"))


@pytest.mark.parametrize("words", [["eps=1"], ["-m", "eps=1,2"]])
def test_without_a_search_an_objective_is_refused(tmp_path, run_command, words):
    done = run_command("dpml-run", *words, "objective=loss")
    assert done.code == 2
    assert "objective=loss" in done.err
    assert not list(tmp_path.rglob("*.csv"))


@pytest.mark.usefixtures("undrawn")
def test_a_panel_over_shares_shows_the_test_error(tmp_path):
    content = {
        **TINY,
        "settings": {**TINY["settings"], "dataset.recipe": "ball_sign", "algo": ["gop", "la"], "delta": 0.1, "N": 90},
        "grid": {"a_partition": {"partition": "fractions", "partition.fractions": [[0.5, 0.5], [0.1, 0.9]]}},
        "panels": [{"block": "a_partition", "x": "partition", "y": "error", "xscale": "linear"}],
        "reference": "gop",
    }
    assert run(tmp_path, content) == 0
    table = (tmp_path / "mine" / "tiny.csv").read_text("utf-8").splitlines()
    assert len(table) == 1 + 4
    assert all(",error," in line for line in table[1:])


def test_versions_are_recorded_with_the_numbers_and_shown_together(tmp_path):
    assert run(tmp_path, UNDRAWN, ["block=a_N"]) == 0
    found = plan(tmp_path, UNDRAWN)
    point = next(point for point in found.points if point.record)
    assert found.versions()["numpy"] == np.__version__
    assert found.versions()["python"] == ".".join(map(str, sys.version_info[:3]))
    point.record = replace(point.record, made_with={**point.record.made_with, "numpy": "1.26.2"})
    assert found.versions()["numpy"].startswith("1.26.2 and ")
