"""Gradients of many runs against their definition, and descents on them."""

import numpy as np
import pytest
from examples import LOGISTIC

from dpml.optim.gradients import Rows


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
