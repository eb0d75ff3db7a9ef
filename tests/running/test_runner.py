"""The experiment engine: plans, resumes, engines. Everything here runs on a small synthetic experiment."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from harness import CELLS, CONV, TINY, digests, jobs, plan, run

from dpml.cli.run import Command
from dpml.cli.sweeper import Planning
from dpml.errors import UserError
from dpml.reporting import artifacts
from dpml.running import cell as experiment
from dpml.running import executors as engines
from dpml.running.plan import Options, make_plan
from dpml.running.runner import outline
from dpml.running.spec import Experiment
from dpml.running.store import Store, digest


def written(results):
    return sorted(path.name for path in (results / ".cells").glob("*/*.json"))


def write_file(folder, content=TINY):
    """The experiment as a file that dpml-run --config-dir finds."""
    path = folder / "experiment" / "mine" / "tiny.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("# @package experiment\n" + json.dumps(content))
    return folder


def command(conf, results, *words):
    program = "from dpml.cli import dpml_run; dpml_run()"
    return [sys.executable, "-c", program, "--config-dir", str(conf), "experiment=mine/tiny",
            f"results_dir={results}", *words]  # fmt: skip


UNDRAWN = TINY | {"panels": [], "metrics": ["loss", "err_w"]}
ONE_PANEL = TINY | {"panels": TINY["panels"][1:], "metrics": ["loss", "err_w"]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    results = tmp_path_factory.mktemp("finished")
    assert run(results, ONE_PANEL) == 0
    return results


def test_a_grid_becomes_cells_that_share_their_fits(tmp_path):
    found = plan(tmp_path)
    assert len(found.entries) == CELLS
    assert all(len(e.point.cell.budgets) == 3 for e in found.entries.values() if e.point.block == "a_eps")


def test_the_same_cell_in_two_blocks_is_computed_once(tmp_path):
    content = TINY | {"grid": {"a": {"N": 100, "eps": 1.0}, "b": {"N": [100, 200], "eps": 1.0}}, "panels": []}
    found = plan(tmp_path, content)
    assert (len(found.points["mine/tiny"]), len(found.entries)) == (9, 6)


def test_identity_is_settings_and_checksum_and_nothing_else(tmp_path):
    entry = next(iter(plan(tmp_path).entries.values()))
    assert entry.key == next(iter(plan(tmp_path / "elsewhere", words=["data_dir=/nowhere"]).entries))
    assert digest(entry.point.cell.identity("another")) != entry.key


@pytest.mark.slow
def test_second_time_nothing_is_run_and_every_byte_stays(finished, capsys):
    before = digests(finished)
    assert {"tiny.csv", "tiny.png", "tiny.svg", "tiny.md", "tiny_rows.csv", "tiny_tight.png"} <= set(before)
    assert run(finished, ONE_PANEL) == 0
    assert f"{CELLS} cached, 0 to run" in capsys.readouterr().out
    assert digests(finished) == before


@pytest.mark.slow
def test_outputs_that_were_lost_or_changed_are_made_again_the_same(finished):
    before = digests(finished)
    (finished / "mine" / "tiny.png").unlink()
    (finished / "mine" / "tiny.md").write_text("scribble")
    assert run(finished, ONE_PANEL) == 0
    assert digests(finished) == before


def test_more_blas_threads_around_it_do_not_change_the_bits(tmp_path):
    cell = next(iter(plan(tmp_path).entries.values())).point.cell
    found = set()
    for threads in (1, 2):
        with experiment._blas().limit(limits=threads):
            found.add(experiment.measure(cell).metrics["loss"].tobytes())
    assert len(found) == 1


def test_data_and_partition_do_not_depend_on_algorithm_or_budget(tmp_path):
    cells = [entry.point.cell for entry in plan(tmp_path).entries.values() if entry.point.block == "a_eps"]
    by_seed = {}
    for cell in cells:
        experiment._parties.cache_clear()
        experiment._data.cache_clear()
        parties = experiment.deal(cell)
        by_seed.setdefault(cell.seed, set()).add((parties.X.tobytes(), parties.order.tobytes()))
    assert {seed: len(found) for seed, found in by_seed.items()} == {0: 1, 1: 1}
    assert by_seed[0] != by_seed[1]


def test_dry_run_computes_nothing(tmp_path, capsys):
    assert run(tmp_path, dry=True) == 0
    out = capsys.readouterr().out
    assert f"0 cached, {CELLS} to run" in out
    assert (tmp_path / "plan.csv").read_text().count(",to run,") == CELLS
    assert f"{tmp_path.name}/plan.csv" in out
    assert [path.name for path in tmp_path.iterdir()] == ["plan.csv"]


def test_a_dry_run_counts_the_cells_of_each_algorithm(finished, capsys):
    """Cached ones, those to run, and how long these will take; of several experiments, by experiment."""
    assert run(finished, dry=True, force="conv") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    table = pd.read_csv(finished / "plan.csv")
    for algo, own in table.groupby("algo"):
        own = own.drop_duplicates("key")
        counts = [str(number) for number in (len(own), *((own["status"] == s).sum() for s in ("cached", "to run")))]
        (line,) = (line for line in lines if line[:1] == [algo])
        assert line[1:4] == counts
        assert line[5:] == (["about", "a", "second"] if algo == "conv" else [])
    three = [job.task for name in ("mine/a", "mine/b", "mine/c") for job in jobs(finished, TINY, name=name)]
    said = outline(make_plan(three, Store(finished / ".cells"), Options()), Options())
    assert [line.split()[:3] for line in said[1:]] == [
        [name, str(CELLS), str(CELLS)] for name in ("mine/a", "mine/b", "mine/c")
    ]


@pytest.mark.slow
def test_an_outline_has_at_most_ten_lines(tmp_path):
    many = [job.task for i in range(30) for job in jobs(tmp_path, TINY, name=f"mine/{i}")]
    said = outline(make_plan(many, Store(tmp_path / ".cells"), Options()), Options())
    assert (len(said), said[-1]) == (10, "and 22 more")


def test_a_dry_run_estimates_from_cells_that_are_done(finished, capsys):
    assert run(finished, words=["draws=4"], dry=True) == 0
    assert "no estimate" in capsys.readouterr().out
    assert run(finished, dry=True, force="conv") == 0
    assert f"{CONV} to run (about a second)" in capsys.readouterr().out


def test_force_computes_one_algorithm_again(finished):
    stores = {path: path.stat().st_mtime_ns for path in finished.glob(".cells/*/*.json")}
    before = digests(finished)
    assert run(finished, ONE_PANEL, force="conv") == 0
    changed = [path for path, then in stores.items() if path.stat().st_mtime_ns != then]
    assert len(changed) == CONV
    assert digests(finished) == before
    with pytest.raises(UserError, match=r"run\.force=cov.*'conv'"):
        run(finished, force="cov")


@pytest.fixture
def broken(monkeypatch):
    """conv fails, as a bug would make it."""

    def measure(cell):
        if cell.algorithm.name == "conv" and broken:
            raise ZeroDivisionError("no good")
        return experiment.measure(cell)

    broken = [True]
    monkeypatch.setattr(engines, "measure", measure)
    return broken


def test_a_failure_is_shown_at_once_and_the_rest_goes_on(tmp_path, broken, capsys, monkeypatch):
    drawn = []
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
    (tmp_path / ".cells" / written(tmp_path)[0][:2]).rename(tmp_path / "elsewhere")  # missing, but it has not failed
    missing = CELLS - CONV - len(written(tmp_path))
    failed = len(list(tmp_path.glob(".cells/*/*.txt")))
    assert run(tmp_path, content, only="failed") == 0
    assert len(written(tmp_path)) == CELLS - missing - (CONV - failed)
    assert not list(tmp_path.glob(".cells/*/*.txt"))


def test_stop_at_the_first_failure(tmp_path, broken, capsys):
    assert run(tmp_path, on_error="raise") == 1
    assert capsys.readouterr().err.count("no good") == 1
    assert not (tmp_path / "mine" / "tiny.png").exists()


@pytest.mark.usefixtures("undrawn")
def test_what_cannot_be_is_skipped_with_its_reason(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DPML_OFFLINE", "1")
    content = TINY | {
        "grid": {
            "a_eps": {"N": 50, "eps": [1, 10]},
            "gone": {"dataset": "crime", "eps": 1.0},
            "many": {"N": 5, "M": [2, 10], "eps": 1.0},
            "unknown": {"dataset": "atlantis", "eps": 1.0},
            "other_loss": {"dataset": "wdbc", "loss": "sigmoid", "eps": 1.0, "algo": "capefm"},
        },
        "panels": TINY["panels"][:1],
        "settings": {k: v for k, v in TINY["settings"].items() if k != "dataset.d"},
    }
    assert run(tmp_path, content, [f"data_dir={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "needs the file communities.data" in out
    assert "no dataset=atlantis" in out
    assert "algo=capefm needs loss=squared or loss=logistic" in out
    page = (tmp_path / "mine" / "tiny.md").read_text()
    assert "M=10 parties cannot share N=5" in page
    assert "needs the file communities.data" in page
    for path in (tmp_path / "mine").iterdir():  # what others read names no folder of this machine
        assert path.name.endswith("_plan.csv") or str(tmp_path).encode() not in path.read_bytes(), path.name
    # the reason that took data to find is on record too
    assert run(tmp_path, content, [f"data_dir={tmp_path}"]) == 0
    assert "0 to run" in capsys.readouterr().out


def test_an_experiment_of_which_nothing_can_be_computed_is_an_error(tmp_path):
    content = TINY | {"grid": {"a_eps": {"dataset": "atlantis", "eps": 1.0}}, "panels": []}
    with pytest.raises(UserError, match="atlantis"):
        run(tmp_path, content)


def test_overrides_win_over_the_file(tmp_path):
    found = plan(tmp_path, words=["block=a_eps", "draws=5", "algo=capefm", "eps=[1,2]", "run.workers=2"])
    cells = [entry.point.cell for entry in found.entries.values()]
    assert {(cell.draws, cell.algorithm.name, len(cell.budgets)) for cell in cells} == {(5, "capefm", 2)}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"grids": {}}, "unknown key 'grids' in experiment=mine/tiny"),
        ({"grid": {"a_eps": {"epsilon": 1}}, "panels": []}, "unknown key 'epsilon' in block a_eps"),
        ({"panels": [{"block": "a_epsilon", "x": "eps", "y": "loss"}]}, "did you mean 'a_eps'"),
        ({"panels": [{"block": "a_eps", "x": "eps"}]}, "missing 1 required positional argument: 'y'"),
        ({"panels": [{"block": "a_eps", "x": "eps", "y": "loss", "xscale": "cubic"}]}, "unknown xscale='cubic'"),
    ],
)
def test_a_mistake_in_an_experiment_file_is_one_sentence(change, sentence):
    with pytest.raises(UserError, match=sentence.replace("(", r"\(")):
        Experiment.from_content("mine/tiny", TINY | change)


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_where_it_was(tmp_path, finished, capsys):
    """And the cells of two worker processes have the bits of this one."""
    conf, results = write_file(tmp_path / "conf", UNDRAWN), tmp_path / "results"
    process = subprocess.Popen(command(conf, results, "run.workers=2"), start_new_session=True)
    deadline = time.time() + 600
    while len(written(results)) < 3 and process.poll() is None and time.time() < deadline:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in results.glob(".cells/*/*.json")}
    assert 3 <= len(kept) < CELLS
    assert run(results, UNDRAWN) == 0
    assert f"{len(kept)} cached, {CELLS - len(kept)} to run" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    rows = (finished / "mine" / "tiny_rows.csv").read_bytes()
    assert (results / "mine" / "tiny_rows.csv").read_bytes() == rows


@pytest.mark.slow
def test_two_runs_at_once_do_no_harm(tmp_path, finished, monkeypatch):
    """Both have planned all cells: this one begins, and goes on when the other has its first."""
    conf, results = write_file(tmp_path / "conf", UNDRAWN), tmp_path / "results"
    others = []

    def measure(cell):
        if not others:
            others.append(subprocess.Popen(command(conf, results), stdout=subprocess.PIPE, text=True))
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


LAUNCHED = ["algo=capefm,conv", "eps=1"]


def merged(folder):
    """The algorithms in the rows of a sweep."""
    (path,) = folder.glob("results/sweeps/*/*/rows.csv")
    return set(pd.read_csv(path)["algo"])


def test_hydras_own_launcher_still_sweeps(tmp_path, run_command):
    """Each job carries out its own plan; here one after the other, in this process."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    done = run_command("dpml-run", "-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=1", *LAUNCHED)
    assert done.code == 0, done.err
    assert merged(tmp_path) == {"capefm", "conv"}


def launched(run_command, *words):
    """A sweep whose jobs carry out their own plans, in `out`."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    own = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=1", "hydra.sweep.dir=out"]
    return run_command("dpml-run", "-m", *own, "algo=capefm", "draws=2", *words)


def test_a_dry_run_under_a_launcher_leaves_what_is_there(tmp_path, run_command):
    assert launched(run_command, "seed=0,1").code == 0
    tables = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.csv")}
    done = launched(run_command, "seed=0,1", "N=100", "run.dry=true")
    assert (done.code, done.err) == (0, "")
    assert {path: path.read_bytes() for path in tables} == tables
    assert len(tables) == 6  # rows and guarantees of two jobs and of all
    assert list((tmp_path / "results").glob("*.csv")) == [tmp_path / "results/plan.csv"]
    search = launched(run_command, "seed=0,1", "objective=loss", "run.dry=true")  # Optuna's ends in an exception
    assert search.code == 2
    assert search.err.endswith("run.dry=true computes no objective=loss to search by: leave one of them out.\n")


@pytest.mark.slow
def test_under_a_launcher_jobs_of_an_earlier_sweep_in_the_same_folder_are_none_of_this_one(tmp_path, run_command):
    assert launched(run_command, "seed=0,1,2", "N=100").code == 0
    for _ in range(2):  # also where this one's are there
        assert launched(run_command, "seed=0,1", "M=3").code == 0
        rows = pd.read_csv(tmp_path / "out/rows.csv")
        assert set(zip(rows["M"], rows["seed"], strict=True)) == {(3, 0), (3, 1)}


def test_what_a_job_under_a_launcher_lacks_is_said_beside_what_it_has(tmp_path, run_command):
    done = launched(run_command, "algo=gop", "eps=1", "seed=0,1", "delta=[0.01,null]")
    assert done.code == 1
    assert "left out: eps=1 delta=None: algo=gop adds Gaussian noise and needs a delta" in done.err
    assert "left out: eps=1" in (tmp_path / "out/0/error.txt").read_text()
    assert set(pd.read_csv(tmp_path / "out/rows.csv")["seed"]) == {0, 1}


def test_a_job_with_a_value_that_is_no_number_returns_no_mean(tmp_path, run_command, monkeypatch):
    """A sampler would otherwise prefer a setting for what went wrong; Optuna's sweeper ends with an error at NaN."""
    (tmp_path / "own_odd.py").write_text(
        "def odd(weights, parties, loss, lam):\n"
        "    return [float('nan') if lam and not n else 1.0 for n in range(len(weights))]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    values = []
    alone = Command._carry_out_alone
    monkeypatch.setattr(Command, "_carry_out_alone", lambda *given: values.append(alone(*given)))
    done = launched(run_command, "objective=odd", "metrics=[own_odd.odd]", "algo.lam=0,1", "M=2,10000")
    assert values == [1.0, None, None, None]
    assert done.code == 1
    assert done.err.count("objective=odd has no mean: 1 of 2 values are NaN.") == 1
    assert set(pd.read_csv(tmp_path / "out/rows.csv")["algo.lam"]) == {0, 1}


def test_a_search_without_any_value_ends_in_one_sentence(run_command, monkeypatch):
    def search(sweeper, arguments):
        super(Planning, sweeper).sweep(arguments)
        raise ValueError("No trials are completed yet.")  # as Optuna's does

    monkeypatch.setattr(Planning, "sweep", search, raising=False)
    done = launched(run_command, "objective=acuracy")
    assert done.code == 2
    assert "objective=acuracy is no metric of this run: choose one of loss, " in done.err
    assert done.err.endswith("dpml-run: error: no job of the search returned a value: there is no best setting.\n")
    with pytest.raises(ValueError, match="No trials"):  # an error of the sweeper's own
        launched(run_command, "objective=loss")


@pytest.mark.parametrize("words", [["eps=1"], ["-m", "eps=1,2"]])
def test_without_a_search_an_objective_is_refused(tmp_path, run_command, words):
    done = run_command("dpml-run", *words, "objective=loss")
    assert done.code == 2
    assert done.err == "dpml-run: error: objective=loss is for a search: add hydra/sweeper=optuna.\n"
    assert not list(tmp_path.rglob("*.csv"))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.slow
def test_cells_that_fail_under_a_launcher_are_a_failure(tmp_path, run_command, broken):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    own = ["--config-dir", str(write_file(tmp_path / "conf")), "hydra/launcher=joblib", "hydra.launcher.n_jobs=1"]
    done = run_command("dpml-run", "-m", *own, "experiment=mine/tiny")
    assert done.code == 1
    assert "cells failed; to try only them again: dpml-run experiment=mine/tiny run.only=failed" in done.err
    assert (tmp_path / "results/mine/tiny.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit"])
def test_hydras_own_launchers_still_sweep_in_processes(tmp_path, launcher):
    pytest.importorskip(f"hydra_plugins.hydra_{launcher}_launcher")
    option = {"joblib": "joblib", "submitit": "submitit_local"}[launcher]
    program = [sys.executable, "-c", "from dpml.cli import dpml_run; dpml_run()", "-m", f"hydra/launcher={option}"]
    subprocess.run([*program, *LAUNCHED], check=True, capture_output=True, cwd=tmp_path)
    assert merged(tmp_path) == {"capefm", "conv"}


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
    page = (tmp_path / "mine" / "tiny.md").read_text("utf-8")
    assert "| 0.1/0.9 |" in page
    assert "| 0.5/0.5 |" in page
