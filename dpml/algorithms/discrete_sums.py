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

from dpml.algorithms import discrete_noise
from dpml.algorithms.clipped_sums import ClippedSums, PartySums, RowSums, SecureSums, Widths, exact_counts, exact_sums
from dpml.algorithms.discrete_noise import BITS, Noise, variance_of
from dpml.algorithms.hyperparameters import SumProtocol, Unit
from dpml.algorithms.transcript import Watch
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.optim.descent import Single
from dpml.optim.losses import Loss
from dpml.optim.party_gradients import PartyGradients
from dpml.optim.slopes import Slopes
from dpml.privacy.discrete import to_integers
from dpml.privacy.discrete.rounding import Integers

_EXACT = 53  # bits of whole numbers that floating-point sums have exactly, in any order
_MOST = 18  # bits of Q
_ROWS = 1 << 12  # multiplied at once


def slope_steps(N: int) -> int:
    """Q: so large that slopes are hardly rounded, so small that sums of N products are exact in floating point."""
    return max(1, min(1 << _MOST, (1 << _EXACT - BITS - 1) // N))


def steps_of(unit: Unit, N: int) -> tuple[int, int]:
    """How many steps the clip, and one party in a count, are."""
    return (slope_steps(N) if unit == "sample" else 1) << BITS, 1 << BITS


@dataclass(frozen=True)
class DiscreteSums(ClippedSums):
    """Either level on its grid, as the sum of all parties."""

    unit: Unit = "sample"

    def exact(self, w: Single, clip: Single) -> tuple[Single, Single]:
        sums, counts = self.integers(w, clip)
        steps = steps_of(self.unit, self.parties.problem.N)
        return sums / steps[0], counts / steps[1]

    def integers(self, w: Single, clip: Single) -> tuple[Integers, Integers]:
        """At models w (B, d): sums of gradients clipped at `clip` (B,), (B, d), and counts (B,), in steps."""
        if self.unit == "sample":
            return self._of_rows(w, float(clip[0])), np.zeros(len(w), np.int64)
        each, below = self.gradients.clipped(w, clip)
        counts = below.sum(axis=0).astype(np.int64) << BITS
        return to_integers(each / clip[:, None], BITS, 1.0).sum(axis=0), counts

    def noisy(
        self, w: Single, clip: Single, widths: Widths, rng: Generator, watch: Watch | None = None
    ) -> tuple[Single, Single]:
        """The same with noise, which runs of different budgets do not share."""
        steps = steps_of(self.unit, self.parties.problem.N)
        sums, counts = self.integers(w, clip)
        found = (sums + self._noise(widths.sums * steps[0], self.parties.problem.d, widths.draws, rng, watch)) / steps[
            0
        ]
        if watch is not None:
            watch.sent(found, partial(exact_sums, w.copy(), clip.copy()))
        if widths.counts is None:
            return found.astype(np.float32), counts / steps[1]
        noisy = (counts[:, None] + self._noise(widths.counts * steps[1], 1, widths.draws, rng, watch)) / steps[1]
        if watch is not None:
            watch.sent(noisy, partial(exact_counts, w.copy(), clip.copy()))
        return found.astype(np.float32), noisy[:, 0]

    def _noise(self, widths: Array, size: int, draws: int, rng: Generator, watch: Watch | None) -> Integers:
        """The noise of all parties together (B, size), for what continuous noise would have as `widths` (B,), in steps.

        `watch` is told every party's, in units of these.
        """
        problem = self.parties.problem
        variances = [variance_of(width, problem, size) for width in widths[::draws].tolist()]
        if watch is None:
            return discrete_noise.total(variances, problem.M, draws, size, rng)
        parts = discrete_noise.parts(variances, problem.M, draws, size, rng)
        watch.drawn(parts / widths[:, None])
        return np.asarray(parts.sum(axis=0))

    def _of_rows(self, w: Single, clip: float) -> Integers:
        Q, slopes = slope_steps(self.parties.problem.N), Slopes(self.loss, clip)
        total = np.zeros(w.shape)
        for start in range(0, len(self.rows), _ROWS):
            rows = self.rows[start : start + _ROWS]
            scores = np.ldexp(rows, -BITS) @ w.T.astype(float)
            q = np.rint(slopes.slope(scores, self.parties.y[start : start + _ROWS]) * (Q / clip))
            total += np.clip(q, -Q, Q).T @ rows  # whole numbers below 2^53, so that the order does not matter
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
        return DiscreteSums(loss, parties, unit)
    if protocol == "secagg":
        return SecureSums(loss, parties, unit)
    return RowSums(loss, parties) if unit == "sample" else PartySums(loss, parties)
