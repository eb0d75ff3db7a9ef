"""Run many noisy gradient descents on the same rows together, with noise as in a paper (calibration=published).

No proof covers the rounding of these runs, so any order of addition is allowed: rows may be reordered, equal rows
merged, and blocks added in single precision. With ``h = tanh(x'w/2)`` and a label y = -1 or +1, a row's gradient is

    logistic: (h - y) x/2,      sigmoid: y (h^2 - 1) x/4.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dpml.arrays import Array, Index
from dpml.data.preprocess import distinct
from dpml.optim.gradients import Single
from dpml.optim.losses import Loss

Group = tuple[Array, Array, Array]
"""The rows (n, d), labels (n,) and weights (n,) of a group, which has its own models."""

_STACKED = 64  # groups with at most so many rows are stacked
_ENTRIES = 9216  # scores (rows times runs) per block, if the next limits allow
_LEAST, _MOST = 256, 768  # limits of the rows per block
_NOISE = 1 << 20  # noise numbers that are drawn at once


Block = tuple[Index | slice, Single, Single]
"""The indices of some columns (c,), halved rows of g groups in these columns, (g, n, c), and the rows multiplied by
their factors, (g, c, n)."""


class Merged(NamedTuple):
    """One large group of rows, or several small groups in one array; every group trains models of its own.

    A gradient is the sum over `blocks` minus `constant` (g, d, 1), which does not depend on the model.
    """

    groups: list[int]
    blocks: list[Block]
    constant: Array


def merged(loss: Loss, groups: Sequence[Group], runs: int) -> list[Merged]:
    """Prepare groups of rows for descents on the logistic or sigmoid loss, and stack small groups of similar size."""
    halves = [(X / 2, *((v, v * y) if loss.convex else (v * y / 2, v * y / 2))) for X, y, v in groups]
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
    return parts


def descend(  # noqa: PLR0913 - the rows, the loss, and a descent
    parts: Sequence[Merged],
    loss: Loss,
    w: Array,
    steps: Array,
    widths: Array,
    noise: Callable[[int], Single],
    lam: float,
    rounds: int,
) -> None:
    """Run a noisy descent for each of G groups of rows, D noise draws and S step sizes; update models w in place.

    A round is ``w <- w - step (gradient + lam w + width z)`` with noise z. Models w are (G, d, D S), steps (D S,), and
    widths (noise scales) (G, D, S). ``noise(K)`` draws z for K rounds, (K, G, d, D).
    """
    u, decay = w / steps, 1 - lam * steps  # in these units a step subtracts plain gradients
    G, d, D = *w.shape[:2], widths.shape[1]
    together = max(1, _NOISE // (G * d * D))
    for first in range(0, rounds, together):
        drawn = noise(min(together, rounds - first))
        for groups, blocks, constant in parts:
            own, wide = u[groups], widths[groups].astype(np.float32)[:, None]
            for z in drawn[:, groups]:
                models = np.multiply(own, steps, dtype=np.float32, casting="same_kind")
                own *= decay
                own -= (z[..., None] * wide).reshape(own.shape)
                own += constant
                for columns, half, scaled in blocks:
                    scores = half @ models[:, columns]
                    np.tanh(scores, out=scores)
                    if not loss.convex:  # the sigmoid loss
                        np.square(scores, out=scores)
                    own[:, columns] -= scaled @ scores
            u[groups] = own
    np.multiply(u, steps, out=w)


def _sorted(group: int, rows: Group, height: int) -> Merged:
    """Merge equal rows, sort rows by their nonzero columns, and cut the rows into blocks of about `height` rows."""
    half, factors, constants = rows
    first, where, _ = distinct(half)
    kept, added = half[first], np.bincount(where, weights=factors)
    used = kept != 0
    order = np.lexsort(used[:, np.argsort(-used.sum(axis=0))].T)
    blocks: list[Block] = []
    for some in np.array_split(order, -(-len(order) // height)):
        columns = np.flatnonzero(used[some].any(axis=0))
        own = kept[np.ix_(some, columns)]
        scaled = (own * added[some, None]).T
        places = slice(None) if len(columns) == half.shape[1] else columns  # all columns need not be gathered
        blocks.append((places, own[None].astype(np.float32), scaled[None].astype(np.float32)))
    return Merged([group], blocks, (half.T @ constants)[None, :, None])


def _stack(groups: list[int], rows: Sequence[Group]) -> Merged:
    most, d = max(len(half) for half, _, _ in rows), rows[0][0].shape[1]
    half = np.zeros((len(rows), most, d), np.float32)
    scaled = np.zeros((len(rows), d, most), np.float32)
    for i, (own, factors, _) in enumerate(rows):
        half[i, : len(own)], scaled[i, :, : len(own)] = own, (own * factors[:, None]).T
    constant = np.stack([own.T @ constants for own, _, constants in rows])[..., None]
    return Merged(groups, [(slice(None), half, scaled)], constant)
