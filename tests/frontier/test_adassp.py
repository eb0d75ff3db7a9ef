"""`adassp`: its sensitivity by search, its noise as drawn, its ridge rule written down again, and its limits."""

import math
from functools import cache

import numpy as np
import pytest
from examples import SQUARED, release_of, some_parties
from scipy.optimize import minimize

from dpml.mechanism.carriers import Carrier
from dpml.packs.frontier import audits  # noqa: F401 - registers neighbours
from dpml.packs.frontier.adassp import AdaptiveStatistics
from dpml.privacy import Budget, Problem

BUDGET, NONE = Budget(1.0, 1e-5), Budget(math.inf)
PUBLISHED, TIGHT = AdaptiveStatistics(SQUARED), AdaptiveStatistics(SQUARED, calibration="tight")
each = pytest.mark.parametrize("algorithm", [PUBLISHED, TIGHT], ids=["published", "tight"])


def mu_of(algorithm: AdaptiveStatistics, d: int) -> float:
    (guarantee,) = (g for g in algorithm.guarantees(BUDGET, Problem(1, 100, d)) if g.basis == "proven")
    assert guarantee.mu is not None
    problem = Problem(1, 100, d)
    return guarantee.mu * algorithm.scale(BUDGET, problem) / (1 + algorithm.imprecision(problem))


def moved(algorithm: AdaptiveStatistics, pair, others: np.ndarray) -> float:
    """How far lambda_min, X'y and X'X move together, in units of the noise as the algorithm's text says it is."""
    (x, y), (z, u) = pair
    rows = np.array([x, z])
    first, second = squares = others + rows[:, :, None] * rows[:, None, :]
    least, other = np.linalg.eigvalsh(squares)[:, 0]
    triangle = (first - second) * triangle_weights(len(x), algorithm is TIGHT)
    return math.sqrt((least - other) ** 2 + np.sum(triangle**2) + np.sum((y * x - u * z) ** 2))


@cache
def triangle_weights(d: int, tight: bool) -> np.ndarray:
    return np.triu(np.where(np.eye(d) > 0, 1.0, math.sqrt(2) if tight else 1.0))


@each
@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_rows_are_farther_apart_than_is_proven_and_some_are_as_far(algorithm, d: int) -> None:
    """Over both rows, both labels, and the matrix of all others, by multi-start ascent from rows short and long."""
    rng, farthest = np.random.default_rng(2), 0.0
    for spread in (0.0, 1.0, 1e4):

        def near(v: np.ndarray, spread: float = spread) -> float:
            x, z = (row / max(1.0, np.linalg.norm(row)) for row in (v[:d], v[d : 2 * d]))
            root = v[2 * d + 2 :].reshape(d, d)
            others = spread * root @ root.T / max(1e-9, np.linalg.norm(root) ** 2)
            return -moved(algorithm, ((x, np.tanh(v[2 * d])), (z, np.tanh(v[2 * d + 1]))), others)

        for _ in range(2):
            start = rng.standard_normal(2 * d + 2 + d * d)
            if d > 1:
                start[2 * d + 2 :] *= np.repeat([0.01, 1.0], [d, d * d - d])  # nearly singular
            farthest = max(farthest, -float(minimize(near, start, method="L-BFGS-B").fun))
    expected = mu_of(algorithm, d)
    assert farthest <= expected * (1 + 1e-9)
    assert farthest >= 0.97 * expected
    assert expected == pytest.approx(2.0 if d == 1 else math.sqrt(16 / 3), rel=1e-12)


def noisy_statistics(prepared, budgets, rng, draws: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    carrier, d = Carrier(prepared, budgets, rng, draws, None), prepared.problem.d
    sent = carrier.by_budget(carrier.ask(0))
    i, j = np.triu_indices(d)
    square = np.empty((*sent.shape[:2], d, d))
    # in the message, all numbers have noise alike
    square[..., i, j] = sent[..., 1 + d :] / triangle_weights(d, prepared.algorithm.calibration == "tight")[i, j]
    square[..., j, i] = square[..., i, j]
    return sent[..., 0], sent[..., 1 : 1 + d], square


@each
def test_the_model_is_the_papers_for_the_noise_that_was_drawn(algorithm) -> None:
    """Algorithm 2, lines 2 to 5, written down again, with the noise's deviation off the diagonal in line 3."""
    given, lam = some_parties(SQUARED, M=1, N=2000), 0.01
    algorithm = AdaptiveStatistics(SQUARED, calibration=algorithm.calibration, lam=lam)
    prepared = algorithm.prepare(given, np.random.default_rng(0))
    budgets = [Budget(0.1, 1e-5), Budget(1.0, 1e-6), Budget(20.0, 1e-5)]
    release = prepared.release(budgets, np.random.default_rng(1), 30)
    scales = np.array([algorithm.scale(budget, given.problem) for budget in budgets])
    least, linear, square = noisy_statistics(prepared, budgets, np.random.default_rng(1), 30)
    ridges = np.zeros((3, 30))
    for b, budget in enumerate(budgets):
        c, s = math.log(6 / budget.delta), scales[b]
        t = s if algorithm.calibration == "published" else s / math.sqrt(2)
        for k in range(30):
            bound = max(least[b, k] - s * math.sqrt(c), 0)
            ridges[b, k] = max(0, t * math.sqrt(3 * math.log(2 * 9 / 0.05)) - bound)
            matrix = square[b, k] + ridges[b, k] * np.eye(3)
            if np.linalg.eigvalsh(matrix)[0] > 0:
                assert np.allclose(release.weights[b, k], np.linalg.solve(matrix, linear[b, k]), rtol=1e-9)
                assert release.metrics["trimmed"][b, k] == 0
            else:
                assert release.metrics["trimmed"][b, k] == 1
    assert (ridges[0] > 0).all()
    assert (ridges[2] == 0).all()
    assert release.metrics["trimmed"].mean() < 0.05


@pytest.mark.parametrize("M", [1, 5])
@pytest.mark.parametrize("lam", [0.0, 0.4])
def test_without_noise_it_is_ridge_regression(M: int, lam: float) -> None:
    given = some_parties(SQUARED, M, N=300)
    w = release_of(AdaptiveStatistics(SQUARED, lam=lam), given, [NONE], 2, seed=0).weights[0]
    gradient = 2 * (w @ given.X.T - given.y) @ given.X / 300 + lam * w
    assert w.shape == (2, 3)
    assert np.abs(gradient).max() < 1e-10
