"""`ssp`: its sensitivity by search, its noise as drawn, what its parties send, and its limits."""

import math

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, ball, fm, release_of, some_parties
from scipy import stats
from scipy.optimize import minimize

from dpml import protocols
from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Problem

BUDGET, NONE = Budget(1.0, 1e-5), Budget(math.inf)
UNITS = "sample", "party"
each_unit = pytest.mark.parametrize("unit", UNITS)
each_loss = pytest.mark.parametrize("loss", [SQUARED, LOGISTIC], ids=["squared", "logistic"])


def statistics_noise(algorithm: SufficientStatistics, problem: Problem) -> tuple[float, float]:
    """The noise on the diagonal of (count times) X'X, and on X'y."""
    (message,), q = algorithm.messages(BUDGET, problem), algorithm.loss.quadratic
    linear, square, _ = message.units
    return square / q.square, linear / q.linear_bound


# ---- the sensitivity


def far_apart(algorithm: SufficientStatistics, problem: Problem, starts: int = 16) -> float:
    """The farthest that two rows' (X'X, X'y) are apart, in units of their noise, by multi-start ascent."""
    d, rng = problem.d, np.random.default_rng(0)
    on_square, on_linear = statistics_noise(algorithm, problem)

    def distance(v: np.ndarray) -> float:
        x, z = (row / max(1.0, np.linalg.norm(row)) for row in (v[:d], v[d : 2 * d]))
        square, linear = np.outer(x, x) - np.outer(z, z), np.tanh(v[-2]) * x - np.tanh(v[-1]) * z
        return float(np.sum(square**2) / on_square**2 + np.sum(linear**2) / on_linear**2)

    begin = (rng.standard_normal(2 * d + 2) * 2 for _ in range(starts))
    return math.sqrt(max(-minimize(lambda v: -distance(v), start, method="L-BFGS-B").fun for start in begin))


@each_loss
@pytest.mark.parametrize("d", [2, 4])
def test_mu_is_how_far_two_rows_are_apart(loss: Loss, d: int) -> None:
    """By search, and in closed form: mu^2 = (2 r + 2 + r^2/2)/s^2, with noise s on X'X and s/sqrt r on X'y."""
    algorithm, problem = SufficientStatistics(loss), Problem(1, 100, d)
    (mu,) = {g.mu for g in algorithm.guarantees(BUDGET, problem)}
    on_square, on_linear = statistics_noise(algorithm, problem)
    r = (on_square / on_linear) ** 2
    assert 0 < r < 2
    assert mu == pytest.approx(math.sqrt(2 * r + 2 + r * r / 2) / on_square, rel=1e-9)
    found = far_apart(algorithm, problem)
    assert found <= mu * (1 + 1e-6)
    assert found == pytest.approx(mu, rel=2e-3)


@pytest.mark.slow
def test_a_whole_party_moves_the_sum_of_means_no_farther_than_one_row() -> None:
    """Pairs of parties of many rows, in units of the noise of M times the sum; parties of equal rows reach it."""
    algorithm, problem = SufficientStatistics(SQUARED, unit="party"), Problem(5, 500, 2)
    (mu, *_) = (g.mu for g in algorithm.guarantees(BUDGET, problem) if g.view == "release")
    on_square, on_linear = statistics_noise(algorithm, problem)
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


# ---- the noise


@each_unit
def test_parties_send_their_statistics_and_nothing_else(monkeypatch, unit: str) -> None:
    """d + d (d + 1)/2 numbers each, per budget and draw; noise of 1/M of the variance; the sum is that of all rows."""
    given, sent = some_parties(LOGISTIC), []
    secure_sum = protocols.secure_sum

    def spy(vectors, bound, rng, *rest, **options):
        assert np.abs(vectors).max() < bound
        sent.append(vectors.copy())
        return secure_sum(vectors, bound, rng, *rest, **options)

    monkeypatch.setattr(protocols, "secure_sum", spy)
    algorithm = SufficientStatistics(LOGISTIC, unit=unit, protocol="secagg")
    prepared = algorithm.prepare(given, np.random.default_rng(0))
    exact = prepared.release([NONE], np.random.default_rng(1), 1).weights
    assert np.allclose(exact, release_of(SufficientStatistics(LOGISTIC, unit=unit), given, [NONE]).weights, atol=1e-9)
    assert sent[0].shape == (4, 3 + 6)
    i, j = [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]
    for k in range(4):
        X, y = given.X[given.of(k)], given.y[given.of(k)]
        of_party = np.concatenate([-y @ X / 2, (X.T @ X)[i, j] / 8])
        assert np.allclose(sent[0][k], of_party / (1 if unit == "sample" else len(y)), atol=1e-13)
    (message,) = algorithm.messages(BUDGET, given.problem)
    terms = prepared.terms(message.of)
    assert np.allclose(terms.each(), sent[0], atol=1e-13)
    assert np.allclose(terms.total(), sent[0].sum(axis=0), atol=1e-12)
    prepared.release([BUDGET, Budget(0.1, 1e-5)], np.random.default_rng(1), 300)
    noises = sent[1].reshape(4, 2, 300, 9) - sent[0][:, None, None]
    own = noises[:, 0, :, :3] / message.units[0] * 2  # of four parties: half of the sum's deviation
    for k in range(4):
        assert 5e-7 < stats.chi2.cdf(np.sum(own[k] ** 2), 900) < 1 - 5e-7


# ---- the model


@each_loss
def test_without_noise_it_is_least_squares(loss: Loss) -> None:
    """Logistic: twice as long. However many parties there are, and with all of their means if parties are the unit."""
    for M in (1, 4):
        given = some_parties(loss, M)
        (w,) = release_of(SufficientStatistics(loss), given, [NONE], 3, seed=0).weights
        expected = np.linalg.lstsq(given.X, given.y, rcond=None)[0] * (1 if loss is SQUARED else 2)
        assert w.shape == (3, 3)
        assert np.allclose(w, expected, atol=1e-10)
    root = np.sqrt(np.repeat(1 / given.sizes, given.sizes))
    expected = np.linalg.lstsq(root[:, None] * given.X, root * given.y, rcond=None)[0] * (1 if loss is SQUARED else 2)
    assert np.allclose(
        release_of(SufficientStatistics(loss, unit="party"), given, [NONE], 1, seed=0).weights, expected, atol=1e-10
    )


def test_lam_is_part_of_the_objective() -> None:
    given = some_parties(SQUARED)
    w = release_of(SufficientStatistics(SQUARED, lam=0.7), given, [NONE], 1, seed=0).weights[0, 0]
    gradient = 2 * given.X.T @ (given.X @ w - given.y) / 200 + 0.7 * w
    assert np.abs(gradient).max() < 1e-10


def test_one_party_has_the_noise_of_a_trusted_curator() -> None:
    """`ssp` with M = 1 and `fm`, tight, are the same mechanism: from one stream, the same models."""
    given, budgets = some_parties(LOGISTIC, M=1), [BUDGET, Budget(0.1, 1e-5)]
    releases = [
        release_of(algorithm, given, budgets, 50, seed=2).weights
        for algorithm in (SufficientStatistics(LOGISTIC), fm(LOGISTIC, calibration="tight"))
    ]
    assert np.allclose(*releases, rtol=1e-9)
