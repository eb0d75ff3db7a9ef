"""Minimisers against scikit-learn, SciPy and optimality conditions."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from dpml import optim
from dpml.optim import convex, quadratic
from dpml.optim.losses import LOSSES, mean_loss

LOGISTIC = LOSSES["logistic"]


def stack(rng: np.random.Generator, count: int, d: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    A = rng.standard_normal((count, d, d))
    return (A + A.transpose(0, 2, 1)) / 2 + shift * np.eye(d), rng.standard_normal((count, d))


def test_definite_quadratics_are_solved_exactly() -> None:
    A, b = stack(np.random.default_rng(0), 50, 6, shift=8)
    w, trimmed = quadratic.minimise_quadratic(A, b)
    assert not trimmed.any()
    assert np.abs(2 * np.einsum("bij,bj->bi", A, w) + b).max() < 1e-12


def test_indefinite_quadratics_are_minimised_on_their_positive_span() -> None:
    A, b = stack(np.random.default_rng(1), 40, 5, shift=1)
    w, trimmed = quadratic.minimise_quadratic(A, b)
    assert 0 < trimmed.sum() < 40  # the stack mixes both kinds
    for i in range(40):
        values, vectors = np.linalg.eigh(A[i])
        assert trimmed[i] == (values[0] <= 0)
        positive = vectors[:, values > 0]
        assert np.abs(positive.T @ (2 * A[i] @ w[i] + b[i])).max() < 1e-10  # stationary there
        assert np.linalg.norm(w[i] - positive @ (positive.T @ w[i])) < 1e-10  # and zero elsewhere


def test_singular_quadratics_get_the_shortest_minimiser() -> None:
    X = np.random.default_rng(2).standard_normal((4, 9))
    y = np.ones(4)
    w, trimmed = quadratic.minimise_quadratic(X.T @ X / 4, -2 * X.T @ y / 4)
    assert trimmed
    assert np.allclose(w, np.linalg.pinv(X) @ y)


def test_box_matches_scipy_where_convex() -> None:
    A, b = stack(np.random.default_rng(3), 20, 7, shift=6)
    b *= 8  # so that some coordinates sit on the boundary
    w = quadratic.minimise_quadratic_in_box(A, b, np.full(7, 0.3))
    for i in range(20):
        reference = minimize(
            lambda v, i=i: (v @ A[i] @ v + b[i] @ v, 2 * A[i] @ v + b[i]),
            np.zeros(7),
            jac=True,
            bounds=[(-1, 1)] * 7,
            options={"ftol": 1e-15, "gtol": 1e-12},
        )
        assert np.allclose(w[i], reference.x, atol=1e-5)
    assert (np.abs(w) == 1).any()


def test_least_squares_in_box_matches_coordinate_descent() -> None:
    rng = np.random.default_rng(9)
    X = rng.standard_normal((12, 5))
    A, b = X.T @ X / 12, 15 * X.T @ rng.standard_normal(12) / 12
    exact = quadratic.minimise_least_squares_in_box(A, b)
    assert np.allclose(exact, quadratic.minimise_quadratic_in_box(A[None], b[None], np.zeros(5))[0], atol=1e-5)
    assert (np.abs(exact) == 1).any()
    assert (np.abs(exact) < 1).any()


def test_box_says_when_it_has_not_converged() -> None:
    A = np.array([[[1.0, 1.0001], [1.0001, 1.0]]])  # indefinite, just
    with pytest.raises(optim.NotConvergedError, match="after 3 sweeps"):
        quadratic.minimise_quadratic_in_box(A, np.array([[0.1, -0.1]]), np.array([0.9, -0.9]), sweeps=3)


def test_box_ends_at_a_local_minimum_where_indefinite() -> None:
    rng = np.random.default_rng(4)
    A, b = stack(rng, 30, 8, shift=0)
    start = np.full(8, 1 / np.sqrt(8))
    w = quadratic.minimise_quadratic_in_box(A, b, start)
    value = np.einsum("bi,bij,bj->b", w, A, w) + np.einsum("bi,bi->b", b, w)
    assert np.all(value <= np.einsum("i,bij,j->b", start, A, start) + b @ start)
    for j in range(8):  # no single coordinate can do better, wherever in the box it goes
        for at in np.linspace(-1, 1, 21):
            other = w.copy()
            other[:, j] = at
            moved = np.einsum("bi,bij,bj->b", other, A, other) + np.einsum("bi,bi->b", b, other)
            assert np.all(moved >= value - 1e-9)


def test_ball_matches_scipy() -> None:
    rng = np.random.default_rng(5)
    root = rng.standard_normal((3, 5))
    A, b = root.T @ root / 3, rng.standard_normal((12, 5)) * np.geomspace(0.01, 30, 12)[:, None]
    b[0] = A @ rng.standard_normal(5) * 0.01  # a singular A whose minimiser lies inside
    shift = np.where(np.arange(12) % 2, 0.3, 0.0)
    w = quadratic.minimise_quadratic_in_ball(A, b, 1.5, shift)
    assert np.linalg.norm(w, axis=1).max() <= 1.5 * (1 + 1e-9)
    for i in range(12):
        reference = minimize(
            lambda v, i=i: v @ (A + shift[i] * np.eye(5)) @ v + b[i] @ v,
            np.zeros(5),
            constraints={"type": "ineq", "fun": lambda v: 1.5**2 - v @ v},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        ours = w[i] @ (A + shift[i] * np.eye(5)) @ w[i] + b[i] @ w[i]
        assert ours <= reference.fun + 1e-7


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
