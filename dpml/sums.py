"""Sums whose rounding has a proven bound: how far floating point lets a sum move when one of its terms is replaced.

A sensitivity is proven for sums of real numbers, but the released sum is one of floating-point numbers. `imprecision`
(double precision) and `single_imprecision` (single precision, in blocks of 64 rows) bound from public numbers how much
rounding adds to a sensitivity: docs/privacy/floating_point_sums.md, Theorems 1 and 2.

Theorem 2 needs three rules: every row keeps its place (equal rows are not merged), a term depends on its own row and on
public numbers only, and no term is longer than half of the sensitivity.
"""

import math
from collections.abc import Iterable

import numpy as np

from dpml.arrays import Array

SHORT, TALL = 64, 1024
"""The most terms in a block that is summed in any order: in single, and in double precision."""

_OPERATIONS = 32  # roundings in the computation of a term, beside those that grow with its entries
LONG = 1e3
"""Equal rows are merged at models up to this length."""
MOST = 1e-3
"""More than this part of a sensitivity is not added to it: the sum is refused."""


class PairwiseSum:
    """Arrays of one shape, added up two by two, as in a tournament: K of them in about log2 K levels (`levels`).

    >>> total = PairwiseSum()
    >>> for part in np.eye(3):
    ...     total.add(part.copy())
    >>> total.result()
    array([1., 1., 1.])
    """

    def __init__(self) -> None:
        self._waiting: list[Array] = []  # sums of 2^i parts each, of ever fewer
        self._count = 0

    def add(self, part: Array) -> None:
        """One more part, in double precision, which is overwritten."""
        self._count += 1
        count = self._count
        while count % 2 == 0:
            earlier = self._waiting.pop()
            earlier += part
            part, count = earlier, count // 2
        self._waiting.append(part)

    def result(self) -> Array:
        """The sum of all parts, at least one."""
        total = self._waiting.pop()
        while self._waiting:
            earlier = self._waiting.pop()
            earlier += total
            total = earlier
        return total


def pairwise(parts: Iterable[Array]) -> Array:
    """The sum of some arrays, at least one, which are overwritten."""
    total = PairwiseSum()
    for part in parts:
        total.add(part)
    return total.result()


def levels(parts: float) -> int:
    """How many additions a part goes through at most in a `PairwiseSum` of so many."""
    return 2 * math.ceil(math.log2(max(parts, 2)))


def gamma(n: float, dtype: type[np.floating] = np.float64) -> float:
    """``n u/(1 - n u)``; inf where that bounds nothing."""
    rounded = n * float(np.finfo(dtype).eps) / 2
    return rounded / (1 - rounded) if rounded < 1 else math.inf


def imprecision(terms: float, entries: int, height: float = TALL, model: float = 0.0) -> float:
    """By how much more than its sensitivity a sum in double precision moves at most, relative to it.

    Args:
        terms: how many are added up, none longer than the sensitivity.
        entries: of a row and of a term, together.
        height: of the blocks that are summed in any order; their sums are added up pairwise.
        model: the longest model at which equal rows are merged, so that others change their places, for slopes that
            change by at most a quarter of what a score does.
    """
    moved = terms * (model * gamma(entries) / 4 + gamma(16)) if model else 0.0
    depth = min(height, terms) + 2 * levels(terms) + _OPERATIONS
    return _with(_own(entries), 2 * (terms * gamma(depth) + moved))


def single_imprecision(terms: float, entries: int) -> float:
    """The same for blocks of `SHORT` terms in single precision, none longer than half the sensitivity, in their places.

    Blocks are added up in double precision, 16 or fewer in any order, and these sums pairwise.
    """
    height = min(SHORT, terms)
    block = height * gamma(height + 1, np.float32)
    added = terms * gamma(16 + levels(terms / SHORT) + _OPERATIONS)
    return _with(_with(_own(entries), gamma(2, np.float32)), block + added * (1 + block))


def _own(entries: int) -> float:
    """How much longer than its bound a term may be."""
    return gamma(2 * entries + _OPERATIONS)


def _with(one: float, other: float) -> float:
    """Both, one after the other."""
    return one + other + one * other
