"""Statistics first, then preconditioned rounds: both stages' noise and privacy, and the rounds against plain loops."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant
from examples import LOGISTIC, SQUARED, noisy_coefficients, some_parties
from test_clipped import slope_of

from dpml.algorithms.defaults import SPECTRAL_FLOOR
from dpml.algorithms.quadratic.sufficient_statistics import PreconditionedDescent
from dpml.privacy import Budget, Problem

BUDGET, FREE = Budget(1.0, 1e-5), Budget(math.inf, 1e-5)


@pytest.mark.slow
def test_the_stages_against_another_accountant() -> None:
    """A pair's own distances in either stage: X'y and X'X by the statistics' scales, 2 clips in every sum."""
    problem = Problem(1, 500, 3)
    algorithm = PreconditionedDescent(LOGISTIC)
    statistics, rounds = algorithm.messages(BUDGET, problem)
    on_linear, on_square, _ = statistics.units
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(20_000):  # rows of norm 1, labels apart or not
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
def test_a_release_is_the_plain_loop(loss) -> None:
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
            total = sum(slope_of(loss, x @ w, y, schedule.clip) * x for x, y in rows)
            mean = (total + schedule.clip * schedule.noise * z[draw]) / N
            w = w - np.linalg.solve(hessian, mean + lam * w)
            models.append(w)
        np.testing.assert_allclose(weights[0, draw], np.mean(models[2:], axis=0), rtol=2e-3, atol=1e-3)
