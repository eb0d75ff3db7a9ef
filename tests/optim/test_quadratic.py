"""Minimisers of quadratics against closed forms and SciPy."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.io import loadmat
from scipy.optimize import approx_fprime, minimize

from dpml.optim import quadratic
from dpml.optim.interior_point import EVALUATIONS, _solve, stop_in_box, stopped_model, usual_start
from dpml.optim.losses import LOSSES


def stack(rng: np.random.Generator, count: int, d: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    A = rng.standard_normal((count, d, d))
    return (A + A.transpose(0, 2, 1)) / 2 + shift * np.eye(d), rng.standard_normal((count, d))


@pytest.mark.parametrize("floor", [False, True])
def test_indefinite_quadratics_are_minimised_on_their_positive_span(floor: bool) -> None:
    """A floor of zero only trims."""
    A, b = stack(np.random.default_rng(1), 40, 5, shift=1)
    w, trimmed = quadratic.minimise_floored(A, b, np.zeros(40)) if floor else quadratic.minimise_quadratic(A, b)
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


@pytest.mark.parametrize("radius", [1e-3, 0.2, 0.5, 1.0, 7.0, 100.0])
def test_ball_of_any_radius_meets_the_conditions_of_a_minimum(radius: float) -> None:
    """Inside, the gradient vanishes; on the sphere it is a multiple of -w: enough for a minimum, f being convex."""
    rng = np.random.default_rng(10)
    root = rng.standard_normal((3, 5))
    A, b = root.T @ root / 3, rng.standard_normal((40, 5)) * np.geomspace(1e-4, 1e4, 40)[:, None]
    shift = rng.choice([0.0, 0.3, 50.0], 40)
    b[:20] = b[:20] @ A  # in the range of A, so that the free minimiser exists without a shift, too
    w = quadratic.minimise_quadratic_in_ball(A, b, radius, shift)
    gradient = 2 * (w @ A + shift[:, None] * w) + b
    length, force = np.linalg.norm(w, axis=1), np.linalg.norm(gradient, axis=1)
    assert length.max() <= radius * (1 + 1e-9)
    inside = force <= 1e-8 * np.linalg.norm(b, axis=1)
    assert length[~inside] == pytest.approx(radius, rel=1e-9)
    along = np.sum(gradient * w, axis=1)
    assert np.all(along[~inside] <= -(1 - 1e-9) * (length * force)[~inside])
    assert (~inside).any()


@pytest.mark.parametrize("unit", [1e-4, 1e12])
def test_the_unit_of_the_objective_changes_no_minimiser(unit: float) -> None:
    """Whether a matrix counts as singular or indefinite depends on the ratios of its eigenvalues only."""
    rng = np.random.default_rng(11)
    A, b = stack(rng, 40, 5, shift=2.5)
    (w, trimmed), (other, also) = (quadratic.minimise_quadratic(c * A, c * b) for c in (1.0, unit))
    assert 0 < trimmed.sum() < 40
    assert np.array_equal(trimmed, also)
    assert np.allclose(other, w, rtol=1e-9)
    X = rng.standard_normal((3, 5))
    A, b = X.T @ X / 3, 4 * X.T @ rng.standard_normal(3) / 3  # singular
    values, shift = np.geomspace(0.1, 100, 6)[:, None] * b, np.zeros(6)
    w, other = (quadratic.minimise_quadratic_in_ball(c * A, c * values, 0.7, c * (shift + 0.1)) for c in (1.0, unit))
    assert np.allclose(other, w, rtol=1e-9)


@pytest.mark.parametrize("unit", [1.0, 2.0**40, 2.0**-40])
def test_what_is_singular_up_to_rounding_is_trimmed_wherever_it_stands_in_a_stack(unit: float) -> None:
    """A Cholesky factor exists, but its last pivot is rounding: the shortest minimiser, not one of length 1e15."""
    good, flat = np.eye(2), np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]])
    for A, expected in ((np.stack([good, flat]), [False, True]), (np.stack([flat, good]), [True, False])):
        np.linalg.cholesky(unit * A)  # does not raise
        w, trimmed = quadratic.minimise_quadratic(unit * A, unit * np.array([[1.0, 0.0], [1.0, 0.0]]))
        assert trimmed.tolist() == expected
        assert np.allclose(w[expected.index(True)], [-1 / 8, -1 / 8])
        assert np.allclose(w[expected.index(False)], [-1 / 2, 0])


def test_a_floor_raises_low_eigenvalues_and_leaves_the_others() -> None:
    """Against the matrix that is meant, put together by hand, each with a floor of its own."""
    A, b = stack(np.random.default_rng(3), 40, 5, shift=2.5)
    floor = np.geomspace(1e-3, 10, 40)
    w, trimmed = quadratic.minimise_floored(A, b, floor)
    kinds = set()
    for i in range(40):
        values, vectors = np.linalg.eigh(A[i])
        raised = sum(max(value, floor[i]) * np.outer(v, v) for value, v in zip(values, vectors.T, strict=True))
        assert np.allclose(2 * raised @ w[i] + b[i], 0, atol=1e-9)
        assert trimmed[i] == (values[0] <= 0)
        kinds.add((bool(trimmed[i]), bool(values[0] < floor[i])))
    assert kinds == {(True, True), (False, True), (False, False)}


PUBLISHED = Path(__file__).parents[2] / "experiments/imtiaz2019/published.csv"


def test_with_evaluations_enough_it_is_the_minimum() -> None:
    A, b = stack(np.random.default_rng(3), 20, 7, shift=6)
    b *= np.where(np.arange(20) % 2, 8, 0.5)[:, None]  # so that some coordinates end at the boundary
    w = stop_in_box(A, b, np.full(7, 0.3))
    for i in range(20):
        reference = minimize(
            lambda v, i=i: (v @ A[i] @ v + b[i] @ v, 2 * A[i] @ v + b[i]),
            np.zeros(7),
            jac=True,
            bounds=[(-1, 1)] * 7,
            options={"ftol": 1e-15, "gtol": 1e-12},
        )
        assert np.allclose(w[i], reference.x, atol=1e-4)
    assert np.abs(w).max() < 1
    assert 0 < (np.abs(w) > 1 - 1e-4).any(axis=1).sum() < 20


def stopped(objective: Callable[[np.ndarray], float], start: np.ndarray, budget: int) -> tuple[np.ndarray, int]:
    """The same method on one function, step by step, with gradients by differences: where it is, and its calls."""
    d, calls = len(start), 0

    def f(w: np.ndarray) -> float:
        nonlocal calls
        calls += 1
        return objective(w)

    def slope(w: np.ndarray, value: float) -> np.ndarray:
        return np.array([(f(w + 1e-7 * unit) - value) / 1e-7 for unit in np.eye(d)])

    w, mu, B = start.copy(), 0.1, np.eye(d)
    value = f(w)
    g = slope(w, value)
    u, v = mu / (w + 1), mu / (1 - w)
    while calls < budget:
        while max(np.abs(g - u + v).max(), np.abs(u * (w + 1) - mu).max(), np.abs(v * (1 - w) - mu).max()) <= mu:
            mu /= 5
        p = np.linalg.solve(B + np.diag(u / (w + 1) + v / (1 - w)), -g + mu / (w + 1) - mu / (1 - w))
        du, dv = mu / (w + 1) - u - u / (w + 1) * p, mu / (1 - w) - v + v / (1 - w) * p
        t, s = 1.0, 1.0
        for room, step in ((w + 1, p), (1 - w, -p)):
            t = min([t, *(-0.995 * room[step < 0] / step[step < 0])])
        for room, step in ((u, du), (v, dv)):
            s = min([s, *(-0.995 * room[step < 0] / step[step < 0])])

        def walls(w: np.ndarray, mu: float = mu) -> float:
            return -mu * np.sum(np.log(1 + w) + np.log(1 - w))

        down = p @ (g - mu / (w + 1) + mu / (1 - w))
        while (reached := f(w + t * p)) + walls(w + t * p) > value + walls(w) + 1e-4 * t * down:
            t /= 2
        new = w + t * p
        y, step = slope(new, reached) - g, t * p
        w, g, value, u, v = new, g + y, reached, u + s * du, v + s * dv
        curved = step @ B @ step
        if step @ y < 0.2 * curved:
            share = 0.8 * curved / (curved - step @ y)
            y = share * y + (1 - share) * B @ step
        B = B + np.outer(y, y) / (step @ y) - np.outer(B @ step, B @ step) / curved
    return w, calls


@pytest.mark.parametrize("shift", [0.0, 8.0])
def test_it_stops_where_the_evaluations_of_the_objective_are_used_up(shift: float) -> None:
    rng = np.random.default_rng(5)
    A, b = stack(rng, 3, 12, shift)
    A, b = 20 * A, 20 * b
    start = usual_start(12)
    for budget in (40, 100, 200):
        together = stop_in_box(A, b, start, budget)
        for i in range(3):
            alone, calls = stopped(lambda w, i=i: w @ A[i] @ w + b[i] @ w, start, budget)
            assert budget <= calls < budget + 40
            assert np.allclose(together[i], alone, atol=2e-3)
    gradient = approx_fprime(start, lambda w: w @ A[0] @ w + b[0] @ w)
    assert np.allclose(gradient, 2 * A[0] @ start + b[0], rtol=1e-3, atol=1e-3)


def test_it_stops_where_the_authors_solver_stopped(raw) -> None:
    """On their own rows of Crime their non-private value is 12 to 42 % above the optimum, and so is ours."""
    points = pd.read_csv(PUBLISHED, comment="#").query("series == 'crime_N' and algo == 'nonpriv'").set_index("x")
    sizes = range(200, 2000, 200)
    contents = [loadmat(raw / f"imtiaz_authors/crime_D_101_N_{N}.mat") for N in sizes]
    rows = [(content["X"], content["y"].ravel()) for content in contents]
    A, b = np.array([X.T @ X / len(y) for X, y in rows]), np.array([-2 * X.T @ y / len(y) for X, y in rows])
    scale = points.loc[list(sizes), "mean"].to_numpy()
    stored = scale - [np.mean(y * y) for _, y in rows]
    models = (stop_in_box(A, b, usual_start(101), most) for most in (EVALUATIONS, 10**6))
    ended, solved = (np.einsum("bi,bij,bj->b", w, A, w) + np.sum(b * w, axis=1) for w in models)
    assert np.all(np.abs(stored - ended) < 0.1 * scale)
    assert np.all(stored - solved > 0.1 * scale)
    assert np.all(np.abs(stored - ended) < 0.25 * (stored - solved))


@pytest.mark.parametrize("name", ["squared", "logistic"])
def test_the_model_of_a_losss_quadratic_form(name: str) -> None:
    """Against projected gradient descent on the form written out row by row."""
    rng = np.random.default_rng(12)
    X = rng.standard_normal((30, 4)) * np.array([0.3, 0.4, 0.4, 0.5])
    y, lam, loss = np.sign(X[:, 0]), 0.05, LOSSES[name]
    curvature = 2 if name == "squared" else 0.25
    toward = 2 * y if name == "squared" else y / 2
    w = np.zeros(4)
    for _ in range(5000):
        w = np.clip(w - 0.3 * (X.T @ (curvature * (X @ w) - toward) / 30 + lam * w), -1, 1)
    found = stopped_model(loss, X, y, lam)
    assert np.allclose(found, w, atol=1e-4)
    assert (np.abs(found) > 1 - 1e-5).any()
    assert (np.abs(found) < 0.99).any()


def test_a_problem_that_is_singular_to_rounding_leaves_the_others_alone():
    A = np.array([[[1.0, 0.2], [0.2, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
    b = np.array([[1.0, 2.0], [3.0, 3.0]])
    found = _solve(A, b)
    np.testing.assert_allclose(found[0], np.linalg.solve(A[0], b[0]))
    np.testing.assert_allclose(found[1], [1.5, 1.5])  # the shortest of all that solve it
