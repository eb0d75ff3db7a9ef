"""A small neural network, in many instances at once: scores, sums of clipped gradients, and descent.

It has one hidden layer of ReLU units and one output: the score of a row x is ``t = v'relu(U x + a) + c``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpml.arrays import Array, blocks
from dpml.optim.losses import Loss, correct
from dpml.sums import TALL, PairwiseSum

_BLOCK = 1 << 21  # numbers of the hidden layer in memory in an evaluation: 16 MiB
_CACHE = 1 << 17  # numbers in memory for a gradient: 1 MiB, twice as fast as all rows at once

# the constants of Adam
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8


@dataclass
class Models:
    """B networks: `inner` weights (H, B, d+1), each unit's bias last, and `outer` weights (H+1, B), bias last."""

    inner: Array
    outer: Array

    @classmethod
    def of(cls, flat: Array, hidden: int) -> "Models":
        """Return models with the parameter vectors `flat` (B, size)."""
        d1 = (flat.shape[1] - hidden - 1) // hidden
        inner = flat[:, : hidden * d1].reshape(len(flat), hidden, d1).transpose(1, 0, 2)
        return cls(np.ascontiguousarray(inner), np.ascontiguousarray(flat[:, hidden * d1 :].T))

    def flat(self) -> Array:
        """Return the parameter vectors: (B, size)."""
        inner = self.inner.transpose(1, 0, 2)
        return np.concatenate([inner.reshape(len(inner), -1), self.outer.T], axis=1)

    def scores(self, X: Array) -> tuple[Array, Array]:
        """Return hidden units (n, H, B) and scores (n, B) of rows X (n, d+1), whose last entry is one."""
        hidden, models, width = self.inner.shape
        units = (X @ self.inner.reshape(-1, width).T).reshape(len(X), hidden, models)
        np.maximum(units, 0.0, out=units)
        return units, np.einsum("nhb,hb->nb", units, self.outer[:-1]) + self.outer[-1]


def clipped_sum(models: Models, X: Array, y: Array, loss: Loss, clip: float) -> Models:
    """Return ``sum_i g_i min(1, clip/||g_i||)`` over the rows' gradients g_i, for every model; clip = inf: no clipping.

    The single g_i are not computed. With the loss's slope s, hidden units z and backward signal ``q = v * [z > 0]``, a
    gradient is ``s (z, 1)`` for the outer layer and ``s q (x, 1)'`` for the inner one. Its squared norm is ``s^2
    (||z||^2 + 1 + ||q||^2 (||x||^2 + 1))``, so clipping a row's gradient means reducing its slope.
    """

    def part(rows: Array, labels: Array) -> Models:
        units, slope, back = _pass(models, rows, labels, loss)
        if math.isfinite(clip):
            square = np.einsum("nhb,nhb->nb", units, units) + 1
            square += np.einsum("nhb,nhb->nb", back, back) * np.einsum("nd,nd->n", rows, rows)[:, None]
            slope *= clip / np.maximum(clip, np.abs(slope) * np.sqrt(square))
        return _sum(rows, units, back, _Slopes(slope, slope, slope, slope))

    return _added(part, X, y, min(TALL, max(64, _CACHE // models.outer.size)))


def sum_of_clipped_terms(models: Models, X: Array, y: Array, loss: Loss) -> Models:
    """Return the sum of the authors' scripts: gradients divided by n^2, each of their four blocks clipped to norm 1.

    The scripts divide by the number of rows n twice, so clipping affects only blocks longer than n^2.
    """

    def part(rows: Array, labels: Array) -> Models:
        units, slope, back = _pass(models, rows, labels, loss)
        slope /= len(y) ** 2
        size = np.abs(slope)
        inside = size * np.sqrt(np.einsum("nhb,nhb->nb", back, back))
        outside = size * np.sqrt(np.einsum("nhb,nhb->nb", units, units))
        lengths = np.sqrt(np.einsum("nd,nd->n", rows[:, :-1], rows[:, :-1]))[:, None]
        if max(inside.max(), outside.max(), float((inside * lengths).max())) <= 1:
            return _sum(rows, units, back, _Slopes(slope, slope, slope, slope))
        clipped = _Slopes(
            outer=slope / np.maximum(1.0, outside),
            outer_bias=slope,
            inner=slope / np.maximum(1.0, inside * lengths),
            inner_bias=slope / np.maximum(1.0, inside),
        )
        return _sum(rows, units, back, clipped)

    return _added(part, X, y, TALL)


def _added(part: Callable[[Array, Array], Models], X: Array, y: Array, most: int) -> Models:
    """Return the sum of `part` over blocks of at most `most` rows with their labels."""
    inner, outer = PairwiseSum(), PairwiseSum()
    for some in blocks(len(y), most=most):
        block = part(X[some], y[some])
        inner.add(block.inner)
        outer.add(block.outer)
    return Models(inner.result(), outer.result())


def _pass(models: Models, X: Array, y: Array, loss: Loss) -> tuple[Array, Array, Array]:
    """Return hidden units (n, H, B), the loss's slope (n, B), and backward signals (n, H, B)."""
    units, scores = models.scores(X)
    return units, loss.slope(scores, y), (units > 0) * models.outer[:-1]


class _Slopes(NamedTuple):
    """The loss's slopes (n, B) that multiply each block of the gradient."""

    outer: Array
    outer_bias: Array
    inner: Array
    inner_bias: Array


def _sum(X: Array, units: Array, back: Array, slopes: _Slopes) -> Models:
    """Return the sum of the rows' gradients, from hidden units and backward signals (n, H, B)."""
    hidden, models = units.shape[1:]
    signal = (back * slopes.inner[:, None]).reshape(len(X), -1)
    gradient = (signal.T @ X).reshape(hidden, models, X.shape[1])
    if slopes.inner_bias is not slopes.inner:
        gradient[..., -1] = np.einsum("nhb,nb->hb", back, slopes.inner_bias)
    outside = np.einsum("nhb,nb->hb", units, slopes.outer)
    return Models(gradient, np.concatenate([outside, slopes.outer_bias.sum(axis=0, keepdims=True)]))


class Adam:
    """Adam as in the authors' scripts, for parameter vectors w (B, size), which change in place.

    Unlike Kingma & Ba (2015, Alg. 1), the scripts do not correct the bias of the second moment, so their first steps
    are up to 30 times as long. They also add the small constant under the root.
    """

    def __init__(self, w: Array, rate: float) -> None:
        self.w, self.first, self.second = w, np.zeros_like(w), np.zeros_like(w)
        self.rate, self.steps = rate, 0

    def step(self, gradient: Array) -> None:
        """Take a step against the gradient (B, size)."""
        self.steps += 1
        self.first *= _FIRST
        self.first += (1 - _FIRST) * gradient
        self.second *= _SECOND
        self.second += (1 - _SECOND) * (gradient * gradient)
        self.w -= self.first / np.sqrt(self.second + _TINY) * (self.rate / (1 - _FIRST**self.steps))


def score(models: Models, X: Array, y: Array, loss: Loss, counts: Array | None = None) -> tuple[Array, Array]:
    """Return the mean loss and the accuracy of every model, (B,) each; row i stands for ``counts[i]`` rows."""
    total, right = np.zeros((2, models.outer.shape[1]))
    for rows in blocks(len(y), models.outer.size, _BLOCK):
        weights = np.ones(len(y[rows])) if counts is None else counts[rows]
        _, scores = models.scores(X[rows])
        total += weights @ loss.value(scores, y[rows])
        right += weights @ correct(scores, y[rows])
    n = len(y) if counts is None else counts.sum()
    return total / n, right / n
