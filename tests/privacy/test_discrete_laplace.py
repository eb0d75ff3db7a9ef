"""Discrete Laplace noise as drawn, against masses computed with mpmath. Tests of a law: seeded, false alarms 1e-6."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
import test_discrete_gaussian
from mpmath import exp, mp, mpf
from quick import quick_first
from test_discrete_gaussian import p_value, source

from dpml.errors import UserError
from dpml.privacy.discrete import DiscreteGaussian, DiscreteLaplace, sampler

SMALL = [Fraction(1, 6), Fraction(1), Fraction(137, 10), Fraction(64)]
LARGE = [Fraction(2**41 + 1, 3), Fraction(2**55 + 1)]


@pytest.fixture(autouse=True)
def _digits() -> None:
    mp.dps = 60


def ratio(scale: Fraction):
    """e^(-1/scale)."""
    return exp(-mpf(scale.denominator) / scale.numerator)


def masses(scale: Fraction, reach: int) -> np.ndarray:
    """Pr[x] for x = -reach .. reach, and the rest at both ends."""
    q = ratio(scale)
    half = [float((1 - q) / (1 + q) * q**x) for x in range(reach + 1)]
    half[-1] = float(q**reach / (1 + q))
    return np.concatenate([half[:0:-1], half])


def p_of_small(x: np.ndarray, scale: Fraction) -> float:
    """Of chi-square, with one cell for the rest on either side."""
    q = float(ratio(scale))
    rare = 50 * (1 + q) / (1 - q) / len(x)
    reach = max(1, math.floor(math.log(rare) / math.log(q))) if q > 0 else 1
    observed = np.bincount(np.clip(x, -reach, reach) + reach, minlength=2 * reach + 1)
    return p_value(observed, masses(scale, reach))


def p_of_large(x: np.ndarray, scale: Fraction) -> float:
    """Of 64 cells of equal probability of the continuous law, which is as near as the scale is large."""
    u = np.where(x < 0, 0.5, 1.0) * np.exp(-np.abs(x / float(scale))) / np.where(x < 0, 1, 2)
    u = np.where(x < 0, u, 1 - u)
    return p_value(np.bincount((64 * u).astype(int).clip(0, 63), minlength=64), np.full(64, 1 / 64))


@pytest.mark.parametrize("scale", SMALL, ids=str)
def test_every_integer_has_its_probability(scale: Fraction) -> None:
    x = DiscreteLaplace(scale).sample((300_000,), source(1))
    assert x.dtype == np.int64
    assert p_of_small(x, scale) > 1e-6


@pytest.mark.parametrize("scale", LARGE, ids=str)
def test_wide_noise_has_its_law_far_out_within_blocks_and_in_its_last_digits(scale: Fraction) -> None:
    noise = DiscreteLaplace(scale)
    x = noise.sample((300_000,), source(2))
    assert p_of_large(x, scale) > 1e-6
    block = 1 << noise.block_bits
    assert 32 <= scale / block < 64
    # within a block the weights fall by e^(-block/scale) from end to end
    inside, k = np.abs(x) % block / block, block / float(scale)
    edges = np.linspace(0, 1, 9)
    law = np.diff(np.expm1(-k * edges) / np.expm1(-k))
    assert p_value(np.bincount((8 * inside).astype(int), minlength=8), law) > 1e-6
    assert p_value(np.bincount(x % 16, minlength=16), np.full(16, 1 / 16)) > 1e-6


def test_a_prefix_beyond_the_table_is_drawn_from_the_tail() -> None:
    """All digits 1 for long: the number goes on as far as the digits do, 45 scales for 64 more of them."""
    digits = iter([b"\xff" * 8, b"\xff" * 7 + b"\x7f"])
    noise = DiscreteLaplace(Fraction(10))
    v = noise._blocks(np.array([(1 << 63) - 1], dtype=np.uint64), lambda n: next(digits))
    exact = 10 * (63 + 64 + 64) * math.log(2)  # 2^-191 is left, give or take
    assert exact - 10 * 65 * math.log(2) < v[0] < exact


@pytest.mark.parametrize("law", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("width", quick_first([Fraction(1, 3), Fraction(137, 10), Fraction(2**40)]), ids=str)
def test_lanes_that_64_bits_leave_undecided_have_the_same_law(
    monkeypatch: pytest.MonkeyPatch, law: type, width: Fraction
) -> None:
    """With so few digits at first, nearly all decisions are by bounds at higher precision."""
    monkeypatch.setattr(sampler, "_INDEX", 3)
    monkeypatch.setattr(sampler, "_MARGIN", 1 << 30)
    asked = []
    word = sampler._word
    monkeypatch.setattr(sampler, "_word", lambda source: asked.append(0) or word(source))
    n = 10_000
    x = law(width).sample((n,), source(4))
    assert len(asked) > n / 8
    of = test_discrete_gaussian if law is DiscreteGaussian else sys.modules[__name__]
    assert (of.p_of_small if width < 100 else of.p_of_large)(x, width) > 1e-6


@pytest.mark.parametrize(
    ("noise", "stored"),
    [
        (DiscreteLaplace(Fraction(2**20)), [-1075225, -357589, 52646, -23904]),
        (DiscreteGaussian(Fraction(2**40)), [-976921, -390357, 52646, -23904]),
    ],
    ids=["laplace", "gaussian"],
)
def test_these_bytes_are_these_samples_and_the_source_alone_decides(noise, stored) -> None:
    """A seeded release stays the same release, on any platform."""
    assert noise.sample((4,), source(0)).tolist() == stored
    first, again, other = (noise.sample((300, 7), source(seed)) for seed in (7, 7, 8))
    assert first.shape == (300, 7)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(noise.sample((50,)), noise.sample((50,)))  # the operating system's entropy
    assert noise.sample((0, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    ("law", "width"),
    [*((DiscreteLaplace, s) for s in (0, 2**56, Fraction(-1, 3))), *((DiscreteGaussian, v) for v in (0, -1, 2**112))],
)
def test_noise_out_of_range_is_refused(law, width) -> None:
    with pytest.raises(UserError, match=r"(scale|variance) above 0 and below 2"):
        law(Fraction(width))


@pytest.mark.slow
def test_wrong_samplers_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    scale, one, n = Fraction(2**40), Fraction(1), 1_000_000
    assert p_of_large(DiscreteLaplace(scale * Fraction(102, 100)).sample((n,), source(5)), scale) < 1e-9
    x = DiscreteLaplace(one).sample((n,), source(5))
    with_minus_zero = np.concatenate([x, np.zeros(int((x == 0).sum()), dtype=np.int64)])
    assert p_of_small(with_minus_zero, one) < 1e-9
    assert p_of_small(np.rint(np.random.default_rng(5).laplace(size=n)).astype(np.int64), one) < 1e-9
    with monkeypatch.context() as patch:
        patch.setattr(DiscreteLaplace, "_kept", lambda self, v, u, source: np.ones(len(v), dtype=bool))
        x = DiscreteLaplace(scale).sample((3 * n,), source(5))
    block = 1 << DiscreteLaplace(scale).block_bits
    law = np.diff(np.expm1(-np.linspace(0, 1, 9) / 32) / math.expm1(-1 / 32))
    assert p_value(np.bincount(np.abs(x) % block * 8 // block, minlength=8), law) < 1e-9


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(7, 3), Fraction(40)], ids=str)
def test_a_shift_is_hidden_with_pure_eps_and_no_less_is_possible(scale: Fraction) -> None:
    """By the definition: the largest quotient of the probabilities of an output is e^(shift/scale), and is reached."""
    q = ratio(scale)
    law = {x: q ** abs(x) for x in range(-400, 401)}
    for shift in (1, 2, 5):
        quotients = [law[x] / law[x - shift] for x in range(-395, 401)]
        assert max(quotients) <= exp(mpf(shift) * scale.denominator / scale.numerator) * (1 + mpf(10) ** -50)
        assert max(quotients) > exp(mpf(shift) * scale.denominator / scale.numerator) * (1 - mpf(10) ** -50)


@pytest.mark.slow_cases("63-1/64")
@pytest.mark.parametrize("rate", [Fraction(1, 64), Fraction(29, 640), Fraction(1, 3), Fraction(40)], ids=str)
@pytest.mark.parametrize("bits", quick_first([3, 63, 127], 2))
def test_geometric_weights_lie_between_their_bounds(rate: Fraction, bits: int) -> None:
    mp.dps = 200
    lower, upper = sampler.geometric(rate, bits)
    for k, (low, high) in enumerate(zip(lower, upper, strict=True)):
        exact = (1 - exp(-mpf(rate.numerator) / rate.denominator * (k + 1))) * mpf(2) ** bits
        assert low <= exact <= high <= low + 2
    assert upper[-1] == 1 << bits
    assert lower == sorted(lower)


@pytest.mark.parametrize("scale", [Fraction(64), Fraction(2**20), Fraction(2**51 - 1, 7), Fraction(2**55 + 1)], ids=str)
def test_64_bit_chances_are_as_near_as_they_claim(scale: Fraction) -> None:
    """At random u, and both ends of a block; less than half of the margin is used."""
    noise, rng = DiscreteLaplace(scale), np.random.default_rng(11)
    block = 1 << noise.block_bits
    u = np.array([0, 1, block - 1] + [int(share * block) for share in rng.random(300)])
    chance, covered = noise._chance(np.zeros_like(u), u)
    assert covered.all()
    for i in range(len(u)):
        gamma = noise._gamma(0, int(u[i]))
        assert gamma == Fraction(int(u[i])) / scale
        assert abs(exp(-mpf(gamma.numerator) / gamma.denominator) * 2**30 - int(chance[i])) < sampler._MARGIN / 2
