"""How noise is shared among sites: what every view is counted, what it is said to see, and what is really drawn."""

import math

import numpy as np
import pytest
from scipy import stats

from dpml.algorithms.distributed_noise import MASK, CapeNoise, IndependentNoise, NoiseSharing, TrustedCurator
from dpml.privacy import Problem, gdp

SHARINGS = [CapeNoise(1.0), CapeNoise(3.0), CapeNoise(MASK), IndependentNoise(), TrustedCurator(("release", "client"))]
SITES = [1, 2, 3, 4, 7, 10]
each_sharing = pytest.mark.parametrize("sharing", SHARINGS, ids=str)


def problem_of(M: int) -> Problem:
    return Problem(M, 10 * M, 2)


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_the_mu_of_a_view_is_that_of_what_it_sees(sharing: NoiseSharing, M: int) -> None:
    """One unit of shift of one message in Gaussian noise of the stated covariance; the sum has variance 1."""
    for view, mu in sharing.views(problem_of(M)).items():
        seen = sharing.messages(view, problem_of(M))
        if seen is None:
            assert mu == 1
            continue
        shift = np.eye(len(seen.covariance))[seen.target]
        assert mu == pytest.approx(gdp.correlated(seen.covariance, shift), rel=1e-6)


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_messages_are_drawn_with_the_covariance_they_are_said_to_have(sharing: NoiseSharing, M: int) -> None:
    """Entries of a sample covariance of n Gaussians vary by at most 2 s_i^2 s_j^2 / n; five of them: 6e-7 each."""
    n, size = 3000, 3
    for view in sharing.views(problem_of(M)):
        seen = sharing.messages(view, problem_of(M))
        if seen is None:
            continue
        drawn = seen.draw(np.random.default_rng(M), n, size)
        assert drawn.shape == (n, len(seen.covariance), size)
        flat = drawn.transpose(0, 2, 1).reshape(n * size, -1)
        found = flat.T @ flat / (n * size)
        deviation = np.sqrt(np.diagonal(seen.covariance))
        error = np.abs(found - seen.covariance) / np.outer(deviation, deviation)
        assert error.max() < 5 * math.sqrt(2 / (n * size))
        # coordinates are independent
        across = drawn[:, :, 0].T @ drawn[:, :, 1] / n / np.outer(deviation, deviation)
        assert np.abs(across).max() < 5 / math.sqrt(n)


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_the_noise_of_the_sum_has_variance_one(sharing: NoiseSharing, M: int) -> None:
    """Kolmogorov-Smirnov, false alarm 1e-6 each, seeded."""
    total = sharing.total(np.random.default_rng(M), 3000, M, 3)
    assert total.shape == (3000, 3)
    assert stats.kstest(total.ravel(), "norm").pvalue > 1e-6
    assert np.abs(np.corrcoef(total.T) - np.eye(3)).max() < 5 / math.sqrt(3000)


@pytest.mark.parametrize("spread", [1.0, 3.0, MASK])
@pytest.mark.parametrize("M", SITES)
def test_all_messages_of_cape_add_up_to_the_sum_and_the_secrets(M: int, spread: float) -> None:
    """What a transcript shows is drawn by the code that releases: from one stream, its sum is the release's noise."""
    sharing = CapeNoise(spread)
    seen = sharing.messages("transcript", problem_of(M))
    assert seen is not None
    drawn = seen.draw(np.random.default_rng(5), 200, 4)
    total = sharing.total(np.random.default_rng(5), 200, M, 4)
    assert np.allclose(drawn[:, :-1].sum(axis=1) - drawn[:, -1], total, atol=1e-11 * spread)


@pytest.mark.parametrize("M", SITES)
def test_fewer_colluders_see_less_and_the_sum_least(M: int) -> None:
    for sharing in (CapeNoise(1.0), CapeNoise(MASK), IndependentNoise()):
        views = sharing.views(problem_of(M))
        assert views["release"] == views["aggregate"] == 1
        assert views["colluders"] >= views["transcript"] * (1 - 1e-12)
        assert views["colluders"] >= views["client"] * (1 - 1e-12)
    wide = CapeNoise(MASK).views(problem_of(M))
    honest = M - math.ceil(M / 3) + 1
    assert wide["colluders"] ** 2 == pytest.approx(M / honest, rel=2e-6)  # no zero-sum noise could do better
    if M > 1:
        assert wide["client"] < 2e-3
