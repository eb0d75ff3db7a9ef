"""CAPE on secure aggregation: the paper's statements on samples, drop-outs, the whole view, and its two protocols.

The releases of `capefm` by both are compared in tests/mechanism/test_carriers.py and tests/audit/test_planted.py.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpml.mechanism.sharing import MASK, CapeNoise, cape_spread
from dpml.privacy import Problem, noise
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


# ---- the paper's statements, on samples; with fixed seeds each is tested at a false-alarm rate of 1e-6


@pytest.mark.parametrize("parties", [2, 5, 30])
def test_lemma_1_the_noise_that_is_left_is_the_pooled_one(parties: int) -> None:
    scale = 0.7
    left = left_by(parties, scale, 0)
    assert of_variance(left, scale**2)
    assert stats.kstest(left / scale, "norm").pvalue > 1e-6


@pytest.mark.parametrize("parties", [2, 5, 30])
def test_proposition_1_conv_has_parties_times_that_variance(parties: int) -> None:
    # conv: a site's tau is `parties` times the pooled one, for its own mean of 1/parties of the rows
    conv = noise.gaussian_messages(rng(2), 1, parties, WIDE)[0].sum(axis=0) * parties / parties
    ratio = np.sum(conv**2) / np.sum(left_by(parties, 1.0, 1) ** 2) / parties
    assert 5e-7 < stats.f.cdf(ratio, WIDE, WIDE) < 1 - 5e-7


@pytest.mark.parametrize("sizes", [(100, 100, 100), (10, 100, 1000), (5, 5, 5, 500)])
def test_proposition_2_and_remark_3_unequal_sites(sizes: tuple[int, ...]) -> None:
    """Unweighted, sites of N_k rows leave H(n) = N^2/M^3 sum 1/N_k^2 times the pooled variance; weighted, 1."""
    n, M, N = np.array(sizes), len(sizes), sum(sizes)
    H = N**2 / M**3 * np.sum(1.0 / n**2)
    assert H >= 1 - 1e-12
    _, g = noise.cape_parties(rng(3), 1, M, WIDE)
    unweighted = np.mean(N / n[:, None] * g[0] / np.sqrt(M), axis=0)  # the pooled tau is 1, a site's N/N_k
    assert of_variance(unweighted, H)
    assert of_variance(left_by(M, 1.0, 4), 1.0)


# ---- drop-outs


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


@pytest.mark.parametrize(("parties", "survivors", "colluders"), [(10, 10, 3), (10, 7, 3), (9, 8, 0), (5, 2, 1)])
@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_the_whole_view_with_drop_outs(parties, survivors, colluders, spread) -> None:
    """The docstring's mu^2 against the covariance of all that the aggregator and the colluders see.

    A honest site's share moves by 1, tau is 1. Seen: what every honest survivor sent, that of a honest site whose
    message came too late to be in the sum, and the sum of the survivors' ehat; the colluders know their own numbers.
    """
    v, s2 = 1 / parties, spread**2
    h = survivors - colluders
    covariance = (s2 + v) * np.eye(h + 2)  # h survivors, a latecomer, the sum of ehat
    covariance[-1, :h] = covariance[:h, -1] = s2
    covariance[-1, -1] = h * s2
    precision = np.linalg.inv(covariance)
    whole = 1 / (h * v) + (1 - 1 / h) / (s2 + v)
    assert precision[0, 0] == pytest.approx(whole)  # the shift (1, 0, ..., 0) of a survivor's message
    assert precision[h, h] == pytest.approx(1 / (s2 + v))  # a latecomer is hidden better
    assert precision[h, h] <= whole
    if survivors == parties:
        problem = Problem(N=parties, d=1, M=parties)
        if spread == cape_spread("published") and colluders == parties - problem.honest:
            assert CapeNoise(spread).views(problem)["colluders"] == pytest.approx(np.sqrt(whole))


# ---- messages


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


# ---- rounding of the zero-sum noise


@pytest.mark.parametrize("ratio", [0.8, 1.0, 1.2])
def test_messages_with_rounded_zero_sum_noise_have_the_density_of_real_numbers_but_for_a_factor(ratio: float) -> None:
    """Two honest sites, on a grid so coarse that the factor is seen: sums over all its points, against integrals."""
    s, v = 1.0, 0.5
    q = (1 / s**2 + 1 / v) ** -0.5
    u, most = q / ratio, 2 * np.exp(-2 * np.pi**2 * ratio**2 / 2) * 1.01
    draw, seen = rng(11), []
    for _ in range(50):
        shift, total = draw.triangular(-u, 0, u, 2), u * np.rint(draw.normal() * s / u)
        heard = draw.normal(size=2) * (s**2 + v) ** 0.5 - [1.0, 0.0]  # of the first site's part, 1, or of a part of 0

        def term(first: np.ndarray, total=total, shift=shift, heard=heard) -> np.ndarray:
            ehat = np.stack([first, total - first])
            squares = (ehat - shift[:, None]) ** 2 / s**2 + (heard[:, None] - ehat) ** 2 / v
            return np.exp(-squares.sum(axis=0) / 2)

        points, fine = u * np.arange(-200, 201), np.linspace(-20, 20, 20_001)
        seen.append(u * term(points).sum() / (term(fine).sum() * 2e-3) - 1)
    assert 0.5 * most < np.abs(seen).max() <= most


@pytest.mark.parametrize("spread", [1.0, MASK])
@pytest.mark.parametrize("parties", [2, 1000, 10**6])
def test_the_grid_of_zero_sum_noise_is_so_fine_that_rounding_is_not_counted(parties: int, spread: float) -> None:
    step = 0.5 ** codec_of(parties, spread).bits
    assert (1 / spread**2 + parties) ** -0.5 > 1e5 * step
