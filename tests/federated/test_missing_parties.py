"""What a sum shows when parties are missing, by the covariance of all that is seen: no more than is proven."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from examples_federated import SIZES, agreed, assert_none_is_received, clinics, plan_of, run

from dpml.data.csv.column_bounds import bounds_from
from dpml.federated.plan import most_dropouts
from dpml.mechanism.sharing import SecureSumNoise, cape_whole_view
from dpml.privacy import Problem, gdp
from dpml.protocols import Stage
from dpml.protocols.session import least_quorum
from dpml.release import verify
from dpml.release.inference import coefficient_table
from dpml.release.model import read_model

CASES = [(M, C, D) for M in range(3, 9) for C in range(M - 2) for D in range(most_dropouts(M, C) + 1)]


def mu_of(noise: np.ndarray, shift: np.ndarray) -> float:
    """mu of a view whose noise is ``noise @ N(0, I)`` (k, sources) and whose mean moves by `shift` (k,)."""
    return math.sqrt(shift @ np.linalg.solve(noise @ noise.T, shift))


@pytest.mark.parametrize(("M", "C", "D"), CASES)
def test_missing_parties_counted_as_colluders_leave_enough_noise_in_a_secure_sum(M, C, D) -> None:
    """The aggregator sees the sum over M - D parties, and knows the noise of C of them: honest noise of the others."""
    proven = SecureSumNoise().views(Problem(M, 10 * M, 2, colluders=C + D))["colluders"]
    for missing in range(D + 1):
        honest = M - missing - C  # in the sum
        seen = mu_of(np.full((1, honest), 1 / math.sqrt(M)), np.ones(1))
        assert seen <= proven * (1 + 1e-12)


@pytest.mark.parametrize(("M", "C", "D"), CASES)
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_missing_parties_counted_as_colluders_leave_enough_noise_in_cape(M, C, D, spread) -> None:
    """The aggregator sees every honest party's open message, also of those whose vector is missing, and the sum."""
    proven = cape_whole_view(M, M - C - D, spread)
    for missing in range(D + 1):
        H = M - C  # honest parties; the last `missing` of them are not in the secure sum
        secrets, own = np.eye(H), np.eye(H) / math.sqrt(M)
        messages = np.hstack([spread * secrets, own])
        summed = np.hstack([(np.arange(H) < H - missing) * 1.0, np.zeros(H)])
        seen = mu_of(np.vstack([messages, summed]), np.eye(H + 1)[0])  # party 0 is in the sum
        assert seen <= proven * (1 + 1e-9)
        if missing == D:
            assert seen == pytest.approx(proven)


@pytest.mark.parametrize("M", [3, 5, 10, 32, 101])
def test_a_server_that_leaves_out_as_many_as_it_can_gains_less_than_a_root_of_two(M) -> None:
    """docs/secure_aggregation.md: a quorum of parties is in every sum, whatever the server says."""
    for C in range(M - 1):
        quorum = least_quorum(M, C)
        if quorum > M:
            continue
        honest = quorum - C
        whole = SecureSumNoise().views(Problem(M, 10 * M, 2, colluders=C))["colluders"]
        assert mu_of(np.full((1, honest), 1 / math.sqrt(M)), np.ones(1)) < math.sqrt(2) * whole
        for spread in (1.0, 30.0):
            assert cape_whole_view(M, honest, spread) < math.sqrt(2) * cape_whole_view(M, M - C, spread)


@pytest.mark.parametrize(("colluders", "dropouts"), [(1, 0), (1, 1)])
@pytest.mark.parametrize(
    "words",
    [
        ("algo=ssp",),
        ("algo=dpgd", "algo.unit=party", "algo.noise=discrete"),
        ("algo=wdgd", "algo.noise=discrete", "count_errors=0.5"),
    ],
)
def test_every_view_has_the_noise_of_those_that_are_left(words, colluders, dropouts) -> None:
    plan = plan_of(words, colluders, dropouts)
    made = json.loads(json.dumps(plan.facts.certificate))
    results = verify.verify(made)
    assert [(view, float(eps)) for view, eps, _ in results] == [(each.view, each.eps) for each in plan.facts.held]
    assert all(stated == proven for _, stated, proven in results)
    M = len(plan.seats)
    colluding = {each.view: each for each in plan.facts.given}["colluders"]
    for view, _, _ in results:
        # as much of the noise is unknown as parties are left that do not collude
        left = M - dropouts - (colluders if view == "colluders" else 0)
        eps = gdp.eps_of(colluding.mu * math.sqrt((M - colluders - dropouts) / left), made["delta"])
        at = verify.total(made["messages"], verify.unknown_noise(made["noise"], view)).delta
        delta = Fraction(made["delta"])
        assert at(Fraction(eps) * Fraction(999, 1000)) > delta >= at(Fraction(eps) * Fraction(1001, 1000))


@pytest.mark.parametrize("noise", ["continuous", "discrete"])
def test_a_logistic_regression_has_the_sums_of_those_that_are_left(tmp_path, monkeypatch, noise) -> None:
    monkeypatch.chdir(tmp_path)
    steps = "dataset.steps=[impute,treatment,symmetric,constant,max_norm]"
    parties = clinics(tmp_path, "algo=regression", f"algo.noise={noise}", steps)
    members = parties.members()
    left = run(members, parties.plan, {1: Stage.MASKED})
    members[0].receive_model(left.model.text(), tmp_path / "model.json")
    whole = run(parties.members(), parties.plan)
    moments, all_there = read_model(tmp_path / "model.json").moments, whole.model.moments
    # 280 of 360 rows: the sums of 3 parties with 3 of 4 shares of the noise, times 9/7
    assert moments.last.scaled_up == pytest.approx(9 / 7)
    assert moments.last.noise == pytest.approx(all_there.last.noise * 9 / 7 * math.sqrt(3 / 4))
    sums = json.loads(left.model.text())["moments"]
    last = sums["last"]
    forged = ({"noise": 0.0}, {"scaled_up": 1.0}, {"gradient": [0.0]}, {"noise": str(last["noise"])})
    changes = ({"moments": sums | {"last": last | change}} for change in forged)
    assert_none_is_received(members[2], left.model.text(), changes)


COLUMNS = {"age": {"low": 0, "high": 100}, "job": ["farm", "mine"]}
WORDS = ("algo=regression", "eps=50", "delta=1e-5", "dataset.label=bmi", "dataset.drop=[health]", "algo.noise=discrete")


def regression(folder, *words):
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
