"""The experiments hamm2016/*: what they need of the engine, and fig4 end to end on files in the official format."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from harness import plan, run, without_pictures

from dpml.data.sets.official import URL
from dpml.errors import UserError
from dpml.files import shipped_folder
from dpml.reporting.charts import shown
from dpml.running.spec import Panel


def write_days(folder, rows):
    """Days 0 to 19 of the URL data in their format: sparse features, of which a few tell the labels."""
    folder.mkdir(parents=True)
    numbers = np.random.default_rng(3)
    for day in range(20):
        with (folder / f"Day{day}.svm").open("w") as file:
            for label in numbers.choice([-1, 1], rows):
                told = np.flatnonzero(numbers.random(8) < (0.7 if label > 0 else 0.3)) + 1
                rare = np.unique((3_231_961 * numbers.random(20) ** 4).astype(int) + 9)
                ids = [*told, *rare[rare <= 3_231_961]]
                file.write(f"{label:+d} " + " ".join(f"{i}:1" for i in ids) + "\n")


@pytest.mark.slow
def test_fig4_end_to_end_on_generated_days(tmp_path, monkeypatch, run_command):
    write_days(tmp_path / "data" / "url", 20)
    files = tuple(replace(raw, lines=20) for raw in URL.info.files)
    monkeypatch.setattr(URL, "info", replace(URL.info, files=files, rows=400, train_rows=200))
    words = [
        "block=url5000_eps",
        "M=12",
        "draws=3",
        "seed=[0,1]",
        "dataset.steps=[[pca:4,max_norm]]",
        "partition.auxiliary=0.2",
    ]
    with without_pictures():
        done = run_command("dpml-run", "experiment=hamm2016/fig4", *words, f"data_dir={tmp_path / 'data'}")
    assert done.code == 0, done.err
    (table_path,) = (tmp_path / "results" / "trials" / "hamm2016" / "fig4").glob("*/fig4.csv")
    folder = table_path.parent
    table = pd.read_csv(table_path)
    assert set(table["block"]) == {"url5000_eps"}
    assert set(table["algo"]) == {"batch", "indiv", "constant", "soft", "avg", "vote"}
    counts = table.groupby("algo")["count"].unique().map(list)
    assert counts["batch"] == [6]  # draws=3 was asked for by hand, for all
    assert counts["soft"] == [6]
    best = table[(table["algo"] == "batch") & (table["metric"] == "accuracy")]["mean"]
    assert best.min() > 0.65  # there is something to learn
    twin = pd.read_csv(folder / "fig4_tight.csv")
    assert set(twin["algo"]) == set(table["algo"])  # the references, which no calibration changes, are in both
    tight = twin[twin["algo"].isin(["soft", "avg", "vote"]) & np.isfinite(twin["eps"])]
    np.testing.assert_allclose(tight["proven_eps"], tight["eps"])
    page = (folder / "fig4.md").read_text()
    assert page.startswith("# URL Reputation: test accuracy against 1/ε")
    assert "per party" in page
    assert "not computed" in page  # KDD-99 is not here
    assert "nan" not in page


@pytest.mark.slow
def test_fig4_end_to_end_on_the_official_files(tmp_path, run_command):
    """For who has them: url/Day0.svm to Day19.svm and kddcup99/ in $DPML_TEST_DATA."""
    raw = Path(os.environ.get("DPML_TEST_DATA", "data"))
    if not (raw / "url" / "Day0.svm").is_file():
        pytest.skip("needs url/Day0.svm to Day19.svm")
    words = ["block=url5000_eps", "M=5000", "seed=[0,1]", "draws=2", "eps=[.inf,1000,10,1,0.1]"]
    done = run_command("dpml-run", "experiment=hamm2016/fig4", *words, f"data_dir={raw}")
    assert done.code == 0, done.err
    (path,) = (tmp_path / "results" / "trials" / "hamm2016" / "fig4").glob("*/fig4.csv")
    table = pd.read_csv(path)
    best = table[(table["algo"] == "batch") & (table["metric"] == "accuracy") & table["block"].str.startswith("url")]
    assert best["mean"].min() > 0.9
    assert "(H4.1)" in path.with_suffix(".md").read_text()


def test_without_the_files_fig4_says_so_and_computes_nothing(tmp_path, run_command):
    done = run_command("dpml-run", "experiment=hamm2016/fig4")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "nothing of experiment=hamm2016/fig4 can be computed here: dataset=url needs the file" in done.err
    assert not list(tmp_path.glob("results/.cells/*"))


def test_rows_of_proven_eps_stand_beside_what_is_claimed():
    text = (shipped_folder("experiments") / "hamm2016" / "readings.yaml").read_text("utf-8")
    panels = [Panel(**panel) for panel in yaml.safe_load(text)["panels"]]
    about = {"block": "har_eps", "partition": "p", "dataset": "d", "loss": "softmax", "calibration": "published"}
    about |= {"delta": None, "M": 1, "N": 2, "d": 3, "variant": "radial", "algo.variant": "radial"}
    summary = pd.DataFrame(
        [
            about
            | {"algo": algo, "eps": eps, "metric": metric, "mean": 0.5, "claimed_eps": claimed, "proven_eps": eps / 2}
            for metric in ("accuracy", "loss")
            for algo, claimed, eps in (
                ("soft", 4.0, 4.0),
                ("avg", 4.0, 4.0),
                ("soft", 2.0, 2.0),
                ("batch", np.inf, 2.0),
            )
        ]
    )
    panel = next(p for p in panels if p.y == "proven_eps" and p.where == {"algo.variant": "radial"})
    found = shown(summary, panel)[["algo", "eps", "inverse_eps", "mean"]].to_numpy().tolist()
    assert found == [
        ["soft", 4.0, 0.25, 2.0], ["avg", 4.0, 0.25, 2.0], ["soft", 2.0, 0.5, 1.0],
        ["claimed", 4.0, 0.25, 4.0], ["claimed", 2.0, 0.5, 2.0],
    ]  # fmt: skip


@pytest.mark.slow
def test_a_block_that_no_panel_shows_is_not_worth_a_run(tmp_path):
    content = {
        "title": "t", "source": "s",
        "settings": {"dataset": "wdbc", "algo": "capefm", "eps": [1.0, 2.0], "draws": 2},
        "grid": {"a_eps": {"dataset": "atlantis"}, "b_eps": [{"M": 2}, {"M": 3, "algo": ["fm", "conv"]}]},
        "panels": [{"block": "a_eps", "x": "eps", "y": "loss"}],
    }  # fmt: skip
    found = plan(tmp_path, content, name="mine/x")
    assert [(p.cell.algorithm.name, p.cell.M) for p in found.points if p.block == "b_eps"] == [
        ("capefm", 2), ("fm", 3), ("conv", 3)
    ]  # fmt: skip
    with pytest.raises(UserError, match="nothing of experiment=mine/x can be computed here: there is no dataset=atl"):
        run(tmp_path, content, name="mine/x")
    wrong = content | {"grid": content["grid"] | {"b_eps": [{"M": 2}, {"epsilon": 3}]}}
    with pytest.raises(UserError, match="unknown key 'epsilon' in block b_eps"):
        plan(tmp_path, wrong, name="mine/x")
