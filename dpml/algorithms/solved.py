"""How long the gradient is that a solver has left, and how wrong that length may be as it is measured.

A guarantee that holds for what is published, to the last bit, counts both.
"""

import numpy as np

from dpml.arrays import Array, blocks
from dpml.data.partition import Rows
from dpml.optim.losses import Loss, scores

_HEIGHT = 1 << 12  # rows that are added up before their sum is


def gradient_lengths(  # many parameters: an objective, and models
    loss: Loss, rows: Rows, weights: Array, strength: Array | float, tilt: Array | float = 0.0, classes: int = 1
) -> Array:
    """The lengths of the gradients of mean loss + strength/2 ||w||^2 + tilt'w, (B,), at models (B, classes d).

    `strength` is one number or (B, 1); `tilt` is one number or (B, classes d).
    """
    X, y, counts = rows
    total = np.zeros_like(weights)
    for some in blocks(len(y), most=_HEIGHT):
        slopes = loss.slope(scores(X[some], weights, classes), y[some]).reshape(some.stop - some.start, -1)
        if counts is not None:
            slopes = slopes * counts[some, None]
        total += (slopes.T @ X[some]).reshape(total.shape)
    mean = total / (len(y) if counts is None else counts.sum())
    lengths: Array = np.linalg.norm(mean + strength * weights + tilt, axis=1)
    return lengths


def gradient_error(  # many parameters: what rounding depends on
    terms: int, d: int, steepest: float, length: float, strength: float
) -> float:
    """How far the gradient of a mean loss + strength/2 ||w||^2, as computed, is at most from the exact one.

    A sum of n products in any order is off by at most ``n u/(1 - n u)`` times the sum of their sizes, u = 2^-53 (Higham
    2002, Sec. 3.1). A row's score has d products, of ``length`` together, times a curvature of 2 at most; the ridge is
    one more.

    Args:
        terms: how many products are added one after the other (`added`).
        d: products in all scores of a row, of norm at most 1.
        steepest: the longest gradient of a row.
        length: of the model.
        strength: of the ridge.
    """
    return 1.01 * 2.0**-53 * ((terms + 32) * steepest + 2 * (d + 8) * length + 4 * strength * length)


def added(rows: int) -> int:
    """How many terms are added one after the other by `gradient_lengths`: those of a block, then the blocks."""
    return min(rows, _HEIGHT + -(-rows // _HEIGHT))
