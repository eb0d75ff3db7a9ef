"""Bugs planted in `dpgd` and `ssp_descent`: each is seen in the rounds."""

from dataclasses import replace

import numpy as np
import pytest
from dpml.algorithms.clipped_descent import ClippedDescent
from dpml.algorithms.clipped_sums import PartySums, RowSums
from dpml.algorithms.distributed_noise import SecureSumNoise
from dpml.algorithms.noisy_coefficients import PreparedQuadratic
from dpml.algorithms.preconditioned_descent import PreconditionedDescent
from planted import BUDGET, attacked, bugs, shared_seed, times

from dpml.algorithms import preconditioned_descent
from dpml.optim.losses import LOSSES
from dpml.optim.party_gradients import PartyGradients
from dpml.privacy import Problem, noise

LOGISTIC, SQUARED = LOSSES["logistic"], LOSSES["squared"]
ROWS = ClippedDescent(LOGISTIC, rounds=10)
PARTIES = ClippedDescent(LOGISTIC, unit="party", rounds=10)
STAGES = PreconditionedDescent(LOGISTIC, rounds=5)
PROBLEM, MANY = Problem(5, 100, 2), Problem(40, 80, 2)
BIG = Problem(5, 5000, 2)  # statistics of few rows have so much noise that slopes are not clipped
DRAWS = 3000  # half of the noise is missed in 1 of 4000 audits of parties, else in none
FEW = 1000  # enough where nothing is hidden any more, or the pair itself shows more than is proven
SUMS = {"aggregate", "colluders"}


@pytest.mark.parametrize(
    ("algorithm", "problem"),
    [
        (ROWS, PROBLEM),
        (ClippedDescent(SQUARED, rounds=10), PROBLEM),
        (PARTIES, MANY),
        (STAGES, BIG),
        pytest.param(
            PreconditionedDescent(LOGISTIC, unit="party", rounds=5),
            Problem(600, 600, 2, colluders=2),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_without_a_bug_none_is_found_and_the_pair_is_nearly_the_worst(algorithm, problem) -> None:
    for found in attacked(algorithm, DRAWS, problem=problem).values():
        assert found.verdict != "BUG"
        assert found.power >= 0.8, found


def test_slopes_that_are_not_clipped(monkeypatch) -> None:
    right = RowSums.rows
    monkeypatch.setattr(RowSums, "rows", lambda self, clip, *dtype: right(self, 2 * clip, *dtype))
    assert bugs(ROWS, FEW, {"aggregate"}, PROBLEM)


@pytest.mark.parametrize(("algorithm", "problem"), [(ROWS, PROBLEM), (PARTIES, MANY), (STAGES, BIG)])
def test_half_of_the_noise(monkeypatch, algorithm, problem) -> None:
    monkeypatch.setattr(noise, "gaussian", times(0.5)(noise.gaussian))
    assert bugs(algorithm, DRAWS, SUMS, problem) == SUMS


@pytest.mark.parametrize(("algorithm", "problem"), [(ROWS, PROBLEM), (PARTIES, MANY)])
def test_all_parties_with_the_same_seed(monkeypatch, algorithm, problem) -> None:
    """The colluders know everybody's noise."""
    parts = SecureSumNoise.parts

    def same(self, rng, draws, M, size):
        return shared_seed(*range(M))(lambda: parts(self, rng, draws, M, size))()

    monkeypatch.setattr(SecureSumNoise, "parts", same)
    assert bugs(algorithm, FEW, {"colluders"}, problem)


def test_statistics_without_noise(monkeypatch) -> None:
    right = PreparedQuadratic.noisy
    monkeypatch.setattr(PreparedQuadratic, "noisy", lambda self, scales, *rest: right(self, scales * 0.05, *rest))
    assert bugs(STAGES, FEW, SUMS, BIG) == SUMS


def test_a_share_that_is_spent_twice(monkeypatch) -> None:
    monkeypatch.setattr(preconditioned_descent.FirstStage, "mu", preconditioned_descent.SufficientStatistics.mu)
    right = PreconditionedDescent.guarantees
    claimed = right(STAGES, BUDGET, PROBLEM)
    assert max(g.eps for g in claimed) > 1.1  # what is drawn is what is counted: the table would say so


def test_a_party_whose_gradient_is_not_clipped(monkeypatch) -> None:
    right = PartyGradients.clipped_sums
    monkeypatch.setattr(PartyGradients, "clipped_sums", lambda self, w, clip: right(self, w, clip * 10))
    assert bugs(PARTIES, FEW, {"aggregate"}, MANY)


def test_counts_without_noise(monkeypatch) -> None:
    right = PartySums.noisy

    def exact(self, w, clip, widths, *rest):
        return right(self, w, clip, replace(widths, counts=0.01 * widths.counts), *rest)

    monkeypatch.setattr(PartySums, "noisy", exact)
    assert bugs(PARTIES, FEW, {"aggregate"}, MANY)


def test_the_same_noise_in_every_round(monkeypatch) -> None:
    total, seeds = SecureSumNoise.total, {}

    def once(self, rng, draws, M, size, watch=None):
        seed = seeds.setdefault((id(rng), size), int(rng.integers(2**62)))
        return total(self, type(rng)(np.random.PCG64(seed)), draws, M, size, watch)

    monkeypatch.setattr(SecureSumNoise, "total", once)
    assert bugs(ROWS, FEW, SUMS, PROBLEM) == SUMS
