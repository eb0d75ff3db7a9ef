"""Gradients of many runs, of cut slopes and of merged rows, against plain NumPy."""

import itertools

import numpy as np
import pytest
from examples import LOGISTIC, SIGMOID, SQUARED, clipped_slope

from dpml.optim.gradients import Rows
from dpml.optim.losses import Slopes
from dpml.optim.merged_descent import descend, merged

CUT = [Slopes(LOGISTIC, 0.1), Slopes(LOGISTIC, 0.5), Slopes(LOGISTIC, 0.8), Slopes(SQUARED, 0.3), Slopes(SQUARED, 1.5)]
ALL = [*CUT, Slopes(LOGISTIC), Slopes(SIGMOID)]


def named(slopes: Slopes) -> str:
    return f"{slopes.loss.name}-{slopes.clip}"


def rows_and_labels(loss, n: int, d: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X *= (rng.uniform(0.2, 1, n) / np.linalg.norm(X, axis=1))[:, None]
    scores = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)
    return X, np.clip(scores, -1, 1) if loss is SQUARED else np.where(scores > 0, 1.0, -1.0)


def rows_of(slopes: Slopes, X, y, v, dtype=np.float32) -> Rows:
    return Rows.of(slopes.loss, X, y, v, dtype, slopes.clip)


@pytest.mark.parametrize("slopes", ALL, ids=named)
@pytest.mark.parametrize("weights", ["equal", "unequal"])
def test_gradients_are_those_of_a_plain_loop(slopes, weights):
    rng = np.random.default_rng(1)
    X, y = rows_and_labels(slopes.loss, 200, 5, 2)
    # duplicates, some with another label
    X, y = np.concatenate([X, X[:40], X[:40]]), np.concatenate([y, y[:40], -y[:40]])
    v = np.full(len(y), 1 / len(y)) if weights == "equal" else rng.random(len(y)) / len(y)
    rows = rows_of(slopes, X, y, v, np.float64)
    assert sum(map(len, rows.half)) == 280  # equal rows keep their places
    w = 3 * rng.standard_normal((7, 5))
    found = rows.gradient(w)
    for model, gradient in zip(w, found, strict=True):
        expected = X.T @ (v * slopes.slope((X @ model)[:, None], y)[:, 0])
        np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("slopes", ALL, ids=named)
def test_constants_of_cut_losses_by_a_fine_grid(slopes):
    """G and L are never exceeded, and as good as reached; a cut convex loss is convex, for its slopes grow."""
    t = np.linspace(-12, 12, 240_001)
    for label in (-1.0, 1.0):
        y = np.array([label])
        slope = slopes.slope(t[None], y)[0]
        if slopes.cut:
            np.testing.assert_allclose(slope, clipped_slope(slopes.loss, t, label, slopes.clip), atol=1e-15)
        bends = np.diff(slope) / np.diff(t)
        assert 0.999 * slopes.lipschitz < np.abs(slope).max() <= slopes.lipschitz
        assert 0.999 * slopes.smoothness < np.abs(bends).max() <= slopes.smoothness * (1 + 1e-6)
        assert not slopes.loss.convex or bends.min() >= -1e-9
        if slopes.loss is LOGISTIC and slopes.bend:
            straight = label * t < slopes.bend
            np.testing.assert_allclose(np.abs(slope[straight]), slopes.clip, rtol=1e-9)
            assert np.all(np.abs(slope[~straight]) <= slopes.clip)


@pytest.mark.parametrize("slopes", CUT, ids=named)
@pytest.mark.parametrize("lam", [0.0, 0.2])
def test_a_round_on_cut_slopes_brings_models_together_as_counted(slopes, lam):
    """|1 - step lam| or |1 - step (L + lam)|, whichever is larger, over pairs of models near and far."""
    rng = np.random.default_rng(0)
    X, y = rows_and_labels(slopes.loss, 50, 3)
    X /= np.linalg.norm(X, axis=1)[:, None]
    v = np.full(50, 1 / 50)
    for share, size, reach in itertools.product((0.5, 1.0, 1.9), (1.0, 30.0), (1e-3, 1.0)):
        step = share / (slopes.smoothness + lam)
        one = size * rng.standard_normal((200, 3))
        two = one + reach * rng.standard_normal((200, 3))
        after = []
        for w in (one, two):
            after.append(w - step * (rows_of(slopes, X, y, v, np.float64).gradient(w) + lam * w))
        ratio = np.linalg.norm(after[0] - after[1], axis=1) / np.linalg.norm(one - two, axis=1)
        assert ratio.max() <= max(abs(1 - step * lam), abs(1 - step * (slopes.smoothness + lam))) * (1 + 1e-9)


@pytest.mark.parametrize(("n", "runs"), [(5000, 3), (3001, 64), (2500, 230), (700, 3000), (9, 70_000)])
def test_blocks_of_rows_and_runs_change_nothing(n, runs):
    X, y = rows_and_labels(LOGISTIC, n, 6)
    w = np.random.default_rng(0).standard_normal((runs, 6))
    found = Rows.of(LOGISTIC, X, y, np.full(n, 1 / n), np.float64).gradient(w)
    np.testing.assert_allclose(found, LOGISTIC.slope(X @ w.T, y).T @ X / n, atol=1e-14)


def sparse_group(n: int, d: int, rng: np.random.Generator):
    """Rows with many zeros and many copies, of both labels, with unequal weights."""
    X = rng.standard_normal((max(1, n // 3), d)) * (rng.random((max(1, n // 3), d)) < 0.3)
    X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    return X[rng.integers(len(X), size=n)], rng.choice([-1.0, 1.0], n), rng.random(n) / n


@pytest.mark.parametrize("loss", [LOGISTIC, SIGMOID], ids=lambda loss: loss.name)
@pytest.mark.parametrize("sizes", [(2000,), (1, 2, 3, 40, 5, 300, 1500, 0)])
def test_every_group_descends_on_its_own_rows(loss, sizes) -> None:
    rng = np.random.default_rng(0)
    d, draws, steps, rounds, lam = 7, 2, np.array([0.1, 1.0, 3.0]), 30, 0.01
    groups = [sparse_group(n, d, rng) for n in sizes]
    runs = np.tile(steps, draws)
    widths = 0.1 * rng.random((len(sizes), draws, len(steps)))
    z = rng.standard_normal((rounds, len(sizes), d, draws), dtype=np.float32)
    start = rng.standard_normal((len(sizes), d, len(runs)))
    lots = iter(np.split(z, [3, 10]))
    found = start.copy()
    rows = merged(loss, groups, len(runs))
    for many in (3, 7, 20):
        descend(rows, loss, found, runs, widths, lambda count: next(lots), lam, many)
    for k, (X, y, v) in enumerate(groups):
        w = start[k]
        for t in range(rounds):
            kick = (z[t, k][..., None] * widths[k]).reshape(w.shape)
            w = w - runs * (X.T @ (v[:, None] * loss.slope(X @ w, y)) + lam * w + kick)
        np.testing.assert_allclose(found[k], w, rtol=1e-5, atol=1e-5)
