"""Sums of clipped gradients, at many models at once: of rows, or of parties' means; of reals, or of integers.

All are in units of the clip. Rows are in the unit ball, so at record level it is the slope that is cut. At party level
a clip that follows the parties needs to know how many of their gradients were not longer: that count is sent with the
sum.

*On a grid.* Record level: a row becomes integers z of length at most R = 2^20 once (`to_integers`), in every round its
slope, in units of the clip, an integer q of at most Q: its gradient is q z, of length at most QR, which stands for the
clip. Party level: every party's clipped mean gradient becomes integers of length at most R, which stands for the clip;
a party in a count is 2^20 steps. Neighbours' sums are at most twice the clip apart, in whole numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpml.arrays import Array, Index, blocks
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.discrete import BITS, whole_steps
from dpml.mechanism.message import Statistic, Terms
from dpml.mechanism.observer import Numbers
from dpml.mechanism.options import Unit
from dpml.optim.descent import Rows, Single
from dpml.optim.losses import Loss
from dpml.optim.party_gradients import PartyGradients
from dpml.optim.slopes import Slopes
from dpml.privacy import Problem
from dpml.privacy.discrete import to_integers
from dpml.privacy.discrete.rounding import Integers

LEAST_CLIP = 1e-6
"""The shortest clip that follows the parties: all gradients then count by their direction."""

_EXACT = 53  # bits of whole numbers that floating-point sums have exactly, in any order
_SLOPE_BITS = 18  # the most bits of Q
_SLOPES = 1 << 22  # held at once


@dataclass(frozen=True)
class ClippedGradients(Statistic):
    """The sum of clipped gradients at models w (B, d), and where `clip` is None, of clips (B,), the count of parties.

    Args:
        loss: logistic or squared.
        unit: what is clipped and summed: the gradients of rows, or the mean gradients of parties.
        clip: the longest gradient; None, for parties: as it is asked about.
    """

    loss: Loss
    unit: Unit
    clip: float | None

    @property
    def adaptive(self) -> bool:
        """Whether the clip follows the parties, who are counted."""
        return self.clip is None

    def lengths(self, d: int) -> tuple[int, ...]:
        return (d, 1) if self.adaptive else (d,)

    def drawn(self, d: int) -> tuple[int, ...]:
        return self.lengths(d)

    def on(self, parties: Parties) -> "ClippedTerms":
        return ClippedTerms(self, parties)

    def largest(self, problem: Problem) -> float:
        return problem.N  # no more gradients than rows

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """Q; 1 at party level.

        Large enough to round slopes little, small enough that sums of N products are exact in floating point.

        Raises:
            UserError: so much noise does not fit into 64 bits.
        """
        most = 1
        if self.unit == "sample":
            most = max(1, min(1 << _SLOPE_BITS, (1 << _EXACT - BITS - 1) // problem.N))
        if self.adaptive:
            whole_steps(1, widths[1] * (1 << BITS))
        return whole_steps(most, widths[0] * (1 << BITS))

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        steps = (1 / (resolution << BITS), 1 / (1 << BITS))
        return steps if self.adaptive else steps[:1]

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f4", (d, 0) if self.adaptive else (d,)

    def valid(self, *at: Any) -> bool:
        return not self.adaptive or bool(np.all(at[1] >= LEAST_CLIP))


@dataclass(frozen=True)
class ClippedTerms(Terms):
    """The clipped gradients of some parties' rows."""

    statistic: ClippedGradients
    parties: Parties

    def total(self, *at: Any) -> Array:
        w, clip = self._at(at)
        if self.statistic.unit == "party":
            sums, counts = self._by_party.clipped_sums(w, clip)
            return self._packed(sums / clip[:, None], counts)
        out = np.empty(w.shape)
        self._precise.gradient(w.astype(float), out)
        return out / clip[:, None]

    def each(self, *at: Any) -> Array:
        w, clip = self._at(at)
        if self.statistic.unit == "party":
            parts, counts = self._by_party.clipped(w, clip)
            return self._packed(parts / clip[:, None], counts)
        gradients = np.empty((len(self._each), *w.shape), w.dtype)
        for own, gradient in zip(self._each, gradients, strict=True):
            own.gradient(w, gradient)
        return gradients / clip[:, None]

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        """Raises UserError where a model is not finite: neither are slopes then, which could be no bounded integers."""
        w, clip = self._at(at)
        if not np.isfinite(w).all():
            raise UserError("a model on the way is not finite: choose another algo.clip, noise_step or rounds.")
        if self.statistic.unit == "sample":
            return self._integers_of_rows(w, float(clip[0]), resolutions, secure)
        each, below = self._by_party.clipped(w, clip)
        sums = self._packed(to_integers(each / clip[:, None], BITS, 1.0), below.astype(np.int64) << BITS)
        return sums if secure else sums.sum(axis=0)[None]

    @cached_property
    def rows(self) -> Rows:
        """All rows in single precision, to descend on."""
        return self._clipped(slice(None))

    def _at(self, at: tuple[Any, ...]) -> tuple[Single, Single]:
        """The models (B, d) and the clips (B,)."""
        if self.statistic.adaptive:
            return at[0], at[1]
        return at[0], np.full(len(at[0]), self.statistic.clip, np.float32)

    def _packed(self, sums: Numbers, counts: Numbers) -> Any:
        return np.concatenate([sums, counts[..., None]], axis=-1) if self.statistic.adaptive else sums

    def _clipped(self, own: slice, dtype: type[np.floating] = np.float32) -> Rows:
        clip = self.statistic.clip
        assert clip is not None  # of rows
        return Rows.clipped(self.statistic.loss, self.parties.X[own], self.parties.y[own], clip, dtype)

    @cached_property
    def _precise(self) -> Rows:
        return self._clipped(slice(None), np.float64)

    @cached_property
    def _each(self) -> list[Rows]:
        return [self._clipped(self.parties.of(k)) for k in range(self.parties.problem.M)]

    @cached_property
    def _by_party(self) -> PartyGradients:
        parties = self.parties
        return PartyGradients.of(self.statistic.loss, parties.X, parties.y, parties.offsets)

    def _integers_of_rows(self, w: Single, clip: float, Q: Index, secure: bool) -> Integers:
        """Every party's sums, or those of all: (P, B, d). Both have the same slopes, block by block.

        The last bits of a row's slope may depend on its place in a block. So equal rows are not folded: a row that is
        replaced would then move others.
        """
        N, slopes, models = len(self._whole), Slopes(self.statistic.loss, clip), np.ldexp(w.T.astype(float), -BITS)
        offsets = self.parties.offsets if secure else np.array([0, N])
        total = np.zeros((len(offsets) - 1, *w.shape))
        for rows in blocks(N, len(w), _SLOPES):
            start, stop = rows.start, rows.stop
            scores = self._whole[rows] @ models
            q = np.clip(np.rint(slopes.slope(scores, self.parties.y[rows]) * (Q / clip)), -Q, Q)
            first, last = np.searchsorted(offsets, [start, stop - 1], side="right") - 1
            for k in range(first, last + 1):
                own = slice(max(start, offsets[k]), min(stop, offsets[k + 1]))
                # whole numbers below 2^53, so that the order does not matter
                total[k] += q[own.start - start : own.stop - start].T @ self._whole[own]
        return total.astype(np.int64)

    @cached_property
    def _whole(self) -> Array:
        """All rows (N, d) in steps of 2^-20: whole numbers, as floating point has them."""
        return to_integers(self.parties.X, BITS, 1.0).astype(float)
