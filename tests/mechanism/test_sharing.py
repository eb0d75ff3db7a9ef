"""How noise is shared among sites: what every view is counted, what it is said to see, and what is really drawn."""

import math

import numpy as np
import pytest
from scipy import stats

from dpml.algorithms.descent.layouts import ClientNoise
from dpml.mechanism.sharing import MASK, CapeNoise, IndependentNoise, SecureSumNoise, Sharing, TrustedCurator
from dpml.privacy import Problem, gdp

SHARINGS = [
    *(CapeNoise(spread) for spread in (1.0, 3.0, MASK)), IndependentNoise(), SecureSumNoise(),
    TrustedCurator(("release", "client")),
]  # fmt: skip
SITES = [1, 2, 3, 4, 7, 10]
each_sharing = pytest.mark.parametrize("sharing", SHARINGS, ids=str)


def problem_of(M: int) -> Problem:
    return Problem(M, 10 * M, 2)


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_the_mu_of_a_view_is_that_of_what_it_sees(sharing: Sharing, M: int) -> None:
    """One unit of shift of the first number in Gaussian noise of the stated covariance; the sum has variance 1."""
    for view, mu in sharing.views(problem_of(M)).items():
        channel = sharing.channel(view, problem_of(M))
        assert mu == pytest.approx(gdp.correlated(channel.covariance, np.eye(len(channel.covariance))[0]), rel=1e-6)
        assert mu == pytest.approx(1 / channel.spread, rel=1e-9)


@pytest.mark.parametrize("M", [2, 5, 40])
@pytest.mark.parametrize("spread", [1.0, MASK])
def test_what_is_seen_of_cape_is_what_the_docs_say(M: int, spread: float) -> None:
    """The closed form against every number that colluders see, as it is sent; orthonormalised, with no covariance."""
    for colluders in {0, 1, M - 1}:
        problem = Problem(M, 10 * M, 2, colluders=colluders)
        ehat, g = np.split(np.eye(2 * M), 2)
        sent = ehat - ehat.mean(axis=0) + g
        known = np.vstack([sent[:-1], ehat.sum(axis=0), ehat[:colluders], g[:colluders]])
        deviations = np.repeat([spread, 1 / math.sqrt(M)], M)
        left, *_ = np.linalg.lstsq((known * deviations).T, sent[-1] * deviations, rcond=1e-13)
        noise_left = sent[-1] * deviations - (known * deviations).T @ left
        mu = CapeNoise(spread).views(problem)["colluders"]
        assert mu == pytest.approx(1 / np.linalg.norm(noise_left), rel=1e-8)
        assert mu == pytest.approx(1 / CapeNoise(spread).channel("colluders", problem).spread, rel=1e-12)


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_sources_have_the_covariance_that_views_are_counted_with(sharing: Sharing, M: int) -> None:
    """Entries of a sample covariance of n Gaussians vary by at most 2 s_i^2 s_j^2 / n; five of them: 6e-7 each."""
    n, size = 3000, 3
    parts = sharing.parts(np.random.default_rng(M), n, M, size)
    for view in sharing.views(problem_of(M)):
        channel = sharing.channel(view, problem_of(M))
        drawn = np.tensordot(channel.noise, parts, axes=1)
        assert drawn.shape == (len(channel.covariance), n, size)
        flat = drawn.reshape(len(drawn), n * size)
        found = flat @ flat.T / (n * size)
        deviation = np.sqrt(np.diagonal(channel.covariance))
        error = np.abs(found - channel.covariance) / np.outer(deviation, deviation)
        assert error.max() < 5 * math.sqrt(2 / (n * size))
        # coordinates are independent
        across = drawn[:, :, 0] @ drawn[:, :, 1].T / n / np.outer(deviation, deviation)
        assert np.abs(across).max() < 5 / math.sqrt(n)


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_the_sum_that_is_drawn_at_once_has_the_law_of_the_sources_sum(sharing: Sharing, M: int) -> None:
    """Two-sample Kolmogorov-Smirnov of n numbers each, and their covariances; false alarm 1e-6 each, seeded."""
    n, size = 3000, 3
    at_once = sharing.total(np.random.default_rng(M), n, M, size)
    parts = sharing.parts(np.random.default_rng(100 + M), n, M, size)
    total = parts[:M].sum(axis=0)
    for view in sharing.views(problem_of(M)):
        channel = sharing.channel(view, problem_of(M))
        assert parts.shape == (len(channel.total), n, size)
        assert np.allclose(np.tensordot(channel.total, parts, axes=1), total, atol=1e-11 * MASK)
    assert stats.kstest(at_once.ravel(), "norm").pvalue > 1e-6
    assert stats.ks_2samp(at_once.ravel(), total.ravel()).pvalue > 1e-6
    for drawn in (at_once, total):
        assert np.abs(drawn.mean(axis=0)).max() < 5.2 / math.sqrt(n)
        assert np.abs(drawn.T @ drawn / n - np.eye(size)).max() < 5.2 * math.sqrt(2 / n)


@pytest.mark.parametrize("weights", [(1.0,), (0.6, 0.8), (0.1, 0.3, math.sqrt(0.9))], ids=len)
@pytest.mark.parametrize("law", ["gaussian", "single_gaussian"])
def test_the_sum_of_unequal_clients_noise_has_the_law_of_noise_drawn_at_once(weights, law) -> None:
    """Two-sample Kolmogorov-Smirnov, false alarm 1e-6, seeded."""
    sharing, M = ClientNoise(weights, True), len(weights)
    at_once = sharing.total(np.random.default_rng(1), 3000, M, 3, law)
    parts = sharing.parts(np.random.default_rng(2), 3000, M, 3, law)
    total = parts.sum(axis=0)
    assert at_once.dtype == total.dtype == parts.dtype
    assert stats.ks_2samp(at_once.ravel(), total.ravel()).pvalue > 1e-6
    assert stats.kstest(at_once.ravel().astype(float), "norm").pvalue > 1e-6
