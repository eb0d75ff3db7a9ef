"""Newton's method and the plain optimum against scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dpml import optim
from dpml.optim import convex
from dpml.optim.losses import LOSSES, mean_loss

LOGISTIC = LOSSES["logistic"]


def binary_problem(n: int = 200, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    return X, np.where(X @ np.ones(d) + rng.logistic(size=n) > 0, 1.0, -1.0)


def test_newton_matches_scikit_learn() -> None:
    X, y = binary_problem()
    lam = 1e-3
    ours = convex.optimum(LOGISTIC, X, y, lam)
    theirs = LogisticRegression(C=1 / (lam * len(y)), fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y)
    assert np.allclose(ours, theirs.coef_[0], atol=1e-5)


def test_newton_solves_every_tilted_problem_in_the_stack() -> None:
    X, y = binary_problem()
    tilt = np.random.default_rng(7).standard_normal((30, 6)) * np.geomspace(1e-3, 1, 30)[:, None]
    lam = np.geomspace(1e-3, 1, 30)
    w = convex.minimise_convex(LOGISTIC, X, y, lam, tilt)
    gradient = LOGISTIC.slope(X @ w.T, y).T @ X / len(y) + lam[:, None] * w + tilt
    assert np.linalg.norm(gradient, axis=1).max() <= 1e-9


def test_newton_refuses_a_problem_without_a_minimiser() -> None:
    X, y = binary_problem()
    with pytest.raises(optim.NotConvergedError, match=r"set a larger algo\.lam"):
        convex.minimise_convex(LOGISTIC, X, y, 0.0, np.full((1, 6), 5.0))


def test_separable_data_reach_the_infimum() -> None:
    X = np.array([[1.0, 0.0], [-1.0, 0.1]])
    y = np.array([1.0, -1.0])
    w = convex.optimum(LOGISTIC, X, y)
    assert mean_loss(LOGISTIC, X, y, w[None])[0] < 1e-8


def test_softmax_matches_scikit_learn() -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((300, 4))
    y = np.argmax(X @ rng.standard_normal((4, 3)) + rng.gumbel(size=(300, 3)), axis=1).astype(float)
    lam = 1e-2
    ours = convex.optimum(LOSSES["softmax"], X, y, lam).reshape(3, 4)
    theirs = LogisticRegression(C=1 / (lam * 300), fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y)
    assert np.allclose(ours, theirs.coef_, atol=1e-4)
