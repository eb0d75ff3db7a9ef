"""`algo=regression` between machines: every party accepts the sums that its plan can have, and no others."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from examples_federated import SIZES, agreed, assert_none_is_received, clinics, run

from dpml.data.csv.column_bounds import bounds_from
from dpml.errors import UserError
from dpml.protocols import Stage
from dpml.release.inference import coefficient_table
from dpml.release.model import read_model

COLUMNS = {"age": {"low": 0, "high": 100}, "job": ["farm", "mine"]}
WORDS = ("algo=regression", "eps=50", "delta=1e-5", "dataset.label=bmi", "dataset.drop=[health]", "algo.noise=discrete")


def regression(folder, *words):
    """Four clinics that agree on a linear regression of the bmi."""
    parties = clinics(folder)
    stated = bounds_from(Path("clinics.yaml"), {"columns": COLUMNS, "target": {"low": 10, "high": 60}})
    return replace(parties, plan=agreed((*WORDS, *words), stated, parties.plan.seats))


@pytest.mark.parametrize(("words", "silent"), [((), {}), (("count_errors=1",), {}), ((), {2: Stage.MASKED})])
def test_every_party_gets_the_model_and_its_table(tmp_path, words, silent) -> None:
    parties = regression(tmp_path, *words)
    members = parties.members()
    made = run(members, parties.plan, silent)
    members[0].receive_model(made.model.text(), tmp_path / "model.json")
    model = read_model(tmp_path / "model.json")
    assert model.moments.scaled_up == pytest.approx(sum(SIZES) / sum(SIZES[k] for k in made.survivors))
    X = parties.pooled().X
    rest = 0.0 if len(made.survivors) == len(SIZES) else 0.1 * sum(SIZES)  # other rows
    assert np.abs(model.moments.square - X.T @ X).max() < 6 * model.moments.square_noise + rest
    age = coefficient_table(model, level=0.99999)[1]  # on which labels do not depend
    assert age.low < 0 < age.high


def test_rows_whose_coefficients_are_no_effects_are_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="treatment"):
        regression(tmp_path, "dataset.steps=[one_hot,symmetric,bias,sample_norm]")


def test_a_party_publishes_no_sums_that_its_plan_cannot_have(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    parties = regression(tmp_path)
    members = parties.members()
    text = run(members, parties.plan, {2: Stage.MASKED}).model.text()
    sums = json.loads(text)["moments"]
    forged = (
        {"square_noise": 0.0}, {"linear_noise": 0.0}, {"rows": 10**9}, {"scaled_up": 1.0}, {"linear": [0.0]},
        {"square": [[float("nan")]]}, {"labels": "1"},
    )  # fmt: skip
    assert_none_is_received(members[0], text, ({"moments": sums | change} for change in forged))
