"""Descents on sorted and merged rows against plain NumPy in double precision."""

import numpy as np
import pytest
from examples import LOGISTIC, SIGMOID

from dpml.optim.merged_descent import MergedDescent


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
    rows = MergedDescent.of(loss, groups, len(runs))
    for many in (3, 7, 20):
        rows.advance(found, runs, widths, lambda count: next(lots), lam, many)
    for k, (X, y, v) in enumerate(groups):
        w = start[k]
        for t in range(rounds):
            kick = (z[t, k][..., None] * widths[k]).reshape(w.shape)
            w = w - runs * (X.T @ (v[:, None] * loss.slope(X @ w, y)) + lam * w + kick)
        np.testing.assert_allclose(found[k], w, rtol=1e-5, atol=1e-5)
