"""Bound how much rounding adds to the sensitivity of a sum (docs/privacy/floating_point_sums.md, Theorems 1 and 2).

Theorem 2 needs three rules: every row keeps its place (equal rows are not merged), a term depends on its own row and on
public numbers only, and no term exceeds half of the sensitivity.
"""

import math

import numpy as np

from dpml.arrays import Array

SHORT, TALL = 64, 1024
"""The largest number of terms that are summed in any order, in single and in double precision."""

_OPERATIONS = 32  # roundings of a term that do not depend on its number of entries
LONG = 1e3
"""The largest norm of a model at which equal rows are merged."""
MOST = 1e-3
"""The largest relative increase of a sensitivity by rounding; other sums are refused."""


class PairwiseSum:
    """Sum n arrays of one shape by pairwise summation, in which each array goes through only O(log n) additions.

    >>> total = PairwiseSum()
    >>> for part in np.eye(3):
    ...     total.add(part.copy())
    >>> total.result()
    array([1., 1., 1.])
    """

    def __init__(self) -> None:
        self._waiting: list[Array] = []  # sums of 2^i parts each, with falling i
        self._count = 0

    def add(self, part: Array) -> None:
        """Add an array of double precision to the sum; the array may be overwritten."""
        self._waiting.append(part)
        self._count = count = self._count + 1
        while count % 2 == 0:
            self._merge()
            count //= 2

    def result(self) -> Array:
        while len(self._waiting) > 1:
            self._merge()
        return self._waiting.pop()

    def _merge(self) -> None:
        last = self._waiting.pop()
        self._waiting[-1] += last


def levels(parts: float) -> int:
    """Return the largest number of additions that one array goes through in a `PairwiseSum` of `parts` arrays."""
    return 2 * math.ceil(math.log2(max(parts, 2)))


def gamma(n: float, dtype: type[np.floating] = np.float64) -> float:
    """Return Higham's bound n u/(1 - n u) on the relative error of n roundings (unit roundoff u); inf if n u >= 1."""
    rounded = n * float(np.finfo(dtype).eps) / 2
    return rounded / (1 - rounded) if rounded < 1 else math.inf


def imprecision(terms: float, entries: int, height: float = TALL, model: float = 0.0) -> float:
    """Return the largest relative increase of a sum's sensitivity that rounding in double precision can cause.

    Args:
        terms: the number of added terms, each of norm at most the sensitivity.
        entries: the number of entries of a row plus those of the row's term; for clipped gradients, of a gradient only.
        height: the number of terms in a block that is summed in any order; the blocks' sums are added in pairs.
        model: the largest norm of a model at which equal rows are merged (0: never). Merging changes other rows'
            places. The bound is valid if the loss is 1/4-smooth as a function of a row's score.
    """
    merging = terms * (model * gamma(entries) / 4 + gamma(16)) if model else 0.0
    depth = min(height, terms) + 2 * levels(terms) + _OPERATIONS
    return _combined(gamma(2 * entries + _OPERATIONS), 2 * (terms * gamma(depth) + merging))


def single_imprecision(terms: float, entries: int) -> float:
    """Bound the relative increase of a sum's sensitivity that rounding causes if blocks are added in single precision.

    A block has up to `SHORT` terms: gradients with `entries` entries and norms of at most half the sensitivity. Groups
    of up to 16 blocks' sums are added in double precision, in any order, and the groups' sums in pairs.
    """
    height = min(SHORT, terms)
    block = height * gamma(height + 1, np.float32)
    added = terms * gamma(16 + levels(terms / SHORT) + _OPERATIONS)
    return _combined(_combined(gamma(2 * entries + _OPERATIONS), gamma(2, np.float32)), block + added * (1 + block))


def _combined(a: float, b: float) -> float:
    return a + b + a * b  # (1 + a)(1 + b) - 1
