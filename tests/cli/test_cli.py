"""The commands as a user meets them: what they print, what they write, and what they say to a mistake."""

import json
from pathlib import Path

import pandas as pd
import pytest

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
    assert {"loss", "optimality_gap", "accuracy", "balanced_accuracy"} <= set(rows["metric"])
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
    assert manifest["dataset"][0]["preprocessing"][0]["fitted_on"] == "training rows, no budget spent"
    assert {"versions", "seed", "git", "cpu"} <= set(manifest)


@pytest.mark.slow
def test_facts_as_json(run_command, tmp_path) -> None:
    lines = "".join(f"{n},2020-01-0{n % 9 + 1},{'ab'[n % 2]}\n" for n in range(40))
    (tmp_path / "f.csv").write_text(f"x,seen,y\n{lines}")

    def facts(line):
        return json.loads(run_command("dpml", *line.split(), "--json").out)

    described, dealt = facts("data describe f.csv --label y"), facts("data partition dataset=wdbc M=4 N=400")
    assert described["schema"] == "dpml-data-describe-1"
    assert [each["kind"] for each in described["columns"]] == ["number", "date"]
    assert (dealt["schema"], sum(map(sum, dealt["rows"]))) == ("dpml-data-partition-1", 400)
    assert {each["name"]: each["state"] for each in facts("data list")["datasets"]}["wdbc"] == "ready"
    results = facts(f"verify {Path(__file__).parents[2] / 'results' / 'rajkumar2012'}")["experiments"]
    assert {bool(each["wrong"]) for each in results} == {False}
