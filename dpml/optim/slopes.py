"""Clipped slopes: a loss whose gradients are no longer than a chosen bound.

A row's gradient is the slope of its loss at the row's score, times the row. If the loss is convex, slopes that are
clipped to [-clip, clip] are those of another convex loss, because they still increase with the score: the loss
continues along a straight line from the point where its slope is `clip`. For the squared loss this is Huber's loss. So
all proofs for descent on a convex loss hold, with the constants of `Slopes`.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpml.arrays import Array
from dpml.optim.descent import Rows
from dpml.optim.losses import Loss

CLIPPED = ("logistic", "squared")
"""The losses whose slopes can be clipped."""


@dataclass(frozen=True)
class Slopes:
    """The slopes of a loss, clipped to [-clip, clip]; None: not clipped.

    Args:
        loss: one of `CLIPPED`, or without a clip one of `descent.LOSSES`.
        clip: the bound on slopes, positive.
    """

    loss: Loss
    clip: float | None = None

    @property
    def cut(self) -> bool:
        """Whether the clip is below some slope."""
        return self.clip is not None and (self.loss.lipschitz is None or self.clip < self.loss.lipschitz)

    @property
    def lipschitz(self) -> float:
        """G: no row of norm at most 1 has a longer gradient.

        Raises:
            ValueError: the loss has unbounded slopes, and there is no clip.
        """
        known = self.clip if self.cut else self.loss.lipschitz
        if known is None:
            raise ValueError(f"loss={self.loss.name} has no Lipschitz constant.")
        return known

    @property
    def smoothness(self) -> float:
        """L. Where its slope has the size s, the logistic loss has the curvature ``s (1 - s)``: 1/4 or less."""
        if self.clip is not None and self.loss.name == "logistic" and self.clip < 0.5:
            return self.clip * (1 - self.clip)
        return self.loss.smoothness

    @property
    def bend(self) -> float:
        """The score u'w, u = y x, up to which the slope of a row is `clip`; at least 0.

        Rows have their full slope up to that score, and a smaller one beyond it, as they have beyond 0 without a clip.
        """
        if self.clip is not None and self.loss.name == "logistic" and self.clip < 0.5:
            return math.log((1 - self.clip) / self.clip)
        return 0.0

    def slope(self, scores: Array, y: Array) -> Array:
        """The slopes at scores (n, B) of rows with labels (n,)."""
        slopes = self.loss.slope(scores, y)
        return np.clip(slopes, -self.lipschitz, self.lipschitz) if self.cut else slopes

    def rows(self, X: Array, y: Array, v: Array | None = None, dtype: type[np.floating] = np.float32) -> Rows:
        """Rows X (n, d) with labels y and weights v (n,), to descend on."""
        return Rows.of(self.loss, X, y, v, dtype, self.lipschitz if self.cut else None)
