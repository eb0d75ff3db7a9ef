"""How noise is shared among sites: what every view is counted, what it is said to see, and what is really drawn."""

import math

import numpy as np
import pytest
from scipy import stats

from dpml.algorithms.distributed_noise import MASK, CapeNoise, IndependentNoise, NoiseSharing, TrustedCurator
from dpml.privacy import Problem, gdp, noise

SHARINGS = [CapeNoise(1.0), CapeNoise(3.0), CapeNoise(MASK), IndependentNoise(), TrustedCurator(("release", "client"))]
SITES = [1, 2, 3, 4, 7, 10]
each_sharing = pytest.mark.parametrize("sharing", SHARINGS, ids=str)


def problem_of(M: int) -> Problem:
    return Problem(M, 10 * M, 2)


class Heard:
    """A watch that keeps the noise of every source."""

    parts: np.ndarray

    def drawn(self, parts) -> None:
        self.parts = parts

    def sent(self, message, exact) -> None:
        raise AssertionError("noise is no message")


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_the_mu_of_a_view_is_that_of_what_it_sees(sharing: NoiseSharing, M: int) -> None:
    """One unit of shift of one message in Gaussian noise of the stated covariance; the sum has variance 1."""
    for view, mu in sharing.views(problem_of(M)).items():
        seen = sharing.channel(view, problem_of(M)).covariance
        assert mu == pytest.approx(gdp.correlated(seen, np.eye(len(seen))[0]), rel=1e-6)


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_what_is_seen_is_drawn_with_the_covariance_it_is_said_to_have(sharing: NoiseSharing, M: int) -> None:
    """Entries of a sample covariance of n Gaussians vary by at most 2 s_i^2 s_j^2 / n; five of them: 6e-7 each."""
    n, size = 3000, 3
    watch = Heard()
    sharing.total(np.random.default_rng(M), n, M, size, watch)
    for view in sharing.views(problem_of(M)):
        channel = sharing.channel(view, problem_of(M))
        drawn = np.einsum("ms,snk->nmk", channel.noise, watch.parts)
        flat = drawn.transpose(0, 2, 1).reshape(n * size, -1)
        found = flat.T @ flat / (n * size)
        deviation = np.sqrt(np.diagonal(channel.covariance))
        error = np.abs(found - channel.covariance) / np.outer(deviation, deviation)
        assert error.max() < 5 * math.sqrt(2 / (n * size))
        # coordinates are independent
        across = drawn[:, :, 0].T @ drawn[:, :, 1] / n / np.outer(deviation, deviation)
        assert np.abs(across).max() < 5 / math.sqrt(n)


@each_sharing
@pytest.mark.parametrize("block", [1 << 22, 1 << 9])
def test_who_listens_changes_no_bit_and_hears_all_of_the_noise(monkeypatch, sharing: NoiseSharing, block: int) -> None:
    monkeypatch.setattr(noise, "_BLOCK", block)
    watch = Heard()
    total = sharing.total(np.random.default_rng(2), 50, 4, 7)
    assert np.array_equal(total, sharing.total(np.random.default_rng(2), 50, 4, 7, watch))
    adds_up = np.tensordot(sharing.channel("release", problem_of(4)).total, watch.parts, axes=1)
    assert np.allclose(adds_up, total, rtol=0, atol=1e-15 * getattr(sharing, "spread", 1.0) * 100)


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
    """With the broadcast mean put back, all messages are the sum and the secrets: nothing is hidden from who knows."""
    sharing, watch = CapeNoise(spread), Heard()
    total = sharing.total(np.random.default_rng(5), 200, M, 4, watch)
    drawn = np.tensordot(sharing.channel("transcript", problem_of(M)).noise, watch.parts, axes=1)
    assert np.allclose(drawn[:-1].sum(axis=0) - drawn[-1], total, atol=1e-11 * spread)


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
