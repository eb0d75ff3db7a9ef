"""Noisy full-gradient descent for many runs at once, at about the speed of matrix products.

A *run* is one sequence of models

    w <- w - step (grad R(w) + scale z),   z ~ N(0, I) anew in every round,
    R(w) = sum_i v_i loss(x_i'w, y_i) + lam/2 ||w||^2,

and runs that share their rows (budgets, step sizes, draws) advance together. A round consists of two matrix products,
the scores ``X W`` and the gradient ``X'S`` of the slopes S; models are columns, so that neither needs a transposed
copy. OpenBLAS is fastest with up to 64 runs and with few enough rows that their scores stay in cache; a group whose
rows stay in cache runs many rounds before the next group. Between the two products there is one pass over the scores,
because with h = tanh(t/2)

    logistic: loss'(t, y) = (h - y)/2,      sigmoid: loss'(t, y) = y (h^2 - 1)/4,

so that the gradient is ``constant + sum_i f_i h_i^k x_i/2``, k = 1 or 2: labels and weights are in a constant, which is
added to the noise, and in one factor per row. Slopes that are *clipped* at c are those of the logistic loss in the rows
u = y x, ``-min(sigma(-u'w), c)``, for which the pass over the scores has one additional maximum; or those of the
squared loss, for which the label is subtracted from the score and the result is clipped. Everything is float32. For eps
<= 10 that moves the released models by less than one part in a thousand of their noise, and their risk without noise by
about 1e-7 (tests/optim/test_descent.py). The last bits of a run may depend on the number of runs, because BLAS may sum
in another order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array, blocks
from dpml.data.preprocess import distinct
from dpml.optim.losses import Loss

Single = NDArray[np.floating]

LOSSES = ("logistic", "sigmoid")
"""The losses whose slopes have the form above."""

_RUNS, _FEWEST = 64, 128  # approximate numbers of runs and rows that are multiplied together
_PRODUCTS = 1_000_000  # OpenBLAS multiplies without packing up to this number
_MOST = 1024  # rows of a block
_NOISE = 1 << 20  # numbers drawn at once: 4 MiB
_LINE = 64  # bytes of a cache line
_WORTH = 0.95  # merge duplicates if at most this share of the rows remains


@dataclass(frozen=True)
class Rows:
    """The rows that some runs descend on: ``grad = constant + common sum_i f_i bend(half_i'w - label_i) half_i``.

    `half` has the x_i/2, (n, d); `factors` the f_i, (n, 1), or None if all are 1; `labels` (n, 1), or None if all are
    0; `constant` is (d, 1). `bend` works in place.
    """

    half: Single
    factors: Single | None
    common: float
    constant: Single
    bend: Callable[[Single], None]
    labels: Single | None = None

    @classmethod
    def of(cls, loss: Loss, X: Array, y: Array, v: Array, dtype: type[np.floating] = np.float32) -> "Rows":
        """Rows X (n, d) with labels y and weights v (n,). Exact duplicates, with any labels, are merged."""
        logistic = loss.name == "logistic"
        factors: Array = v if logistic else v * y / 2
        constant = -(v * y / (2 if logistic else 4)) @ X
        first, where, _ = distinct(X)
        if len(first) <= _WORTH * len(X):
            X, factors = X[first], np.bincount(where, weights=factors).astype(float)
        half, constant = _halved(X, dtype), constant[:, None].astype(dtype)
        bend = _tanh if logistic else _squared_tanh
        if np.ptp(factors) == 0:
            return cls(half, None, float(factors[0]), constant, bend)
        return cls(half, factors[:, None].astype(dtype), 1.0, constant, bend)

    @classmethod
    def clipped(
        cls,
        loss: Loss,
        X: Array,
        y: Array,
        clip: float,
        dtype: type[np.floating] = np.float32,
        v: Array | None = None,
    ) -> "Rows":
        """The sum over rows X (n, d) with labels y of their gradients, each slope clipped to at most `clip` in size.

        With weights v (n,), every gradient is multiplied by its v_i. Exact duplicates of rows with their labels are
        merged. The clipped logistic loss is still convex: it continues along a straight line where its slope is `clip`.
        """
        factors: Array = np.ones(len(y)) if v is None else v
        half, labels, scale = halves(loss, X, y)
        constant = -factors @ half if labels is None else np.zeros(X.shape[1])
        first, where, _ = distinct(half, labels)
        if len(first) <= _WORTH * len(X):
            half, labels = half[first], None if labels is None else labels[first]
            factors = np.bincount(where, weights=factors).astype(float)
        bend = partial(_cut, dtype(clip / 4)) if labels is not None else slope_of_tanh(clip, dtype)
        half, constant = np.ascontiguousarray(half, dtype), constant[:, None].astype(dtype)
        own = None if labels is None else labels[:, None].astype(dtype)
        if np.ptp(factors) == 0:
            return cls(half, None, scale * float(factors[0]), constant, bend, own)
        return cls(half, factors[:, None].astype(dtype), scale, constant, bend, own)

    def gradient(self, w: Single, out: Single) -> None:
        """Write the gradients of the models `w` (B, d) to `out` (B, d)."""
        tiles = self.tiles(len(w))
        models = [aligned(w[runs].T) for runs in tiles]
        totals = [np.empty_like(each) for each in models]
        self.sums(models, totals)()
        for runs, total in zip(tiles, totals, strict=True):
            np.add(total.T * self.half.dtype.type(self.common), self.constant[:, 0], out=out[runs])

    def tiles(self, runs: int) -> list[slice]:
        """The runs, in slices that are multiplied together: about 64, or enough to make a product worth a call."""
        n, d = self.half.shape
        width = max(_RUNS, _PRODUCTS // (d * min(n, _FEWEST)) // _RUNS * _RUNS)
        count = max(1, round(runs / width))
        return [slice(i * width, (i + 1) * width if i + 1 < count else runs) for i in range(count)]

    def sums(self, models: Sequence[Single], totals: Sequence[Single]) -> Callable[[], None]:
        """A function to write ``sum_i f_i bend(half_i'w - label_i) half_i`` of `models` (d, runs) to `totals`."""
        (n, d), dtype = self.half.shape, self.half.dtype
        widest = max(w.shape[1] for w in models)
        height = min(max(_PRODUCTS // (d * widest), 1), _MOST, n)
        parts = [
            (self.half[rows], _part(self.labels, rows), _part(self.factors, rows)) for rows in blocks(n, most=height)
        ]
        room = {w.shape[1]: (aligned(np.empty((height, w.shape[1]), dtype)), aligned(w)) for w in models}
        tiles = [(w, total, *room[w.shape[1]]) for w, total in zip(models, totals, strict=True)]

        def write() -> None:
            first = True
            for half, labels, factors in parts:  # use rows in cache for all tiles
                for w, total, scores, product in tiles:
                    h = np.matmul(half, w, out=scores[: len(half)])
                    if labels is not None:
                        h -= labels
                    self.bend(h)
                    if factors is not None:
                        h *= factors
                    if first:
                        np.matmul(half.T, h, out=total)
                    else:
                        total += np.matmul(half.T, h, out=product)
                first = False

        return write

    def advance(
        self, w: Single, noise: Single, step: Single, decay: Single | None, total: Single | None = None
    ) -> None:
        """Advance the models `w` (d, B) by a round for each noise (rounds, d, B), the terms independent of the data.

        `step` and `decay` are (B,); `decay` is the factor by which a model shrinks in a round, if that is not 1. If
        there is a `total` (d, B), the models after every round are added to it.
        """
        runs = self.tiles(w.shape[1])
        models = [aligned(w[:, some]) for some in runs]
        moves = [aligned(each) for each in models]
        # in full size, because a pass over short rows is slow
        scale = np.broadcast_to(step * self.half.dtype.type(self.common), w.shape).copy()
        left = None if decay is None else np.broadcast_to(decay, w.shape).copy()
        sums = self.sums(models, moves)
        added = [] if total is None else [np.zeros_like(each) for each in models]
        for kick in noise:
            sums()
            for some, each, move in zip(runs, models, moves, strict=True):
                move *= scale[:, some]
                if left is not None:
                    each *= left[:, some]
                each -= move
                each -= kick[:, some]
            for each, path in zip(models, added, strict=False):
                path += each
        for some, each in zip(runs, models, strict=True):
            w[:, some] = each
        if total is not None:
            for some, path in zip(runs, added, strict=True):
                total[:, some] += path


def _halved(X: Array, dtype: type[np.floating]) -> Single:
    """X/2 (n, d), contiguous, without an intermediate copy in double precision."""
    half: Single = np.array(X, dtype, order="C")
    half /= 2
    return half


def halves(loss: Loss, X: Array, y: Array) -> tuple[Array, Array | None, float]:
    """Rows X (n, d) with labels y (n,) for clipped slopes: half (n, d), the scores' subtrahend (n,), and the scale.

    The slope -sigma(-u'w) of the row u = y x is ``tanh(half'w) - 1`` of half = u/2, and the slope 2 (x'w - y) of the
    row x is ``8 (half'w - y/2)`` of half = x/2.
    """
    if loss.name == "logistic":
        return y[:, None] * X / 2, None, 1.0
    return X / 2, y / 2, 8.0


def slope_of_tanh(clip: float, dtype: type[np.floating]) -> Callable[[Single], None]:
    """A function for tanh(h) of scores h, with a lower bound where the logistic slope ``(tanh - 1)/2`` is -`clip`."""
    return partial(_tanh_from, dtype(1 - 2 * clip)) if clip < 1 else _tanh


def _tanh(h: Single) -> None:
    np.tanh(h, out=h)


def _squared_tanh(h: Single) -> None:
    np.tanh(h, out=h)
    np.square(h, out=h)


def _tanh_from(least: np.floating, h: Single) -> None:
    np.tanh(h, out=h)
    np.maximum(h, least, out=h)


def _cut(most: np.floating, h: Single) -> None:
    np.minimum(h, most, out=h)
    np.maximum(h, -most, out=h)


def aligned(values: Single) -> Single:
    """A contiguous copy that starts at a cache line: products of small blocks are a tenth faster."""
    raw = np.empty(values.nbytes + _LINE, np.uint8)
    start = -raw.ctypes.data % _LINE
    copy = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def _part(values: Single | None, rows: slice) -> Single | None:
    return None if values is None else values[rows]


def descend(  # many parameters: one for each symbol of the recursion
    groups: Sequence[Rows],
    start: Array,
    steps: Array,
    scales: Array,
    draw: Callable[[], Single],
    rounds: int,
    lam: float = 0.0,
    heard: Callable[[Single, Single], None] | None = None,
    averaged: int = 1,
) -> Single:
    """The last models of all runs, (G, E, S, D, d): G separate groups, E noise scales, S step sizes, D draws.

    Args:
        groups: the rows of each group.
        start: the first model of every run, (d,).
        steps: step sizes, (S,), or (E, S) if they depend on the noise scale.
        scales: standard deviations of the noise in the gradient, (G, E), or (G, E, S) if they depend on the step size.
        draw: makes a round's noise z, (G, D, d), which the scales and the steps share.
        rounds: T.
        lam: coefficient of lam/2 ||w||^2.
        heard: is called in every round with the models (G, E, S, D, d) before it, and the noisy gradients that moved
            them. Without it the noise of several rounds is drawn in advance.
        averaged: how many of the last models are averaged.
    """
    dtype = groups[0].half.dtype
    noise = [np.asarray(draw(), dtype)]
    G, D, d = noise[0].shape
    E, S = scales.shape[1], steps.shape[-1]
    steps = np.broadcast_to(steps, (E, S))
    kick = (np.broadcast_to(scales.reshape(G, E, -1), (G, E, S)) * steps).reshape(G, E * S).astype(dtype)
    step, decay = (np.tile(each.ravel(), D).astype(dtype) for each in (steps, 1 - lam * steps))
    w = np.broadcast_to(start[:, None], (G, d, D * E * S)).astype(dtype)
    together = 1 if heard else max(1, min(rounds, _NOISE // (d * D * max(G, E * S))))
    last = averaged if averaged > 1 else 0  # the averaged rounds, in blocks of their own
    total = np.zeros_like(w) if last else None
    phases = (rounds - last, None), (last, total)
    for some, sums in ((some, sums) for length, sums in phases for some in blocks(length, most=together)):
        noise += [np.asarray(draw(), dtype) for _ in range(some.stop - some.start - len(noise))]
        before = w.copy() if heard else w
        for g, rows in enumerate(groups):
            z = np.array([each[g].T for each in noise])
            moved = (z[..., None] * kick[g]).reshape(len(noise), d, -1)
            moved += rows.constant * step
            added = None if sums is None else sums[g]
            rows.advance(w[g], moved, step, decay if lam else None, added)
        if heard:
            heard(_runs(before, D, E), _runs((decay * before - w) / step, D, E))
        noise = []
    return np.ascontiguousarray(_runs(w if total is None else total / dtype.type(averaged), D, E))


def _runs(models: Single, D: int, E: int) -> Single:
    """Models (G, d, D E S) as (G, E, S, D, d)."""
    G, d, _ = models.shape
    return models.reshape(G, d, D, E, -1).transpose(0, 3, 4, 2, 1)
