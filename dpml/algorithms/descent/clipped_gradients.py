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

from dpml import sums
from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.discrete import BITS, checked, whole_steps
from dpml.mechanism.message import Statistic, Terms
from dpml.mechanism.observer import Numbers
from dpml.mechanism.options import Unit
from dpml.optim.descent import LEAST_CLIP, Rows, Single
from dpml.optim.losses import Loss
from dpml.optim.party_gradients import PartyGradients
from dpml.privacy import Problem
from dpml.privacy.discrete import to_integers
from dpml.privacy.discrete.rounding import Integers

_EXACT = 53  # bits of whole numbers that floating-point sums have exactly, in any order
_SLOPE_BITS = 18  # the most bits of Q
_LONGEST = 1e30  # entry of a model whose scores are numbers
_TOGETHER = 1024  # rows that are multiplied together: they stay in cache in double precision


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

    def imprecision(self, problem: Problem) -> float:
        """Rows are summed in single precision, parties in double."""
        if self.unit == "party":
            return sums.imprecision(problem.M, problem.d)
        return sums.single_imprecision(problem.N, problem.d)

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
            return self._packed(*self._by_party.clipped_sums(w, clip))
        return self._in_clips(self.rows, w)

    def each(self, *at: Any) -> Array:
        w, clip = self._at(at)
        if self.statistic.unit == "party":
            return self._packed(*self._by_party.clipped(w, clip))
        return np.array([self._in_clips(own, w) for own in self._each])

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        w, clip = self._at(at)
        if self.statistic.unit == "sample":
            return self._integers_of_rows(w, float(clip[0]), resolutions, secure)
        each, below = self._by_party.clipped(w, clip)
        whole = checked(to_integers(each, BITS, 1.0), 1 << BITS)
        parts = self._packed(whole, below.astype(np.int64) << BITS)
        return parts if secure else parts.sum(axis=0)[None]

    @cached_property
    def rows(self) -> Rows:
        """All rows, to descend on."""
        return self._clipped(slice(None))

    def _at(self, at: tuple[Any, ...]) -> tuple[Single, Array]:
        """The models (B, d) and the clips (B,).

        Raises:
            UserError: a model is so long that scores are no numbers, and slopes then neither.
        """
        w, clips = at if self.statistic.adaptive else (at[0], np.full(len(at[0]), self.statistic.clip))
        if not np.abs(w).max() < _LONGEST:  # also when NaN
            raise UserError("a model on the way is not finite: choose another algo.clip, noise_step or rounds.")
        return w, clips.astype(float)

    def _packed(self, sums: Numbers, counts: Numbers) -> Any:
        return np.concatenate([sums, counts[..., None]], axis=-1) if self.statistic.adaptive else sums

    def _clipped(self, own: slice) -> Rows:
        return Rows.of(self.statistic.loss, self.parties.X[own], self.parties.y[own], clip=self.statistic.clip)

    def _in_clips(self, rows: Rows, w: Single) -> Array:
        """The sum of rows' gradients at w (B, d), in units of the clip."""
        out = np.empty(w.shape)
        rows.gradient(w, out)
        assert self.statistic.clip is not None  # of rows
        out /= self.statistic.clip
        return out

    @cached_property
    def _each(self) -> list[Rows]:
        return [self._clipped(self.parties.of(k)) for k in range(self.parties.problem.M)]

    @cached_property
    def _by_party(self) -> PartyGradients:
        parties = self.parties
        return PartyGradients.of(self.statistic.loss, parties.X, parties.y, parties.offsets)

    def _integers_of_rows(self, w: Single, clip: float, Q: Index, secure: bool) -> Integers:
        """Every party's sums, or those of all: (P, B, d). Both have the same slopes, part by part."""
        rows, N = self._whole, len(self.parties.y)
        offsets = self.parties.offsets if secure else np.array([0, N])
        total = np.zeros((len(offsets) - 1, *w.shape))
        scale, most = (Q * (rows.common / 2 / clip)).astype(np.float32), Q.astype(np.float32)  # Q <= 2^18: exact
        exact = np.empty((_TOGETHER, w.shape[1]))
        for some, halves, slopes in rows.slopes_in_parts(w):
            slopes *= scale
            np.rint(slopes, out=slopes)
            np.fmin(slopes, most, out=slopes)
            np.fmax(slopes, -most, out=slopes)
            start, stop = some.start, min(some.stop, N)
            first, last = np.searchsorted(offsets, [start, stop - 1], side="right") - 1
            for k in range(first, last + 1):
                begin, end = max(start, offsets[k]) - start, min(stop, offsets[k + 1]) - start
                # whole numbers below 2^53, in steps of 2^-21, so that the order does not matter
                for part in range(begin, end, _TOGETHER):
                    own = slice(part, min(part + _TOGETHER, end))
                    vectors = exact[: own.stop - own.start]
                    vectors[...] = halves[own]
                    total[k] += slopes[own].T.astype(float) @ vectors
        return np.ldexp(total, BITS + 1).astype(np.int64)

    @cached_property
    def _whole(self) -> Rows:
        """All rows in steps of 2^-20, halved: single precision has them exactly."""
        whole = checked(to_integers(self.parties.X, BITS, 1.0), 1 << BITS)
        return Rows.of(self.statistic.loss, np.ldexp(whole, -BITS), self.parties.y, clip=self.statistic.clip)
