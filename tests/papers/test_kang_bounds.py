"""The published bounds of Kang et al. 2019, and settings as axes."""

import math

import numpy as np
import pytest
from examples import LOGISTIC, descended

from dpml.optim.convex import optimum
from dpml.optim.gradients import Rows
from dpml.optim.losses import mean_loss
from dpml.packs.kang2019.bounds import METHODS, excess_risk_bound, published_bounds

AT = {"p": 10, "G": 1.0, "N": 4000, "T": 50, "lam": 0.1, "eps": 0.5, "delta": 1e-3}


def test_theorem_2_holds_for_noisy_descent():
    """400 runs of T rounds with step 1/L: their mean excess risk is below the bound, and not by orders of magnitude."""
    rng = np.random.default_rng(0)
    n, p, lam, T, runs, variance = 800, 6, 0.1, 60, 400, 0.02
    X = rng.standard_normal((n, p))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)

    def risk(w):
        return mean_loss(LOGISTIC, X, y, w) + lam / 2 * np.sum(w * w, axis=1)

    best, start, L = optimum(LOGISTIC, X, y, lam)[None], 3 * np.ones(p), 0.25 + lam
    rows, noise = Rows.of(LOGISTIC, X, y, np.full(n, 1 / n), np.float64), rng.standard_normal((T, runs, p))
    last = descended(rows, np.tile(start, (runs, 1)), 1 / L, math.sqrt(variance) * noise, lam)
    gap = risk(last).mean() - risk(best)[0]
    bound = excess_risk_bound(p, T, lam, L, variance, risk(start[None])[0] - risk(best)[0])
    assert bound / 10 < gap < bound


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
