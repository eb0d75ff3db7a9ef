"""Gradients of many runs against their definition, and descents on them."""

import numpy as np
import pytest
from examples import LOGISTIC, SIGMOID, descended
from quick import quick_first

from dpml.optim.convex import optimum
from dpml.optim.gradients import Rows
from dpml.optim.losses import mean_loss


def rows_and_labels(n: int, d: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X *= (rng.uniform(0.2, 1, n) / np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)


@pytest.mark.parametrize(("n", "runs"), [(5000, 3), (3001, 64), (2500, 230), (700, 3000), (9, 70_000)])
def test_blocks_of_rows_and_runs_change_nothing(n, runs):
    X, y = rows_and_labels(n, 6)
    w = np.random.default_rng(0).standard_normal((runs, 6))
    found = Rows.of(LOGISTIC, X, y, np.full(n, 1 / n), np.float64).gradient(w)
    np.testing.assert_allclose(found, LOGISTIC.slope(X @ w.T, y).T @ X / n, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("loss", quick_first([LOGISTIC, SIGMOID]), ids=lambda loss: loss.name)
def test_single_precision_does_not_touch_the_accuracy(loss):
    """1000 rounds at the smallest published noise of a figure: rounding moves a model far less than its noise does."""
    X, y = rows_and_labels(2000, 30)
    n, d, rounds, steps = len(y), 30, 1000, np.array([0.01, 0.5, 4.0])
    scale = 4 * np.sqrt(rounds * np.log(1e3)) / (n * 10.0)  # eps = 10
    noise = scale * np.random.default_rng(5).standard_normal((rounds, 12, d), dtype=np.float32)
    start = np.tile(np.random.default_rng(6).standard_normal(d) / np.sqrt(d), (12, 1))
    single, double, still = (
        descended(Rows.of(loss, X, y, np.full(n, 1 / n), kind), start, np.repeat(steps, 4)[:, None], drawn)
        for kind, drawn in ((np.float32, noise), (np.float64, noise), (np.float64, 0 * noise))
    )
    moved, by_noise = np.linalg.norm(single - double, axis=1), np.linalg.norm(double - still, axis=1)
    assert np.all(moved < 1e-3 * by_noise)
    losses = [mean_loss(loss, X, y, w) for w in (single, double)]
    assert np.abs(losses[0] - losses[1]).max() < 2e-6


def test_without_noise_it_comes_to_the_optimum():
    X, y = rows_and_labels(500, 4)
    lam = 0.05
    rows = Rows.of(LOGISTIC, X, y, np.full(500, 1 / 500), np.float64)
    w = descended(rows, np.ones((1, 4)), 1 / (0.25 + lam), np.zeros((300, 1, 4)), lam)
    np.testing.assert_allclose(w.ravel(), optimum(LOGISTIC, X, y, lam), atol=1e-9)
