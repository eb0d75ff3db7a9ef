"""Minimisers of quadratics against closed forms and SciPy."""

import numpy as np
import pytest

from dpml.optim import quadratic


def stack(rng: np.random.Generator, count: int, d: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    A = rng.standard_normal((count, d, d))
    return (A + A.transpose(0, 2, 1)) / 2 + shift * np.eye(d), rng.standard_normal((count, d))


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


def test_a_floor_of_zero_trims() -> None:
    A, b = stack(np.random.default_rng(4), 40, 5, shift=1)
    for found, expected in zip(
        quadratic.minimise_floored(A, b, np.zeros(40)), quadratic.minimise_quadratic(A, b), strict=True
    ):
        assert np.allclose(found, expected, atol=1e-10)
