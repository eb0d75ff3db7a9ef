"""The ball that has all rows' gradients: against searches over rows, and the stationarity that its proof uses."""

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from dpml.packs.frontier.outpert import logistic_radius, squared_radius

LENGTHS = (0.0, 1e-6, 0.1, 0.5, 1.0, 2.0, 5.28, 16.7, 100.0, 1e4)


def logistic(rows: np.ndarray, labels: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Gradients of rows (n, d) at w (d,)."""
    return -(labels * expit(-labels * (rows @ w)))[:, None] * rows


def squared(rows: np.ndarray, labels: np.ndarray, w: np.ndarray) -> np.ndarray:
    return (2 * (rows @ w - labels))[:, None] * rows


KINDS = [(logistic, logistic_radius, False), (squared, squared_radius, True)]
each_kind = pytest.mark.parametrize(("gradients", "radius", "any_label"), KINDS, ids=["logistic", "squared"])


def farthest(gradients, any_label: bool, w: np.ndarray, rng, starts: int = 2) -> float:
    """The largest difference of two gradients at w that local searches over both rows and labels find."""
    d = len(w)

    def apart(v: np.ndarray) -> float:
        rows, labels = v[: 2 * d].reshape(2, d), v[2 * d :]
        rows = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        labels = np.clip(labels, -1, 1) if any_label else np.where(labels >= 0, 1.0, -1.0)
        first, second = gradients(rows, labels, w)
        return -float(np.linalg.norm(first - second))

    found = []
    for _ in range(starts):
        start = rng.standard_normal(2 * d + 2)
        once = minimize(apart, start, method="Nelder-Mead", options={"maxiter": 2000, "xatol": 1e-9, "fatol": 1e-13})
        found.append(-minimize(apart, once.x, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14}).fun)
    return max(found)


@each_kind
@pytest.mark.parametrize("length", [0.0, 1.0, 5.28, 0.3, 2.36, 16.7])
def test_the_farthest_two_rows_reach_it(gradients, radius, any_label, length) -> None:
    found = farthest(gradients, any_label, np.array([0.0, length]), np.random.default_rng(1))
    assert 2 * radius(length) * (1 - 1e-6) <= found <= 2 * radius(length) * (1 + 1e-9)


@each_kind
def test_all_gradients_lie_in_the_ball_that_the_proof_names(gradients, radius, any_label) -> None:
    """Its centre is as far along w as the gradients of the two farthest rows are."""
    angles = np.linspace(-math.pi, math.pi, 4001)
    for length in LENGTHS:
        rows = np.concatenate([r * np.column_stack([np.cos(angles), np.sin(angles)]) for r in (1.0, 0.7, 0.2)])
        for label in (-1.0, 1.0, *((0.0, 0.4) if any_label else ())):
            G = gradients(rows, np.full(len(rows), label), np.array([0.0, length]))
            half = 2 if any_label else 1  # the squared loss has a factor 2
            h = float(radius(length)) / half
            b = brute_maximiser(length, any_label)
            centre = np.array([0.0, half * h * b / math.sqrt(1 - b * b)])
            assert np.linalg.norm(G - centre, axis=1).max() <= radius(length) * (1 + 1e-7)


@cache
def brute_maximiser(length: float, any_label: bool) -> float:
    """b*, by golden section on what is maximised, in 40 digits."""
    with mpmath.workdps(40):
        L = mpmath.mpf(length)
        slope = (lambda b: 1 + b * L) if any_label else (lambda b: 1 / (1 + mpmath.exp(-b * L)))
        value = lambda b: mpmath.sqrt(1 - b * b) * slope(b)  # noqa: E731
        low, high = mpmath.mpf(0), mpmath.mpf("0.99")
        golden = (mpmath.sqrt(5) - 1) / 2
        for _ in range(140):
            left, right = high - golden * (high - low), low + golden * (high - low)
            low, high = (left, high) if value(left) < value(right) else (low, right)
        return float((low + high) / 2)


@pytest.mark.parametrize("any_label", [False, True], ids=["logistic", "squared"])
def test_radii_are_the_largest_values_and_never_below(any_label) -> None:
    radius = squared_radius if any_label else logistic_radius
    for length in (*LENGTHS, 1e6):
        b = brute_maximiser(length, any_label)
        exact = math.sqrt(1 - b * b) * (2 * (1 + b * length) if any_label else expit(b * length))
        assert exact <= radius(length) <= exact * (1 + 1e-9)
        if not any_label:
            assert b < 0.467
