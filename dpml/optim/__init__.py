"""Define losses, and compute their gradients and their minimisers without noise."""

import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Index
from dpml.errors import UserError


class NotConvergedError(UserError):
    """Raised if a solver stops before it reaches its tolerance."""


def alike(
    offsets: Index, most: Callable[[int], int] = lambda size: sys.maxsize
) -> Iterator[tuple[Index, Index, NDArray[np.bool_]]]:
    """Yield batches of row groups that have similar sizes; group k has the rows ``offsets[k]:offsets[k + 1]``.

    A batch has the indices of b groups (b,), the indices of their rows, padded to n (b, n), and a mask of the indices
    that are not padding (b, n). A batch whose smallest group has m rows has at most ``most(m)`` groups.
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
