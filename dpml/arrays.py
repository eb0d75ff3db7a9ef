"""Define the array types `Array` and `Index`, and iterate over large arrays in blocks."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Real numbers."""

Index = NDArray[np.intp]
"""Whole numbers: row numbers, counts, offsets."""

CACHED = 1 << 15  # numbers that fit into the processor's cache: 256 KiB


def blocks(n: int, size: int = 1, most: int = CACHED) -> Iterator[slice]:
    """Yield slices that divide n items of `size` numbers each into consecutive blocks of at most `most` numbers.

    A block has at least one item.

    >>> list(blocks(5, size=3, most=7))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    height = max(1, most // max(size, 1))
    for start in range(0, n, height):
        yield slice(start, min(start + height, n))
