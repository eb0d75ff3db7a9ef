"""CAPE on secure aggregation: the noise that is left, drop-outs, and messages. Laws: false-alarm rate 1e-6, seeded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpml.mechanism.sharing import MASK
from dpml.privacy import noise
from dpml.protocols import FixedPoint, Stage
from dpml.protocols.cape import Cape, cape_sum, codec_of

WIDE = 20_000  # independent coordinates: as many samples of the noise


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def of_variance(sample: np.ndarray, variance: float) -> bool:
    """Two-sided chi-squared test of mean-zero Gaussians; false-alarm rate 1e-6."""
    below = stats.chi2.cdf(np.sum(sample**2) / variance, sample.size)
    return 5e-7 < below < 1 - 5e-7


def cape(shares: np.ndarray, scales: np.ndarray, seed: int = 0, draws: int = 1, spread: float = 1.0, **others) -> Cape:
    drawn = noise.cape_parties(rng(seed), draws, *shares.shape)
    return cape_sum(shares, scales, drawn, spread, rng(seed + 1000), **others)


def left_by(parties: int, scale: float, seed: int) -> np.ndarray:
    return cape(np.zeros((parties, WIDE)), np.full((1, WIDE), scale), seed).total[0, 0]


@pytest.mark.parametrize("parties", [2, 5, 30])
def test_lemma_1_the_noise_that_is_left_is_the_pooled_one(parties: int) -> None:
    scale = 0.7
    left = left_by(parties, scale, 0)
    assert of_variance(left, scale**2)
    assert stats.kstest(left / scale, "norm").pvalue > 1e-6


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_zero_sum_noise_sums_to_zero_over_whoever_survives(data: st.DataObject) -> None:
    parties, d, spread = 6, 3, data.draw(st.sampled_from([1.0, 1000.0]))
    silent = data.draw(st.dictionaries(st.integers(0, 5), st.sampled_from(list(Stage)), max_size=2))
    scales = np.array([[1.0, 2.0, 0.0], [0.1, 0.0, 3.0]])
    shares = rng(1).normal(size=(parties, d))
    found = cape(shares, scales, 2, 4, spread, dropouts=silent)
    assert found.survivors.tolist() == [k for k in range(parties) if silent.get(k, Stage.DONE) > Stage.MASKED]
    _, g = noise.cape_parties(rng(2), 4, parties, d)
    own = g.transpose(1, 0, 2)[found.survivors] / np.sqrt(parties)
    exact = shares[found.survivors][:, None, None] + scales[:, None] * own[:, None]
    zero_sum = found.messages - exact  # tau e_k
    assert np.abs(zero_sum.sum(axis=0)).max() < 1e-11 * spread
    assert np.abs(zero_sum[..., 0]).max() > 0.01  # and is there
    assert np.allclose(found.total, exact.sum(axis=0), atol=1e-11 * spread)
    assert np.allclose(found.total, found.messages.sum(axis=0), atol=1e-11 * spread)


def test_survivors_leave_their_share_of_the_noise() -> None:
    silent = {0: Stage.MASKED, 3: Stage.SHARES}
    assert of_variance(cape(np.zeros((8, WIDE)), np.ones((1, WIDE)), dropouts=silent).total, 6 / 8)


@pytest.mark.parametrize("spread", [1.0, MASK])
def test_messages_are_the_papers_but_for_the_rounding_of_the_zero_sum_noise(spread: float) -> None:
    """``f_k + tau (e_k + g_k)`` from the drawn numbers; the rounding cancels in the total."""
    parties, scales, shares = 7, np.array([[2.0, 0.5, 0.0, 1.0]]), rng(1).normal(size=(7, 4))
    found = cape(shares, scales, 5, 3, spread)
    ehat, g = (part.transpose(1, 0, 2) for part in noise.cape_parties(rng(5), 3, parties, 4))
    step = FixedPoint.fit(parties, 16 * spread).error / parties
    rounding = 1e-15 * spread * parties * 10
    assert np.abs(found.ehat - spread * ehat).max() <= step + rounding
    own = shares[:, None, None] + scales[:, None] * (g / np.sqrt(parties))[:, None]
    assert np.abs(found.total - own.sum(axis=0)).max() <= rounding
    e = spread * (ehat - ehat.mean(axis=0))
    assert np.abs(found.messages - own - scales[:, None] * e[:, None]).max() <= 2 * (2 * step + rounding)


@pytest.mark.parametrize("spread", [1.0, MASK])
@pytest.mark.parametrize("parties", [2, 1000, 10**6])
def test_the_grid_of_zero_sum_noise_is_so_fine_that_rounding_is_not_counted(parties: int, spread: float) -> None:
    step = 0.5 ** codec_of(parties, spread).bits
    assert (1 / spread**2 + parties) ** -0.5 > 1e5 * step
