"""Clipped slopes: a loss whose gradients are not longer than a chosen bound.

For a convex loss, slopes clipped to [-clip, clip] still increase with the score. They are therefore the slopes of
another convex loss, which continues along a straight line where its slope is `clip` (for the squared loss: Huber's
loss). So all proofs for descent on a convex loss hold, with the constants of `Slopes`.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpml.arrays import Array
from dpml.optim.gradients import Rows
from dpml.optim.losses import Loss


@dataclass(frozen=True)
class Slopes:
    """The slopes of a loss, clipped to [-clip, clip].

    Args:
        loss: A loss with one score; it must be convex if there is a clip.
        clip: The positive bound on slopes; None: no clipping.
    """

    loss: Loss
    clip: float | None = None

    @property
    def cut(self) -> bool:
        """Whether the clip changes any slope."""
        return self.clip is not None and (self.loss.lipschitz is None or self.clip < self.loss.lipschitz)

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant G: the gradient of a row of norm at most 1 is not longer.

        Raises:
            ValueError: The loss has unbounded slopes, and there is no clip.
        """
        bound = self.clip if self.cut else self.loss.lipschitz
        if bound is None:
            raise ValueError(f"loss={self.loss.name} has no Lipschitz constant: set a clip.")
        return bound

    @property
    def smoothness(self) -> float:
        """The smoothness L; with slope s the logistic loss has curvature ``s (1 - s)``, at most 1/4."""
        if self.clip is not None and self.loss.task == "binary" and self.clip < 0.5:
            return self.clip * (1 - self.clip)
        return self.loss.smoothness

    @property
    def bend(self) -> float:
        """The score u'w >= 0, u = y x, up to which a row's slope is clipped; slopes at larger scores are smaller."""
        if self.clip is not None and self.loss.task == "binary" and self.clip < 0.5:
            return math.log((1 - self.clip) / self.clip)
        return 0.0

    def slope(self, scores: Array, y: Array) -> Array:
        """Return the slopes at scores (n, B) of rows with labels (n,)."""
        slopes = self.loss.slope(scores, y)
        return np.clip(slopes, -self.lipschitz, self.lipschitz) if self.cut else slopes

    def rows(self, X: Array, y: Array, v: Array | None = None, dtype: type[np.floating] = np.float32) -> Rows:
        """Return rows X (n, d) with labels y and weights v (n,), for computing gradients."""
        return Rows.of(self.loss, X, y, v, dtype, self.lipschitz if self.cut else None)
