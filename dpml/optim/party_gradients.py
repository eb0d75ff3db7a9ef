"""The clipped mean gradients of many parties, at many models at once.

Parties of about the same size are in one array, padded with rows of zeros, which have no gradient: the work is a few
dozen array products, for any number of parties. Gradients are computed in single precision, each from its party's own
rows, and clipped and added in double precision, so that none is longer than its clip up to rounding (`dpml.sums`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array, Index, blocks
from dpml.optim.descent import Single, cut_vectors, labels_of
from dpml.optim.losses import Loss
from dpml.sums import TALL, PairwiseSum

_GROWTH = 1.25  # the size ratio of the largest to the smallest party of a bucket
_HELD = 1 << 22  # numbers held at once: 16 MiB


@dataclass(frozen=True)
class Bucket:
    """P parties of at most m rows each: `half` (P, m, d), `labels` (P, m, 1 or K) or None, `rows` (P,).

    `members` (P,) are their numbers.
    """

    members: NDArray[np.intp]
    half: Single
    labels: Single | None
    rows: Single


@dataclass(frozen=True)
class PartyGradients:
    """The parties' rows in buckets, in the form of `descent.Rows`: gradients are ``scale (half' bend(scores))``.

    K columns of models belong together for softmax; K is 1 for other losses.
    """

    scale: float
    buckets: Sequence[Bucket]
    classes: int = 1

    @classmethod
    def of(
        cls, loss: Loss, X: Array, y: Array, offsets: Index, dtype: type[np.floating] = np.float32, classes: int = 1
    ) -> "PartyGradients":
        """Return buckets of rows X (N, d), labels y (N,); party k has the rows ``offsets[k]:offsets[k + 1]``."""
        signed = loss.name == "logistic"
        half = (X * (y[:, None] / 2 if signed else 0.5)).astype(dtype)
        labels = None if signed else labels_of(loss, y, classes).astype(dtype)
        buckets = [_bucket(half, labels, offsets, members) for members in _groups_of_similar_size(np.diff(offsets))]
        return cls({"squared": 8.0, "softmax": 2.0}.get(loss.name, 1.0), buckets, classes)

    def clipped_sums(self, w: Single, clip: Array) -> tuple[Array, Array]:
        """Return the sum over parties of their mean gradients at w (B, K d), each clipped to `clip` (B,): (B, K d).

        Also return the number of parties whose gradients were not longer than the clip, (B,). In units of the clip.
        """
        total, below = PairwiseSum(), np.zeros(len(w))
        for _, gradients, within in self._clipped(w, clip):
            below += within.sum(axis=0)
            total.add(_sum_over_parties(gradients))
        return total.result(), below

    def clipped(self, w: Single, clip: Array) -> tuple[Array, Array]:
        """Return the same for every party separately, (M, B, K d) and (M, B)."""
        M = sum(len(bucket.members) for bucket in self.buckets)
        each, below = np.empty((M, *w.shape)), np.empty((M, len(w)))
        for members, gradients, within in self._clipped(w, clip):
            each[members], below[members] = gradients, within
        return each, below

    def _clipped(self, w: Single, clip: Array) -> Iterator[tuple[NDArray[np.intp], Array, NDArray[np.bool_]]]:
        """Yield parties, clipped gradients (P, B, K d) in units of the clip (B,), and which were not too long."""
        columns = np.ascontiguousarray(w.reshape(len(w) * self.classes, -1).T)
        for members, gradients in self._gradients(columns):
            exact = gradients.transpose(0, 2, 1).astype(float).reshape(len(members), *w.shape)
            exact /= clip[:, None]
            lengths = np.sqrt(np.einsum("pbd,pbd->pb", exact, exact))
            exact /= np.maximum(lengths, 1)[..., None]
            yield members, exact, lengths <= 1

    def _gradients(self, models: Single) -> Iterator[tuple[NDArray[np.intp], Single]]:
        """Yield groups of parties, and their mean gradients (P, d, B) at the columns `models` (d, B)."""
        d, B = models.shape
        for bucket in self.buckets:
            P, m, _ = bucket.half.shape
            for some in blocks(P, B * max(m, d), _HELD):
                half = bucket.half[some]
                scores = (half.reshape(-1, d) @ models).reshape(len(half), m, B)
                if bucket.labels is None:
                    np.tanh(scores, out=scores)
                    scores -= 1
                elif self.classes > 1:
                    scores *= 2  # of whole rows
                    each = scores.reshape(*scores.shape[:2], -1, self.classes)
                    cut_vectors(each, bucket.labels[some][:, :, None], models.dtype.type(2))  # no slopes are longer
                else:
                    scores -= bucket.labels[some]
                gradients = np.matmul(half.transpose(0, 2, 1), scores)
                gradients *= models.dtype.type(self.scale)
                gradients /= bucket.rows[some, None, None]
                yield bucket.members[some], gradients


def _sum_over_parties(gradients: Array) -> Array:
    total = PairwiseSum()
    for some in blocks(len(gradients), most=TALL):
        total.add(gradients[some].sum(axis=0))
    return total.result()


def _groups_of_similar_size(sizes: Index) -> Iterator[NDArray[np.intp]]:
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    start = 0
    while start < len(order):
        end = int(np.searchsorted(ordered, _GROWTH * ordered[start], side="right"))
        yield order[start:end]
        start = end


def _bucket(half: Single, labels: Single | None, offsets: Index, members: NDArray[np.intp]) -> Bucket:
    sizes = np.diff(offsets)[members]
    used = np.arange(sizes.max()) < sizes[:, None]
    places = np.where(used, offsets[members][:, None] + np.arange(sizes.max()), 0)
    rows = half[places] * used[..., None]
    targets = None if labels is None else labels[places] * used[..., None]
    return Bucket(members, rows, targets, sizes.astype(half.dtype))
