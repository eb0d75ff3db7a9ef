"""Bugs planted in noise on integers: each is seen in what is released."""

import numpy as np
import pytest
from dpml.algorithms.cape import CapeFM
from dpml.algorithms.clipped_descent import ClippedDescent
from dpml.algorithms.discrete_sums import DiscreteSums
from dpml.algorithms.functional_mechanism import FunctionalMechanism
from dpml.algorithms.preconditioned_descent import PreconditionedDescent
from dpml.algorithms.sufficient_statistics import SufficientStatistics
from planted import BUDGET, attacked, bugs, shared_seed

from dpml.algorithms import discrete_noise, discrete_statistics
from dpml.optim.losses import LOSSES
from dpml.privacy import Problem

LOGISTIC = LOSSES["logistic"]
STATISTICS = SufficientStatistics(LOGISTIC, noise="discrete")
REAL = SufficientStatistics(LOGISTIC, noise="discrete", protocol="secagg")
CURATOR = FunctionalMechanism(LOGISTIC, calibration="tight", noise="discrete")
SITES = CapeFM(LOGISTIC, calibration="tight", noise="discrete")
ROWS = ClippedDescent(LOGISTIC, noise="discrete", rounds=5)
PARTIES = ClippedDescent(LOGISTIC, noise="discrete", unit="party", rounds=5)
STAGES = PreconditionedDescent(LOGISTIC, noise="discrete", rounds=3)
PROBLEM, TWO = Problem(4, 40, 2, colluders=1), Problem(2, 40, 2)
BIG = Problem(4, 400, 2, colluders=1)  # statistics of few rows have so much noise that slopes are not clipped
FEW = 1000  # enough where nothing is hidden any more, or the pair itself shows more than is proven
SUMS = {"aggregate", "colluders"}

every = pytest.mark.parametrize(
    ("algorithm", "problem"),
    [(STATISTICS, PROBLEM), (REAL, PROBLEM), (ROWS, PROBLEM), (PARTIES, PROBLEM), (STAGES, BIG)],
    ids=["ssp", "secagg", "dpgd", "parties", "ssp_descent"],
)


@every
def test_without_a_bug_none_is_found_and_the_pair_is_nearly_the_worst(algorithm, problem) -> None:
    """False alarm: 1e-3 for a verdict of BUG, by its definition."""
    for found in attacked(algorithm, 1000, problem=problem).values():
        assert found.verdict != "BUG"
        assert found.power >= 0.7, found


@pytest.mark.parametrize(
    ("algorithm", "problem"),
    [
        (STATISTICS, PROBLEM),
        (CURATOR, PROBLEM),
        (SITES, PROBLEM),
        (ROWS, PROBLEM),
        pytest.param(PARTIES, PROBLEM, marks=pytest.mark.slow),
        pytest.param(STAGES, BIG, marks=pytest.mark.slow),
    ],
    ids=["ssp", "fm", "capefm", "dpgd", "parties", "ssp_descent"],
)
def test_with_enough_draws_what_is_proven_is_called_consistent(algorithm, problem) -> None:
    """Which it is only where the same audit calls half of the noise a bug: all but 1 of 10^6 audits do."""
    found = attacked(algorithm, 4000, problem=problem, self_test=True)
    assert {finding.verdict for finding in found.values()} == {"consistent"}


@pytest.mark.parametrize("algorithm", [STATISTICS, REAL, ROWS, PARTIES, ClippedDescent(LOGISTIC, rounds=5), STAGES])
def test_blocks_of_draws_have_noise_of_their_own(algorithm) -> None:
    """The same number of draws twice of one generator, as an audit of many draws asks for them."""
    for exposure in algorithm.exposures(algorithm.worst_case(BUDGET, PROBLEM), BUDGET):
        rng = np.random.default_rng(0)
        first, second = (exposure.sample(0, rng, 10) for _ in range(2))
        assert not np.isclose(first[:, 0], second[:, 0]).any()


@every
def test_a_quarter_of_the_variance(monkeypatch, algorithm, problem) -> None:
    right = discrete_noise.parts
    monkeypatch.setattr(discrete_noise, "parts", lambda v, *others: right([x / 4 for x in v], *others))
    assert bugs(algorithm, 2000, SUMS, problem) == SUMS


@pytest.mark.parametrize(("algorithm", "views"), [(CURATOR, {"release"}), (SITES, SUMS)])
def test_a_quarter_of_the_variance_at_one_curator_and_at_sites(monkeypatch, algorithm, views) -> None:
    right = discrete_noise.parts
    monkeypatch.setattr(discrete_noise, "parts", lambda v, *others: right([x / 4 for x in v], *others))
    assert bugs(algorithm, 2000, views, PROBLEM) == views


@pytest.mark.parametrize("algorithm", [STATISTICS, REAL, ROWS], ids=["ssp", "secagg", "dpgd"])
def test_one_party_of_two_adds_no_noise(monkeypatch, algorithm) -> None:
    right = discrete_noise.parts

    def silent(*arguments):
        drawn = right(*arguments)
        drawn[0] = 0
        return drawn

    monkeypatch.setattr(discrete_noise, "parts", silent)
    assert bugs(algorithm, 10_000, {"release", "aggregate"}, TWO) == {"release", "aggregate"}


@pytest.mark.parametrize("algorithm", [STATISTICS, REAL, ROWS], ids=["ssp", "secagg", "dpgd"])
def test_all_parties_with_the_same_random_bytes(monkeypatch, algorithm) -> None:
    """The colluder knows everybody's noise."""
    monkeypatch.setattr(discrete_noise, "parts", shared_seed(0, 1, 2, 3)(discrete_noise.parts))
    assert bugs(algorithm, FEW, {"colluders"}, PROBLEM)


def test_steps_that_are_taken_for_larger_ones(monkeypatch) -> None:
    """The integers are on a grid twice as fine as the one that the noise is made for."""
    right = DiscreteSums._of_rows
    monkeypatch.setattr(DiscreteSums, "_of_rows", lambda self, w, clip, Q: right(self, w, clip, 2 * Q))
    assert bugs(ROWS, FEW, {"aggregate"}, PROBLEM)


def test_statistics_of_rows_that_are_not_clipped(monkeypatch) -> None:
    right = discrete_statistics.to_integers
    monkeypatch.setattr(discrete_statistics, "to_integers", lambda X, bits, clip: 2 * right(X, bits, clip))
    assert bugs(STATISTICS, FEW, SUMS, PROBLEM) == SUMS
