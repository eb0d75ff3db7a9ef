"""The two array types that the subpackages exchange, blocks of large arrays, and groups of similar size."""

import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Real numbers."""

Index = NDArray[np.intp]
"""Whole numbers: row numbers, counts, offsets."""

CACHED = 1 << 15  # numbers that fit into the processor's cache: 256 KiB


def blocks(n: int, size: int = 1, most: int = CACHED) -> Iterator[slice]:
    """Yield slices that cover n items of `size` numbers, in order; each has at most `most` numbers, or one item.

    >>> list(blocks(5, size=3, most=7))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    height = max(1, most // max(size, 1))
    for start in range(0, n, height):
        yield slice(start, min(start + height, n))


def alike(
    offsets: Index, most: Callable[[int], int] = lambda size: sys.maxsize
) -> Iterator[tuple[Index, Index, NDArray[np.bool_]]]:
    """Yield groups whose numbers of rows differ by at most a quarter; group k has ``offsets[k]:offsets[k + 1]``.

    Yield the numbers of the groups (b,), the places of their rows (b, n), and which of these are not padding. At most
    ``most(n)`` groups with n rows or more are together.
    """
    sizes = np.diff(offsets)
    order = np.argsort(sizes, kind="stable")
    while len(order):
        least = int(sizes[order[0]])
        similar = int(np.searchsorted(sizes[order], 1.25 * least, side="right"))
        groups, order = np.split(order, [min(similar, most(least))])
        columns, first = np.arange(sizes[groups].max()), offsets[groups][:, None]
        used = columns < sizes[groups, None]
        yield groups, np.where(used, first + columns, first), used
