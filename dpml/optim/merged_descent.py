"""Descents of many runs on the mean gradients of the same rows, at the speed of matrix products.

For noise that is published, and so has no proof of rounding: rows change their places, equal rows are merged, and
blocks are added in single precision. With ``h = tanh(x'w/2)`` a row's gradient is, for a label y = -1 or +1,

    logistic: (h - y) x/2,      sigmoid: y (h^2 - 1) x/4.

What does not depend on w is added up once, so that equal rows have one term, whatever their labels are. Rows are
sorted so that a block of them has few columns that are not zero, and only these columns are multiplied.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType

import numpy as np

from dpml.arrays import Array, Index
from dpml.data.preprocess import distinct
from dpml.optim.gradients import Single
from dpml.optim.losses import Loss

Group = tuple[Array, Array, Array]
"""Rows (n, d) that have models of their own, their labels (n,) and weights (n,)."""

_STACKED = 64  # groups of at most so many rows are stacked
_ENTRIES = 9216  # scores of a block, within the limits below
_LEAST, _MOST = 256, 768  # rows of a block
_NOISE = 1 << 20  # numbers of noise drawn at once


@dataclass(frozen=True)
class Block:
    """Halves of rows (n, c) in some columns, and the same times the factors of their terms, (c, n).

    A stack of g groups has an axis (g,) before these, and all columns.
    """

    columns: Index | EllipsisType
    half: Single
    scaled: Single


@dataclass(frozen=True)
class Packed:
    """The rows of one group, or of several small ones: gradients are ``sum of blocks - constant``, (d, 1)."""

    groups: int | list[int]
    blocks: list[Block]
    constant: Array


@dataclass(frozen=True)
class MergedDescent:
    """The rows of G groups, to descend on from models of their own.

    Attributes:
        squared: whether terms are in h^2 instead of h.
    """

    parts: list[Packed]
    squared: bool

    @classmethod
    def of(cls, loss: Loss, groups: Sequence[Group], runs: int) -> "MergedDescent":
        """Return rows for so many runs on a loss, logistic or sigmoid; groups of like sizes are stacked if small."""
        squared = not loss.convex
        halves = []
        for X, y, v in groups:
            halves.append((X / 2, v * y / 2 if squared else v, v * y / 2 if squared else v * y))
        sizes = np.array([len(y) for _, y, _ in groups])
        waiting, parts = np.argsort(sizes, kind="stable").tolist(), []
        while waiting:
            limit = min(_STACKED, 1.5 * sizes[waiting[0]] + 4)
            alike = [g for g in waiting if sizes[g] <= limit]
            if alike:
                parts.append(_stack(alike, [halves[g] for g in alike]))
            else:
                parts.append(_sorted(waiting[0], halves[waiting[0]], min(max(_ENTRIES // runs, _LEAST), _MOST)))
            waiting = waiting[len(alike) or 1 :]
        return cls(parts, squared)

    def advance(
        self, w: Array, steps: Array, widths: Array, noise: Callable[[int], Single], lam: float, rounds: int
    ) -> None:
        """Take rounds ``w <- w - step (gradient + lam w + width z)`` with models w (G, d, D S), in place.

        Runs are D draws of noise for S step sizes each: steps (D S,), widths (G, D, S). ``noise(K)`` draws the z of K
        rounds, (K, G, d, D).
        """
        u, decay = w / steps, 1 - lam * steps  # in these units a step adds gradients as they are
        G, d, D = *w.shape[:2], widths.shape[1]
        together = max(1, _NOISE // (G * d * D))
        for first in range(0, rounds, together):
            drawn = noise(min(together, rounds - first))
            for part in self.parts:
                own, wide = u[part.groups], widths[part.groups].astype(np.float32)[..., None, :, :]
                for z in drawn[:, part.groups]:
                    models = np.multiply(own, steps, dtype=np.float32, casting="same_kind")
                    own *= decay
                    own -= (z[..., None] * wide).reshape(own.shape)
                    own += part.constant
                    self._descend(part.blocks, models, own)
                u[part.groups] = own
        np.multiply(u, steps, out=w)

    def _descend(self, blocks: list[Block], models: Single, u: Array) -> None:
        for block in blocks:
            scores = block.half @ models[block.columns]
            np.tanh(scores, out=scores)
            if self.squared:
                np.square(scores, out=scores)
            u[block.columns] -= block.scaled @ scores


def _sorted(group: int, rows: Group, height: int) -> Packed:
    """Return the rows of one group, merged, by their rarest columns first, in blocks of about this height."""
    half, factors, constants = rows
    first, where, _ = distinct(half)
    merged, added = half[first], np.bincount(where, weights=factors)
    used = merged != 0
    order = np.lexsort(used[:, np.argsort(-used.sum(axis=0))].T)
    blocks = []
    for some in np.array_split(order, -(-len(order) // height)):
        columns = np.flatnonzero(used[some].any(axis=0))
        own = merged[np.ix_(some, columns)]
        scaled = (own * added[some, None]).T
        all_of_them = len(columns) == half.shape[1]  # which need not be gathered
        blocks.append(Block(... if all_of_them else columns, own.astype(np.float32), scaled.astype(np.float32)))
    return Packed(group, blocks, (half.T @ constants)[:, None])


def _stack(groups: list[int], rows: Sequence[Group]) -> Packed:
    """Return small groups, filled up with rows of zeros."""
    most, d = max(len(half) for half, _, _ in rows), rows[0][0].shape[1]
    half = np.zeros((len(rows), most, d), np.float32)
    scaled = np.zeros((len(rows), d, most), np.float32)
    for i, (own, factors, _) in enumerate(rows):
        half[i, : len(own)], scaled[i, :, : len(own)] = own, (own * factors[:, None]).T
    constant = np.stack([own.T @ constants for own, _, constants in rows])[..., None]
    return Packed(groups, [Block(..., half, scaled)], constant)
