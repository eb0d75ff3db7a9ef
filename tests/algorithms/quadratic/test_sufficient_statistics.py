"""`ssp` and `ssp_descent`: sensitivities by search, noise as drawn, what parties send, rounds, several classes."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant
from examples import (
    LOGISTIC,
    SOFTMAX,
    SQUARED,
    ball,
    clipped_slope,
    labelled_parties,
    noisy_coefficients,
    release_of,
    some_parties,
)
from scipy.optimize import minimize

from dpml.algorithms.defaults import SPECTRAL_FLOOR
from dpml.algorithms.quadratic.sufficient_statistics import PreconditionedDescent, SufficientStatistics
from dpml.audit.neighbours import synthetic_parties
from dpml.data.partition import Fractions, Parties
from dpml.errors import UserError
from dpml.optim.losses import Loss, codes
from dpml.privacy import Budget, Problem

BUDGET, NONE = Budget(1.0, 1e-5), Budget(math.inf)


def test_a_whole_party_moves_the_sum_of_means_no_farther_than_one_row() -> None:
    """Pairs of parties of many rows, in units of the noise of M times the sum; parties of equal rows reach it."""
    algorithm, problem = SufficientStatistics(SQUARED, unit="party"), Problem(5, 500, 2)
    (mu, *_) = (g.mu for g in algorithm.guarantees(BUDGET, problem) if g.view == "release")
    on_linear, on_square, _ = algorithm.messages(BUDGET, problem)[0].units
    on_linear /= 2  # L1 is -2 X'y
    rng, farthest = np.random.default_rng(1), 0.0
    for n in (1, 2, 7, 40):
        for _ in range(500):
            means = []
            for _ in (0, 1):
                X, y = ball(rng, n, 2), rng.choice([-1.0, 1.0], n) * rng.choice([1.0, rng.random()], n)
                if rng.random() < 0.7:  # as far as a hull reaches
                    x = rng.standard_normal(2)
                    X, y = np.repeat(x[None] / np.linalg.norm(x), n, axis=0), np.full(n, rng.choice([-1.0, 1.0]))
                means.append((X.T @ X / n, y @ X / n))
            (square, linear), (other, toward) = means
            moved = np.sum((square - other) ** 2) / on_square**2 + np.sum((linear - toward) ** 2) / on_linear**2
            farthest = max(farthest, math.sqrt(moved))
    assert 0.95 * mu < farthest <= mu * (1 + 1e-9)


of_classes = partial(labelled_parties, M=3, rule=Fractions(fractions=(0.1, 0.25, 0.65)))


def released(algorithm: SufficientStatistics, given: Parties) -> np.ndarray:
    return release_of(algorithm, given, [NONE]).weights[0].reshape(-1, given.problem.d)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC, SOFTMAX], ids=lambda loss: loss.name)
@pytest.mark.parametrize("unit", ["sample", "party"])
@pytest.mark.parametrize("options", [{}, {"lam": 0.3}])
def test_without_noise_it_is_least_squares(loss: Loss, unit: str, options) -> None:
    """Of labels, of twice the signs, or of centred codes: the gradient vanishes."""
    given = of_classes(4) if loss is SOFTMAX else some_parties(loss)
    targets = codes(given.y, 4) if loss is SOFTMAX else given.y[:, None] * (1 if loss is SQUARED else 2)
    shares = np.repeat(1 / given.sizes / len(given.sizes), given.sizes) if unit == "party" else 1 / len(given.y)
    W = released(SufficientStatistics(loss, unit=unit, **options), given)
    slopes = (0.25 if loss is LOGISTIC else 2) * (W @ given.X.T - targets.T)
    assert np.abs((slopes * shares) @ given.X + options.get("lam", 0) * W).max() < 1e-10


@pytest.mark.parametrize(("K", "d"), [(2, 2), (3, 1), (10, 3)])
def test_no_two_rows_are_farther_apart_than_is_counted(K: int, d: int) -> None:
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


def test_two_classes_an_unknown_number_and_too_many() -> None:
    """Two classes have the scores of the squared loss with labels of -1/2 and 1/2."""
    given = of_classes(2)
    W = released(SufficientStatistics(SOFTMAX), given)
    signs = synthetic_parties("regression", given.X, given.y - 0.5, given.sizes)
    assert np.allclose(W, np.outer([-1, 1], released(SufficientStatistics(SQUARED), signs)), atol=1e-10)
    for unknown in (0, 1):  # as of two, for any number has the budget
        (guarantee,) = SufficientStatistics(SOFTMAX).guarantees(BUDGET, Problem(1, 10, 2, classes=unknown))
        assert 0.999 * BUDGET.eps < guarantee.eps <= BUDGET.eps
    with pytest.raises(UserError):
        SufficientStatistics(SOFTMAX, noise="discrete").guarantees(BUDGET, Problem(1, 10, 2, classes=2_000))


def test_the_stages_against_another_accountant() -> None:
    """A pair's own distances in either stage: X'y and X'X by the statistics' scales, 2 clips in every sum."""
    problem = Problem(1, 500, 3)
    algorithm = PreconditionedDescent(LOGISTIC)
    statistics, rounds = algorithm.messages(BUDGET, problem)
    on_linear, on_square, _ = statistics.units
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(5_000):  # rows of norm 1, labels apart or not
        x, other = (v / np.linalg.norm(v) for v in rng.standard_normal((2, 2)))
        y, z = rng.choice([-1.0, 1.0], 2)
        linear = np.linalg.norm((y * x - z * other) / 2) / on_linear
        square = np.linalg.norm((np.outer(x, x) - np.outer(other, other)) / 8) / on_square
        most = max(most, math.hypot(linear, square))
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4)
    accountant.compose(GaussianDpEvent(1 / most))
    accountant.compose(GaussianDpEvent(rounds.noise / 2), rounds.times)
    assert 0.97 <= accountant.get_epsilon(1e-5) <= 1.002


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)
def test_a_release_in_rounds_is_the_plain_loop(loss) -> None:
    """The statistics' noise is read off the release with the same seed; the rounds are written out."""
    parties, lam = some_parties(loss, M=1, d=4), 0.1
    algorithm = PreconditionedDescent(loss, rounds=4, lam=lam)
    prepared = algorithm.prepare(parties, np.random.default_rng(0))
    weights = prepared.release([BUDGET], np.random.default_rng(7), 3).weights
    rng = np.random.default_rng(7)
    _, b, A = noisy_coefficients(prepared, [BUDGET], rng, 3)
    N = len(parties.y)
    b, A = b / N, A / N + lam / 2 * np.eye(4)
    floor = SPECTRAL_FLOOR * math.sqrt(2 * 4) * algorithm.messages(BUDGET, parties.problem)[0].units[1] / N
    schedule = algorithm.schedule(BUDGET, parties.problem)
    noises = [rng.standard_normal((3, 4)) for _ in range(4)]
    for draw in range(3):
        values, vectors = np.linalg.eigh(A[0, draw])
        hessian = 2 * (vectors * np.maximum(values, floor)) @ vectors.T
        w, models = np.linalg.solve(hessian, -b[0, draw]), []
        for z in noises:
            rows = zip(parties.X, parties.y, strict=True)
            total = sum(clipped_slope(loss, x @ w, y, schedule.clip) * x for x, y in rows)
            mean = (total + schedule.clip * schedule.noise * z[draw]) / N
            w = w - np.linalg.solve(hessian, mean + lam * w)
            models.append(w)
        np.testing.assert_allclose(weights[0, draw], np.mean(models[2:], axis=0), rtol=2e-3, atol=1e-3)
