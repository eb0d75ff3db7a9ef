"""Discrete noise as drawn, against masses computed with mpmath. Tests of a law are seeded: false-alarm rate 1e-6."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from mpmath import exp, mp, mpf
from quick import quick_first
from scipy import stats
from scipy.special import ndtr

from dpml.errors import UserError
from dpml.privacy.discrete import DiscreteGaussian, DiscreteLaplace, sampler
from dpml.privacy.discrete.sampler import BlockSampler

GAUSSIAN, LAPLACE = DiscreteGaussian(Fraction(2**40)), DiscreteLaplace(Fraction(2**40))
SMALL = [
    *map(DiscreteGaussian, (Fraction(1, 100), Fraction(1), Fraction(137, 10), Fraction(1024))),
    *map(DiscreteLaplace, (Fraction(1, 6), Fraction(1), Fraction(137, 10), Fraction(64))),
]
LARGE = [
    *map(DiscreteGaussian, (Fraction(2**41 + 1, 3), Fraction(2**111 + 1))),
    *map(DiscreteLaplace, (Fraction(2**41 + 1, 3), Fraction(2**55 + 1))),
]


@pytest.fixture(autouse=True)
def _digits() -> None:
    mp.dps = 60


def source(seed: int = 0) -> Callable[[int], bytes]:
    return np.random.default_rng(seed).bytes


def width(noise: BlockSampler) -> float:
    """Sigma, or the scale."""
    return math.sqrt(noise.variance) if isinstance(noise, DiscreteGaussian) else float(noise.scale)


def continuous(noise: BlockSampler):
    """The law that wide noise approaches."""
    return (stats.norm if isinstance(noise, DiscreteGaussian) else stats.laplace)(scale=width(noise))


def exponent(noise: BlockSampler, x: int) -> Fraction:
    """The mass at x is proportional to e^-exponent."""
    return Fraction(x) ** 2 / (2 * noise.variance) if isinstance(noise, DiscreteGaussian) else abs(x) / noise.scale


def power(gamma: Fraction) -> mpf:
    """e^-gamma."""
    return exp(-mpf(gamma.numerator) / gamma.denominator)


def masses(noise: BlockSampler) -> np.ndarray:
    """Pr[x] for x = -reach .. reach; less than 1e-18 is beyond."""
    weights = [mpf(1)]
    while weights[-1] > 1e-20:
        weights.append(power(exponent(noise, len(weights))))
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


def p_of_small(x: np.ndarray, noise: BlockSampler) -> float:
    probabilities = masses(noise)
    reach = len(probabilities) // 2
    assert np.abs(x).max() <= reach
    return p_value(np.bincount(x + reach, minlength=2 * reach + 1), probabilities)


def p_of_large(x: np.ndarray, noise: BlockSampler) -> float:
    """Of 64 cells of equal probability under the continuous law, which is as near as the noise is wide."""
    cells = (64 * continuous(noise).cdf(x)).astype(int).clip(0, 63)
    return p_value(np.bincount(cells, minlength=64), np.full(64, 1 / 64))


def p_in_block(x: np.ndarray, noise: BlockSampler) -> float:
    """Where |x| lies in its block, in eighths: what the rejection makes uneven."""
    block = 1 << noise.block_bits
    eighths = (np.abs(x) % block) * 8 // block
    edges = np.arange(0, 64 * width(noise), block / 8)
    probabilities = 2 * np.diff(continuous(noise).cdf(edges))
    probabilities = probabilities[: len(probabilities) // 8 * 8].reshape(-1, 8).sum(axis=0)
    return p_value(np.bincount(eighths, minlength=8), probabilities)


@pytest.mark.parametrize("noise", SMALL, ids=str)
def test_every_integer_has_its_probability(noise: BlockSampler) -> None:
    x = noise.sample((300_000,), source(1))
    assert x.dtype == np.int64
    assert p_of_small(x, noise) > 1e-6


@pytest.mark.parametrize("noise", LARGE, ids=str)
def test_wide_noise_has_its_law_far_out_within_blocks_and_in_its_last_digits(noise: BlockSampler) -> None:
    x = noise.sample((300_000,), source(2))
    assert p_of_large(x, noise) > 1e-6
    assert 32 <= width(noise) / (1 << noise.block_bits) < 64
    assert p_in_block(x, noise) > 1e-6
    assert p_value(np.bincount(x % 16, minlength=16), np.full(16, 1 / 16)) > 1e-6


@pytest.mark.slow
def test_the_tail_is_there_and_not_more() -> None:
    """Beyond 4.5 sigma: 34 of 5 million expected, Poisson."""
    x = GAUSSIAN.sample((5_000_000,), source(3))
    expected = len(x) * 2 * ndtr(-4.5)
    found = int((np.abs(x) > 4.5 * 2**20).sum())
    assert stats.poisson.cdf(found, expected) > 5e-7
    assert stats.poisson.sf(found - 1, expected) > 5e-7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "broader", "one"),
    [
        (GAUSSIAN, DiscreteGaussian(GAUSSIAN.variance * Fraction(103, 100)), DiscreteGaussian(Fraction(1))),
        (LAPLACE, DiscreteLaplace(LAPLACE.scale * Fraction(102, 100)), DiscreteLaplace(Fraction(1))),
    ],
    ids=["gaussian", "laplace"],
)
def test_wrong_samplers_are_caught(monkeypatch: pytest.MonkeyPatch, noise, broader, one) -> None:
    n = 1_000_000
    assert p_of_large(broader.sample((n,), source(5)), noise) < 1e-9
    x = one.sample((n,), source(5))
    with_minus_zero = np.concatenate([x, np.zeros(int((x == 0).sum()), dtype=np.int64)])
    assert p_of_small(with_minus_zero, one) < 1e-9
    rounded = np.rint(continuous(one).rvs(n, random_state=5)).astype(np.int64)
    assert p_of_small(rounded[np.abs(rounded) < len(masses(one)) // 2], one) < 1e-9
    monkeypatch.setattr(type(noise), "_kept", lambda self, v, u, source: np.ones(len(v), dtype=bool))
    assert p_in_block(noise.sample((3 * n,), source(5)), noise) < 1e-9


def test_entries_are_independent() -> None:
    """Neighbours, entries a block apart, signs and sizes: no correlation of more than 5 standard errors (6e-7 each)."""
    x = GAUSSIAN.sample((400_000,), source(6)) / 2.0**20
    for lag in (1, 2, sampler._BLOCK):
        for transform in (np.asarray, np.abs):
            y = transform(x) - transform(x).mean()
            assert abs((y[lag:] * y[:-lag]).mean()) < 5 * y.var() / math.sqrt(len(y) - lag)
    assert abs(np.corrcoef(np.sign(x), np.abs(x))[0, 1]) < 5 / math.sqrt(len(x))


def test_a_prefix_beyond_the_table_is_drawn_from_the_tail() -> None:
    """All digits 1 for long: the number goes on as far as the digits do, 45 scales for 64 more of them."""
    digits = iter([b"\xff" * 8, b"\xff" * 8, b"\xff" * 7 + b"\x7f"])
    (x,) = DiscreteLaplace(Fraction(10)).sample((1,), lambda n: next(digits))
    exact = 10 * (63 + 64 + 64) * math.log(2)  # 2^-191 is left, give or take
    assert exact - 10 * 65 * math.log(2) < -x < exact


@pytest.mark.parametrize("law", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("size", quick_first([Fraction(1, 3), Fraction(137, 10), Fraction(2**40)]), ids=str)
def test_lanes_that_64_bits_leave_undecided_have_the_same_law(
    monkeypatch: pytest.MonkeyPatch, law: type, size: Fraction
) -> None:
    """With so few digits at first, nearly all decisions are by bounds at higher precision."""
    monkeypatch.setattr(sampler, "_INDEX", 3)
    monkeypatch.setattr(sampler, "_MARGIN", 1 << 30)
    asked = []
    word = sampler._word
    monkeypatch.setattr(sampler, "_word", lambda source: asked.append(0) or word(source))
    n, noise = 10_000, law(size)
    x = noise.sample((n,), source(4))
    assert len(asked) > n / 8
    assert (p_of_small if size < 100 else p_of_large)(x, noise) > 1e-6


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
def test_the_source_alone_decides(noise) -> None:
    first, again, other = (noise.sample((300, 7), source(seed)) for seed in (7, 7, 8))
    assert first.shape == (300, 7)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(noise.sample((50,)), noise.sample((50,)))  # the operating system's entropy


def test_which_widths_there_are() -> None:
    for law, widest in ((DiscreteLaplace, 2**56), (DiscreteGaussian, 2**112)):
        for wrong in (0, -1, widest):
            with pytest.raises(UserError):
                law(Fraction(wrong))
    whole = DiscreteGaussian(2**111 + 1)  # type: ignore[arg-type]
    assert whole == DiscreteGaussian(Fraction(2**111 + 1))
    assert isinstance(whole.variance / 3, Fraction)


# ---- bounds on real numbers


@pytest.mark.parametrize("bits", [1, 8, 63, 127, 300])
def test_exponentials_lie_between_their_bounds(bits: int) -> None:
    mp.dps = 200
    rng = np.random.default_rng(10)
    gammas = [*map(Fraction, (0, 1, 10**30, bits)), Fraction(1, 2), Fraction(1, 10**30), bits - Fraction(1, 7)]
    gammas += [Fraction(float(g)) for g in np.exp(rng.uniform(-12, 6, 200))]
    for gamma in gammas:
        lower, upper = sampler.exp_minus(gamma, bits)
        assert lower <= power(gamma) * mpf(2) ** bits <= upper <= lower + 2


@pytest.mark.parametrize("variance", [Fraction(1, 1000), Fraction(1, 3), Fraction(29, 7), Fraction(4095)], ids=str)
@pytest.mark.parametrize("bits", [3, 63, 127])
def test_cumulative_weights_lie_between_their_bounds(variance: Fraction, bits: int) -> None:
    mp.dps = 200
    lower, upper = sampler.cumulative(variance, bits)
    weights = [power(Fraction(k * k) / (2 * variance)) for k in range(2 * len(lower) + 60)]
    total, so_far = sum(weights), mpf(0)
    for k, (low, high) in enumerate(zip(lower, upper, strict=True)):
        so_far += weights[k]
        assert low <= so_far / total * mpf(2) ** bits <= high <= low + 2
    assert total - so_far < total * mpf(2) ** -bits


@pytest.mark.slow_cases("63-1/64")
@pytest.mark.parametrize("rate", [Fraction(1, 64), Fraction(29, 640), Fraction(1, 3), Fraction(40)], ids=str)
@pytest.mark.parametrize("bits", quick_first([3, 63, 127], 2))
def test_geometric_weights_lie_between_their_bounds(rate: Fraction, bits: int) -> None:
    mp.dps = 200
    lower, upper = sampler.geometric(rate, bits)
    for k, (low, high) in enumerate(zip(lower, upper, strict=True)):
        assert low <= (1 - power(rate * (k + 1))) * mpf(2) ** bits <= high <= low + 2
    assert upper[-1] == 1 << bits
    assert lower == sorted(lower)


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
    "noise",
    [
        *map(DiscreteGaussian, (Fraction(4096), Fraction(2**40), Fraction(2**111 + 1), Fraction(2**51 - 1, 7))),
        *map(DiscreteLaplace, (Fraction(64), Fraction(2**20), Fraction(2**51 - 1, 7), Fraction(2**55 + 1))),
    ],
    ids=str,
)
def test_64_bit_chances_are_as_near_as_they_claim(noise: BlockSampler) -> None:
    """At random v and u, the largest v, and both ends of blocks; less than half of the margin is used."""
    rng, block = np.random.default_rng(11), 1 << noise.block_bits
    table = len(sampler._table(noise, sampler._INDEX)[0])
    v = np.concatenate([rng.integers(0, table, 300), [0, 1, table - 1, 1023, 4095, 4096, 10**6]])
    u = np.array([int(share * block) for share in rng.random(len(v))])
    v, u = np.tile(v, 3), np.concatenate([u, np.zeros_like(u), np.full_like(u, block - 1)])
    chance, covered = noise._chance(v, u)
    for i in np.flatnonzero(covered):
        x, end = int(v[i]) * block, int(v[i]) * block + int(u[i])
        gamma = noise._gamma(int(v[i]), int(u[i]))
        assert gamma == exponent(noise, end) - exponent(noise, x)
        assert abs(power(gamma) * 2**30 - int(chance[i])) < sampler._MARGIN / 2
    assert covered[v < table].all()
    assert np.all(covered[v >= 4096] == isinstance(noise, DiscreteLaplace))
