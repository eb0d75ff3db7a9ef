"""Reorder the rows of an array that is mapped from a file and may not fit into memory."""

import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array, Index, blocks
from dpml.data.sources import cache
from dpml.errors import UserError

_HELD = 1 << 30  # at most so many bytes of mapped rows are loaded into memory
_WINDOW = 1 << 28  # bytes that are reordered at a time
_BLOCK = 1 << 24  # bytes that are read at a time


def take(X: Array, rows: Index) -> Array:
    """Return ``X[rows]``; if X (n, d) is mapped from a file and the result exceeds 1 GiB, map the result, too."""
    if not _mapped(X) or X[:1].nbytes * len(rows) <= _HELD:
        return X[rows]
    try:
        cache.root().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache.root()) as file:
            # a full disk raises an error here; otherwise a later write would end the process by a signal
            os.posix_fallocate(file.fileno(), 0, X[:1].nbytes * len(rows))
            out: Array = np.memmap(file, X.dtype, "r+", shape=(len(rows), X.shape[1]))
    except OSError as error:
        raise UserError(
            f"{cache.root()} has no room to reorder {X[:1].nbytes * len(rows) >> 20:,} MiB of rows "
            f"({error.strerror}): set DPML_CACHE=DIR to a folder with enough free space."
        ) from None
    _arrange(X, rows, out)
    return np.asarray(out)


def _mapped(X: NDArray[Any] | None) -> bool:
    return isinstance(X, np.memmap) or (isinstance(X, np.ndarray) and _mapped(X.base))


def _arrange(X: Array, rows: Index, out: Array) -> None:
    # Disks are slow at single rows, so rows are read in long blocks in the order of X. Each row is appended to the
    # window of `out` in which its target lies; then the rows of each window are moved to their targets.
    size = X[:1].nbytes
    height = max(1, _WINDOW // size)
    free = np.arange(0, len(rows), height)  # the next free index of every window
    landed = np.empty(len(rows), dtype=np.intp)  # for each index of `out`, the target of the row that is there now
    order = np.argsort(rows, kind="stable")
    for some in blocks(len(order), size, _BLOCK):
        places = order[some]
        block, windows = X[rows[places]], places // height
        for window in np.unique(windows):
            own = np.flatnonzero(windows == window)
            at = slice(free[window], free[window] + len(own))
            out[at], landed[at] = block[own], places[own]
            free[window] += len(own)
    for some in blocks(len(rows), size, _WINDOW):
        held = np.array(out[some])
        out[landed[some]] = held
