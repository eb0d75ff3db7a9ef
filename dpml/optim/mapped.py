"""Gradients of rows that every run maps by its own matrix, in single precision.

Run b has a public matrix P_b. A row x becomes ``z = P_b x / |P_b x|``; a row of zeros stays one. For the logistic loss
and softmax, z takes the place of x. The squared loss keeps its targets, and so the length L = |P_b x|: its gradient is
``2 L (L z'w - y) z``. The slopes are clipped. Blocks of 64 rows are summed as in `dpml.optim.descent`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dpml.arrays import Array, blocks
from dpml.optim.descent import BLOCKS, Single, below, cut_vectors, labels_of
from dpml.optim.losses import Loss
from dpml.sums import SHORT, PairwiseSum

_SCORES = 1 << 17  # scores held at once: 512 KiB
_MAPPED = 1 << 12  # rows mapped at once


def mapped(X: Array, maps: Array) -> tuple[Array, Array]:
    """Return rows X (n, d) times maps (d, d), scaled to unit length, (n, d), and their lengths before, (n,)."""
    rows, lengths = np.empty_like(X), np.empty(len(X))
    for some in blocks(len(X), most=_MAPPED):
        images = X[some] @ maps
        largest = np.abs(images).max(axis=1)
        images /= np.where(largest > 0, largest, 1.0)[:, None]  # otherwise squares of tiny entries would underflow
        norms = np.sqrt(np.einsum("ij,ij->i", images, images))
        rows[some] = images / np.where(norms > 0, norms, 1.0)[:, None]
        lengths[some] = largest * norms
    return rows, lengths


@dataclass(frozen=True)
class MappedRows:
    """The mapped rows of B runs, in blocks of at most 64 rows, the last one filled up with zeros.

    Attributes:
        loss: logistic, softmax or squared.
        classes: K of softmax, else 1.
        rows: (B, blocks, height, d); for the logistic loss times the label.
        given: additional inputs of the slopes, (B, blocks, height, c): softmax: one-hot labels, c = K; squared: L and
            L y, c = 2; logistic: none, c = 0.
    """

    loss: Loss
    classes: int
    rows: Single
    given: Single

    @classmethod
    def of(  # many parameters: the rows, and how they are mapped
        cls,
        loss: Loss,
        classes: int,
        X: Array,
        y: Array,
        maps: Array,
        rounded: Callable[[Array], Array] | None = None,
    ) -> "MappedRows":
        """Map rows X (n, d) with labels y (n,) by maps (B, d, d); `rounded` is applied to mapped rows."""
        n, d = X.shape
        count = -(-n // SHORT)
        height = -(-n // count)
        B = len(maps)
        rows = np.zeros((B, count * height, d), np.float32)
        width = {"softmax": classes, "squared": 2}.get(loss.name, 0)
        given = np.zeros((B, count * height, width), np.float32)
        for b in range(B):  # one run at a time, to save memory
            images, lengths = mapped(X, maps[b])
            if rounded is not None:
                images = rounded(images)
            if loss.name == "logistic":
                images *= y[:, None]
            rows[b, :n] = images
            if loss.name == "squared":
                given[b, :n, 0], given[b, :n, 1] = lengths, lengths * y
        if loss.name == "softmax":
            given[:, :n] = labels_of(loss, y, classes)
        shape = (B, count, height)
        return cls(loss, classes, rows.reshape(*shape, d), given.reshape(*shape, width))

    def gradient(self, w: Array | Single, clip: Array) -> Array:
        """Return the sum of the rows' gradients at models w (B, K d), cut at `clip` (B,), in units of it."""
        total = PairwiseSum()
        for rows, slopes in self.parts(w, clip):
            products = np.matmul(slopes.swapaxes(-1, -2), rows)  # (B, part, K, d)
            total.add(np.add.reduce(products, axis=1, dtype=np.float64))
        gradients = total.result().reshape(len(w), -1)
        gradients /= clip[:, None]
        return gradients

    def parts(self, w: Array | Single, clip: Array) -> Iterator[tuple[Single, Single]]:
        """Yield blocks of rows, (B, part, height, d), and their slopes (B, part, height, K) at models w (B, K d).

        Slopes are cut at `clip` (B,).
        """
        limits = np.array([below(float(c), np.float32) for c in clip])[:, None, None, None]
        B, count, height, d = self.rows.shape
        models = np.ascontiguousarray(
            w.reshape(B, 1, self.classes, d).astype(np.float32).swapaxes(-1, -2)
        )  # (B, 1, d, K)
        together = _SCORES // (B * height * max(d, self.classes))
        for some in blocks(count, most=max(1, min(BLOCKS, together))):
            rows = self.rows[:, some]
            yield rows, self._slopes(np.matmul(rows, models), self.given[:, some], limits)

    def _slopes(self, scores: Single, given: Single, limits: Single) -> Single:
        """Turn scores (B, part, height, K) into slopes, cut at limits (B, 1, 1, 1), in place."""
        if self.loss.name == "softmax":
            cut_vectors(scores, given, limits[..., 0])
            return scores
        if self.loss.name == "logistic":  # of rows times labels: (tanh(t/2) - 1)/2
            scores *= np.float32(0.5)
            np.tanh(scores, out=scores)
            scores -= np.float32(1)
            scores *= np.float32(0.5)
            return np.fmax(scores, -limits, out=scores)  # also where a score is not a number
        scores *= given[..., :1]
        scores *= given[..., :1]
        scores -= given[..., 1:]
        scores *= np.float32(2)
        np.fmin(scores, limits, out=scores)
        return np.fmax(scores, -limits, out=scores)
