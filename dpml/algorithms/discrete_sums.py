"""Sums of clipped gradients on a grid of integers, with discrete noise: nothing between a row and a sum is rounded.

*Record level.* A row becomes integers z of length at most R = 2^20 once (`to_integers`), in every round its slope, in
units of the clip, an integer q of at most Q: its gradient is q z, of length at most QR, which stands for the clip.
*Party level.* Every party's clipped mean gradient becomes integers of length at most R, which stands for the clip; a
party in a count is 2^20 steps. Neighbours' sums are at most twice the clip apart, in whole numbers.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.random import Generator

from dpml.algorithms.clipped_sums import ClippedSums, PartySums, RowSums, SecureSums, Widths, exact_counts, exact_sums
from dpml.algorithms.discrete_noise import BITS, Columns, DiscreteSharing, Noise, variance_of, whole_steps
from dpml.algorithms.hyperparameters import SumProtocol, Unit
from dpml.algorithms.transcript import Watch
from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.descent import Single
from dpml.optim.losses import Loss
from dpml.optim.party_gradients import PartyGradients
from dpml.optim.slopes import Slopes
from dpml.privacy.discrete import to_integers
from dpml.privacy.discrete.rounding import Integers

_EXACT = 53  # bits of whole numbers that floating-point sums have exactly, in any order
_MOST = 18  # bits of Q
_HELD = 1 << 22  # slopes held at once


def slope_steps(unit: Unit, N: int, width: float = 0.0) -> int:
    """Q; 1 at party level. `width` is the standard deviation of the noise, in units of the clip, which has to fit.

    Large enough to round slopes little, small enough that sums of N products are exact in floating point.

    Raises:
        UserError: so much noise does not fit into 64 bits.
    """
    most = max(1, min(1 << _MOST, (1 << _EXACT - BITS - 1) // N)) if unit == "sample" else 1
    return whole_steps(most, width * (1 << BITS))


@dataclass(frozen=True)
class DiscreteSums(ClippedSums):
    """Either level on its grid, by either protocol."""

    unit: Unit = "sample"
    protocol: SumProtocol = "simulate"

    def exact(self, w: Single, clip: Single) -> tuple[Single, Single]:
        Q = np.full(len(w), slope_steps(self.unit, self.parties.problem.N))
        sums, counts = self.answers(w, clip, Q)
        return sums.sum(axis=0) / (Q << BITS)[:, None], counts.sum(axis=0) / (1 << BITS)

    def answers(self, w: Single, clip: Single, Q: Index) -> tuple[Integers, Integers]:
        """At models w (B, d): sums of gradients clipped at `clip` (B,), (P, B, d), and counts (P, B), in steps.

        Of every party for the real protocol, else of all together, P = 1. `Q` (B,) are the `slope_steps`.

        Raises:
            UserError: a model is not finite: neither are slopes then, which could be no integers of a bounded length.
        """
        if not np.isfinite(w).all():
            raise UserError("a model on the way is not finite: choose another algo.clip, rate or rounds.")
        if self.unit == "sample":
            sums = self._of_rows(w, float(clip[0]), Q)
            return sums, np.zeros(sums.shape[:2], np.int64)
        each, below = self.gradients.clipped(w, clip)
        sums, counts = to_integers(each / clip[:, None], BITS, 1.0), below.astype(np.int64) << BITS
        if self.protocol == "secagg":
            return sums, counts
        return sums.sum(axis=0)[None], counts.sum(axis=0)[None]

    def noisy(
        self, w: Single, clip: Single, widths: Widths, rng: Generator, watch: Watch | None = None
    ) -> tuple[Single, Single]:
        """The same with noise, which runs of different budgets do not share."""
        problem = self.parties.problem
        d, one = problem.d, 1 << BITS
        Q = np.array([slope_steps(self.unit, problem.N, width) for width in widths.sums[:: widths.draws].tolist()])
        Q = np.repeat(Q, widths.draws)
        wide = widths.sums * (Q << BITS)  # in steps
        answers, counts = self.answers(w, clip, Q)
        columns = [self._columns(d, wide, widths.draws)]
        if widths.counts is not None:
            whole_steps(1, float(widths.counts.max()) * one)
            columns.append(self._columns(1, widths.counts * one, widths.draws))
            answers = np.concatenate([answers, counts[..., None]], axis=2)
        sharing = DiscreteSharing(problem, self.protocol)
        summed, parts = sharing.noisy(answers, columns, widths.draws, rng, watch is not None)
        sums = summed[:, :d] / (Q << BITS)[:, None]
        if watch is not None and parts is not None:
            watch.drawn(parts[..., :d] / wide[:, None])
            watch.sent(sums, partial(exact_sums, w.copy(), clip.copy()))
        if widths.counts is None:
            return sums.astype(np.float32), counts.sum(axis=0) / one
        counted = summed[:, d:] / one
        if watch is not None and parts is not None:
            watch.drawn(parts[..., d:] / (widths.counts * one)[:, None])
            watch.sent(counted, partial(exact_counts, w.copy(), clip.copy()))
        return sums.astype(np.float32), counted[:, 0]

    def _columns(self, size: int, widths: Array, draws: int) -> Columns:
        """What has noise of `widths` (B,) steps."""
        return Columns(size, [variance_of(width, self.parties.problem, size) for width in widths[::draws].tolist()])

    def _of_rows(self, w: Single, clip: float, Q: Index) -> Integers:
        """Every party's sums, or those of all: (P, B, d). Both protocols have the same slopes, block by block.

        The last bits of a row's slope may depend on its place in a block. So equal rows are not folded: a row that is
        replaced would then move others.
        """
        N, slopes, models = len(self.rows), Slopes(self.loss, clip), np.ldexp(w.T.astype(float), -BITS)
        offsets = self.parties.offsets if self.protocol == "secagg" else np.array([0, N])
        total, together = np.zeros((len(offsets) - 1, *w.shape)), max(1, _HELD // len(w))
        for start in range(0, N, together):
            stop = min(start + together, N)
            scores = self.rows[start:stop] @ models
            q = np.clip(np.rint(slopes.slope(scores, self.parties.y[start:stop]) * (Q / clip)), -Q, Q)
            first, last = np.searchsorted(offsets, [start, stop - 1], side="right") - 1
            for k in range(first, last + 1):
                own = slice(max(start, offsets[k]), min(stop, offsets[k + 1]))
                # whole numbers below 2^53, so that the order does not matter
                total[k] += q[own.start - start : own.stop - start].T @ self.rows[own]
        return total.astype(np.int64)

    @cached_property
    def rows(self) -> Array:
        """All rows (N, d) in steps of 2^-20: whole numbers, as floating point has them."""
        return to_integers(self.parties.X, BITS, 1.0).astype(float)

    @cached_property
    def gradients(self) -> PartyGradients:
        """The rows, party by party."""
        return PartyGradients.of(self.loss, self.parties.X, self.parties.y, self.parties.offsets)


def clipped_sums(loss: Loss, parties: Parties, unit: Unit, protocol: SumProtocol, noise: Noise) -> ClippedSums:
    """The sums of a unit by a protocol, with one of the noises."""
    if noise == "discrete":
        return DiscreteSums(loss, parties, unit, protocol)
    if protocol == "secagg":
        return SecureSums(loss, parties, unit)
    return RowSums(loss, parties) if unit == "sample" else PartySums(loss, parties)
