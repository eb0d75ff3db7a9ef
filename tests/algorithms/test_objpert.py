"""Objective perturbation: the privacy loss itself, maximised numerically, stays below what is proven."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit

from dpml.algorithms.objective_perturbation import ObjectivePerturbation
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem

SQUARED, LOGISTIC = LOSSES["squared"], LOSSES["logistic"]


def log_density(w: np.ndarray, rows: np.ndarray, labels: np.ndarray, scale: float, strength: float) -> float:
    """log density at w of the minimiser, by the change of variables b <-> w; b ~ exp(-||b||/scale), N = len(rows)."""
    p = expit(-labels * (rows @ w))
    b = (labels * p) @ rows - len(rows) * strength * w
    jacobian = (rows.T * (p * (1 - p))) @ rows + len(rows) * strength * np.eye(len(w))
    return -float(np.linalg.norm(b)) / scale + float(np.linalg.slogdet(jacobian)[1])


@pytest.mark.parametrize("calibration", ["published", "tight"])
@pytest.mark.parametrize(("eps", "lam", "N"), [(0.5, 0.0, 1), (1.0, 0.3, 2), (2.0, 0.02, 2), (0.3, 2.0, 1)])
def test_privacy_loss_never_exceeds_the_proven_eps(calibration: str, eps: float, lam: float, N: int) -> None:
    algorithm = ObjectivePerturbation(LOGISTIC, calibration=calibration, lam=lam)
    problem, d = Problem(1, N, 2), 2
    scale, extra = algorithm.calibrate(Budget(eps), problem)
    proven = next(g.eps for g in algorithm.guarantees(Budget(eps), problem) if g.basis == "proven")
    assert proven <= eps * (1 + 1e-12)

    def loss(v: np.ndarray, labels: np.ndarray) -> float:
        w = v[:d] * 10
        rows = v[d:].reshape(N + 1, d)
        rows = rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        given, other = rows[:N], np.vstack([rows[1:N], rows[N:]])
        first = log_density(w, given, labels[:N], scale, lam + extra)
        return first - log_density(w, other, np.append(labels[1:N], labels[N]), scale, lam + extra)

    rng, found = np.random.default_rng(0), 0.0
    for _ in range(16):
        labels = rng.choice([-1.0, 1.0], N + 1)
        start = rng.standard_normal(d + (N + 1) * d) * 2
        best = minimize(lambda v, y=labels: -loss(v, y), start, method="Nelder-Mead", options={"maxiter": 3000})
        found = max(found, -float(best.fun))
    assert found <= proven * (1 + 1e-9)
    assert found >= 0.5 * proven  # the proof is not idle


@pytest.mark.parametrize("radius", [0.5, 2.0])
def test_squared_loss_on_an_interval_inside_and_at_its_ends(radius: float) -> None:
    """d = 1: the density inside the interval and the mass on its ends, for neighbours on a grid."""
    eps = 0.8
    algorithm = ObjectivePerturbation(SQUARED, radius=radius, calibration="tight")
    scale, extra = algorithm.calibrate(Budget(eps), Problem(1, 1, 1))
    xs, ys, ws = np.linspace(-1, 1, 9), np.linspace(-1, 1, 5), np.linspace(-radius, radius, 21)
    x, y, w = np.meshgrid(xs, ys, ws, indexing="ij")
    # stationarity with N = 1: 2 x (x w - y) + extra w + b = 0
    b = -(2 * x * (x * w - y) + extra * w)
    log_inside = (-np.abs(b) / scale + np.log(2 * x**2 + extra)).reshape(-1, len(ws))
    assert np.ptp(log_inside, axis=0).max() <= eps

    # the minimiser sits at +radius when b <= b(radius)
    def log_mass(at: float) -> float:
        return math.log(quad(lambda t: math.exp(-abs(t) / scale) / (2 * scale), -math.inf, at)[0])

    ends = [log_mass(value) for value in np.unique(b[..., -1])]
    assert max(ends) - min(ends) <= eps


def test_calibration_spends_all_of_eps_and_tight_adds_less_noise() -> None:
    for loss in (LOGISTIC, SQUARED):
        for eps, lam in ((0.1, 0.0), (0.1, 1e-2), (5.0, 1e-2), (1.0, 1e-4)):
            problem, budget = Problem(5, 500, 10), Budget(eps)
            tight = ObjectivePerturbation(loss, calibration="tight", lam=lam)
            assert tight.guarantees(budget, problem)[0].eps == pytest.approx(eps)
            published = ObjectivePerturbation(loss, lam=lam)
            assert tight.calibrate(budget, problem)[0] <= published.calibrate(budget, problem)[0] * (1 + 1e-12)
            proven = published.guarantees(budget, problem)[1].eps
            assert proven < eps


def test_published_constants_are_chaudhuris() -> None:
    # N = 100, lam = 0.1, c = 1/4: slack = 2 log(1 + 0.025)
    scale, extra = ObjectivePerturbation(LOGISTIC, lam=0.1).calibrate(Budget(1.0), Problem(1, 100, 3))
    assert scale == pytest.approx(2 / (1 - 2 * math.log(1.025)))
    assert extra == 0
    # lam too small for eps = 0.1: eps/2, and c / (N (e^(eps/4) - 1)) - lam more convexity
    scale, extra = ObjectivePerturbation(LOGISTIC, lam=1e-3).calibrate(Budget(0.1), Problem(1, 100, 3))
    assert scale == pytest.approx(2 / 0.05)
    assert extra == pytest.approx(0.25 / (100 * math.expm1(0.025)) - 1e-3)
