"""Discrete Gaussian noise as drawn, against masses computed with mpmath. Tests of a law: false-alarm rate 1e-6, seeded.

A test with cells is Pearson's chi-square over cells of at least 50 expected samples.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from mpmath import exp, mp, mpf
from scipy import stats
from scipy.special import ndtr

from dpml.privacy.discrete import DiscreteGaussian, sampler

SMALL = [Fraction(1, 100), Fraction(1), Fraction(137, 10), Fraction(1024)]
LARGE = [Fraction(2**41 + 1, 3), Fraction(2**111 + 1)]


@pytest.fixture(autouse=True)
def _digits() -> None:
    mp.dps = 60


def source(seed: int = 0) -> Callable[[int], bytes]:
    return np.random.default_rng(seed).bytes


def masses(variance: Fraction, reach: int) -> np.ndarray:
    """Pr[x] for x = -reach .. reach."""
    v = mpf(variance.numerator) / variance.denominator
    weights = [exp(-mpf(x) * x / (2 * v)) for x in range(reach + 1)]
    total = weights[0] + 2 * sum(weights[1:])
    half = np.array([float(weight / total) for weight in weights])
    return np.concatenate([half[:0:-1], half])


def p_value(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """Of chi-square; neighbouring cells are joined until each has 50 expected samples."""
    n, cells = int(observed.sum()), [[0.0, 0.0]]
    for count, expected in zip(observed, n * probabilities, strict=True):
        if cells[-1][1] >= 50:
            cells.append([0.0, 0.0])
        cells[-1][0] += count
        cells[-1][1] += expected
    last = cells.pop() if cells[-1][1] < 50 and len(cells) > 1 else [0.0, 0.0]
    table = np.array(cells)
    table[-1] += last
    assert abs(table[:, 1].sum() - n) < 1e-6 * n
    if len(table) == 1:
        return 1.0
    return float(stats.chi2.sf(((table[:, 0] - table[:, 1]) ** 2 / table[:, 1]).sum(), len(table) - 1))


def p_of_small(x: np.ndarray, variance: Fraction) -> float:
    reach = int(12 * math.sqrt(variance)) + 2
    assert np.abs(x).max() <= reach
    return p_value(np.bincount(x + reach, minlength=2 * reach + 1), masses(variance, reach))


def p_of_large(x: np.ndarray, variance: Fraction) -> float:
    """200 cells in x/sigma and the tails: sums over integers are integrals up to a relative 1/24 variance."""
    edges = np.linspace(-4, 4, 201)
    observed = np.bincount(np.searchsorted(edges, x / math.sqrt(variance)), minlength=202)
    return p_value(observed, np.diff(ndtr(np.concatenate([[-np.inf], edges, [np.inf]]))))


def p_in_block(x: np.ndarray, variance: Fraction, block: int) -> float:
    """Where |x| lies in its block of `block` integers, in eighths: what the rejection makes uneven."""
    eighths = (np.abs(x) % block) * 8 // block
    edges = np.arange(0, 12 * math.sqrt(variance), block / 8) / math.sqrt(variance)
    probabilities = 2 * np.diff(ndtr(edges))
    probabilities = probabilities[: len(probabilities) // 8 * 8].reshape(-1, 8).sum(axis=0)
    return p_value(np.bincount(eighths, minlength=8), probabilities)


@pytest.mark.parametrize("variance", SMALL, ids=str)
def test_every_integer_has_its_probability(variance: Fraction) -> None:
    x = DiscreteGaussian(variance).sample((300_000,), source(1))
    assert x.dtype == np.int64
    assert p_of_small(x, variance) > 1e-6


@pytest.mark.parametrize("variance", LARGE, ids=str)
def test_wide_noise_has_its_law_far_out_within_blocks_and_in_its_last_digits(variance: Fraction) -> None:
    noise = DiscreteGaussian(variance)
    x = noise.sample((300_000,), source(2))
    assert p_of_large(x, variance) > 1e-6
    block = 1 << noise.block_bits
    assert 1 << 10 <= variance / block**2 < 1 << 12
    assert p_in_block(x, variance, block) > 1e-6
    # the odd integers' share is 1/2 but for e^(-2 pi^2 variance/2^2), and so on
    assert p_value(np.bincount(x % 16, minlength=16), np.full(16, 1 / 16)) > 1e-6


def test_a_sum_of_parties_has_the_law_that_is_counted() -> None:
    variance, parties = Fraction(8), 5
    one = masses(variance, 40)
    law = one
    for _ in range(parties - 1):
        law = np.convolve(law, one)
    total = DiscreteGaussian(variance).sample((parties, 300_000), source(12)).sum(axis=0)
    assert p_value(np.bincount(total + 40 * parties, minlength=len(law)), law) > 1e-6


@pytest.mark.slow
def test_the_tail_is_there_and_not_more() -> None:
    """Beyond 4.5 sigma: 34 of 5 million expected, Poisson."""
    variance = Fraction(2**40)
    x = DiscreteGaussian(variance).sample((5_000_000,), source(3))
    expected = len(x) * 2 * ndtr(-4.5)
    found = int((np.abs(x) > 4.5 * 2**20).sum())
    assert stats.poisson.cdf(found, expected) > 5e-7
    assert stats.poisson.sf(found - 1, expected) > 5e-7


@pytest.mark.slow
def test_wrong_samplers_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, one, n = DiscreteGaussian(Fraction(2**40)), DiscreteGaussian(Fraction(1)), 1_000_000
    broader = DiscreteGaussian(noise.variance * Fraction(103, 100)).sample((n,), source(5))
    assert p_of_large(broader, noise.variance) < 1e-9
    with monkeypatch.context() as patch:
        patch.setattr(DiscreteGaussian, "_kept", lambda self, v, u, source: np.ones(len(v), dtype=bool))
        assert p_in_block(noise.sample((2 * n,), source(5)), noise.variance, 1 << noise.block_bits) < 1e-9
    x = one.sample((n,), source(5))
    assert p_of_small(x, one.variance) > 1e-6
    with_minus_zero = np.concatenate([x, np.zeros(int((x == 0).sum()), dtype=np.int64)])
    assert p_of_small(with_minus_zero, one.variance) < 1e-9
    assert p_of_small(np.rint(np.random.default_rng(5).standard_normal(n)).astype(np.int64), one.variance) < 1e-9


def test_entries_are_independent() -> None:
    """Neighbours, entries a block apart, signs and sizes: no correlation of more than 5 standard errors (6e-7 each)."""
    x = DiscreteGaussian(Fraction(2**40)).sample((400_000,), source(6)) / 2.0**20
    for lag in (1, 2, sampler._BLOCK):
        for transform in (np.asarray, np.abs):
            y = transform(x) - transform(x).mean()
            assert abs((y[lag:] * y[:-lag]).mean()) < 5 * y.var() / math.sqrt(len(y) - lag)
    assert abs(np.corrcoef(np.sign(x), np.abs(x))[0, 1]) < 5 / math.sqrt(len(x))


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1), Fraction(2), Fraction(137, 10)], ids=str)
def test_the_variance_is_at_most_sigma_squared_and_nearly_so(variance: Fraction) -> None:
    """As Canonne, Kamath & Steinke 2020 prove."""
    mp.dps = 200
    v, x = mpf(variance.numerator) / variance.denominator, range(-200, 201)
    weights = [exp(-mpf(k) * k / (2 * v)) for k in x]
    exact = sum(weight * k * k for weight, k in zip(weights, x, strict=True)) / sum(weights)
    assert exact < v
    assert v - exact < 80 * v * v * exp(-2 * mp.pi**2 * v)


def test_a_whole_number_is_no_floating_point_number() -> None:
    given = 2**111 + 1
    assert DiscreteGaussian(given) == DiscreteGaussian(Fraction(given))  # type: ignore[arg-type]
    assert isinstance(DiscreteGaussian(given).variance / 3, Fraction)  # type: ignore[arg-type]


# ---- bounds on real numbers


@pytest.mark.parametrize("bits", [1, 8, 63, 127, 300])
def test_exponentials_lie_between_their_bounds(bits: int) -> None:
    mp.dps = 200
    rng = np.random.default_rng(10)
    gammas = [*map(Fraction, (0, 1, 10**30, bits)), Fraction(1, 2), Fraction(1, 10**30), bits - Fraction(1, 7)]
    gammas += [Fraction(float(g)) for g in np.exp(rng.uniform(-12, 6, 200))]
    for gamma in gammas:
        lower, upper = sampler.exp_minus(gamma, bits)
        exact = exp(-mpf(gamma.numerator) / gamma.denominator) * mpf(2) ** bits
        assert lower <= exact <= upper <= lower + 2


@pytest.mark.parametrize("variance", [Fraction(1, 1000), Fraction(1, 3), Fraction(29, 7), Fraction(4095)], ids=str)
@pytest.mark.parametrize("bits", [3, 63, 127])
def test_cumulative_weights_lie_between_their_bounds(variance: Fraction, bits: int) -> None:
    mp.dps = 200
    lower, upper = sampler.cumulative(variance, bits)
    v = mpf(variance.numerator) / variance.denominator
    weights = [exp(-mpf(k) * k / (2 * v)) for k in range(2 * len(lower) + 60)]
    total, so_far = sum(weights), mpf(0)
    for k, (low, high) in enumerate(zip(lower, upper, strict=True)):
        so_far += weights[k]
        assert low <= so_far / total * mpf(2) ** bits <= high <= low + 2
    assert total - so_far < total * mpf(2) ** -bits


def test_a_comparison_asks_for_digits_until_it_is_decided() -> None:
    """U = 0.1010... against 2/3 = 0.101010...: the same digits for long, then a smaller or a greater one."""

    def numbers(bits: int) -> sampler.Bounds:
        third = (2 << bits) // 3
        return [third, 1 << bits], [third + 1, 1 << bits]

    alternating = int("10" * 32, 2)
    for last, count in ((alternating - 1, 0), (alternating + 1, 1)):
        digits = [alternating] * 5 + [last]
        assert sampler.settle(0b1010, 4, numbers, lambda left=digits: left.pop(0)) == count
        assert digits == []


@pytest.mark.parametrize(
    "variance", [Fraction(4096), Fraction(2**40), Fraction(2**111 + 1), Fraction(2**51 - 1, 7)], ids=str
)
def test_64_bit_chances_are_as_near_as_they_claim(variance: Fraction) -> None:
    """At random v and u, the largest v, and both ends of blocks; less than half of the margin is used."""
    noise, rng = DiscreteGaussian(variance), np.random.default_rng(11)
    block = 1 << noise.block_bits
    table = len(sampler._table(noise, sampler._INDEX)[0])
    v = np.concatenate([rng.integers(0, table, 300), [0, 1, table - 1, 1023, 4095, 4096, 10**6]])
    u = np.array([int(share * block) for share in rng.random(len(v))])
    v, u = np.tile(v, 3), np.concatenate([u, np.zeros_like(u), np.full_like(u, block - 1)])
    chance, covered = noise._chance(v, u)
    for i in np.flatnonzero(covered):
        gamma = noise._gamma(int(v[i]), int(u[i]))
        assert gamma == Fraction((block * int(v[i]) + int(u[i])) ** 2 - (block * int(v[i])) ** 2) / (2 * variance)
        exact = exp(-mpf(gamma.numerator) / gamma.denominator) * 2**30
        assert abs(exact - int(chance[i])) < sampler._MARGIN / 2
    assert covered[v < table].all()
    assert not covered[v >= 4096].any()
