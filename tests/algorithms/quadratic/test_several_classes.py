"""`ssp` for several classes: one noisy sum of X'X and X'Y, its sensitivity, its model, and how it is carried out."""

import math
from itertools import product

import numpy as np
import pytest
from examples import SOFTMAX, SQUARED, Observed, ball, release_of
from quick import quick_first
from scipy.optimize import minimize

from dpml.algorithms.quadratic.coefficients import Coefficients
from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.audit.neighbours import synthetic_parties
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.losses import codes
from dpml.privacy import Budget, Problem

BUDGET, NONE = Budget(1.0, 1e-5), Budget(math.inf)


def parties(K: int = 4, sizes: tuple[int, ...] = (20, 50, 130), d: int = 3) -> Parties:
    rng = np.random.default_rng(0)
    X = ball(rng, sum(sizes), d)
    y = np.argmax(X @ rng.standard_normal((d, K)) + 0.2 * rng.standard_normal((len(X), K)), axis=1).astype(float)
    return synthetic_parties("multiclass", X, y, np.array(sizes), None, K)


def released(algorithm: SufficientStatistics, given: Parties, budget: Budget = NONE, draws: int = 1) -> np.ndarray:
    return release_of(algorithm, given, [budget], draws).weights[0]


@pytest.mark.parametrize(("K", "d"), quick_first([(2, 2), (3, 1), (10, 3)], 2))
def test_no_two_rows_are_farther_apart_than_is_counted(K: int, d: int) -> None:
    """By ascent, on the sums that the code computes of single rows; two rows of one class reach what is counted."""
    problem, rng = Problem(1, 2, d, classes=K), np.random.default_rng(0)
    for radius in (0.3, None, 30.0):
        (message,) = SufficientStatistics(SOFTMAX, radius=radius).messages(BUDGET, problem)
        widths = message.widths(d) * np.repeat(message.of.deviations(d), message.of.lengths(d))

        def of_row(x: np.ndarray, label: int, of=message.of, widths=widths) -> np.ndarray:
            row = np.atleast_2d(x / max(1.0, np.linalg.norm(x)))
            return of.on(synthetic_parties("multiclass", row, np.array([float(label)]), [1], None, K)).total() / widths

        found = [0.0, 0.0]

        def near(v: np.ndarray, other: int, of_row=of_row) -> float:
            return -float(np.linalg.norm(of_row(v[:d], 0) - of_row(v[d:], other)))

        for other, _ in product((0, 1), range(2)):
            ascent = minimize(near, rng.standard_normal(2 * d) * 2, (other,), method="Powell")
            found[other] = max(found[other], -ascent.fun)
        proven = message.sensitivity / message.noise
        assert found[1] <= found[0] * (1 + 1e-6)
        assert found[0] == pytest.approx(proven, rel=1e-3)
        assert max(found) <= proven * (1 + 1e-9)


def test_the_sensitivity_in_closed_form() -> None:
    """The most of A a (2 + 2 c) + B (2 - 2 c^2), A and B the squares of 2/T1 and 1/T2, a = 1 - 1/K."""
    for K in (2, 6):
        (message,) = SufficientStatistics(SOFTMAX).messages(BUDGET, Problem(1, 100, 20, classes=K))
        linear, square, _ = np.array(message.units) * message.noise
        A, B = 4 / linear**2 * (1 - 1 / K), 1 / square**2
        assert (message.sensitivity / message.noise) ** 2 == pytest.approx(2 * A + 2 * B + A * A / (2 * B), rel=1e-12)


def test_without_noise_it_is_least_squares_of_centred_codes() -> None:
    given = parties()
    expected = np.linalg.lstsq(given.X, np.eye(4)[given.y.astype(int)] - 1 / 4, rcond=None)[0].T.ravel()
    assert np.allclose(released(SufficientStatistics(SOFTMAX), given), expected, atol=1e-10)
    root = np.sqrt(np.repeat(1 / given.sizes, given.sizes))[:, None]
    expected = np.linalg.lstsq(root * given.X, root * codes(given.y, 4), rcond=None)[0].T.ravel()
    assert np.allclose(released(SufficientStatistics(SOFTMAX, unit="party"), given), expected, atol=1e-10)


def test_the_floor_and_lam_are_those_of_every_class() -> None:
    """Every class's scores are least squares with the same noisy matrix, raised to one floor."""
    given, algorithm = parties(), SufficientStatistics(SOFTMAX, lam=0.3)
    W = released(algorithm, given).reshape(4, 3)
    gradient = 2 * (W @ given.X.T - codes(given.y, 4).T) @ given.X / 200 + 0.3 * W
    assert np.abs(gradient).max() < 1e-10
    metrics = release_of(algorithm, given, [BUDGET], 50).metrics
    assert {values.shape for values in metrics.values()} == {(1, 50)}


@pytest.mark.parametrize("unit", ["sample", "party"])
def test_all_carriers_have_the_same_sums(unit: str) -> None:
    """Parties' parts add up; integers are what they stand for, with codes that are exact multiples of one step."""
    given = parties()
    of = Coefficients(SOFTMAX, unit=unit, classes=4)
    terms = of.on(given)
    assert np.allclose(terms.each().sum(axis=0), terms.total(), atol=1e-12)
    for bits in (12, 20):
        steps = np.repeat(of.steps(bits, given.problem), of.lengths(3))
        whole = terms.integers(np.array([bits]), False)[0, 0]
        assert np.allclose(whole * steps, terms.total(), atol=200 * 2.0**-bits)
        assert whole[:12].reshape(4, 3).sum(axis=0).tolist() == [0, 0, 0] or unit == "party"
    simulated, secure, grid, both = (
        released(SufficientStatistics(SOFTMAX, unit=unit, protocol=protocol, noise=noise), given)
        for noise, protocol in product(("continuous", "discrete"), ("simulate", "secagg"))
    )
    assert np.allclose(secure, simulated, atol=1e-8)
    assert np.allclose([grid, both], simulated, atol=1e-3)


def test_noise_on_a_grid_has_the_spread_that_is_counted() -> None:
    """X'Y at one party, 4,000 draws of 12 numbers: chi-squared, seeded, with a false-alarm rate of 1e-6."""
    given, algorithm = parties(), SufficientStatistics(SOFTMAX, noise="discrete")
    prepared = algorithm.prepare(given, np.random.default_rng(0))
    observer = Observed(prepared)
    prepared.release([BUDGET], np.random.default_rng(1), 4_000, observer)
    residuals = np.concatenate(observer.residuals)
    assert residuals.shape == (4_000, 12 + 3 + 3)
    assert np.abs(np.mean(residuals**2, axis=0) - 1).max() < 5.5 * math.sqrt(2 / 4_000)


def test_two_classes_an_unknown_number_and_too_many() -> None:
    """Two classes have the scores of the squared loss with labels of -1/2 and 1/2."""
    given = parties(K=2)
    W = released(SufficientStatistics(SOFTMAX), given).reshape(2, 3)
    signs = synthetic_parties("regression", given.X, given.y - 0.5, given.sizes)
    assert np.allclose(W, np.outer([-1, 1], released(SufficientStatistics(SQUARED), signs)), atol=1e-10)
    for unknown in (0, 1):  # as of two, for any number has the budget
        (guarantee,) = SufficientStatistics(SOFTMAX).guarantees(BUDGET, Problem(1, 10, 2, classes=unknown))
        assert 0.999 * BUDGET.eps < guarantee.eps <= BUDGET.eps
    many = SufficientStatistics(SOFTMAX, noise="discrete")
    with pytest.raises(UserError, match="takes at most 1,024 classes, not 2,000"):
        many.guarantees(BUDGET, Problem(1, 10, 2, classes=2_000))
