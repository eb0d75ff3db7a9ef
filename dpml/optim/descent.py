"""Noisy full-gradient descent for many runs at once, at about the speed of matrix products.

A *run* is one sequence of models

    w <- w - step (grad R(w) + scale z),   z ~ N(0, I) anew in every round,
    R(w) = sum_i v_i loss(x_i'w, y_i) + lam/2 ||w||^2,

and runs that share their rows (budgets, step sizes, draws) advance together: a round is two matrix products, scores
``X W'`` and slopes back ``X'S``, in blocks of rows whose scores stay in cache. Between the two lies one pass over the
scores, for with h = tanh(t/2)

    logistic: loss'(t, y) = (h - y)/2,      sigmoid: loss'(t, y) = y (h^2 - 1)/4,

so that the gradient is ``constant + sum_i f_i h_i^power x_i``: labels and weights are in a constant, added once a
round, and in one factor per row. Everything is float32. For eps <= 10 that moves the released models by less than one
part in a thousand of their noise, and their risk without noise by about 1e-7 (tests/optim/test_descent.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.data.preprocess import distinct
from dpml.optim.losses import Loss

Single = NDArray[np.floating]

LOSSES = ("logistic", "sigmoid")
"""The losses whose slope is known in the form above."""

_SCORES = 1 << 18  # scores of a block: 1 MiB
_SMALL, _FEWEST = 1_000_000, 96  # OpenBLAS multiplies without packing up to so many products, worth it from 96 rows
_MOST = 2048  # rows of a block
_WORTH = 0.95  # duplicates are folded when they leave at most this share of the rows


@dataclass(frozen=True)
class Rows:
    """The rows X (n, d) that some runs descend on: ``grad = constant + sum_i f_i tanh(x_i'w / 2)^power x_i``.

    `factors` has the f_i, (n, 1), or (1, 1) where they are all the same; `constant` is (d,).
    """

    X: Single
    factors: Single
    constant: Single
    power: int

    @classmethod
    def of(cls, loss: Loss, X: Array, y: Array, v: Array, dtype: type[np.floating] = np.float32) -> "Rows":
        """Rows X (n, d) with labels y and weights v (n,). Exact duplicates, whatever their labels, become one."""
        logistic = loss.name == "logistic"
        factors: Array = v / 2 if logistic else v * y / 4
        constant = -(v * y / (2 if logistic else 4)) @ X
        first, where, _ = distinct(X)
        if len(first) <= _WORTH * len(X):
            X, factors = X[first], np.bincount(where, weights=factors).astype(float)
        if np.ptp(factors) == 0:
            factors = factors[:1]
        X, factors, constant = (np.ascontiguousarray(array, dtype) for array in (X, factors[:, None], constant))
        return cls(X, factors, constant, power=1 if logistic else 2)

    def gradient(self, w: Single, out: Single) -> None:
        """Write the gradients of the models `w` (B, d) to `out` (B, d)."""
        (n, d), B, equal = self.X.shape, len(w), len(self.factors) == 1
        height = _SMALL // (B * d)
        height = min(height if height >= _FEWEST else max(_SCORES // B, _FEWEST), _MOST, n)
        half = np.multiply(w.T, self.X.dtype.type(0.5), order="C")
        block = np.empty((height, B), self.X.dtype)
        total, product = np.zeros_like(half), np.empty_like(half)
        for start in range(0, n, height):
            rows = self.X[start : start + height]
            slopes = np.matmul(rows, half, out=block[: len(rows)])
            np.tanh(slopes, out=slopes)
            if self.power == 2:
                np.square(slopes, out=slopes)
            if not equal:
                slopes *= self.factors[start : start + height]
            total += np.matmul(rows.T, slopes, out=product)
        if equal:
            total *= self.factors
        np.add(total.T, self.constant, out=out)


def descend(  # many parameters: one for each symbol of the recursion
    groups: Sequence[Rows],
    start: Array,
    steps: Array,
    scales: Array,
    draw: Callable[[], Single],
    rounds: int,
    lam: float = 0.0,
    heard: Callable[[Single, Single], None] | None = None,
) -> Single:
    """The last models of all runs, (G, E, S, D, d): of G groups that never meet, E noise scales, S steps, D draws.

    Args:
        groups: the rows of each group.
        start: the first model of every run, (d,).
        steps: step sizes, (S,), or (E, S) where they go with the noise.
        scales: standard deviations of the noise in the gradient, (G, E), or (G, E, S) where they go with the step.
        draw: makes a round's noise z, (G, D, d), which the scales and the steps share.
        rounds: T.
        lam: coefficient of lam/2 ||w||^2.
        heard: is told in every round the models (G, E, S, D, d) before it, and the noisy gradients that moved them.
    """
    dtype = groups[0].X.dtype
    noise = np.asarray(draw(), dtype)
    G, D, d = noise.shape
    E, S = scales.shape[1], steps.shape[-1]
    steps, scales = np.broadcast_to(steps, (E, S)), np.broadcast_to(scales.reshape(G, E, -1), (G, E, S))
    w = np.broadcast_to(start.astype(dtype), (G, E, S, D, d)).copy()
    move = np.empty((E, S, D, d), dtype)
    size = steps.astype(dtype)[..., None, None]
    decay = (1 - lam * steps).astype(dtype)[..., None, None]
    kick = (scales * steps).astype(dtype)[..., None, None]
    for round_ in range(rounds):
        if round_:
            noise = np.asarray(draw(), dtype)
        before = None if heard is None else w.copy()
        for rows, models, z, widths in zip(groups, w, noise, kick, strict=True):
            rows.gradient(models.reshape(-1, d), move.reshape(-1, d))
            np.multiply(move, size, out=move)
            if lam:
                models *= decay
            models -= move
            models -= np.multiply(widths, z, out=move)
        if heard is not None and before is not None:
            heard(before, (decay * before - w) / size)
    return w
