"""Gaussian output perturbation: the diameter by search over pairs of data sets, the ridge, the noise as drawn."""

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, ball, binary_parties, clipped_slope, release_of, sent, some_parties
from mpmath import exp, mp, mpf
from scipy import stats
from scipy.optimize import lsq_linear, minimize
from scipy.special import expit

from dpml.audit.neighbours import synthetic_parties
from dpml.errors import UserError
from dpml.optim import NotConvergedError
from dpml.optim.losses import Logistic
from dpml.packs.frontier import outpert
from dpml.packs.frontier.outpert import (
    Fit,
    GaussianOutput,
    added,
    gradient_error,
    gradient_lengths,
    logistic_radius,
    squared_radius,
)
from dpml.privacy import Budget, Problem

BUDGET = Budget(1.0, 1e-5)


def logistic_minimiser(rows: np.ndarray, R: float, start: np.ndarray) -> np.ndarray:
    """Of sum log(1 + exp(-u'w)) + R/2 ||w||^2 for rows u (n, d): damped Newton."""
    w = start
    value = lambda w: np.logaddexp(0, -rows @ w).sum() + R / 2 * w @ w  # noqa: E731
    here = value(w)
    for _ in range(100):
        s = expit(-rows @ w)
        gradient = R * w - s @ rows
        if np.linalg.norm(gradient) < 1e-12 * max(R, 1.0):
            break
        step = np.linalg.solve((rows.T * (s * (1 - s))) @ rows + R * np.eye(len(w)), gradient)
        size = 1.0
        while (there := value(w - size * step)) > here - 1e-4 * size * (gradient @ step) + 1e-14 and size > 1e-6:
            size /= 2
        w, here = w - size * step, there
    return w


def in_ball(v: np.ndarray, d: int) -> np.ndarray:
    rows = v.reshape(-1, d)
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def moved(v: np.ndarray, d: int, R: float) -> float:
    """How far the minimiser moves when the last but one of these rows is replaced by the last one."""
    rows = in_ball(v, d)
    first = logistic_minimiser(rows[:-1], R, np.zeros(d))
    return float(np.linalg.norm(first - logistic_minimiser(np.concatenate([rows[:-2], rows[-1:]]), R, first)))


def diameter(N: int, lam: float, d: int = 2, loss=LOGISTIC, **options) -> float:
    return GaussianOutput(loss, **options).sensitivity(Problem(1, N, d), lam)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("lam", [0.03, 3.0, 1e-3, 0.3])
@pytest.mark.parametrize("N", [1, 2, 4, 10])
def test_no_pair_of_small_data_sets_is_farther_apart(N, lam, d) -> None:
    rng = np.random.default_rng([N, d])
    bound = diameter(N, lam, d)
    length = GaussianOutput(LOGISTIC).longest(lam)
    best, most = None, 0.0
    for _ in range(60):
        v = rng.standard_normal((N + 1, d)) * rng.choice([0.1, 1.0, 1.3 / length], (N + 1, 1))
        if d == 2 and N > 1:  # a crowd, and two rows that pull to either side
            v[:-2] = [0.0, rng.choice([1.0, 1.28 / length])]
            v[-1] = v[-2] * [-1, 1]
        if (far := moved(v, d, N * lam)) > most:
            best, most = v, far
    found = minimize(lambda v: -moved(v, d, N * lam), best.ravel(), method="Nelder-Mead", options={"maxfev": 250})
    assert max(most, -found.fun) <= bound * (1 + 1e-9)
    if N == 1 and lam <= 0.1:  # one row, as short as the longest minimiser asks for, that turns
        row = np.eye(1, d) * min(1.0, 1.2785 / length)
        assert moved(np.concatenate([row, -row]), d, lam) >= 0.999 * bound


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("N", "lam"), [(1, 0.5), (2, 0.1), (5, 0.01), (5, 3.0), (10, 0.1)])
def test_no_pair_of_least_squares_fits_is_farther_apart(N, lam, radius) -> None:
    rng = np.random.default_rng(N)
    bound = diameter(N, lam, loss=SQUARED, radius=radius)

    def fitted(X, y) -> np.ndarray:
        free = lsq_linear(np.vstack([X, math.sqrt(N * lam / 2) * np.eye(2)]), np.append(y, [0, 0]), tol=1e-14).x
        if np.linalg.norm(free) <= radius:
            return free
        found = minimize(
            lambda w: np.sum((X @ w - y) ** 2) + N * lam / 2 * w @ w, free * radius / np.linalg.norm(free),
            jac=lambda w: 2 * (X @ w - y) @ X + N * lam * w, method="SLSQP", options={"ftol": 1e-14},
            constraints={"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2 * w},
        )  # fmt: skip
        return found.x

    for _ in range(60):
        X, y = in_ball(2 * rng.standard_normal((N + 1, 2)), 2), rng.choice([-1.0, 1.0, 0.3], N + 1)
        if rng.random() < 0.5:  # a crowd, and two rows that pull to either side
            X[:-2], y[:-2] = [0.0, rng.uniform(0, 1)], 1.0
            X[-1], y[-2:] = X[-2] * [-1, 1], -1.0
        apart = np.linalg.norm(fitted(X[:-1], y[:-1]) - fitted(np.delete(X, -2, 0), np.delete(y, -2)))
        assert apart <= bound * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=["logistic", "squared"])
def test_the_noise_drawn_is_the_noise_counted(loss) -> None:
    """Kolmogorov-Smirnov on 12,000 coordinates, false alarm 1e-4 each of 2; budgets share their directions."""
    parties, draws = binary_parties(), 3000
    algorithm = GaussianOutput(loss)
    budgets = [Budget(0.5, 1e-3), Budget(4.0, 1e-3), Budget(math.inf, 1e-3)]
    weights = release_of(algorithm, parties, budgets, draws).weights
    assert weights.shape == (3, draws, 4)
    drawn = []
    for budget, released in zip(budgets[:2], weights, strict=False):
        strength, made = algorithm.ridge(budget, parties.problem), sent(algorithm, budget, parties.problem)
        exact = Fit(algorithm.loss, algorithm.radius).minimise(parties.folded, np.array([strength]))[0]
        drawn.append((released - exact) / made.noise)
        (proven,) = algorithm.guarantees(budget, parties.problem)
        assert made.noise == pytest.approx(algorithm.sensitivity(parties.problem, strength) / proven.mu, rel=1e-12)
    assert stats.kstest(drawn[0].ravel(), "norm").pvalue > 1e-4
    assert np.abs(np.corrcoef(drawn[0].T) - np.eye(4)).max() < 5 / math.sqrt(draws)
    assert np.allclose(drawn[0], drawn[1], atol=1e-9)


@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=["logistic", "squared"])
def test_what_the_solver_leaves_is_counted(loss, lam) -> None:
    """The computed minimiser is as close to the exact one as is counted: by the gradient, from its definition."""
    parties = binary_parties()
    algorithm = GaussianOutput(loss, radius=100.0)
    w = Fit(algorithm.loss, algorithm.radius).minimise(parties.folded, np.array([lam]))[0]
    t = parties.X @ w
    slopes = 2 * (t - parties.y) if loss is SQUARED else -parties.y * expit(-parties.y * t)
    left = np.linalg.norm(slopes @ parties.X / 300 + lam * w)
    assert left / lam <= algorithm.unsolved(parties.problem, lam)
    assert algorithm.sensitivity(parties.problem, lam) > 2 * algorithm.unsolved(parties.problem, lam)


def test_a_fit_on_the_surface_of_the_ball_is_checked(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3)) / 3
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    parties = synthetic_parties("regression", X, np.clip(3 * X[:, 0], -1, 1), np.array([50]))
    algorithm = GaussianOutput(SQUARED)
    w = Fit(algorithm.loss, algorithm.radius).minimise(parties.folded, np.array([1e-3, 0.5]))
    assert np.linalg.norm(w, axis=1)[0] == pytest.approx(1.0)
    wrong = lambda A, b, radius, shift: w + 1e-6  # noqa: E731
    monkeypatch.setattr(outpert, "minimise_quadratic_in_ball", wrong)
    with pytest.raises(UserError):
        Fit(algorithm.loss, algorithm.radius).minimise(parties.folded, np.array([1e-3, 0.5]))


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, Logistic(2.0)], ids=lambda loss: loss.name)
def test_a_measured_gradient_is_as_wrong_as_is_counted_at_most(loss) -> None:
    """Against 60 digits, at long and at short models; the error that is found is a tenth of what is counted."""
    mp.dps = 60
    rng, d, N, strength = np.random.default_rng(3), 4, 60, 0.01
    X = ball(rng, N, d)
    y = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    for length in (0.1, 1.0, 50.0):
        w = rng.standard_normal(d)
        w *= length / np.linalg.norm(w)
        exact = [strength * mpf(w[j]) for j in range(d)]
        for x, label in zip(X, y, strict=True):
            t = sum(mpf(a) * mpf(b) for a, b in zip(x, w, strict=True))
            margin = mpf(float(label)) * t
            shift = mpf(getattr(loss, "shift", 0.0))
            slope = 2 * (t - label) if loss is SQUARED else -mpf(float(label)) / (1 + exp(margin - shift))
            exact = [e + slope * mpf(a) / N for e, a in zip(exact, x, strict=True)]
        true = mp.sqrt(sum(e * e for e in exact))
        found = gradient_lengths(loss, (X, y, None), w[None], strength)[0]
        steepest = 2 * (1 + length) if loss is SQUARED else 1.0
        assert abs(mpf(found) - true) <= gradient_error(added(N), d, steepest, length, strength)


def test_folded_rows_in_blocks_have_the_same_gradient() -> None:
    rng = np.random.default_rng(4)
    X, y = ball(rng, 10_000, 3), np.where(rng.random(10_000) < 0.5, 1.0, -1.0)
    counts = rng.integers(1, 5, 10_000).astype(float)
    w = rng.standard_normal((2, 3))
    slopes = -y[:, None] * expit(-y[:, None] * (X @ w.T)) * counts[:, None]
    exact = np.linalg.norm(slopes.T @ X / counts.sum() + 0.1 * w + 0.01, axis=1)
    np.testing.assert_allclose(gradient_lengths(LOGISTIC, (X, y, counts), w, 0.1, 0.01), exact, rtol=1e-12)
    assert added(10_000) == 4096 + 3


def test_a_model_that_is_not_solved_so_well_is_not_released(monkeypatch) -> None:
    worse = lambda *arguments: gradient_lengths(*arguments) + 1e-7  # noqa: E731
    monkeypatch.setattr(outpert, "gradient_lengths", worse)
    with pytest.raises(NotConvergedError):
        release_of(GaussianOutput(LOGISTIC), some_parties(N=204), [BUDGET])


LENGTHS = (0.0, 1e-6, 0.1, 0.5, 1.0, 2.0, 5.28, 16.7, 100.0, 1e4)


each_kind = pytest.mark.parametrize(
    ("loss", "radius"), [(LOGISTIC, logistic_radius), (SQUARED, squared_radius)], ids=["logistic", "squared"]
)


@each_kind
def test_all_gradients_lie_in_the_ball_that_the_proof_names(loss, radius) -> None:
    """Its centre is as far along w as the gradients of the two farthest rows are."""
    angles, any_label = np.linspace(-math.pi, math.pi, 4001), loss is SQUARED
    for length in LENGTHS:
        rows = np.concatenate([r * np.column_stack([np.cos(angles), np.sin(angles)]) for r in (1.0, 0.7, 0.2)])
        for label in (-1.0, 1.0, *((0.0, 0.4) if any_label else ())):
            G = clipped_slope(loss, rows @ [0.0, length], label, math.inf)[:, None] * rows
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


@each_kind
def test_radii_are_the_largest_values_and_never_below(loss, radius) -> None:
    any_label = loss is SQUARED
    for length in (*LENGTHS, 1e6):
        b = brute_maximiser(length, any_label)
        exact = math.sqrt(1 - b * b) * (2 * (1 + b * length) if any_label else expit(b * length))
        assert exact <= radius(length) <= exact * (1 + 1e-9)
        if not any_label:
            assert b < 0.467
