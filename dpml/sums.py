"""Sums whose rounding has a proven bound: how far floating point lets a sum move when one of its terms is replaced.

A sensitivity is a number about sums of real numbers, and what is released is a sum of floating-point numbers. Rounding
is deterministic, so that a term that is replaced may also turn the rounding of a partial sum (Casacuberta, Shoemate,
Vadhan & Wagaman 2022). `imprecision` and `single_imprecision` say how much that adds, from public numbers only. With u
half the spacing of floating-point numbers at 1 and ``gamma_n = n u/(1 - n u)``, a sum of n products of floating-point
numbers is off by at most ``gamma_n sum |terms|``, in every entry, in any order, with fused multiplications or without
(Higham 2002, Sec. 3.1). Where it is made of sums of h terms that are added up two by two in l levels, n is h + l.

*Double precision.* Let N terms be no longer than the sensitivity D, as they are where a term can be 0. Two neighbours'
sums are each off by at most ``N gamma D`` in L2 (and L1) norm: they move by at most ``D (1 + 2 N gamma_n)``.

*Single precision.* Replacing a row changes its own term only, bit for bit, provided that rows keep their places (so
equal rows are never merged) and that a term is computed from its row and from public numbers, in a way that does not
depend on the content of other rows: elementwise functions and entries of matrix products are. With blocks of h = 64
terms that are summed in single precision, and these sums in double precision, all blocks but one are the same for both
neighbours. None of the terms is longer than D/2, so that the two sums of that block are off by ``h gamma_h D/2`` each:
2.5e-4 of D in all, for any N. What is added in double precision is counted as above. Rows of zeros that fill up the
last block add nothing, in any arithmetic. Underflow is not counted: a product of numbers above 2^-60 of the clip, in
blocks of 64, would have to have 2^60 of them.

*Equal rows.* Merging them moves others to other places, where a slope may round in another way: a score is off by at
most ``gamma_d ||w||``. In double precision, for slopes that follow the score smoothly, and models that are not long,
that is counted (`imprecision`), and merging is allowed: the sum is as near to the real one wherever its rows are.

In both, a term itself may be longer than its bound by what rounds in its own computation, and because the length of a
row was found to be at most 1 in floating point.
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
