"""Kang et al. 2019: the published bounds, and what its theorems name, measured against plain loops."""

import math

import numpy as np
import pytest
from examples import unit_rows

from dpml.optim.losses import LOSSES
from dpml.packs.kang2019.bounds import METHODS, excess_risk_bound, published_bounds
from dpml.packs.kang2019.theorems import EVERY, MeasuredDescent
from dpml.privacy import Budget

DELTA = 1e-3
AT = {"p": 10, "G": 1.0, "N": 4000, "T": 50, "lam": 0.1, "eps": 0.5, "delta": 1e-3}


def test_the_bound_is_its_recursion():
    """a_(t+1) = (1 - lam/L) a_t + p s^2/(2L), the proof's step, T times over."""
    gap, p, variance, lam, L = 2.0, 7, 0.3, 0.05, 0.4
    for _ in range(9):
        gap = (1 - lam / L) * gap + p * variance / (2 * L)
    assert excess_risk_bound(p, 9, lam, L, variance, 2.0) == pytest.approx(gap, rel=1e-12)


def test_rows_of_table_1():
    """Ratios that the text states: (M n_min/N)^2 in the noise, log(N) between Wang et al. and WD-DP."""
    bounds = published_bounds(AT, M=8, n_min=100)
    (_, pathak), jayaraman, (_, zhang), wang, wddp = bounds.values()
    assert jayaraman[0] / wddp[0] == pytest.approx((4000 / 800) ** 2)
    assert wang[0] == wddp[0] == pytest.approx(50 * math.log(1e3) / (4000 * 0.5) ** 2)
    assert wang[1] / wddp[1] == pytest.approx(math.log(4000))
    assert zhang == pytest.approx(math.sqrt(10 * math.log(4e6) * math.log(1e3)) / 2000)
    assert jayaraman[1] == pytest.approx(10 * 0.25 * math.log(800) ** 2 * math.log(1e3) / (800 * 0.1 * 0.5) ** 2)
    first, second, third = 49 / 100**2, (10 / (100 * 0.5) * math.log(1e4)) ** 2, 7 * 10 / (100**2 * 0.5) * math.log(1e4)
    assert pathak == pytest.approx(1.1 / 0.01 * (first + second + third))
    assert [METHODS[name][0] for name in bounds] == ["yes", "yes", "no", "no", "yes"]
    equal = published_bounds(AT, M=8, n_min=500)
    assert equal["Jayaraman et al. 2018"][0] == pytest.approx(wddp[0])


def risk(loss: str, X, y, w, lam):
    """Value and gradient of the mean loss + lam/2 ||w||^2, from the losses' formulas."""
    p = 1 / (1 + np.exp(y * (X @ w)))
    value, slope = (np.mean(-np.log(1 - p)), -y * p) if loss == "logistic" else (np.mean(p), -y * p * (1 - p))
    return value + lam / 2 * w @ w, X.T @ slope / len(y) + lam * w


def measured(loss: str, eps, draws=1, seed=1, **options):
    options = {"variant": "once", "step_selection": "fixed", "lam": 0.05, "rounds": 200} | options
    mechanism = MeasuredDescent(LOSSES[loss], **options).prepare(unit_rows(4, 300, 3), np.random.default_rng(0))
    budgets = [Budget(e, DELTA) for e in np.atleast_1d(eps)]
    return mechanism, mechanism.release(budgets, np.random.default_rng(seed), draws)


@pytest.mark.parametrize("loss", ["logistic", "sigmoid"])
def test_without_noise_the_constant_and_the_bound_are_those_of_a_plain_loop(loss):
    lam, rounds = 0.05, 100
    mechanism, release = measured(loss, math.inf, rounds=rounds)
    X, y, w = mechanism.parties.X, mechanism.parties.y, mechanism.start.copy()
    smoothness = {"logistic": 0.25, "sigmoid": 1 / (6 * math.sqrt(3))}[loss] + lam
    algorithm, far = mechanism.algorithm, mechanism.start.copy()
    of = algorithm.messages(Budget(math.inf, DELTA), mechanism.problem)[0].of
    least = algorithm.minimum(mechanism.parties, mechanism.terms(of).total)
    for _ in range(5000):  # the objectives of these rows have one minimum
        far -= risk(loss, X, y, far, lam)[1] / smoothness
    assert least == pytest.approx(risk(loss, X, y, far, lam)[0], abs=1e-9)
    ratios = []
    for t in range(rounds + 1):
        value, slope = risk(loss, X, y, w, lam)
        if t == 0:
            start = value - least
        if (t % EVERY == 0 or t == rounds) and value - least > 1e-9:
            ratios.append(slope @ slope / 2 / (value - least))
        if t < rounds:
            w -= slope / smoothness
    found = {name: values[0, 0] for name, values in release.metrics.items()}
    assert found["pl_constant"] == pytest.approx(min(ratios), rel=1e-2)
    left = (1 - found["pl_constant"] / smoothness) ** rounds
    assert found["theorem3_bound"] == pytest.approx(left * start, rel=1e-5)
    assert 0 <= found["excess_risk"] <= found["theorem3_bound"] + 1e-7
    assert ("theorem2_bound" in found) == (loss == "logistic")
    if loss == "logistic":
        assert found["pl_constant"] >= lam
        assert found["theorem2_bound"] == pytest.approx((1 - lam / smoothness) ** rounds * start, rel=1e-5)


@pytest.mark.parametrize(("variant", "share"), [("once", 1.0), ("synchronous", 0.25)])
def test_theorem_2_has_the_noise_that_is_there_and_bounds_the_mean(variant, share):
    """Equal clients: sigma^2 once, sigma^2/4 in the average of four clients' noise."""
    lam, smoothness, T = 0.1, 0.35, 200
    _, release = measured("logistic", [5.0, 40.0], draws=200, variant=variant, lam=lam)
    for e, eps in enumerate((5.0, 40.0)):
        found = {name: values[e] for name, values in release.metrics.items()}
        variance = share * 16 * T * math.log(1 / DELTA) / (300 * eps) ** 2
        noise = 3 * variance / (2 * lam) * (1 - (1 - lam / smoothness) ** T)
        assert found["theorem2_bound"] == pytest.approx(noise, rel=1e-3)  # the start is forgotten
        assert found["theorem2_bound"].mean() / 10 < found["excess_risk"].mean() < found["theorem2_bound"].mean()
        assert found["pl_constant"].min() >= lam
