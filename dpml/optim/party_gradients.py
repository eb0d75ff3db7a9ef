"""The clipped mean gradients of many parties, at many models at once.

Parties of about the same size are in one array, padded with rows of zeros, which have no gradient; so the work for M
parties is a few dozen array products, for any M. Everything is float32.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array, Index, blocks
from dpml.optim.descent import Single, halves
from dpml.optim.losses import Loss

_GROWTH = 1.25  # the size ratio of the largest to the smallest party of a bucket
_HELD = 1 << 22  # numbers held at once: 16 MiB
_ROUNDING = 1e-6  # lengths are in single precision: clip slightly below the bound


@dataclass(frozen=True)
class Bucket:
    """P parties of at most m rows each: `half` (P, m, d), `labels` (P, m, 1) or None, `constant` (P, d), `rows` (P,).

    `members` (P,) are their numbers.
    """

    members: NDArray[np.intp]
    half: Single
    labels: Single | None
    constant: Single
    rows: Single


@dataclass(frozen=True)
class PartyGradients:
    """The parties' rows in buckets, in the form of `descent.halves`: gradients are ``scale (half' bend(scores))``."""

    scale: float
    buckets: Sequence[Bucket]

    @classmethod
    def of(
        cls, loss: Loss, X: Array, y: Array, offsets: Index, dtype: type[np.floating] = np.float32
    ) -> "PartyGradients":
        """Rows X (N, d) with labels y (N,), ordered by party; party k has ``offsets[k]:offsets[k + 1]``."""
        half, labels, scale = halves(loss, X, y)
        half, labels = half.astype(dtype), None if labels is None else labels.astype(dtype)
        return cls(scale, [_bucket(half, labels, offsets, members) for members in _alike(np.diff(offsets))])

    def clipped_sums(self, w: Single, clip: Single) -> tuple[Single, Single]:
        """For models w (B, d): the sum over parties of their mean gradients, each clipped to `clip` (B,): (B, d);
        and the number of parties whose gradients were not longer than that, (B,).
        """
        models = np.ascontiguousarray(w.T)
        total, below = np.zeros_like(models), np.zeros(len(w))
        for _, gradients in self._gradients(models):
            shrink, within = _clipped(gradients, clip)
            below += within.sum(axis=0)
            total += np.einsum("pdb,pb->db", gradients, shrink)
        return total.T, below

    def clipped(self, w: Single, clip: Single) -> tuple[Single, Array]:
        """The same for every party separately, (M, B, d) and (M, B)."""
        M = sum(len(bucket.members) for bucket in self.buckets)
        each, below = np.empty((M, *w.shape), w.dtype), np.empty((M, len(w)))
        for members, gradients in self._gradients(np.ascontiguousarray(w.T)):
            shrink, within = _clipped(gradients, clip)
            each[members] = (gradients * shrink[:, None]).transpose(0, 2, 1)
            below[members] = within
        return each, below

    def _gradients(self, models: Single) -> Iterator[tuple[NDArray[np.intp], Single]]:
        """Groups of parties, one after the other, and their mean gradients (P, d, B)."""
        d, B = models.shape
        for bucket in self.buckets:
            P, m, _ = bucket.half.shape
            for some in blocks(P, B * max(m, d), _HELD):
                half = bucket.half[some]
                scores = (half.reshape(-1, d) @ models).reshape(len(half), m, B)
                if bucket.labels is None:
                    np.tanh(scores, out=scores)
                else:
                    scores -= bucket.labels[some]
                gradients = np.matmul(half.transpose(0, 2, 1), scores)
                gradients *= models.dtype.type(self.scale)
                gradients += bucket.constant[some, :, None]
                gradients /= bucket.rows[some, None, None]
                yield bucket.members[some], gradients


def _clipped(gradients: Single, clip: Single) -> tuple[Single, NDArray[np.bool_]]:
    """The factors that clip gradients (P, d, B) at (B,), and whether each was not longer: both (P, B)."""
    limit = clip * gradients.dtype.type(1 - _ROUNDING)
    lengths = np.sqrt(np.einsum("pdb,pdb->pb", gradients, gradients))
    return limit / np.maximum(lengths, limit), lengths <= limit


def _alike(sizes: Index) -> Iterator[NDArray[np.intp]]:
    """The parties in groups of about the same size."""
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
    own = half[places] * used[..., None]
    few = None if labels is None else (labels[places] * used)[..., None]
    # the logistic loss's slopes are tanh - 1: this is the -1, which does not depend on the models
    constant = -own.sum(axis=1) if labels is None else np.zeros_like(own[:, 0])
    return Bucket(members, own, few, constant, sizes.astype(half.dtype))
