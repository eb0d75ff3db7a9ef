"""Draw integers exactly from the discrete Gaussian and Laplace distributions (docs/privacy/discrete_noise.md)."""

import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dpml.errors import UserError
from dpml.privacy.discrete.rounding import Integers

Bounds = tuple[list[int], list[int]]
"""Integer bounds ``lower[k] <= 2^bits c_k <= upper[k]`` on ascending real numbers c_k."""

_GUARD = 64  # additional bits of intermediate results


def exp_minus(gamma: Fraction, bits: int) -> tuple[int, int]:
    """Return integers lower and upper, at most two apart, with ``lower <= 2^bits e^-gamma <= upper`` for gamma >= 0."""
    return _exp_minus(gamma.numerator, gamma.denominator, bits)


def _exp_minus(above: int, below: int, bits: int) -> tuple[int, int]:
    """Return integer bounds on ``2^bits e^-gamma`` for the fraction ``gamma = above / below``.

    The series gives e^-x for ``x = gamma / 2^halvings <= 1/2``, and e^-x is squared `halvings` times. In units of 2^-w,
    a term is at most 4 too small (e/2 + 2 if the term before it is e too small), all terms after the first computed 0
    together are at most 4, and rounding x down to a unit shifts e^-x by at most one unit.
    """
    if above >= bits * below:  # e^-gamma < 2^-bits
        return 0, 1
    halvings = (2 * (above // below) + 1).bit_length()
    w = bits + _GUARD + 2 * halvings
    x = (above << w - halvings) // below
    total = term = 1 << w
    terms = 1
    while term:
        term = (term * x >> w) // terms
        total += -term if terms % 2 else term
        terms += 1
    lower, upper = total - 4 * terms - 5, total + 4 * terms + 4
    for _ in range(halvings):
        lower, upper = lower * lower >> w, (upper * upper >> w) + 1
    return lower >> w - bits, (upper >> w - bits) + 1


def cumulative(variance: Fraction, bits: int) -> Bounds:
    """Return bounds on ``Pr[V <= k]``, k = 0, 1, ..., if ``Pr[V = k]`` is proportional to ``e^(-k^2/(2 variance))``.

    The lists end before a k from which all weights sum to less than 2^-bits: to at most ``1/(1 - e^-y) <= 1 + 1/y``
    times weight k, as each later one is at most ``e^-y`` times the one before, ``y = (2k + 1)/(2 variance)``.
    """
    w = bits + _GUARD
    weights: list[tuple[int, int]] = []
    twice, per = 2 * variance.numerator, variance.denominator  # integers take half the time of fractions
    while True:
        k = len(weights)
        lower, upper = _exp_minus(k * k * per, twice, w)
        odd = (2 * k + 1) * per
        rest = upper * (odd + twice) // odd + 1
        if rest < 1 << _GUARD - 4:
            break
        weights.append((lower, upper))
    least = list(accumulate(lower for lower, _ in weights))
    most = list(accumulate(upper for _, upper in weights))
    total_least, total_most = least[-1], most[-1] + rest
    return [(part << bits) // total_most for part in least], [-(-(part << bits) // total_least) for part in most]


def geometric(rate: Fraction, bits: int) -> Bounds:
    """Return bounds on ``Pr[V <= k] = 1 - e^(-rate (k + 1))`` for k = 0, 1, ..., where V is geometric."""
    w = bits + _GUARD
    least, most = exp_minus(rate, w)
    left, at_most = 1 << w, 1 << w
    lower: list[int] = []
    upper: list[int] = []
    while not upper or upper[-1] < 1 << bits:
        left, at_most = left * least >> w, (at_most * most >> w) + 1
        lower.append(max((1 << bits) - (at_most >> _GUARD) - 1, 0))
        upper.append((1 << bits) - (left >> _GUARD))
    return lower, upper


def settle(prefix: int, bits: int, numbers: Callable[[int], Bounds], more: Callable[[], int]) -> int:
    """Return how many of the ascending `numbers` are at most U, which is a uniform random number in [0, 1).

    `prefix` has the first `bits` binary digits of U, and `more` returns 64 more digits. `numbers` returns `Bounds` on
    the numbers; the last upper bound must be at least 2^bits.
    """
    while True:
        lower, upper = numbers(bits)
        k = bisect_right(lower, prefix)  # U < number k
        if k == 0 or upper[k - 1] <= prefix:
            return k
        prefix, bits = prefix << 64 | more(), bits + 64


Words = NDArray[np.uint64]
Source = Callable[[int], bytes]
"""A function that returns n random bytes: `os.urandom`, or a NumPy generator's `bytes` for reproducible noise."""

_BLOCK = 1 << 17  # candidates that are drawn at once, in arrays of 1 MiB
_INDEX = 63  # random bits that select v; the 64th bit of the word is the sign
UNIT = 30  # binary digits of e^-gamma, and of the uniform number that is compared with it
FRACTION = 24  # binary digits of u/2^b
_MARGIN = 1 << UNIT - 20  # a bound on the error of `_chance`
_TERMS = 7


class BlockSampler(ABC):
    """Sample integers by rejection: a candidate is +-(2^b v + u), where v comes from a table and u has b random bits.

    A candidate is accepted with probability e^-gamma. A subclass, a frozen dataclass, defines b, gamma and v's table.
    """

    @property
    @abstractmethod
    def block_bits(self) -> int:
        """The number b of random low bits, which form the number u, in each sampled integer 2^b v + u."""

    @abstractmethod
    def _cumulative(self, bits: int) -> Bounds:
        """Return lower and upper bounds on ``Pr[v <= k]`` for k = 0, 1, ..., until the upper bound is at least 1."""

    @abstractmethod
    def _gamma(self, v: int, u: int) -> Fraction:
        """Return the exact gamma of the candidate at offset u in block v; its acceptance probability is e^-gamma."""

    @abstractmethod
    def _near_gamma(self, v: Integers, u: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Approximate gamma in units of 2^-30. Also return a mask where gamma < 1/2 with an error < 2^-21."""

    def sample(self, shape: tuple[int, ...], source: Source = os.urandom) -> Integers:
        """Draw an array of independent integers; `source` supplies all random bytes."""
        samples = np.empty(shape, dtype=np.int64)
        flat, filled = samples.reshape(-1), 0
        while filled < flat.size:
            kept = self._kept_of_candidates(min(flat.size - filled, _BLOCK), source)
            flat[filled : filled + len(kept)] = kept
            filled += len(kept)
        return samples

    def _kept_of_candidates(self, count: int, source: Source) -> Integers:
        words = _words(count, source)
        v = self._blocks(words >> np.uint64(64 - _INDEX), source)
        x, keep = v, np.ones(count, dtype=bool)
        if self.block_bits:
            u = (_words(count, source) >> np.uint64(64 - self.block_bits)).astype(np.int64)
            x, keep = (v << self.block_bits) + u, self._kept(v, u, source)
        negative = (words & np.uint64(1)).astype(bool)
        keep &= ~(negative & (x == 0))
        return np.where(negative, -x, x)[keep]

    def _blocks(self, prefixes: Words, source: Source) -> Integers:
        lower, decided = _table(self, _INDEX)
        v = np.searchsorted(lower, prefixes, side="right")
        for i in np.flatnonzero(prefixes < decided[v]):
            v[i] = settle(int(prefixes[i]), _INDEX, self._cumulative, partial(_word, source))
        return v

    def _kept(self, v: Integers, u: Integers, source: Source) -> NDArray[np.bool_]:
        digits = np.frombuffer(source(4 * len(v)), dtype="<u4").astype(np.int64) >> 32 - UNIT
        chance, covered = self._chance(v, u)
        for i in np.flatnonzero(~covered | (np.abs(digits - chance) <= _MARGIN)):
            numbers = partial(_accept, self._gamma(int(v[i]), int(u[i])))
            # decide exactly whether U >= e^-gamma, and set `chance` so that the last line agrees
            above = settle(int(digits[i]), UNIT, numbers, partial(_word, source))
            chance[i] = -1 if above else 1 << UNIT
        return digits < chance

    def _chance(self, v: Integers, u: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Approximate e^-gamma in units of 2^-30; also return a mask where the error of e^-gamma is below 2^-20.

        For gamma < 1/2 + 2^-21, the omitted terms of the series are together below gamma^8/8! < 2^-23. Each step of the
        loop rounds by less than two units of 2^-30, and the next step halves that error.
        """
        gamma, covered = self._near_gamma(v, u)
        gamma = np.where(covered, gamma, 0)
        one = 1 << UNIT
        chance = np.full_like(gamma, one)
        for term in range(_TERMS, 0, -1):
            chance = one - (gamma * chance >> UNIT) // term
        return chance, covered


@lru_cache(maxsize=64)
def _table(sampler: BlockSampler, bits: int) -> tuple[Words, Words]:
    """Return lower bounds on Pr[V <= v] and upper bounds on Pr[V < v], in units of 2^-bits, for inverse sampling."""
    lower, upper = sampler._cumulative(bits)
    certain = [0, *upper[:-1], 1 << bits]  # above all prefixes, so `settle` decides about v = len(lower)
    return np.array(lower, dtype=np.uint64), np.array(certain, dtype=np.uint64)


def _words(count: int, source: Source) -> Words:
    return np.frombuffer(source(8 * count), dtype="<u8").astype(np.uint64, copy=False)


def _word(source: Source) -> int:
    return int.from_bytes(source(8), "little")


def _accept(gamma: Fraction, bits: int) -> Bounds:
    lower, upper = exp_minus(gamma, bits)
    return [lower, 1 << bits], [upper, 1 << bits]


_WIDEST_VARIANCE = 112  # log2 of the largest variance whose samples fit into 64 bits
_FAR = 1 << 12  # the least block number v that `_near_gamma` does not cover

_cumulative = lru_cache(maxsize=64)(cumulative)


@dataclass(frozen=True)
class DiscreteGaussian(BlockSampler):
    """Integer noise with ``Pr[x]`` proportional to ``e^(-x^2/(2 sigma^2))``, whose variance is at most sigma^2.

    Args:
        variance: The parameter sigma^2, a positive rational number below 2^112.

    >>> DiscreteGaussian(Fraction(137, 10)).sample((2, 3), np.random.default_rng(1).bytes).shape
    (2, 3)
    """

    variance: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.variance < 1 << _WIDEST_VARIANCE:
            raise UserError(
                f"the variance of discrete noise must be above 0 and below 2^{_WIDEST_VARIANCE} squared grid steps, "
                f"got {float(self.variance):g}: choose another number of fractional bits."
            )
        object.__setattr__(self, "variance", Fraction(self.variance))  # dividing an int would give a float

    @property
    def block_bits(self) -> int:
        return max((int(self.variance) >> 10).bit_length() - 1, 0) // 2

    def _cumulative(self, bits: int) -> Bounds:
        return _cumulative(self.variance / 4**self.block_bits, bits)

    def _gamma(self, v: int, u: int) -> Fraction:
        return u * ((v << self.block_bits + 1) + u) / (2 * self.variance)

    def _near_gamma(self, v: Integers, u: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Approximate the exponents gamma with the precision that `BlockSampler` requires.

        With t = 2^b, f = u/t and k = t^2/(2 sigma^2) <= 2^-11, ``gamma = k f (2v + f)``. All steps round down. Gamma
        loses up to ``2^-24 k (2v + 2)`` <= 2^-22 as f loses up to 2^-24 (v < 2^12), 2^-31 as f (2v + f) loses 2^-20,
        ``2^-40 * 2^13`` as k loses 2^-40, and then 2^-30. No product exceeds 2^63. For v in `_table`, gamma < 1/3.
        """
        b = self.block_bits
        f = u >> b - FRACTION if b > FRACTION else u << FRACTION - b
        near = np.minimum(v, _FAR - 1)
        k = (4**b << 40) * self.variance.denominator // (2 * self.variance.numerator)
        product = f * ((near << FRACTION + 1) + f) >> 2 * FRACTION - 20
        gamma = product * k >> 60 - UNIT
        return gamma, (v < _FAR) & (gamma < 1 << UNIT - 1)


_WIDEST_SCALE = 56  # log2 of the largest scale whose samples fit into 64 bits

_geometric = lru_cache(maxsize=64)(geometric)


@dataclass(frozen=True)
class DiscreteLaplace(BlockSampler):
    """Integer noise with ``Pr[x]`` proportional to ``e^(-|x|/scale)``, whose variance is below ``2 scale^2``.

    Args:
        scale: The scale in steps of the grid, a positive rational number below 2^56.

    >>> DiscreteLaplace(Fraction(137, 10)).sample((2, 3), np.random.default_rng(1).bytes).shape
    (2, 3)
    """

    scale: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.scale < 1 << _WIDEST_SCALE:
            raise UserError(
                f"the scale of discrete noise must be above 0 and below 2^{_WIDEST_SCALE} grid steps, got "
                f"{float(self.scale):g}: choose another number of fractional bits."
            )
        object.__setattr__(self, "scale", Fraction(self.scale))  # dividing an int would give a float

    @property
    def block_bits(self) -> int:
        return max((int(self.scale) >> 5).bit_length() - 1, 0)

    def _cumulative(self, bits: int) -> Bounds:
        return _geometric((1 << self.block_bits) / self.scale, bits)

    def _gamma(self, v: int, u: int) -> Fraction:
        return u / self.scale

    def _near_gamma(self, v: Integers, u: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Approximate the exponents gamma with the precision that `BlockSampler` requires.

        With t = 2^b, f = u/t and k = t/scale <= 2^-5, ``gamma = k f``. All steps round down. Gamma loses up to 2^-29 as
        f loses up to 2^-24, 2^-40 as k loses 2^-40, and then 2^-30. No product exceeds 2^59, and gamma is below 2^-5.
        """
        b = self.block_bits
        f = u >> b - FRACTION if b > FRACTION else u << FRACTION - b
        k = (1 << b + 40) * self.scale.denominator // self.scale.numerator
        return f * k >> FRACTION + 40 - UNIT, np.ones(len(u), dtype=bool)
