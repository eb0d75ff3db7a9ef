"""Sums of the gradients of many rows at many models, at about the speed of matrix products.

Models of several runs (budgets, draws) are taken together. A sum consists of two matrix products, the scores ``X W``
and the gradient ``X'S`` of the slopes S; models are columns, so that neither product needs a transposed copy.
With u = y x and h = tanh(u'w/2) one pass over the scores makes the slopes:

    logistic: loss'(t, y) x = (h - 1)/2 u,      sigmoid: loss'(t, y) x = (h^2 - 1)/4 u.

The softmax loss of K classes has K columns for a run and a vector of K slopes for a row. Blocks of 64 rows are summed
in single precision; these sums are added in double precision (for the sensitivity: docs/privacy/
floating_point_sums.md). The last bits of a sum may depend on the number of models, because BLAS may sum in another
order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array, blocks
from dpml.data.preprocess import FOLDED, distinct
from dpml.optim.logistic import hard_targets
from dpml.optim.losses import LOSSES as ALL_LOSSES
from dpml.optim.losses import Loss
from dpml.sums import LONG, SHORT, PairwiseSum

Single = NDArray[np.floating]

LOSSES = ("logistic", "sigmoid")
"""The losses whose slopes have the form above."""

LOGISTIC = ALL_LOSSES["logistic"]

LEAST_CLIP = 1e-6
"""The least clip of a slope: slopes near 0 are multiples of 6e-8, in single precision."""

_RUNS, _FEWEST = 64, 128  # approximate numbers of runs and rows that are multiplied together
_PRODUCTS = 1_000_000  # OpenBLAS multiplies without packing up to this number
BLOCKS = 16  # blocks that are added at once, in double precision
_SCORES = 1 << 17  # scores held at once: 512 KiB
_LINE = 64  # bytes of a cache line


@dataclass(frozen=True)
class Rows:
    """The rows that some runs descend on: ``grad = common sum_i f_i bend(half_i'w - label_i) half_i``.

    `half` has the u_i/2, (P, h, d), or x_i/2 for the squared and the softmax loss: P blocks of h rows, the last filled
    up with zeros. `factors` are the f_i, at most 1, (P h, 1), or None if all are 1; `labels` (P h, 1), (P h, K) for
    softmax, with one for the class of the row and else 0, or None if all are 0. `bend` works in place, on scores (n, B)
    and `labels`. Its output is at most ``2 G / common`` in size, G the longest gradient where f = 1; for softmax, this
    bounds the vector of the K outputs.
    """

    half: Single
    factors: Single | None
    common: float
    bend: Callable[[Single, Single | None], None]
    labels: Single | None = None
    classes: int = 1

    @classmethod
    def of(  # many parameters: the rows, their slopes, and the precision
        cls,
        loss: Loss,
        X: Array,
        y: Array,
        v: Array | None = None,
        dtype: type[np.floating] = np.float32,
        clip: float | None = None,
        classes: int = 1,
    ) -> "Rows":
        """Return rows X (n, d) with labels y and weights v (n,), 1 if None; each slope is cut at `clip` in size.

        The clipped logistic loss is still convex: it continues along a straight line where its slope is `clip`.
        """
        n, d = X.shape
        count = -(-n // SHORT)
        height = -(-n // count)
        bend, scale = _bend(loss, clip, dtype, classes)
        half = np.zeros((count * height, d), dtype)
        signed = loss.name not in ("squared", "softmax")
        np.multiply(X, y[:, None] / 2 if signed else 0.5, out=half[:n], casting="same_kind")
        labels = None if signed else _columns(labels_of(loss, y, classes), len(half), dtype)
        most = 1.0 if v is None else float(v.max())
        equal = v is None or float(v.min()) == most
        factors = None if equal or v is None else _columns(v[:, None] / most, len(half), dtype)
        return cls(half.reshape(count, height, d), factors, scale * most, bend, labels, classes)

    def gradient(self, w: Array | Single, out: Array) -> None:
        """Write the gradients of the models `w` (B, K d) to `out` (B, K d), in double precision."""
        d = self.half.shape[-1]
        w, out = w.reshape(-1, d), out.reshape(-1, d)
        self.gradients(len(w))(w, out)

    def gradients(self, runs: int) -> Callable[[Array | Single, Array], None]:
        """Return a function that writes the gradients of so many models (runs, d); its calls use the same memory."""
        tiles, d = self.tiles(runs), self.half.shape[-1]
        models = [aligned(np.zeros((d, some.stop - some.start)), self.half.dtype) for some in tiles]
        totals = [np.empty(each.shape) for each in models]
        write = self.sums(models, totals)

        def gradient(w: Array | Single, out: Array) -> None:
            for some, model in zip(tiles, models, strict=True):
                model[...] = w[some].T
            write()
            for some, total in zip(tiles, totals, strict=True):
                np.multiply(total.T, self.common, out=out[some])

        return gradient

    def tiles(self, runs: int) -> list[slice]:
        """Return slices of runs that are multiplied together: about 64, or enough to make a product worth a call.

        All classes of a run are in one slice.
        """
        count, height, d = self.half.shape
        width = max(_RUNS, _PRODUCTS // (d * min(count * height, _FEWEST)) // _RUNS * _RUNS)
        width = -(-width // self.classes) * self.classes
        tiles = max(1, round(runs / width))
        return [slice(i * width, (i + 1) * width if i + 1 < tiles else runs) for i in range(tiles)]

    def sums(self, models: Sequence[Single], totals: Sequence[Array]) -> Callable[[], None]:
        """Return a function that writes ``sum_i f_i bend(half_i'w - label_i) half_i`` of `models` to `totals`."""
        (_, height, d), dtype = self.half.shape, self.half.dtype
        parts, few = self._parts(max(w.shape[1] for w in models))
        widths = {w.shape[1] for w in models}
        scores = {width: aligned(np.empty((few * height, width), dtype)) for width in widths}
        products = {width: aligned(np.empty((few, d, width), dtype)) for width in widths}

        def write() -> None:
            sums = [PairwiseSum() for _ in models]
            for part in parts:  # use rows in cache for all tiles
                for w, added in zip(models, sums, strict=True):
                    width, k = w.shape[1], len(part.half)
                    slopes = part.slopes(w, scores[width][: k * height]).reshape(k, height, width)
                    product = np.matmul(part.half.transpose(0, 2, 1), slopes, out=products[width][:k])
                    added.add(np.add.reduce(product, axis=0, dtype=np.float64))
            for total, added in zip(totals, sums, strict=True):
                total[...] = added.result()

        return write

    def slopes(self, models: Single, out: Single) -> Single:
        """Write ``f_i bend(half_i'w - label_i)`` of `models` (d, B) to `out` (rows with the filling, B)."""
        np.matmul(self.half.reshape(-1, len(models)), models, out=out)
        self.bend(out, self.labels)
        if self.factors is not None:
            out *= self.factors
        return out

    def slopes_in_parts(self, w: Single) -> Iterator[tuple[slice, Single, Single]]:
        """Yield parts of the rows: slice, halves (rows, d), and the slopes (rows, B) of models `w` (B, d).

        The next part overwrites the slopes.
        """
        models = aligned(w.T, self.half.dtype)
        parts, few = self._parts(len(w), len(self.half))
        height, start = self.half.shape[1], 0
        scores = aligned(np.empty((few * height, len(w)), self.half.dtype))
        for part in parts:
            half = part.half.reshape(-1, len(models))
            stop = start + len(half)
            yield slice(start, stop), half, part.slopes(models, scores[: len(half)])
            start = stop

    def _parts(self, runs: int, most: int = BLOCKS) -> tuple[list["Rows"], int]:
        """Return parts of as many blocks as are multiplied together for so many runs, and that number of blocks."""
        count, height, _ = self.half.shape
        few = max(1, min(most, count, _SCORES // (height * runs)))
        parts = [
            Rows(
                self.half[some], _part(self.factors, some, height), self.common, self.bend,
                _part(self.labels, some, height), self.classes,
            )
            for some in blocks(count, most=few)
        ]  # fmt: skip
        return parts, few


@dataclass(frozen=True)
class MergedRows:
    """Rows X (n, d) with labels y (n,) of the logistic loss, summed in double precision.

    Equal rows are merged where this saves a quarter, at models that are not long (`dpml.sums`).
    """

    X: Array
    y: Array

    def sum(self, w: Array) -> Array:
        """Return the sums of the rows' gradients at w (B, d): (B, d)."""
        total = np.empty_like(w)
        long = not np.linalg.norm(w, axis=1).max() <= LONG  # also when NaN
        (self._plain if long else self._merged).gradient(w, total)
        return total

    @cached_property
    def _plain(self) -> Rows:
        return Rows.of(LOGISTIC, self.X, self.y, dtype=np.float64)

    @cached_property
    def _merged(self) -> Rows:
        if len(self.y) > FOLDED:
            return self._plain
        signed = self.y[:, None] * self.X
        first, _, counts = distinct(signed)
        return Rows.of(LOGISTIC, signed[first], np.ones(len(first)), counts.astype(float), np.float64)


def labels_of(loss: Loss, y: Array, classes: int) -> Array:
    """Return targets for labels y (n,): y/2, (n, 1), subtracted from half rows' scores; for softmax one-hot, (n, K)."""
    return hard_targets(y, classes) if loss.name == "softmax" else y[:, None] / 2


def _columns(values: Array, rows: int, dtype: type[np.floating]) -> Single:
    """Return values (n, K) as (rows, K), with zeros at the end."""
    columns = np.zeros((rows, values.shape[1]), dtype)
    columns[: len(values)] = values
    return columns


def _bend(
    loss: Loss, clip: float | None, dtype: type[np.floating], classes: int
) -> tuple[Callable[[Single, Single | None], None], float]:
    """Return a function that turns scores into slopes in place, up to a factor, and this factor.

    The slope -sigma(-u'w) of the row u = y x is ``tanh(half'w) - 1`` of half = u/2, over 2, and the slope 2 (x'w - y)
    of the row x is ``8 (half'w - y/2)`` of half = x/2, over 2. The slopes p - e_y of the K scores x'w of softmax are
    those of 2 half, over 1/2.
    """
    if loss.name == "squared":
        assert clip is not None  # without it slopes have no bound
        return partial(_cut, below(clip / 4, dtype)), 8.0
    if loss.name == "softmax":
        longest = float(loss.lipschitz or 0) if clip is None else clip
        return partial(_softmax, classes, below(longest, dtype)), 2.0
    if loss.name == "sigmoid":
        return _sigmoid, 0.5
    largest = 2.0 if clip is None else min(2 * clip, 2.0)
    return partial(_logistic, -below(largest, dtype)), 1.0


def below(value: float, dtype: type[np.floating]) -> np.floating:
    """Return the number of this type next to a positive `value`, towards 0."""
    rounded = dtype(value)
    return rounded if float(rounded) <= value else np.nextafter(rounded, dtype(0))


def _logistic(least: np.floating, h: Single, labels: Single | None) -> None:
    np.tanh(h, out=h)
    h -= 1
    np.fmax(h, least, out=h)  # also where a score is not a number


def _sigmoid(h: Single, labels: Single | None) -> None:
    np.tanh(h, out=h)
    np.square(h, out=h)
    h -= 1
    np.fmax(h, -1, out=h)


def _cut(most: np.floating, h: Single, labels: Single | None) -> None:
    if labels is not None:
        h -= labels
    np.fmin(h, most, out=h)
    np.fmax(h, -most, out=h)


def _softmax(classes: int, clip: np.floating, h: Single, labels: Single | None) -> None:
    h *= 2  # the scores of whole rows
    assert labels is not None
    cut_vectors(h.reshape(len(h), -1, classes), labels[:, None], clip)


def cut_vectors(scores: Single, labels: Single, clip: Single | np.floating) -> None:
    """Turn scores (..., K) into the softmax slopes ``p - e_y`` in place, cut to the length of a clip, (...,) or one.

    `labels` (..., K) are one-hot. The length is computed in this precision, and the cut is a little shorter: the error
    is less than K + 32 roundings, so that no vector is longer than the clip.
    """
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    scores -= labels
    np.fmin(scores, 1, out=scores)  # also where a score is not a number
    np.fmax(scores, -1, out=scores)
    lengths = np.sqrt(np.einsum("...k,...k->...", scores, scores))
    shorter = clip * scores.dtype.type(1 - (scores.shape[-1] + 32) * float(np.finfo(scores.dtype).eps))
    cut = shorter / np.maximum(lengths, shorter)
    scores *= cut[..., None]


def aligned(values: Array | Single, dtype: Any = None) -> Single:
    """Return a contiguous copy that starts at a cache line: products of small blocks are a tenth faster."""
    kind = np.dtype(values.dtype if dtype is None else dtype)
    raw = np.empty(values.size * kind.itemsize + _LINE, np.uint8)
    start = -raw.ctypes.data % _LINE
    copy = raw[start : start + values.size * kind.itemsize].view(kind).reshape(values.shape)
    copy[...] = values
    return copy


def _part(values: Single | None, blocks: slice, height: int) -> Single | None:
    return None if values is None else values[blocks.start * height : blocks.stop * height]
