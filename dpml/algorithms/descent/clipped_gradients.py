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
    """The sum of clipped gradients at models w (B, K d), and where parties are asked about clips (B,), their count.

    Args:
        loss: logistic, softmax or squared.
        unit: what is clipped and summed: the gradients of rows, or the mean gradients of parties.
        clip: the longest gradient; None: as it is asked about.
        classes: K of softmax, else 1.
    """

    loss: Loss
    unit: Unit
    clip: float | None
    classes: int = 1

    @property
    def counted(self) -> bool:
        """Whether the clip follows the parties, who are counted."""
        return self.clip is None and self.unit == "party"

    def lengths(self, d: int) -> tuple[int, ...]:
        return (self.classes * d, 1) if self.counted else (self.classes * d,)

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
        if self.counted:
            whole_steps(1, widths[1] * (1 << BITS))
        return whole_steps(most, widths[0] * (1 << BITS))

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        steps = (1 / (resolution << BITS), 1 / (1 << BITS))
        return steps if self.counted else steps[:1]

    def imprecision(self, problem: Problem) -> float:
        """Rows are summed in single precision, parties in double."""
        entries = self.classes * problem.d
        if self.unit == "party":
            return sums.imprecision(problem.M, entries)
        return sums.single_imprecision(problem.N, entries)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        w = self.classes * d
        return "<f4", (w, 0) if self.clip is None else (w,)

    def valid(self, *at: Any) -> bool:
        return self.clip is not None or bool(np.all(at[1] >= LEAST_CLIP))


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
        w, clips = at if self.statistic.clip is None else (at[0], np.full(len(at[0]), self.statistic.clip))
        if not np.abs(w).max() < _LONGEST:  # also when NaN
            raise UserError("a model on the way is not finite: choose another algo.clip, noise_step or rounds.")
        return w, clips.astype(float)

    def _packed(self, sums: Numbers, counts: Numbers) -> Any:
        return np.concatenate([sums, counts[..., None]], axis=-1) if self.statistic.counted else sums

    def _clipped(self, own: slice) -> Rows:
        of, parties = self.statistic, self.parties
        return Rows.of(of.loss, parties.X[own], parties.y[own], clip=of.clip, classes=of.classes)

    def _in_clips(self, rows: Rows, w: Single) -> Array:
        """The sum of rows' gradients at w (B, K d), in units of the clip."""
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
        parties, of = self.parties, self.statistic
        return PartyGradients.of(of.loss, parties.X, parties.y, parties.offsets, classes=of.classes)

    def _integers_of_rows(self, w: Single, clip: float, Q: Index, secure: bool) -> Integers:
        """Every party's sums, or those of all: (P, B, K d). Both have the same slopes, part by part."""
        rows, K, offsets = self._whole, self.statistic.classes, self._offsets(secure)
        columns = w.reshape(len(w) * K, -1)
        total = np.zeros((len(offsets) - 1, *columns.shape))
        scale = np.repeat(Q * (rows.common / 2 / clip), K).astype(np.float32)
        for some, halves, slopes in rows.slopes_in_parts(columns):
            slopes *= scale
            in_steps(slopes.reshape(len(slopes), -1, K), Q)
            add_by_party(total, offsets, some.start, halves, slopes)
        return np.ldexp(total, BITS + 1).astype(np.int64).reshape(-1, *w.shape)

    def _offsets(self, secure: bool) -> Index:
        """Where the rows of the parties begin and end; of one that has all, unless sums are secure."""
        return self.parties.offsets if secure else np.array([0, len(self.parties.y)])

    @cached_property
    def _whole(self) -> Rows:
        """All rows in steps of 2^-20, halved: single precision has them exactly."""
        of, parties = self.statistic, self.parties
        whole = checked(to_integers(parties.X, BITS, 1.0), 1 << BITS)
        return Rows.of(of.loss, np.ldexp(whole, -BITS), parties.y, clip=of.clip, classes=of.classes)


def classes_of(loss: Loss, problem: Problem) -> int:
    """How many scores a model has: K of softmax, else 1."""
    return problem.classes if loss.name == "softmax" else 1


def in_steps(slopes: Single, Q: Index) -> None:
    """Make whole numbers of slopes (n, B, K), at most Q (B,) <= 2^18 in length: exact in single precision.

    Raises:
        AssertionError: a vector of several is longer, so that a sensitivity that was counted does not hold.
    """
    most = Q.astype(np.float32)[:, None]
    if slopes.shape[-1] > 1:
        np.trunc(slopes, out=slopes)  # towards zero, by which no vector becomes longer
        exact = slopes.astype(float)
        if not np.all(np.einsum("nbk,nbk->nb", exact, exact) <= Q.astype(float) ** 2):
            raise AssertionError("slopes are longer than the sensitivity that is counted for them.")
        return
    np.rint(slopes, out=slopes)
    np.fmin(slopes, most, out=slopes)
    np.fmax(slopes, -most, out=slopes)


def add_by_party(total: Array, offsets: Index, start: int, vectors: Single, slopes: Single) -> None:
    """Add ``sum_i slopes_i vectors_i`` of some rows, the first of which is number `start`, to their parties' (P, C, d).

    Slopes (n, C) are whole and vectors (n, d) multiples of 2^-21, so that the sums, below 2^53 of these steps, are exact
    and the order does not matter.
    """
    stop = min(start + len(vectors), int(offsets[-1]))
    first, last = np.searchsorted(offsets, [start, stop - 1], side="right") - 1
    for k in range(first, last + 1):
        begin, end = max(start, offsets[k]) - start, min(stop, offsets[k + 1]) - start
        for part in range(begin, end, _TOGETHER):
            own = slice(part, min(part + _TOGETHER, end))
            total[k] += slopes[own].T.astype(float) @ vectors[own].astype(float)
