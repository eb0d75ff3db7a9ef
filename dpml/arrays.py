"""The two array types that the subpackages exchange, and how to work on large ones."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Real numbers."""

Index = NDArray[np.intp]
"""Whole numbers: row numbers, counts, offsets."""

_CACHED = 1 << 15  # numbers that are worked on together: 256 KiB, which stay in cache


def in_cache(rows: int, size: int) -> Iterator[slice]:
    """The rows of an array (rows, size), as many at a time as stay in the processor's cache."""
    height = max(1, _CACHED // max(size, 1))
    for start in range(0, rows, height):
        yield slice(start, start + height)
