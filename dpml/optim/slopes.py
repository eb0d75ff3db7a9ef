"""Slopes that are cut: a loss whose gradients are no longer than one chooses.

A row's gradient is the slope of its loss at the row's score, times the row. Cut to [-clip, clip], the slopes are still
those of a convex loss where the loss is convex, for they still grow with the score. It goes on along a straight line
from where the loss is as steep as `clip`: for the squared loss that is Huber's loss. So everything that is proven of
descent on a convex loss holds, with the constants of `Slopes`.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpml.arrays import Array
from dpml.optim.descent import Rows
from dpml.optim.losses import Loss

CLIPPED = ("logistic", "squared")
"""The losses whose slopes can be cut."""


@dataclass(frozen=True)
class Slopes:
    """The slopes of a loss, cut to at most `clip` in size; None: as they are.

    Args:
        loss: one of `CLIPPED`, or without a clip one of `descent.LOSSES`.
        clip: the largest slope that is left, positive.
    """

    loss: Loss
    clip: float | None = None

    @property
    def cut(self) -> bool:
        """Whether there is a slope that is cut."""
        return self.clip is not None and (self.loss.lipschitz is None or self.clip < self.loss.lipschitz)

    @property
    def lipschitz(self) -> float:
        """G: no row of norm at most 1 has a longer gradient.

        Raises:
            ValueError: the loss has slopes of any size, and nothing cuts them.
        """
        known = self.clip if self.cut else self.loss.lipschitz
        if known is None:
            raise ValueError(f"loss={self.loss.name} has no Lipschitz constant.")
        return known

    @property
    def smoothness(self) -> float:
        """L. The logistic loss bends the most where its slope is 1/2, and below that by ``clip (1 - clip)``."""
        if self.clip is not None and self.loss.name == "logistic" and self.clip < 0.5:
            return self.clip * (1 - self.clip)
        return self.loss.smoothness

    @property
    def bend(self) -> float:
        """The score u'w, u = y x, up to which the slope of a row is `clip`; 0 where it is no farther than without one.

        Rows pull on the model until their scores are that large, and from there on as they do at 0 without a clip.
        """
        if self.clip is not None and self.loss.name == "logistic" and self.clip < 0.5:
            return math.log((1 - self.clip) / self.clip)
        return 0.0

    def slope(self, scores: Array, y: Array) -> Array:
        """The slopes at scores (n, B) of rows with labels (n,)."""
        slopes = self.loss.slope(scores, y)
        return np.clip(slopes, -self.lipschitz, self.lipschitz) if self.cut else slopes

    def rows(self, X: Array, y: Array, v: Array, dtype: type[np.floating] = np.float32) -> Rows:
        """Rows X (n, d) with labels y and weights v (n,), to descend on."""
        if self.cut:
            return Rows.clipped(self.loss, X, y, self.lipschitz, dtype, v)
        return Rows.of(self.loss, X, y, v, dtype)
