"""Bugs planted in releases of sufficient statistics: an audit finds each, and accuses nobody else."""

import math

import numpy as np
import pytest
from dpml.algorithms.adaptive_statistics import AdaptiveStatistics, PreparedStatistics
from dpml.algorithms.coefficients import Scales, tight_scales
from dpml.algorithms.distributed_noise import SecureSumNoise
from dpml.algorithms.noisy_coefficients import PreparedQuadratic
from dpml.algorithms.sufficient_statistics import SufficientStatistics
from planted import ALL, BUDGET, PROBLEM, attacked, bugs, times, verdicts

from dpml.algorithms import noisy_coefficients
from dpml.optim.losses import LOSSES
from dpml.privacy import noise

SQUARED, LOGISTIC = LOSSES["squared"], LOSSES["logistic"]
PLAIN = 8_000  # half of the noise is missed in fewer than 1 of 10^6 audits
FEW = 2_000  # enough where nothing is hidden any more, or the pair itself shows more than is proven

ROWS = SufficientStatistics(SQUARED)
PARTY = SufficientStatistics(LOGISTIC, unit="party")
REAL = SufficientStatistics(SQUARED, protocol="secagg")
slow = pytest.mark.slow  # the same bug in code that is mostly the same
OTHERS = [pytest.param(PARTY, marks=slow, id="party"), pytest.param(REAL, marks=slow, id="secagg")]
each_ssp = pytest.mark.parametrize("algorithm", [pytest.param(ROWS, id="sample"), *OTHERS])
ADASSP = [AdaptiveStatistics(SQUARED), AdaptiveStatistics(SQUARED, calibration="tight")]
each_adassp = pytest.mark.parametrize("algorithm", ADASSP, ids=["published", "tight"])
SUMS = {"aggregate", "colluders"}


# ---- ssp


@pytest.mark.parametrize("algorithm", [ROWS, PARTY, REAL], ids=["sample", "party", "secagg"])
def test_half_of_the_noise_of_a_sum(monkeypatch, algorithm) -> None:
    monkeypatch.setattr(noise, "gaussian", times(0.5)(noise.gaussian))
    assert bugs(algorithm, PLAIN) == SUMS


@each_ssp
def test_a_party_without_noise_in_a_sum(monkeypatch, algorithm) -> None:
    """An honest one: a fifth of the variance is missing in the sum, and a quarter of what protects from colluders."""
    right = SecureSumNoise.parts

    def forget(self, rng, draws, M, size):
        drawn = right(self, rng, draws, M, size)
        drawn[-1] = 0
        return drawn

    monkeypatch.setattr(SecureSumNoise, "parts", forget)
    assert bugs(algorithm, 50_000, {"colluders"})


@each_ssp
def test_parties_with_the_seed_of_a_colluder(monkeypatch, algorithm) -> None:
    """The sum has more noise than it should. Who knows the noise of one knows all of it."""
    right = SecureSumNoise.parts

    def shared(self, rng, draws, M, size):
        drawn = right(self, rng, draws, M, size)
        drawn[1:] = drawn[:1]
        return drawn

    monkeypatch.setattr(SecureSumNoise, "parts", shared)
    assert bugs(algorithm, FEW) == {"colluders"}


@each_ssp
def test_noise_for_the_sensitivity_of_adding_a_row(monkeypatch, algorithm) -> None:
    """What one row contributes, not how far two are apart: in the noise and in the proof."""

    def one_row(quadratic, scales, d):
        return math.hypot(quadratic.linear_bound / scales.linear, quadratic.square / scales.square)

    def scales(quadratic, d, radius, mu):
        right = tight_scales(quadratic, d, radius, mu)
        factor = one_row(quadratic, right, d) / mu
        return Scales(math.inf, right.linear * factor, right.square * factor)

    monkeypatch.setattr(noisy_coefficients, "joint_sensitivity", one_row)
    monkeypatch.setattr(noisy_coefficients, "tight_scales", scales)
    assert bugs(algorithm, FEW) == SUMS


@each_ssp
@pytest.mark.parametrize("which", [1, 2])
def test_too_little_noise_on_one_statistic(monkeypatch, algorithm, which: int) -> None:
    right, factors = PreparedQuadratic.scales, np.where(np.arange(3) == which, 0.4, 1.0)
    monkeypatch.setattr(PreparedQuadratic, "scales", lambda self, budgets: right(self, budgets) * factors)
    assert bugs(algorithm, PLAIN) == SUMS


def test_parties_protected_as_if_they_were_rows(monkeypatch) -> None:
    """Noise over N where it is to be over M."""
    right = PreparedQuadratic.scales
    monkeypatch.setattr(
        PreparedQuadratic, "scales", lambda self, budgets: right(self, budgets) * self.count / self.problem.N
    )
    assert bugs(PARTY, FEW, ALL) == {"release", *SUMS}


def test_parties_that_send_sums_and_not_means(monkeypatch) -> None:
    """Parties of 2000 rows then move the sum by so much more; the pair itself shows it."""
    right = SufficientStatistics._summed
    monkeypatch.setattr(
        SufficientStatistics,
        "_summed",
        lambda self, parties, rows, weights: right(self, parties, rows, np.full_like(weights, 1 / PROBLEM.M)),
    )
    assert bugs(PARTY, FEW, ALL) == {"release", *SUMS}


# ---- adassp


@each_adassp
def test_half_of_the_noise_of_a_curator(monkeypatch, algorithm) -> None:
    monkeypatch.setattr(noise, "gaussian", times(0.5)(noise.gaussian))
    assert bugs(algorithm, PLAIN, ALL) == {"release"}


@each_adassp
def test_an_eigenvalue_without_noise(monkeypatch, algorithm) -> None:
    def exact(right):
        def draw(rng, shape):
            drawn = right(rng, shape)
            drawn[:, 0] = 0
            return drawn

        return draw

    monkeypatch.setattr(noise, "gaussian", exact(noise.gaussian))
    assert bugs(algorithm, FEW, ALL) == {"release"}


def test_an_eigenvalue_that_is_not_counted(monkeypatch) -> None:
    """The pair itself shows more than X'X and X'y alone could."""
    monkeypatch.setattr(AdaptiveStatistics, "joint", lambda self, d: Scales(math.inf, 2.0, 1.0))
    assert bugs(ADASSP[1], FEW, ALL) == {"release"}


def test_one_noise_for_all_statistics(monkeypatch) -> None:
    """The numbers of one draw are the same: the differences of statistics have no noise."""

    def same(rng, shape):
        return np.repeat(rng.standard_normal((shape[0], 1)), shape[1], axis=1)

    monkeypatch.setattr(noise, "gaussian", same)
    assert bugs(ADASSP[1], FEW, ALL) == {"release"}


# ---- and nobody else is accused


@slow
@pytest.mark.parametrize("algorithm", [ROWS, PARTY, REAL, *ADASSP], ids=lambda a: f"{a.name}-{a.calibration}")
def test_statistics_that_are_right_are_no_bug_in_a_whole_audit(algorithm) -> None:
    """With a search for worse neighbours."""
    assert "BUG" not in verdicts(algorithm, 5_000, 2).values()


@pytest.mark.parametrize("algorithm", [ROWS, PARTY, REAL, *ADASSP], ids=lambda a: f"{a.name}-{a.calibration}")
def test_the_pairs_show_all_that_is_proven(algorithm) -> None:
    found = attacked(algorithm, FEW if algorithm is REAL else PLAIN, self_test=True)
    assert {finding.verdict for finding in found.values()} == {"consistent"}


def test_who_watches_a_curator_changes_no_bit() -> None:
    class Deaf:
        def drawn(self, parts) -> None: ...
        def sent(self, message, exact) -> None: ...

    for algorithm in ADASSP:
        prepared = algorithm.prepare(algorithm.worst_case(BUDGET, PROBLEM)[0], np.random.default_rng(0))
        assert isinstance(prepared, PreparedStatistics)
        first, second = np.random.default_rng(3), np.random.default_rng(3)
        alone = prepared.noisy(np.array([2.0]), first, 50)
        watched = prepared.noisy(np.array([2.0]), second, 50, Deaf())
        assert all(np.array_equal(a, b) for a, b in zip(alone, watched, strict=True))
        assert first.random() == second.random()
