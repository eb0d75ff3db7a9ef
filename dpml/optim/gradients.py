"""Compute gradients at many models at once, and add them in an order that bounds their rounding errors.

Rows are stored as x/2 or, for labels -1 and +1, as u/2 with u = y x, in padded blocks. Products in single precision are
added in double precision (docs/privacy/floating_point_sums.md). A gradient is a constant * a stored row * a slope:

    logistic:  h - 1, h = tanh(u'w/2)      squared:  x'w/2 - y/2
    sigmoid:   h^2 - 1                     softmax:  p - e_y, a column for every class, p = softmax(scores)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array, Index, blocks
from dpml.data.preprocess import FOLDED, distinct
from dpml.optim import alike
from dpml.optim.losses import LOSSES, Loss, hard_targets
from dpml.sums import LONG, SHORT, TALL, PairwiseSum

Single = NDArray[np.floating]

LEAST_CLIP = 1e-6
"""The least clip of a slope: in single precision, slopes near 0 are multiples of 6e-8."""

_COMMON = {"logistic": 1.0, "sigmoid": 0.5, "squared": 8.0, "softmax": 2.0}
_COLUMNS = 256  # the most columns (models times classes) that the rows are multiplied by at once
_BLOCKS = 16  # blocks that are added at once, in double precision
_SCORES = 1 << 17  # scores in memory at once: 512 KiB
_MAPPED = 1 << 12  # rows that are mapped at once
_LONGEST = 2.0  # an upper bound on the norm of softmax slopes


@dataclass(frozen=True)
class Rows:
    """Rows and labels, stored in blocks so that gradients at many models are computed together.

    Attributes:
        half: P blocks of h stored rows (see module), (P, h, d), or (runs, P, h, d).
        labels: The targets on which slopes depend, (..., P, h, c); None if slopes depend on scores only.
        weights: The rows' weights, at most 1, (P, h, 1); None: all are 1.
        common: The factor c in a gradient ``c sum_i slope_i half_i``.
        limit: The largest absolute slope (or norm of slopes): one number, or one per run; None: no limit.
    """

    loss: Loss
    classes: int
    half: Single
    labels: Single | None
    weights: Single | None
    common: float
    limit: Single | None

    @classmethod
    def of(  # noqa: PLR0913 - the rows, their slopes, and the precision
        cls,
        loss: Loss,
        X: Array,
        y: Array,
        v: Array | None = None,
        dtype: type[np.floating] = np.float32,
        clip: float | None = None,
        classes: int = 1,
    ) -> "Rows":
        """Store rows X (n, d), labels y and weights v (n,) in blocks, and clip the loss's derivatives at `clip`."""
        signed = loss.task == "binary"
        half = _in_blocks(X * (y[:, None] / 2 if signed else 0.5), dtype)
        targets = hard_targets(y, classes) if loss.task == "multiclass" else y[:, None] / 2
        labels = None if signed else _in_blocks(targets, dtype)
        most = 1.0 if v is None else float(v.max())
        weights = None if v is None or float(v.min()) == most else _in_blocks(v[:, None] / most, dtype)
        limit = _limit(loss, clip, dtype)
        return cls(loss, classes, half, labels, weights, _COMMON[loss.name] * most, limit)

    @classmethod
    def mapped(
        cls, loss: Loss, classes: int, X: Array, y: Array, maps: Array, rounded: Callable[[Array], Array] | None = None
    ) -> "Rows":
        """Return mapped rows for several descents: descent b maps a row x to ``P x / |P x|`` by its own matrix P = P_b.

        `rounded` is applied to the mapped rows z. The squared loss also needs the lengths L = |P x|, because its
        gradient is ``2 L (L z'w - y) z``.
        """
        each = []
        for one in maps:
            images, lengths = mapped(X, one)
            rows = cls.of(loss, images if rounded is None else rounded(images), y, classes=classes)
            if loss.task == "regression":
                rows = replace(rows, labels=_in_blocks(np.column_stack([lengths, lengths * y / 2]), np.float32))
            each.append(rows)
        labels = [rows.labels for rows in each if rows.labels is not None]
        half = np.stack([rows.half for rows in each])
        return replace(each[0], half=half, labels=np.stack(labels) if labels else None)

    def cut(self, clip: Array) -> "Rows":
        """Return the same rows with a clip per descent: descent b clips loss derivatives to [-clip[b], clip[b]]."""
        return replace(self, limit=_limit(self.loss, clip[:, None, None, None], self.half.dtype.type))

    def gradient(self, w: Array | Single) -> Array:
        """Return the sums (B, K d) of all rows' weighted gradients at models w (B, K d), in double precision."""
        if self.half.ndim == 3 and len(w) * self.classes > _COLUMNS:
            return np.concatenate([self.gradient(w[some]) for some in blocks(len(w), self.classes, _COLUMNS)])
        total = PairwiseSum()
        for _, half, slopes in self.parts(w, _BLOCKS):
            total.add(np.add.reduce(products(half, slopes), axis=-3, dtype=np.float64))
        gradients = total.result().swapaxes(-1, -2) * self.common
        return gradients.reshape(w.shape)

    def parts(self, w: Array | Single, most: int | None = None) -> Iterator[tuple[slice, Single, Single]]:
        """Yield, for k blocks of h rows at a time: indices, the rows as stored (halved), and the loss's slopes at w.

        Rows are (..., k, h, d). Weighted slopes (see module) are (..., k, h, K), or (k, h, B K) if B models share rows.
        """
        *runs, count, height, d = self.half.shape
        models = np.ascontiguousarray(w.reshape(*runs, *(1,) * len(runs), -1, d).swapaxes(-1, -2), self.half.dtype)
        together = _SCORES // (height * max(models.size // d, d * len(w) if runs else 0))
        for some in blocks(count, most=max(1, min(most or count, together))):
            half = self.half[..., some, :, :]
            whole = half if runs else half.reshape(-1, d)
            scores = np.matmul(whole, models).reshape(*half.shape[:-1], -1)
            self.bend(scores, None if self.labels is None else self.labels[..., some, :, :])
            if self.weights is not None:
                scores *= self.weights[some]
            yield some, half, scores

    def bend(self, scores: Single, labels: Single | None) -> None:
        limit = self.limit
        if self.loss.task == "multiclass":
            assert labels is not None
            assert limit is not None
            scores *= 2  # scores of whole rows
            cut_vectors(scores.reshape(*scores.shape[:-1], -1, self.classes), labels[..., None, :], limit)
        elif self.loss.task == "regression":
            assert labels is not None
            if labels.shape[-1] == 2:
                scores *= labels[..., :1]
                scores *= labels[..., :1]
            scores -= labels[..., -1:]
            if limit is not None:
                np.fmin(scores, limit, out=scores)
                np.fmax(scores, -limit, out=scores)
        else:
            np.tanh(scores, out=scores)
            if not self.loss.convex:  # the sigmoid loss
                np.square(scores, out=scores)
            scores -= 1
            if limit is not None:
                np.fmax(scores, -limit, out=scores)  # also replaces NaN


def products(half: Single, slopes: Single) -> Single:
    """Return the h rows' sum of slope * row in each block: (..., k, h, d), (..., k, h, c) -> (..., k, d, c)."""
    return np.asarray(np.matmul(half.swapaxes(-1, -2), slopes))


@dataclass(frozen=True)
class MergedRows:
    """Sum gradients of the logistic loss over rows X (n, d) with labels y (n,), in double precision.

    Equal rows are merged if the norm of every model is at most `dpml.sums.LONG`.
    """

    X: Array
    y: Array

    def sum(self, w: Array) -> Array:
        long = not np.linalg.norm(w, axis=1).max() <= LONG  # also true for NaN
        return (self._plain if long else self._merged).gradient(w)

    @cached_property
    def _plain(self) -> Rows:
        return Rows.of(LOSSES["logistic"], self.X, self.y, dtype=np.float64)

    @cached_property
    def _merged(self) -> Rows:
        if len(self.y) > FOLDED:
            return self._plain
        signed = self.y[:, None] * self.X
        first, _, counts = distinct(signed)
        return Rows.of(LOSSES["logistic"], signed[first], np.ones(len(first)), counts.astype(float), np.float64)


@dataclass(frozen=True)
class PartyGradients:
    """Compute the clipped mean gradients of many parties, at many models at once.

    A bucket has parties of similar size, as blocks of one array.
    """

    buckets: Sequence[tuple[Index, Rows, Single]]

    @classmethod
    def of(
        cls, loss: Loss, X: Array, y: Array, offsets: Index, dtype: type[np.floating] = np.float32, classes: int = 1
    ) -> "PartyGradients":
        """Group parties of similar size. Party k has the rows ``offsets[k]:offsets[k + 1]`` of X (N, d) and y (N,)."""
        every, sizes = Rows.of(loss, X, y, dtype=dtype, clip=_LONGEST, classes=classes), np.diff(offsets)
        half = every.half.reshape(-1, X.shape[1])
        labels = None if every.labels is None else every.labels.reshape(len(half), -1)
        buckets = []
        for members, places, used in alike(offsets):
            own = replace(
                every,
                limit=every.limit if classes > 1 else None,
                half=half[places] * used[..., None],
                labels=None if labels is None else labels[places] * used[..., None],
            )
            buckets.append((members, own, sizes[members].astype(dtype)))
        return cls(buckets)

    def clipped_sums(self, w: Single, clip: Array) -> tuple[Array, Array]:
        """Return all parties' clipped mean gradients at B models w, summed and divided by the clip: (B, classes * d).

        Also return for each model how many parties' gradients have a norm of at most the clip, (B,).
        """
        total, below = PairwiseSum(), np.zeros(len(w))
        for _, gradients, within in self._clipped(w, clip):
            below += within.sum(axis=0)
            parts = PairwiseSum()
            for some in blocks(len(gradients), most=TALL):
                parts.add(gradients[some].sum(axis=0))
            total.add(parts.result())
        return total.result(), below

    def clipped(self, w: Single, clip: Array) -> tuple[Array, Array]:
        """For B models, return parties' clipped mean gradients / clip (M, B, K d) and if norms were <= clip (M, B)."""
        M = sum(len(members) for members, _, _ in self.buckets)
        each, below = np.empty((M, *w.shape)), np.empty((M, len(w)))
        for members, gradients, within in self._clipped(w, clip):
            each[members], below[members] = gradients, within
        return each, below

    def _clipped(self, w: Single, clip: Array) -> Iterator[tuple[Index, Array, NDArray[np.bool_]]]:
        for members, rows, sizes in self.buckets:
            for some, half, slopes in rows.parts(w):
                gradients = products(half, slopes)
                gradients *= gradients.dtype.type(rows.common)
                gradients /= sizes[some, None, None]
                exact = gradients.swapaxes(-1, -2).astype(float).reshape(-1, *w.shape)
                exact /= clip[:, None]
                lengths = np.sqrt(np.einsum("pbd,pbd->pb", exact, exact))
                exact /= np.maximum(lengths, 1)[..., None]
                yield members[some], exact, lengths <= 1


def mapped(X: Array, maps: Array) -> tuple[Array, Array]:
    """Return the rows X (n, d) times the matrix `maps`, scaled to length 1, and their lengths before scaling, (n,)."""
    rows, lengths = np.empty_like(X), np.empty(len(X))
    for some in blocks(len(X), most=_MAPPED):
        images = X[some] @ maps
        largest = np.abs(images).max(axis=1)
        images /= np.where(largest > 0, largest, 1.0)[:, None]  # avoids underflow in squares of tiny entries
        norms = np.sqrt(np.einsum("ij,ij->i", images, images))
        rows[some] = images / np.where(norms > 0, norms, 1.0)[:, None]
        lengths[some] = largest * norms
    return rows, lengths


def cut_vectors(scores: Single, labels: Single, clip: Single | np.floating) -> None:
    """Replace softmax scores (..., K) in place by gradients ``p - e_y`` of the loss, clipped to the norm `clip`.

    `labels` (..., K) are one-hot. A computed norm has a relative error of at most K + 32 machine epsilons. Vectors
    are clipped to a norm that is smaller by this error, so that no vector is longer than the clip.
    """
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    scores -= labels
    np.fmin(scores, 1, out=scores)  # also replaces NaN
    np.fmax(scores, -1, out=scores)
    lengths = np.sqrt(np.einsum("...k,...k->...", scores, scores))
    shorter = clip * scores.dtype.type(1 - (scores.shape[-1] + 32) * float(np.finfo(scores.dtype).eps))
    scores *= (shorter / np.maximum(lengths, shorter))[..., None]


def below(values: Array | float, dtype: type[np.floating]) -> Single:
    """Convert positive numbers to the floating-point type `dtype` by rounding down."""
    rounded = np.asarray(values, float).astype(dtype)
    return np.where(rounded.astype(float) <= values, rounded, np.nextafter(rounded, dtype(0)))


def _limit(loss: Loss, clip: Array | float | None, dtype: type[np.floating]) -> Single | None:
    # converts a bound on the loss's derivatives to a bound on slopes (see module)
    most: Any = loss.lipschitz if clip is None else clip
    if clip is not None and loss.lipschitz is not None and loss.task == "binary":
        most = np.minimum(clip, loss.lipschitz)
    return None if most is None else below(2 * most / _COMMON[loss.name], dtype)


def _in_blocks(values: Array, dtype: type[np.floating]) -> Single:
    n, width = values.shape
    count = -(-n // SHORT)
    height = -(-n // count)
    filled = np.zeros((count * height, width), dtype)
    filled[:n] = values
    return filled.reshape(count, height, width)
