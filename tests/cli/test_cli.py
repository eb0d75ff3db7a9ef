"""The commands as a user meets them: what they print, what they write, and what they say to a mistake."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from harness import tables

from dpml import paths
from dpml.errors import UserError
from dpml.running.rows import COLUMNS


def read(folder: Path, name: str = "rows.csv") -> pd.DataFrame:
    return pd.read_csv(folder / name)


@pytest.mark.usefixtures("undrawn")
def test_rows_guarantees_and_manifest(run_command, tmp_path) -> None:
    done = run_command(
        "dpml-run", "algo=capefm", "eps=[0.1,1]", "M=[3,5]", "N=[100,200]", "draws=4", "hydra.run.dir=out"
    )
    assert done.code == 0, done.err
    rows = read(tmp_path / "out")
    assert list(rows.columns)[: len(COLUMNS)] == COLUMNS
    # 2 eps x 2 M x 2 N x 4 draws, and each metric once for all of them
    assert (rows.groupby("metric").size() == 32).all()
    assert set(rows["metric"]) == {
        "loss",
        "optimality_gap",
        "accuracy",
        "balanced_accuracy",
        "noisy_objective",
        "trimmed",
    }
    assert (rows[rows["metric"] == "optimality_gap"]["value"] >= 0).all()
    assert set(rows["proven_view"]) == {"colluders"}
    assert (rows["claimed_eps"] == rows["eps"]).all()
    guarantees = read(tmp_path / "out", "guarantees.csv")
    worst = guarantees[guarantees["basis"] == "proven"].groupby(["budget_eps", "M", "N"])["eps"].max()
    for key, group in rows.groupby(["eps", "M", "N"]):
        assert (group["proven_eps"] == worst[key]).all()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["note"].startswith("an experiment, not a release")
    assert manifest["config"]["eps"] == [0.1, 1]
    assert [entry["N"] for entry in manifest["dataset"]] == [100, 200]
    assert len(manifest["dataset"][0]["sha256"]) == 64
    assert manifest["dataset"][0]["preprocessing"][0] == {
        "step": "min_max",
        "fitted_on": "training rows, no budget spent",
    }
    assert {"versions", "seed", "git", "cpu"} <= set(manifest)


def test_the_same_command_gives_the_same_bytes(run_command, tmp_path) -> None:
    for folder in ("one", "two"):
        assert run_command("dpml-run", "algo=conv", "draws=3", f"hydra.run.dir={folder}").code == 0
    assert (tmp_path / "one/rows.csv").read_bytes() == (tmp_path / "two/rows.csv").read_bytes()
    run_command("dpml-run", "algo=conv", "draws=3", "seed=1", "hydra.run.dir=three")
    assert (tmp_path / "one/rows.csv").read_bytes() != (tmp_path / "three/rows.csv").read_bytes()


@pytest.mark.usefixtures("undrawn")
def test_noise_does_not_depend_on_which_other_budgets_are_asked_for(run_command, tmp_path) -> None:
    run_command("dpml-run", "algo=capefm", "eps=0.5", "draws=5", "hydra.run.dir=alone")
    run_command("dpml-run", "algo=capefm", "eps=[0.1,0.5,3]", "delta=[1e-3,1e-5]", "draws=5", "hydra.run.dir=grid")
    alone, grid = read(tmp_path / "alone"), read(tmp_path / "grid")
    same = grid[(grid["eps"] == 0.5) & (grid["delta"] == 1e-3)]
    assert np.allclose(alone["value"], same["value"], rtol=1e-9)


def test_a_sweep_merges_its_rows_and_draws_a_figure(run_command, tmp_path) -> None:
    done = run_command("dpml-run", "-m", "algo=capefm,nonpriv", "eps=[0.1,1]", "draws=3", "hydra.sweep.dir=sw")
    assert done.code == 0, done.err
    rows = read(tmp_path / "sw")
    assert set(rows["algo"]) == {"capefm", "nonpriv"}
    assert len(rows) == sum(len(read(tmp_path / "sw" / str(job))) for job in range(2))
    assert (rows.loc[rows["algo"] == "nonpriv", "proven_eps"] == math.inf).all()
    assert (tmp_path / "sw/figure.png").stat().st_size > 10_000
    again = run_command("dpml", "plot", "sw", "--x", "eps", "--metric", "accuracy", "-o", "sw/own.svg")
    assert again.code == 0
    assert "sw/own.svg" in again.out


def test_a_failing_job_does_not_stop_the_sweep(run_command, tmp_path) -> None:
    done = run_command("dpml-run", "-m", "eps=0,1", "draws=2", "hydra.sweep.dir=sw")
    assert done.code == 1
    assert "failed: eps=0 draws=2: eps must be a positive number" in done.err
    assert "1 of 2 jobs failed" in done.err
    assert "Traceback" not in done.err
    assert "eps must be a positive number" in (tmp_path / "sw/0/error.txt").read_text()
    assert set(read(tmp_path / "sw")["eps"]) == {1.0}


def test_eps_inf_means_no_noise(default, tmp_path) -> None:
    for algo in ("capefm", "conv", "fm", "dpfm", "local"):
        words = [f"algo={algo}", "dataset=synthetic", "partition=equal", "M=4", "eps=inf", "draws=2", "N=400"]
        rows, _ = tables(default, words, tmp_path)
        assert (rows["proven_eps"] == math.inf).all()
        assert rows[rows["metric"] == "optimality_gap"]["value"].abs().max() < 1e-12  # noiseless and exact
        assert rows[rows["metric"] == "err_w"]["value"].max() < 1e-6
    rows, _ = tables(default, ["algo=objpert", "algo.lam=0.01", "eps=inf", "draws=2"], tmp_path)
    assert rows[rows["metric"] == "optimality_gap"]["value"].abs().max() < 1e-12


def test_guarantee_is_a_calculator(run_command) -> None:
    words = ["guarantee", "algo=capefm", "eps=0.5", "delta=1e-5", "M=100", "N=1000000000", "d=7"]
    found = json.loads(run_command("dpml", *words, "--json").out)
    assert {entry["view"] for entry in found} == {"release", "aggregate", "client", "transcript", "colluders"}
    assert {entry["basis"] for entry in found} == {"published", "proven"}
    assert all(set(entry) == {"view", "unit", "eps", "delta", "basis", "source", "mu"} for entry in found)
    assert all(entry["unit"] == "sample" and entry["delta"] == 1e-5 for entry in found)
    tight = json.loads(run_command("dpml", *words, "calibration=tight", "--json").out)
    assert {entry["basis"] for entry in tight} == {"proven"}
    assert max(entry["eps"] for entry in tight) == pytest.approx(0.5)
    for missing in ("dataset=crime", "dataset=adult", "dataset=synthetic"):  # no file is opened
        assert run_command("dpml", "guarantee", missing, "eps=1").code == 0
    none = json.loads(run_command("dpml", "guarantee", "algo=nonpriv", "--json").out)
    assert all(entry["eps"] == math.inf for entry in none)
    assert "colluders" in run_command("dpml", *words).out


MISTAKES = [  # one of each kind: Hydra's own, of a value, of an option, of the data, of a sweep
    (["algo=capfm"], "unknown algo 'capfm': did you mean 'capefm'?"),
    (["dataset=crim"], "unknown dataset 'crim': did you mean 'crime'?"),
    (["partition=simplx"], "unknown partition 'simplx': did you mean 'simplex'?"),
    (["loss=squard"], "unknown loss 'squard': did you mean 'squared'?"),
    (["epss=1"], "unknown key 'epss': did you mean 'eps'?"),
    (["algo.rigde=1"], "unknown key 'algo.rigde': did you mean 'algo.ridge'?"),
    (["+foo=1"], "unknown key 'foo'"),
    (["+algo.foo=1"], "unknown key 'algo.foo'"),
    (["eps"], "cannot read the override 'eps'"),
    (["eps=0"], "eps must be a positive number (inf for no noise), got eps=0"),
    (["eps=abc"], "eps must be a number, got eps=abc"),
    (["delta=null"], "algo=capefm adds Gaussian noise and needs a delta"),
    (["M=1000"], "M=1000 parties need at least one training row each, but N=455"),
    (
        ["algo.variant=author"],
        "algo.variant of capefm must be one of paper, authors, got 'author'",
    ),
    (["algo.lam=x"], "algo.lam must be a number"),
    (["dataset.steps=[minmax]"], "unknown preprocessing step 'minmax' in dataset.steps: did you mean 'min_max'?"),
    (["dataset=crime", "data_dir=nowhere"], "nowhere/crime/communities.data"),
    (["algo=capefm,conv"], "'algo=capefm,conv' has several values: add -m"),
    (["-m", "algo=capefm,capfm"], "unknown algo 'capfm': did you mean 'capefm'?"),
]
FURTHER = [  # of the same kinds, which Hydra has nothing to do with
    (["eps=-1"], "eps must be a positive number"),
    (["eps=nan"], "eps must be a positive number"),
    (["eps=[]"], "eps must be one value or a list of at least one"),
    (["eps=[1,0]"], "eps must be a positive number"),
    (["delta=0"], "delta must lie strictly between 0 and 1"),
    (["delta=1"], "delta must lie strictly between 0 and 1"),
    (["delta=nan"], "delta must lie strictly between 0 and 1"),
    (["M=0"], "M must be at least 1"),
    (["M=2.5"], "M must be a whole number"),
    (["N=1000"], "N=1000 training rows were asked for, but dataset=wdbc has 455"),
    (["N=0"], "N"),
    (["draws=0"], "draws must be at least 1"),
    (["seed=-1"], "seed must be a whole number >= 0"),
    (["calibration=tigt"], "calibration must be one of published, tight, got 'tigt'"),
    (["algo.lam=-1"], "algo.lam of capefm must be a number >= 0"),
    (["algo.radius=0"], "algo.radius must be a positive number"),
    (["algo.ridge=-1"], "algo.ridge must be a number >= 0"),
    (["loss=softmax"], "algo=capefm needs loss=squared or loss=logistic, not loss=softmax"),
    (["algo=objpert", "loss=sigmoid"], "algo=objpert needs loss=squared or loss=logistic, not loss=sigmoid"),
    (["algo=nonpriv", "loss=softmax"], "loss=softmax takes the whole numbers 0..K-1, but the data have the label -1"),
    (["dataset=synthetic", "loss=logistic"], "loss=logistic takes the labels -1 and +1, but the data have the label"),
    (["algo=dpfm", "algo.variant=authors", "calibration=tight"], "set calibration=published"),
    (["dataset.steps=[min_max]"], "but the guarantee needs rows in the unit ball"),
    (["dataset.steps=clip"], "dataset.steps must be a list"),
    (["dataset.test_fraction=1"], "dataset.test_fraction must be in [0, 1)"),
    (["dataset=synthetic", "dataset.recipe=linaer"], "did you mean 'linear'?"),
    (["partition=fractions", "partition.fractions=[.5,.6]"], "must be M=5 positive numbers that sum to 1"),
    (
        ["partition=two_group", "partition.u=.5"],
        "partition.u, the ratio of the largest to the smallest party, must be a number from 1 to 1e+15",
    ),
    (["partition=natural"], "but dataset=wdbc does not say whose: choose another partition"),
    (["partition.auxiliary=2"], "partition.auxiliary must be a share in [0, 1)"),
]


def ids(value: object) -> str:
    return " ".join(value) if isinstance(value, list) else ""


@pytest.mark.parametrize(("words", "sentence"), MISTAKES, ids=ids)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(run_command, tmp_path, words, sentence) -> None:
    done = run_command("dpml-run", *words)
    assert done.code == 2
    assert done.err.startswith("dpml-run: error: ")
    assert done.err.count("\n") == 1
    assert sentence in done.err
    assert "Traceback" not in done.err + done.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("words", "sentence"), FURTHER, ids=ids)
def test_the_sentences_of_further_mistakes(default, tmp_path, words, sentence) -> None:
    with pytest.raises(UserError) as mistake:
        tables(default, words, tmp_path / "results")
    assert sentence in str(mistake.value)
    assert "\n" not in str(mistake.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["guarantee", "algo=capfm"], "did you mean 'capefm'"),
        (["guarantee", "eps=[1,2]"], "dpml guarantee takes one eps"),
        (["guarantee", "d=x"], "d must be a whole number"),
        (["guarantee", "M=10", "N=5"], "M=10 parties need at least one training row each, but N=5"),
        (["guarantee", "delta=2"], "delta must lie strictly between 0 and 1"),
        (["plot", "nowhere"], "there is no nowhere/rows.csv"),
    ],
)
def test_mistakes_with_dpml(run_command, words, sentence) -> None:
    done = run_command("dpml", *words)
    assert done.code == 2
    assert sentence in done.err
    assert done.err.count("\n") == 1


@pytest.mark.usefixtures("undrawn")
def test_plot_refuses_what_is_not_in_the_rows(run_command) -> None:
    run_command("dpml-run", "eps=[0.1,1]", "draws=2", "hydra.run.dir=out")
    assert (
        "have no metric 'accuraccy': did you mean 'accuracy'?"
        in run_command("dpml", "plot", "out", "--metric", "accuraccy").err
    )
    assert "have no setting 'draws' for the x axis" in run_command("dpml", "plot", "out", "--x", "draws").err


def test_an_interrupted_write_leaves_no_half_file(run_command, tmp_path, monkeypatch) -> None:
    def crash(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(OSError, match="disk full"):
        run_command("dpml-run", "draws=2", "hydra.run.dir=out")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_help_names_groups_and_keys(run_command) -> None:
    done = run_command("dpml-run", "--help")
    algorithms = sorted(path.stem for path in (paths.folder("conf") / "algo").glob("*.yaml"))
    for word in (
        f"algo: {', '.join(algorithms)}",
        "calibration:",
        "dpml-run algo=capefm eps=0.1",
    ):
        assert word in done.out


@pytest.mark.parametrize(("words", "survivors"), [((), "5 of 5"), (("--drop", "0.2"), "4 of 5")])
def test_a_secure_sum(run_command, words, survivors) -> None:
    done = run_command("dpml", "secagg", "-M", "5", "-d", "20", *words)
    assert done.code == 0, done.err
    assert survivors in done.out
    assert "exact" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-M", "1"), "M >= 2 parties"),
        (("--drop", "1.5"), "must be in [0, 1), got 1.5"),
        (("-M", "5", "--drop", "0.6"), "only 2 of 5 parties are left after MASKED, fewer than the 4"),
    ],
)
def test_a_secure_sum_that_cannot_be(run_command, words, said) -> None:
    done = run_command("dpml", "secagg", "-d", "20", *words)
    assert done.code != 0
    assert said in done.err
    assert "Traceback" not in done.err
