"""Run many noisy gradient descents with published noise on the same rows at once.

No proof covers the rounding of these runs, so rows may be reordered, equal rows merged, and blocks added in single
precision. With ``h = tanh(x'w/2)`` and a label y = -1 or +1, a row's gradient is

    logistic: (h - y) x/2,      sigmoid: y (h^2 - 1) x/4.

Terms that do not depend on w are added only once, so equal rows are merged even if their labels differ. Rows are sorted
so that each block has few nonzero columns, and only these columns are multiplied.
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
"""The rows (n, d), labels (n,) and weights (n,) of a group, which has its own models."""

_STACKED = 64  # groups with at most so many rows are stacked
_ENTRIES = 9216  # scores per block, within the limits below
_LEAST, _MOST = 256, 768  # limits of the rows per block
_NOISE = 1 << 20  # noise numbers that are drawn at once


@dataclass(frozen=True)
class Block:
    """A block of halved rows in some columns, (n, c), and the same rows multiplied by their factors, (c, n).

    A stack of g groups has all columns, and an additional first axis (g,).
    """

    columns: Index | EllipsisType
    half: Single
    scaled: Single


@dataclass(frozen=True)
class Packed:
    """The rows of one group or of several small groups; a gradient is the sum of the blocks minus `constant` (d, 1)."""

    groups: int | list[int]
    blocks: list[Block]
    constant: Array


@dataclass(frozen=True)
class MergedDescent:
    """The rows of G groups, for descents in which each group has its own models.

    Attributes:
        parts: All groups, as stacks of small groups and single large groups.
        squared: Whether gradients depend on h^2 (sigmoid loss) instead of h.
    """

    parts: list[Packed]
    squared: bool

    @classmethod
    def of(cls, loss: Loss, groups: Sequence[Group], runs: int) -> "MergedDescent":
        """Prepare groups for the logistic or sigmoid loss, and stack small groups of similar size."""
        squared = not loss.convex
        halves = [(X / 2, *((v * y / 2, v * y / 2) if squared else (v, v * y))) for X, y, v in groups]
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
        """Run all rounds of noisy gradient descent from models w (G, d, D S), which change in place.

        A round is ``w <- w - step (gradient + lam w + width z)`` with noise z. The runs are D noise draws for each of S
        step sizes, with steps (D S,) and widths (G, D, S). ``noise(K)`` draws the noise z of K rounds, (K, G, d, D).
        """
        u, decay = w / steps, 1 - lam * steps  # in these units a step subtracts plain gradients
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
                    for block in part.blocks:
                        scores = block.half @ models[block.columns]
                        np.tanh(scores, out=scores)
                        if self.squared:
                            np.square(scores, out=scores)
                        own[block.columns] -= block.scaled @ scores
                u[part.groups] = own
        np.multiply(u, steps, out=w)


def _sorted(group: int, rows: Group, height: int) -> Packed:
    """Merge equal rows of a group, sort them by their nonzero columns, and cut them into blocks of about `height`."""
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
        all_of_them = len(columns) == half.shape[1]  # then columns need not be gathered
        blocks.append(Block(... if all_of_them else columns, own.astype(np.float32), scaled.astype(np.float32)))
    return Packed(group, blocks, (half.T @ constants)[:, None])


def _stack(groups: list[int], rows: Sequence[Group]) -> Packed:
    """Stack small groups, which are padded with rows of zeros."""
    most, d = max(len(half) for half, _, _ in rows), rows[0][0].shape[1]
    half = np.zeros((len(rows), most, d), np.float32)
    scaled = np.zeros((len(rows), d, most), np.float32)
    for i, (own, factors, _) in enumerate(rows):
        half[i, : len(own)], scaled[i, :, : len(own)] = own, (own * factors[:, None]).T
    constant = np.stack([own.T @ constants for own, _, constants in rows])[..., None]
    return Packed(groups, [Block(..., half, scaled)], constant)
