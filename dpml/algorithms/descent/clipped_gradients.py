"""Sums of clipped gradients, at many models at once: of rows, or of parties' means; of reals, or of integers.

All are in units of the clip. Rows are in the unit ball, so at record level it is the slope that is cut. At party level
a clip that follows the parties needs to know how many of their gradients were not longer: that count is sent with the
sum.

*On a grid.* Record level: a row becomes integers z of length at most R = 2^20 once (`to_integers`), in every round its
slope, in units of the clip, an integer q of at most Q: its gradient is q z, of length at most QR, which stands for the
clip. Party level: every party's clipped mean gradient becomes integers of length at most R, which stands for the clip;
a party in a count is 2^20 steps. A row that is mapped becomes integers after that. Neighbours' sums are at most twice
the clip apart, in whole numbers.

Sums of labels, or numbers of rows of every class, go beside them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dpml import sums
from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.algorithm import Unit
from dpml.mechanism.discrete import BITS, checked, whole_steps
from dpml.mechanism.message import Statistic, Terms
from dpml.mechanism.sharing import Numbers
from dpml.optim.descent import LEAST_CLIP, Rows, Single
from dpml.optim.losses import Loss
from dpml.optim.mapped import MappedRows, mapped
from dpml.optim.party_gradients import PartyGradients
from dpml.privacy import Problem
from dpml.privacy.discrete import to_integers
from dpml.privacy.discrete.rounding import Integers

_LONGEST = 1e30  # entry of a model, or of a map, with which scores are numbers
_TOGETHER = 1024  # rows that are multiplied together: they stay in cache in double precision


@dataclass(frozen=True)
class ClippedTerms(Terms):
    """The clipped gradients of some parties' rows."""

    statistic: "ClippedGradients"
    parties: Parties

    def total(self, *at: Any) -> Array:
        w, clip = models_of(self.statistic, at)
        if self.statistic.unit == "party":
            return packed(self.statistic, *self._by_party.clipped_sums(w, clip))
        return self._in_clips(self.rows, w)

    def each(self, *at: Any) -> Array:
        w, clip = models_of(self.statistic, at)
        if self.statistic.unit == "party":
            return packed(self.statistic, *self._by_party.clipped(w, clip))
        return np.array([self._in_clips(own, w) for own in self._each])

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        w, clip = models_of(self.statistic, at)
        if self.statistic.unit == "sample":
            return self._integers_of_rows(w, float(clip[0]), resolutions, secure)
        return integers_of_parties(self.statistic, *self._by_party.clipped(w, clip), secure)

    @cached_property
    def rows(self) -> Rows:
        """All rows, to descend on."""
        return self._clipped(slice(None))

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
        rows, K, offsets = self._whole, self.statistic.classes, offsets_of(self.parties, secure)
        columns = w.reshape(len(w) * K, -1)
        total = np.zeros((len(offsets) - 1, *columns.shape))
        scale = np.repeat(Q * (rows.common / 2 / clip), K).astype(np.float32)
        for some, halves, slopes in rows.slopes_in_parts(columns):
            slopes *= scale
            in_steps(slopes.reshape(len(slopes), -1, K), Q)
            add_by_party(total, offsets, some.start, halves, slopes)
        return np.ldexp(total, BITS + 1).astype(np.int64).reshape(-1, *w.shape)

    @cached_property
    def _whole(self) -> Rows:
        """All rows in steps of 2^-20, halved: single precision has them exactly."""
        of, parties = self.statistic, self.parties
        whole = checked(to_integers(parties.X, BITS, 1.0), 1 << BITS)
        return Rows.of(of.loss, np.ldexp(whole, -BITS), parties.y, clip=of.clip, classes=of.classes)


@dataclass(frozen=True)
class MappedTerms(Terms):
    """The clipped gradients of some parties' rows, mapped; what was mapped last is kept, as rounds share their maps."""

    statistic: "ClippedGradients"
    parties: Parties
    _kept: dict[str, tuple[Array, Any]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def total(self, *at: Any) -> Array:
        w, clip, maps = self._about(at)
        if self.statistic.unit == "sample":
            (rows,) = self._of_rows(maps, secure=False)
            return rows.gradient(w, clip)
        found = []
        for b, one in enumerate(self._of_parties(maps)):
            run = slice(b, b + 1)
            found.append(one.clipped_sums(w[run], clip[run]))
        sums, counts = (np.concatenate(each) for each in zip(*found, strict=True))
        return packed(self.statistic, sums, counts)

    def each(self, *at: Any) -> Array:
        w, clip, maps = self._about(at)
        if self.statistic.unit == "party":
            return packed(self.statistic, *self._each_clipped(w, clip, maps))
        return np.array([rows.gradient(w, clip) for rows in self._of_rows(maps, secure=True)])

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        w, clip, maps = self._about(at)
        if self.statistic.unit == "party":
            return integers_of_parties(self.statistic, *self._each_clipped(w, clip, maps), secure)
        (rows,), K, d = self._of_rows(maps, secure=False, rounded=True), self.statistic.classes, maps.shape[-1]
        offsets = offsets_of(self.parties, secure)
        total = np.zeros((len(w), len(offsets) - 1, K, d))
        scale = (resolutions / clip).astype(np.float32)[:, None, None, None]
        start = 0
        for vectors, slopes in rows.parts(w, clip):
            slopes *= scale
            count = vectors.shape[1] * vectors.shape[2]
            for b in range(len(w)):
                own = slopes[b].reshape(count, K)
                in_steps(own[:, None], resolutions[b : b + 1])
                add_by_party(total[b], offsets, start, vectors[b].reshape(count, d), own)
            start += count
        return np.ldexp(total, BITS).astype(np.int64).swapaxes(0, 1).reshape(-1, *w.shape)

    def _about(self, at: tuple[Any, ...]) -> tuple[Single, Array, Array]:
        """The models (B, K d), clips (B,) and maps (B, d, d)."""
        *about, maps = at
        d = self.parties.X.shape[1]
        if not np.abs(maps).max() < _LONGEST:  # also when NaN
            raise UserError("the map into the whitened space is not finite: choose another algo.budget_share.")
        return *models_of(self.statistic, tuple(about)), maps.reshape(-1, d, d)

    def _of_rows(self, maps: Array, secure: bool, rounded: bool = False) -> list[MappedRows]:
        """Those of every party, or those of all in a list of one."""
        of, parties = self.statistic, self.parties
        owners = [parties.of(k) for k in range(parties.problem.M)] if secure else [slice(None)]

        def made() -> list[MappedRows]:
            whole = in_whole_steps if rounded else None
            return [MappedRows.of(of.loss, of.classes, parties.X[own], parties.y[own], maps, whole) for own in owners]

        found: list[MappedRows] = self._remembered(f"{secure} {rounded}", maps, made)
        return found

    def _of_parties(self, maps: Array) -> list[PartyGradients]:
        """The mapped rows of every run; for the squared loss as long as they come, as it is parties that are
        clipped: in double precision, in which their gradients are numbers whatever the map."""
        of, parties = self.statistic, self.parties
        squared = of.loss.name == "squared"

        def made() -> list[PartyGradients]:
            found = []
            for one in maps:
                rows, dtype = (parties.X @ one, np.float64) if squared else (mapped(parties.X, one)[0], np.float32)
                found.append(PartyGradients.of(of.loss, rows, parties.y, parties.offsets, dtype, of.classes))
            return found

        kept: list[PartyGradients] = self._remembered("means", maps, made)
        return kept

    def _each_clipped(self, w: Single, clip: Array, maps: Array) -> tuple[Array, Array]:
        found = [one.clipped(w[b : b + 1], clip[b : b + 1]) for b, one in enumerate(self._of_parties(maps))]
        each, below = (np.concatenate(every, axis=1) for every in zip(*found, strict=True))
        return each, below

    def _remembered(self, name: str, maps: Array, made: Any) -> Any:
        known = self._kept.get(name)
        if known is None or not np.array_equal(known[0], maps):
            self._kept.pop(name, None)  # before the next are made: they may be large
            known = self._kept[name] = (np.array(maps), made())
        return known[1]


def models_of(of: "ClippedGradients", at: tuple[Any, ...]) -> tuple[Single, Array]:
    """The models (B, K d) and the clips (B,) that a sum is about."""
    w, clips = at if of.clip is None else (at[0], np.full(len(at[0]), of.clip))
    if not np.abs(w).max() < _LONGEST:  # also when NaN
        raise UserError("a model on the way is not finite: choose another algo.clip, noise_step or rounds.")
    return w, clips.astype(float)


def packed(of: "ClippedGradients", sums: Numbers, counts: Numbers) -> Any:
    """Sums (..., K d), and where parties are counted their numbers (...,) beside them."""
    return np.concatenate([sums, counts[..., None]], axis=-1) if of.counted else sums


def integers_of_parties(of: "ClippedGradients", each: Array, below: Array, secure: bool) -> Integers:
    """The steps of parties' clipped gradients (M, B, K d), and of who is counted (M, B), or their sums."""
    whole = checked(to_integers(each, BITS, 1.0), 1 << BITS)
    parts = packed(of, whole, below.astype(np.int64) << BITS)
    return parts if secure else parts.sum(axis=0)[None]


def offsets_of(parties: Parties, secure: bool) -> Index:
    """Where the rows of the parties begin and end; of one that has all, unless sums are secure."""
    return parties.offsets if secure else np.array([0, len(parties.y)])


def in_whole_steps(rows: Array) -> Array:
    """Rows of length at most 1 in steps of 2^-20, none longer."""
    return np.ldexp(checked(to_integers(rows, BITS, 1.0), 1 << BITS), -BITS)


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

    Slopes (n, C) are whole and vectors (n, d) multiples of 2^-21, so that the sums, below 2^53 of these steps, are
    exact and the order does not matter.
    """
    stop = min(start + len(vectors), int(offsets[-1]))
    first, last = np.searchsorted(offsets, [start, stop - 1], side="right") - 1
    for k in range(first, last + 1):
        begin, end = max(start, offsets[k]) - start, min(stop, offsets[k + 1]) - start
        for part in range(begin, end, _TOGETHER):
            own = slice(part, min(part + _TOGETHER, end))
            total[k] += slopes[own].T.astype(float) @ vectors[own].astype(float)


_EXACT = 53  # bits of whole numbers that floating-point sums have exactly, in any order
_SLOPE_BITS = 18  # the most bits of Q


@dataclass(frozen=True)
class ClippedGradients(Statistic):
    """The sum of clipped gradients at models w (B, K d), and where parties are asked about clips (B,), their count.

    Args:
        loss: logistic, softmax or squared. unit: what is clipped and summed: the gradients of rows, or the mean
        gradients of parties. clip: the longest gradient; None: as it is asked about. classes: K of softmax, else 1.
        mapped: whether every run has a matrix of its own (d, d), public, that rows go through before; they have length
            1 after it. single: whether simulated noise is drawn in single precision.
    """

    loss: Loss
    unit: Unit
    clip: float | None
    classes: int = 1
    mapped: bool = False
    single: bool = False

    @property
    def counted(self) -> bool:
        """Whether the clip follows the parties, who are counted."""
        return self.clip is None and self.unit == "party"

    def lengths(self, d: int) -> tuple[int, ...]:
        return (self.classes * d, 1) if self.counted else (self.classes * d,)

    def drawn(self, d: int) -> tuple[int, ...]:
        return self.lengths(d)

    def on(self, parties: Parties) -> ClippedTerms | MappedTerms:
        return MappedTerms(self, parties) if self.mapped else ClippedTerms(self, parties)

    def largest(self, problem: Problem) -> float:
        return problem.N  # no more gradients than rows

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """Q; 1 at party level.

        Large enough to round slopes little, small enough that sums of N products are exact in floating point.
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
        return "<f4", (self.classes * d, *(0,) * (self.clip is None), *(d * d,) * self.mapped)

    def valid(self, *at: Any) -> bool:
        return self.clip is not None or bool(np.all((at[1] >= LEAST_CLIP) & (at[1] < np.inf)))


@dataclass(frozen=True)
class LabelSums(Statistic):
    """The sum of labels -1 and +1 (`classes` = 1), or how many rows every one of K classes has."""

    classes: int

    @property
    def sensitivity(self) -> float:
        """How far it moves when a row is replaced: by 2, or by one less here and one more there."""
        return 2.0 if self.classes == 1 else 2.0**0.5

    def lengths(self, d: int) -> tuple[int, ...]:
        return (self.classes,)

    def on(self, parties: Parties) -> "LabelTerms":
        return LabelTerms(self, parties)

    def largest(self, problem: Problem) -> float:
        return problem.N

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """Steps of a label."""
        return whole_steps(1 << BITS, widths[0])

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        return (1 / resolution,)


@dataclass(frozen=True)
class LabelTerms(Terms):
    """The labels of some parties' rows."""

    statistic: LabelSums
    parties: Parties

    def total(self, *at: Any) -> Array:
        return self.each().sum(axis=0)

    def each(self, *at: Any) -> Array:
        y, K = self.parties.y, self.statistic.classes
        labels = y[:, None] if K == 1 else (y[:, None] == np.arange(K)).astype(float)
        return np.array([labels[self.parties.of(k)].sum(axis=0) for k in range(self.parties.problem.M)])

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        counts = np.rint(self.each()).astype(np.int64)[:, None] * resolutions[:, None]
        return counts if secure else counts.sum(axis=0)[None]
