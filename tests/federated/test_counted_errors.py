"""Counting the errors of a federation's model: one more secure sum, with a budget of its own."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from examples_federated import COMMON, SIZES, STATED, Clinics, agreed, assert_none_is_received, clinics, run

from dpml.data.csv.column_bounds import bounds_from
from dpml.federated.aggregator import aggregate, counted_errors, model_of
from dpml.mechanism.counting import Errors
from dpml.mechanism.statistics import ClippedRows
from dpml.protocols import Stage
from dpml.release import verify
from dpml.release.model import read_model

COUNT = ("algo.noise=discrete", "count_errors=0.5")
SSP = ("algo=ssp", *COUNT)
LABELS = {
    "three classes": ({"classes": ["a", "b", "c"]}, lambda rng, n: rng.choice(["a", "b", "c"], n)),
    "a number": ({"target": {"low": 0, "high": 50}}, lambda rng, n: rng.uniform(0, 60, n).round(2)),
    "a logarithm": ({"target": {"low": 0, "high": 50, "log": True}}, lambda rng, n: rng.uniform(0, 60, n).round(2)),
}


def labelled(folder, kind: str, *words: str) -> Clinics:
    said, drawn = LABELS[kind]
    parties = clinics(folder, "algo=ssp")
    for file in parties.files:
        table = pd.read_csv(file)
        table["health"] = drawn(np.random.default_rng(len(table)), len(table))
        table.to_csv(file, index=False)
    stated = bounds_from(file, {"columns": STATED["columns"], **said})
    return replace(parties, plan=agreed((*words, *COMMON), stated, parties.plan.seats))


def alone(parties: Clinics, seed: int, draws: int = 1, protocol: str = "secagg"):
    algorithm = replace(parties.plan.algorithm, protocol=protocol)
    mechanism = algorithm.prepare(parties.pooled(), np.random.default_rng(0))
    return mechanism.release([parties.plan.terms.budget], parties.noise(seed), draws)


def true_errors(X, y, w, kind: str = "") -> np.ndarray:
    if kind == "a number":
        return np.minimum((X @ w - y) ** 2, 4.0)
    if kind == "three classes":
        return (X @ w.reshape(3, -1).T).argmax(axis=1) != y
    return np.where(X @ w >= 0, 1, -1) != y


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("", ("algo=dpgd", "algo.rounds=2", "algo.unit=party", *COUNT)),
        ("", ("algo=capefm", *COUNT)),
        ("a number", SSP),
        pytest.param("three classes", ("algo=wdgd", "algo.rounds=2", *COUNT), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_model_and_errors_are_those_of_one_process_bit_for_bit(tmp_path, kind, words) -> None:
    parties = labelled(tmp_path, kind, *words) if kind else clinics(tmp_path, *words)
    made, one = run(parties.members(seed=5), parties.plan).model, alone(parties, 5)
    assert made.weights.tobytes() == one.weights[0, 0].tobytes()
    unit = 50.0**2 if kind == "a number" else 1.0
    most = 4 * unit if kind == "a number" else 1.0
    assert made.errors["error"] == np.clip(one.metrics["error"][0, 0] * unit, 0, most)
    assert made.errors["deviation"] == one.metrics["error_deviation"][0, 0] * unit
    assert made.errors["rows"] == sum(SIZES)
    assert 0 <= made.errors["low"] <= made.errors["error"] <= made.errors["high"] <= most


@pytest.mark.slow
def test_errors_of_a_number_on_a_log_scale_are_those_of_its_logarithm(tmp_path) -> None:
    parties = labelled(tmp_path, "a logarithm", *SSP)
    model = run(parties.members(seed=1), parties.plan).model
    pooled = parties.pooled()  # whose targets are log(1 + y) / log(51)
    truth = true_errors(pooled.X, pooled.y, model.weights[0], "a number").mean() * np.log(51) ** 2
    assert abs(model.errors["error"] - truth) < 6 * model.errors["deviation"]
    assert "of log(1 + health)" in model.statement[-1]


@pytest.mark.parametrize("kind", ["", "three classes", "a number"])
@pytest.mark.parametrize("unit", ["sample", "party"])
def test_the_noise_is_as_wide_as_is_said(tmp_path, kind, unit) -> None:
    """300 draws: their chi-squared lies outside 300 +- 6 sqrt(600) with probability below 1e-7, the mean below 1e-8."""
    words = ("algo=dpgd", "algo.rounds=2", f"algo.unit={unit}", *COUNT)
    parties = labelled(tmp_path, kind, *words) if kind else clinics(tmp_path, *words)
    pooled, release = parties.pooled(), alone(parties, 3, 300, "simulate")
    means = []
    for w in release.weights[0]:
        errors = true_errors(pooled.X, pooled.y, w, kind)
        shares = [errors[pooled.of(k)].mean() for k in range(len(SIZES))]
        means.append(np.mean(shares) if unit == "party" else errors.mean())
    z = (release.metrics["error"][0] - means) / release.metrics["error_deviation"][0]
    assert abs(np.sum(z**2) - 300) < 6 * np.sqrt(600)
    assert abs(z.mean()) < 6 / np.sqrt(300)


def test_what_is_handed_back_counts_the_rows_of_those_who_are_there(tmp_path) -> None:
    """The interval holds the truth in 95 of 100; six standard deviations do but once in 10^8."""
    parties = clinics(tmp_path, *SSP)
    made = run(parties.members(seed=1), parties.plan, {2: Stage.MASKED})
    pooled, errors = parties.pooled(), made.model.errors
    assert errors["rows"] == sum(SIZES) - SIZES[2]
    here = np.concatenate([np.arange(len(pooled.y))[pooled.of(k)] for k in (0, 1, 3)])
    truth = true_errors(pooled.X[here], pooled.y[here], made.model.weights[0]).mean()
    assert abs(errors["error"] - truth) < 6 * errors["deviation"]
    # three of four parties' noise, in the share of all rows that three parties' stand for
    full = alone(parties, 1).metrics["error_deviation"][0, 0]
    assert errors["deviation"] == pytest.approx(full * np.sqrt(3 / 4) * sum(SIZES) / errors["rows"])
    (tmp_path / "model.json").write_text(made.model.text())
    assert read_model(tmp_path / "model.json").errors == errors


def test_who_was_missing_from_an_earlier_sum_makes_no_wider_interval(tmp_path) -> None:
    """The deviation was that of the sum that lacked a party."""
    parties = clinics(tmp_path, "algo=ssp_descent", "algo.rounds=2", *COUNT)
    made = run(parties.members(seed=1), parties.plan, {2: Stage.DONE})
    members, numbers = parties.members(seed=1), iter(range(99))

    def exchange(mail):
        in_first = next(numbers) < 5
        return {k: members[k].answer(said) for k, said in mail.items() if k != 2 or not in_first}

    less = aggregate(parties.plan, exchange).model
    assert less.errors["rows"] == sum(SIZES)
    assert less.errors["deviation"] == made.model.errors["deviation"]


@pytest.mark.parametrize("kind", ["", "a number"])
def test_a_party_publishes_no_other_errors_than_those_of_the_plan(tmp_path, monkeypatch, kind) -> None:
    """It published any sentence that the aggregator put into `errors`, as the last of the statement."""
    monkeypatch.chdir(tmp_path)
    parties = labelled(tmp_path, kind, *SSP) if kind else clinics(tmp_path, *SSP)
    member, plan = parties.members()[0], parties.plan
    model = run(parties.members(seed=1), plan, {2: Stage.MASKED}).model
    right = model.errors
    others = [counted_errors(plan, 0.25, rows, n) for rows, n in ((240, 3), (280, 3), (300, 3), (360, 4))]
    for place, errors in enumerate((right, *others)):
        text = model_of(plan, model.weights, errors, model.versions).text()
        member.receive_model(text, tmp_path / f"{place}.json")
    forged = [
        {"measure": "share of rows in error\x1b[2J\nGuarantee: eps = 0.0001, proven"}, {"of": "all rows"},
        {"level": 0.99}, {"note": "x" * 100_000}, {"low": 0.0, "high": 0.0}, {"deviation": 0.0}, {"error": -0.1},
        {"error": float("inf")}, {"error": True}, {"error": "0.1"}, {"error": [0.1]}, {"rows": 361}, {"rows": 300.0},
        counted_errors(plan, 0.25, 239, 3), counted_errors(plan, 0.25, 301, 3), counted_errors(plan, 0.25, 180, 2),
    ]  # fmt: skip
    for errors in (5, [], "none", None, *({**right, **change} for change in forged)):
        typed = isinstance(errors, dict) and isinstance(errors["error"], float)
        sentence = model_of(plan, model.weights, errors, {}).statement[-1] if typed else "Errors: none."
        statements = ([*plan.statement, said] for said in (model.statement[-1], sentence))
        assert_none_is_received(member, model.text(), ({"errors": errors, "statement": said} for said in statements))


def test_the_verifier_finds_the_same_and_less_noise_in_the_count_would_not_do(tmp_path) -> None:
    plan = clinics(tmp_path, *SSP).plan
    described = json.loads(json.dumps(plan.facts.certificate))
    assert len(described["messages"]) == 2
    unknown = verify.unknown_noise(described["noise"], "colluders")
    claimed = {guarantee.view: guarantee.eps for guarantee in plan.facts.held}["colluders"]

    def least() -> Fraction:
        at = verify.total(described["messages"], unknown).delta
        return verify.least_eps(at, Fraction(described["delta"]), Fraction(0))

    assert float(least()) == pytest.approx(claimed, rel=1e-5)
    step = 2.0**-18  # of the eps that it tries
    assert float(least()) <= claimed + step
    (block,) = described["messages"][1]["blocks"]
    block["variance"] = str(Fraction(block["variance"]) * Fraction(99, 100))
    assert float(least()) > claimed + 10 * step


@pytest.mark.parametrize("kind", ["", "three classes", "a number"])
@pytest.mark.parametrize("unit", ["sample", "party"])
def test_no_row_moves_the_count_by_more_than_is_counted(tmp_path, kind, unit) -> None:
    """Every row of a party replaced by random ones, in whole steps; for classes the bound is met."""
    parties = labelled(tmp_path, kind, "algo=wdgd", *COUNT) if kind else clinics(tmp_path, *SSP)
    pooled, rng, bits = parties.pooled(), np.random.default_rng(0), 20
    K = 3 if kind == "three classes" else 1
    of = ClippedRows(Errors(kind == "a number", K), 0.5, unit, 1, about=(K * pooled.X.shape[1],))
    moved = []
    for scale in (0.0, 1.0, 100.0):
        w = scale * rng.normal(size=(1, K * pooled.X.shape[1]))
        before = of.on(pooled).integers(np.array([bits]), True, w)
        for row in range(SIZES[0]) if unit == "sample" else (slice(0, SIZES[0]),):
            X, y = pooled.X.copy(), pooled.y.copy()
            X[row] = -X[row]
            y[row] = {"": -y[row], "a number": -np.sign(y[row]), "three classes": (y[row] + 1) % 3}[kind]
            after = of.on(replace(pooled, X=X, y=y)).integers(np.array([bits]), True, w)
            moved.append(int(np.abs(after - before).sum()))
    assert max(moved) <= 2 << bits
    assert max(moved) == 2 << bits or unit == "party" or kind == "a number"
