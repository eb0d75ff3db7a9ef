"""The discrete Gaussian N_Z(0, variance), ``Pr[x] ~ e^(-x^2/2 variance)`` on the integers, sampled exactly.

The law is that of Canonne, Kamath & Steinke 2020; the algorithm is another one, made for arrays. With a block of
``t = 2^b`` integers, ``sqrt(variance)/t`` in [32, 64) (or b = 0), a magnitude is ``x = t v + u``:

1. v >= 0 of weight ``e^(-(t v)^2/2 variance)``, by inversion of its cumulative weights;
2. u < t uniform: b random bits;
3. kept with probability ``e^-gamma``, ``gamma = (x^2 - (t v)^2)/2 variance``, in more than 98 of 100 cases;
4. a sign, a random bit; -0 is dropped, so that 0 does not count twice.

So x has the weight ``e^(-(t v)^2/2 variance) e^-gamma = e^(-x^2/2 variance)`` at either sign. Both 1 and 3 compare a
uniform U with real numbers. 64-bit integers decide that from the first digits of U wherever bounds on the numbers
allow; the few lanes that are left get further digits and bounds of arbitrary precision (`bounds.settle`). Neither
floating point nor a bound on the tail is used: the law is exact if the random bits are.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dpml.errors import UserError
from dpml.privacy.discrete import bounds
from dpml.privacy.discrete.rounding import Integers

Words = NDArray[np.uint64]
Source = Callable[[int], bytes]
"""n uniform random bytes: `os.urandom`, or a NumPy generator's `bytes` where noise is to be reproducible."""

_BLOCK = 1 << 17  # candidates at once: 1 MiB an array
_LARGEST = 112  # log2 of the variance: beyond, samples might not fit into 64 bits
_INDEX = 63  # digits of U for v; the 64th bit is the sign
_UNIT = 30  # digits of U for e^-gamma, and of e^-gamma
_FRACTION = 24  # digits of u/t
_MARGIN = 1 << _UNIT - 20  # how far `_chance` may be off
_FAR = 1 << 12  # the least v that `_chance` does not cover
_TERMS = 7


@dataclass(frozen=True)
class DiscreteGaussian:
    """Noise of the law ``Pr[x] ~ e^(-x^2/2 variance)`` for integers x; its variance is at most `variance`.

    Args:
        variance: sigma^2, a positive rational number below 2^112.

    >>> DiscreteGaussian(Fraction(137, 10)).sample((2, 3), np.random.default_rng(1).bytes).shape
    (2, 3)
    """

    variance: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.variance < 1 << _LARGEST:
            raise UserError(
                f"discrete noise needs a variance above 0 and below 2^{_LARGEST}, in squared steps of the grid, got "
                f"{float(self.variance):g}: choose other fractional bits."
            )
        object.__setattr__(self, "variance", Fraction(self.variance))  # an int, divided, would become a float

    @property
    def block_bits(self) -> int:
        """b: the largest whole number >= 0 with ``32 * 2^b <= sqrt(variance)``."""
        return max((int(self.variance) >> 10).bit_length() - 1, 0) // 2

    def sample(self, shape: tuple[int, ...], source: Source = os.urandom) -> Integers:
        """Independent entries, a function of the bytes of `source` alone."""
        samples = np.empty(shape, dtype=np.int64)
        flat, filled = samples.reshape(-1), 0
        while filled < flat.size:
            kept = self._candidates(min(flat.size - filled, _BLOCK), source)
            flat[filled : filled + len(kept)] = kept
            filled += len(kept)
        return samples

    def _candidates(self, count: int, source: Source) -> Integers:
        """The samples that are kept of `count` candidates."""
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
        """v, from the first digits of U (n,)."""
        scaled = self.variance / 4**self.block_bits
        lower, decided = _table(scaled, _INDEX)
        v = np.searchsorted(lower, prefixes, side="right")
        for i in np.flatnonzero(prefixes < decided[v]):
            numbers = partial(_cumulative, scaled)
            v[i] = bounds.settle(int(prefixes[i]), _INDEX, numbers, partial(_word, source))
        return v

    def _kept(self, v: Integers, u: Integers, source: Source) -> NDArray[np.bool_]:
        """Whether U < e^-gamma."""
        digits = np.frombuffer(source(4 * len(v)), dtype="<u4").astype(np.int64) >> 32 - _UNIT
        chance, covered = self._chance(v, u)
        for i in np.flatnonzero(~covered | (np.abs(digits - chance) <= _MARGIN)):
            numbers = partial(_accept, self._gamma(int(v[i]), int(u[i])))
            # beyond all digits, at the one end or the other
            above = bounds.settle(int(digits[i]), _UNIT, numbers, partial(_word, source))
            chance[i] = -1 if above else 1 << _UNIT
        return digits < chance

    def _gamma(self, v: int, u: int) -> Fraction:
        return u * ((v << self.block_bits + 1) + u) / (2 * self.variance)

    def _chance(self, v: Integers, u: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """e^-gamma in units of 2^-30, off by less than 2^-20, and where that is so.

        With f = u/t and k = t^2/2 variance <= 2^-11, ``gamma = k f (2v + f)``. All steps round down: f by 2^-24, which
        is ``2^-24 k (2v + 2)`` < 2^-21.9 of gamma for v < 2^12; f (2v + f) by 2^-20, which is 2^-31; k by 2^-40, which
        is ``2^-40 * 2^13``; gamma by 2^-30. The series for gamma < 1/2 + 2^-21 ends with an error below
        2^-8/8! < 2^-23, and each of its steps rounds by less than two units, halved by the next. No product exceeds
        2^63. For v within the table gamma is below 1/3.
        """
        b = self.block_bits
        f = u >> b - _FRACTION if b > _FRACTION else u << _FRACTION - b
        near = np.minimum(v, _FAR - 1)
        k = (4**b << 40) * self.variance.denominator // (2 * self.variance.numerator)
        product = f * ((near << _FRACTION + 1) + f) >> 2 * _FRACTION - 20
        gamma = product * k >> 60 - _UNIT
        covered = (v < _FAR) & (gamma < 1 << _UNIT - 1)
        gamma = np.where(covered, gamma, 0)
        one = 1 << _UNIT
        chance = np.full_like(gamma, one)
        for term in range(_TERMS, 0, -1):
            chance = one - (gamma * chance >> _UNIT) // term
        return chance, covered


def _words(count: int, source: Source) -> Words:
    return np.frombuffer(source(8 * count), dtype="<u8").astype(np.uint64, copy=False)


def _word(source: Source) -> int:
    return int.from_bytes(source(8), "little")


def _accept(gamma: Fraction, bits: int) -> bounds.Bounds:
    """Two numbers, e^-gamma and 1: the latter is above every U."""
    lower, upper = bounds.exp_minus(gamma, bits)
    return [lower, 1 << bits], [upper, 1 << bits]


_cumulative = lru_cache(maxsize=64)(bounds.cumulative)


@lru_cache(maxsize=64)
def _table(variance: Fraction, bits: int) -> tuple[Words, Words]:
    """The lower bounds (k,), and for every count of them the least U of which this count is certain (k + 1,)."""
    lower, upper = _cumulative(variance, bits)
    certain = [0, *upper[:-1], 1 << bits]  # beyond the table nothing is
    return np.array(lower, dtype=np.uint64), np.array(certain, dtype=np.uint64)
