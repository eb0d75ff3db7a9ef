"""Exact sampling of many integers whose law is given by blocks, for `gaussian` and `laplace`.

With a block of ``t = 2^b`` integers a magnitude is ``x = t v + u``: v is drawn by inversion of its cumulative weights,
u is b random bits, the pair is kept with probability ``e^-gamma``, and a random bit is the sign. 64-bit integers decide
almost all comparisons; `bounds.settle` decides the rest with more digits. No floating-point number takes part. Why the
law is exact: docs/privacy/discrete_noise.md, "Sampling".
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dpml.privacy.discrete import bounds
from dpml.privacy.discrete.rounding import Integers

Words = NDArray[np.uint64]
Source = Callable[[int], bytes]
"""A source of n uniform random bytes: `os.urandom`, or a NumPy generator's `bytes` for reproducible noise."""

_BLOCK = 1 << 17  # candidates at once: 1 MiB an array
_INDEX = 63  # digits of U for v; the 64th bit is the sign
UNIT = 30  # digits of U for e^-gamma, and of e^-gamma
FRACTION = 24  # digits of u/t
_MARGIN = 1 << UNIT - 20  # a bound on the error of `_chance`
_TERMS = 7


class BlockSampler(ABC):
    """A sampler of independent integers; a subclass is a frozen dataclass that defines how blocks are weighted."""

    @property
    @abstractmethod
    def block_bits(self) -> int:
        """The number b of random bits of u."""

    @abstractmethod
    def _cumulative(self, bits: int) -> bounds.Bounds:
        """Bound ``Pr[v <= k]``; the last upper bound is 1."""

    @abstractmethod
    def _gamma(self, v: int, u: int) -> Fraction:
        """Return the exact gamma of one candidate."""

    @abstractmethod
    def _near_gamma(self, v: Integers, u: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return gamma in units of 2^-30, off by less than 2^-21, and where this holds and gamma is below 1/2."""

    def sample(self, shape: tuple[int, ...], source: Source = os.urandom) -> Integers:
        """Draw independent entries, a function of the bytes of `source` alone."""
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
        """Return v for the first digits of U (n,)."""
        lower, decided = _table(self, _INDEX)
        v = np.searchsorted(lower, prefixes, side="right")
        for i in np.flatnonzero(prefixes < decided[v]):
            v[i] = bounds.settle(int(prefixes[i]), _INDEX, self._cumulative, partial(_word, source))
        return v

    def _kept(self, v: Integers, u: Integers, source: Source) -> NDArray[np.bool_]:
        """Return whether U < e^-gamma."""
        digits = np.frombuffer(source(4 * len(v)), dtype="<u4").astype(np.int64) >> 32 - UNIT
        chance, covered = self._chance(v, u)
        for i in np.flatnonzero(~covered | (np.abs(digits - chance) <= _MARGIN)):
            numbers = partial(_accept, self._gamma(int(v[i]), int(u[i])))
            # the comparison below then has the exact outcome
            above = bounds.settle(int(digits[i]), UNIT, numbers, partial(_word, source))
            chance[i] = -1 if above else 1 << UNIT
        return digits < chance

    def _chance(self, v: Integers, u: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return e^-gamma in units of 2^-30, off by less than 2^-20, and where this holds.

        The series for gamma < 1/2 + 2^-21 ends with an error below 2^-8/8! < 2^-23, and each of its steps rounds by
        less than two units, halved by the next.
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
    """Return the lower bounds (k,), and for every count of them the least U with certainly this count (k + 1,)."""
    lower, upper = sampler._cumulative(bits)
    certain = [0, *upper[:-1], 1 << bits]  # beyond the table no count is certain
    return np.array(lower, dtype=np.uint64), np.array(certain, dtype=np.uint64)


def _words(count: int, source: Source) -> Words:
    return np.frombuffer(source(8 * count), dtype="<u8").astype(np.uint64, copy=False)


def _word(source: Source) -> int:
    return int.from_bytes(source(8), "little")


def _accept(gamma: Fraction, bits: int) -> bounds.Bounds:
    """Return bounds on e^-gamma and on 1, which is above every U."""
    lower, upper = bounds.exp_minus(gamma, bits)
    return [lower, 1 << bits], [upper, 1 << bits]
