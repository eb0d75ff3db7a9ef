"""Compute scores, clipped gradients and training steps of many small neural networks at once.

The score of a row x is ``t = v'relu(U x + a) + c``.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpml.arrays import Array, blocks
from dpml.optim.losses import Loss, correct
from dpml.sums import TALL, PairwiseSum

_BLOCK = 1 << 21  # the most numbers of the hidden layer that an evaluation keeps in memory: 16 MiB
_CACHE = 1 << 17  # the same for a gradient: 1 MiB, which takes half the time of all rows at once

_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8


@dataclass
class Models:
    """B networks of H hidden units; biases are last on axis 2 of `inner` (H, B, d+1) and axis 0 of `outer` (H+1, B)."""

    inner: Array
    outer: Array

    @classmethod
    def of(cls, flat: Array, hidden: int) -> "Models":
        """Return networks with the parameter vectors `flat` (B, size) and with the given number of hidden units."""
        d1 = (flat.shape[1] - hidden - 1) // hidden
        inner = flat[:, : hidden * d1].reshape(len(flat), hidden, d1).transpose(1, 0, 2)
        return cls(np.ascontiguousarray(inner), np.ascontiguousarray(flat[:, hidden * d1 :].T))

    def flat(self) -> Array:
        inner = self.inner.transpose(1, 0, 2)
        return np.concatenate([inner.reshape(len(inner), -1), self.outer.T], axis=1)

    def scores(self, X: Array) -> tuple[Array, Array]:
        """Return B models' hidden units (n, H, B) and scores (n, B) for n rows X (n, d+1), whose last entry is one."""
        hidden, models, width = self.inner.shape
        units = (X @ self.inner.reshape(-1, width).T).reshape(len(X), hidden, models)
        np.maximum(units, 0.0, out=units)
        return units, np.einsum("nhb,hb->nb", units, self.outer[:-1]) + self.outer[-1]


def clipped_sum(models: Models, X: Array, y: Array, loss: Loss, clip: float | None) -> Array:
    """Return the sum of the rows' clipped gradients for every network, (B, size).

    A row's gradient is clipped to the norm `clip`; inf: no clipping. If `clip` is None, clipping is that in the scripts
    of Imtiaz et al. 2019: a gradient is divided by n^2 for n rows, and each of its four blocks is clipped to norm 1.

    With the loss's slope s, hidden units z and ``q = v * [z > 0]``, a gradient is ``s (z, 1)`` for the outer weights
    and ``s q (x, 1)'`` for the inner weights. So a gradient is clipped by reducing s.
    """
    total = PairwiseSum()
    for some in blocks(len(y), most=min(TALL, max(64, _CACHE // models.outer.size))):
        rows = X[some]
        units, scores = models.scores(rows)
        back, slope = (units > 0) * models.outer[:-1], loss.slope(scores, y[some])
        inner = inner_bias = outer = slope
        if clip is None:
            slope /= len(y) ** 2
            size = np.abs(slope)
            inside = size * np.sqrt(_squares(back))
            lengths = np.sqrt(np.einsum("nd,nd->n", rows[:, :-1], rows[:, :-1]))[:, None]
            inner, inner_bias = slope / np.maximum(1, inside * lengths), slope / np.maximum(1, inside)
            outer = slope / np.maximum(1, size * np.sqrt(_squares(units)))
        elif math.isfinite(clip):
            square = _squares(units) + 1 + _squares(back) * np.einsum("nd,nd->n", rows, rows)[:, None]
            slope *= clip / np.maximum(clip, np.abs(slope) * np.sqrt(square))
        signal = (back * inner[:, None]).reshape(len(rows), -1)
        gradient = Models(
            (signal.T @ rows).reshape(models.inner.shape),
            np.vstack([np.einsum("nhb,nb->hb", units, outer), slope.sum(axis=0)]),
        )
        if clip is None:
            gradient.inner[..., -1] = np.einsum("nhb,nb->hb", back, inner_bias)
        total.add(gradient.flat())
    return total.result()


def _squares(units: Array) -> Array:
    return np.asarray(np.einsum("nhb,nhb->nb", units, units))


class Adam:
    """Adam as in the scripts of Imtiaz et al. 2019; a step changes the parameter vectors w (B, size) in place.

    Unlike Kingma & Ba (2015, Alg. 1), the scripts do not correct the bias of the second moment, and they add the small
    constant under the root.
    """

    def __init__(self, w: Array, rate: float) -> None:
        self.w, self.first, self.second = w, np.zeros_like(w), np.zeros_like(w)
        self.rate, self.steps = rate, 0

    def step(self, gradient: Array) -> None:
        self.steps += 1
        self.first *= _FIRST
        self.first += (1 - _FIRST) * gradient
        self.second *= _SECOND
        self.second += (1 - _SECOND) * (gradient * gradient)
        self.w -= self.first / np.sqrt(self.second + _TINY) * (self.rate / (1 - _FIRST**self.steps))


def score(models: Models, X: Array, y: Array, loss: Loss, counts: Array | None = None) -> tuple[Array, Array]:
    """Return every network's mean loss and accuracy, (B,) each; row i of X is counted ``counts[i]`` times."""
    total, right = np.zeros((2, models.outer.shape[1]))
    counts = np.ones(len(y)) if counts is None else counts
    for rows in blocks(len(y), models.outer.size, _BLOCK):
        _, scores = models.scores(X[rows])
        total += counts[rows] @ loss.value(scores, y[rows])
        right += counts[rows] @ correct(scores, y[rows])
    return total / counts.sum(), right / counts.sum()
