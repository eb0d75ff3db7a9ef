"""Sum clipped gradients of rows or parties, and count each class's rows, because a rare class needs a larger clip.

For discrete noise, gradients become integers: docs/privacy/discrete_noise.md, Theorem 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpml import sums
from dpml.arrays import Array, Index
from dpml.errors import UserError
from dpml.mechanism.discrete import BITS, checked, whole_steps
from dpml.mechanism.sharing import Numbers
from dpml.optim import gradients
from dpml.optim.gradients import LEAST_CLIP, PartyGradients, Rows, Single
from dpml.optim.losses import Loss, hard_targets
from dpml.privacy.discrete import to_integers
from dpml.privacy.discrete.rounding import Integers
from dpml.program import Problem, Statistic, Terms, Unit

_LONGEST = 1e30  # the largest allowed entry of a model or whitening matrix, so that scores are finite
_TOGETHER = 1024  # rows that are multiplied together, so that they fit into the CPU cache in double precision


def packed(of: "ClippedGradients", sums: Numbers, counts: Numbers) -> Any:
    """If the clip is adaptive, append the number of unclipped gradients to the sum of gradients."""
    return np.concatenate([sums, counts[..., None]], axis=-1) if of.counted else sums


def in_whole_steps(rows: Array) -> Array:
    """Round rows of length at most 1 to multiples of 2^-20, so that no row becomes longer than 1."""
    return np.ldexp(checked(to_integers(rows, BITS, 1.0), 1 << BITS), -BITS)


def in_steps(slopes: Single, Q: Index) -> None:
    """Round loss derivatives (n rows, B runs, K outputs) in place; a row's K integers in run b have norm <= Q[b]."""
    most = Q.astype(np.float32)[:, None]
    if slopes.shape[-1] > 1:
        np.trunc(slopes, out=slopes)  # rounding towards zero makes no vector longer
        exact = slopes.astype(float)
        if not np.all(np.einsum("nbk,nbk->nb", exact, exact) <= Q.astype(float) ** 2):
            raise AssertionError("slopes are longer than the sensitivity that the proof assumes.")
        return
    np.rint(slopes, out=slopes)
    np.fmin(slopes, most, out=slopes)
    np.fmax(slopes, -most, out=slopes)


def add_by_party(total: Array, offsets: Index, start: int, vectors: Single, slopes: Single) -> None:
    """Add every row's gradient, slopes times vector, to its party's sum in `total` (P, B, K, d): B runs, K outputs.

    `start` is the number of the first row. The slopes (n, B, K) hold integers, and the vectors (n, d) are multiples of
    2^-21. The sums are less than 2^53 times 2^-21, so they are exact in any order.
    """
    stop = min(start + len(vectors), int(offsets[-1]))
    first, last = np.searchsorted(offsets, [start, stop - 1], side="right") - 1
    for k in range(first, last + 1):
        begin, end = max(start, offsets[k]) - start, min(stop, offsets[k + 1]) - start
        for part in range(begin, end, _TOGETHER):
            own = slice(part, min(part + _TOGETHER, end))
            columns = slopes[own].reshape(own.stop - own.start, -1).astype(float)
            total[k] += (columns.T @ vectors[own].astype(float)).reshape(total[k].shape)


_EXACT = 53  # sums of integers are exact in floating point, in any order, if they have at most so many bits
_SLOPE_BITS = 18  # the largest number of bits of Q


@dataclass(frozen=True)
class ClippedTerms(Terms["ClippedGradients"]):
    """Compute sums of clipped gradients."""

    # by name: whitening matrices and the rows that they prepared, which all rounds share
    _kept: dict[str, tuple[Any, Any]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def total(self, *at: Any) -> Array:
        w, clip, maps = self._about(at)
        if self.statistic.unit == "party":
            return packed(self.statistic, *self._of_parties(PartyGradients.clipped_sums, w, clip, maps))
        (rows,) = self._rows(maps, clip, secure=False)
        return rows.gradient(w) / clip[:, None]

    def each(self, *at: Any) -> Array:
        w, clip, maps = self._about(at)
        if self.statistic.unit == "party":
            return packed(self.statistic, *self._of_parties(PartyGradients.clipped, w, clip, maps))
        return np.array([rows.gradient(w) / clip[:, None] for rows in self._rows(maps, clip, secure=True)])

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        w, clip, maps = self._about(at)
        if self.statistic.unit == "party":
            each, below = self._of_parties(PartyGradients.clipped, w, clip, maps)
            whole = checked(to_integers(each, BITS, 1.0), 1 << BITS)
            parts: Integers = packed(self.statistic, whole, below.astype(np.int64) << BITS)
            return parts if secure else parts.sum(axis=0)[None]
        (rows,), K = self._rows(maps, clip, secure=False, rounded=True), self.statistic.classes
        runs = [slice(None)] if maps is None else [slice(b, b + 1) for b in range(len(w))]
        offsets = self.parties.offsets if secure else np.array([0, len(self.parties.y)])
        d = self.parties.X.shape[1]
        total = np.zeros((len(offsets) - 1, len(w), K, d))
        scale = (resolutions * (rows.common / 2 / clip)).astype(np.float32)[:, None]
        for some, half, slopes in rows.parts(w):
            start, count = some.start * half.shape[-2], half.shape[-3] * half.shape[-2]
            own = zip(runs, half.reshape(-1, count, d), slopes.reshape(len(runs), count, -1, K), strict=True)
            for b, vectors, of_runs in own:
                of_runs *= scale[b]
                in_steps(of_runs, resolutions[b])
                add_by_party(total[:, b], offsets, start, vectors, of_runs)
        return np.ldexp(total, BITS + 1).astype(np.int64).reshape(-1, *w.shape)

    def _about(self, at: tuple[Any, ...]) -> tuple[Single, Array, Array | None]:
        of = self.statistic
        about, maps = (at[:-1], at[-1]) if of.mapped else (at, None)
        w, clip = about if of.clip is None else (about[0], np.full(len(about[0]), of.clip))
        if not np.abs(w).max() < _LONGEST:  # also true for NaN
            raise UserError("a model became infinite during descent: change algo.clip, algo.noise_step or algo.rounds.")
        if maps is not None and not np.abs(maps).max() < _LONGEST:
            raise UserError("the whitening matrix is not finite: set another algo.budget_share.")
        d = self.parties.X.shape[1]
        return w, clip.astype(float), None if maps is None else maps.reshape(-1, d, d)

    def _rows(self, maps: Array | None, clip: Array, secure: bool, rounded: bool = False) -> list[Rows]:
        of, parties = self.statistic, self.parties

        def made(own: slice) -> Rows:
            X, y = parties.X[own], parties.y[own]
            if maps is not None:
                return Rows.mapped(of.loss, of.classes, X, y, maps, in_whole_steps if rounded else None)
            return Rows.of(of.loss, in_whole_steps(X) if rounded else X, y, clip=of.clip, classes=of.classes)

        owners = [parties.of(k) for k in range(parties.problem.M)] if secure else [slice(None)]
        found: list[Rows] = self._remembered(f"{secure} {rounded}", maps, lambda: [made(own) for own in owners])
        return found if maps is None else [rows.cut(clip) for rows in found]

    def _of_parties(self, engine: Any, w: Single, clip: Array, maps: Array | None) -> tuple[Array, Array]:
        of, parties = self.statistic, self.parties

        def made() -> list[PartyGradients]:
            # for the squared loss, rows keep their lengths, because the parties' gradients are clipped
            exact, found = of.loss.task == "regression" and maps is not None, []
            for one in [None] if maps is None else maps:
                X = parties.X if one is None else parties.X @ one if exact else gradients.mapped(parties.X, one)[0]
                dtype = np.float64 if exact else np.float32
                found.append(PartyGradients.of(of.loss, X, parties.y, parties.offsets, dtype, of.classes))
            return found

        each = self._remembered("means", maps, made)
        runs = zip(each, np.split(w, len(each)), np.split(clip, len(each)), strict=True)
        found, counts = zip(*(engine(one, *about) for one, *about in runs), strict=True)
        return np.concatenate(found, axis=-2), np.concatenate(counts, axis=-1)

    def _remembered(self, name: str, maps: Array | None, made: Any) -> Any:
        known = self._kept.get(name)
        if known is None or (maps is not None and not np.array_equal(known[0], maps)):
            self._kept.pop(name, None)  # frees memory first, as mapped rows may be large
            known = self._kept[name] = (None if maps is None else np.array(maps), made())
        return known[1]


@dataclass(frozen=True)
class ClippedGradients(Statistic):
    """The sum of clipped gradients and, if the clip is adaptive, the number of gradients that are not clipped.

    Args:
        unit: Whether the gradients of rows or the mean gradients of parties are clipped.
        clip: The largest norm of a gradient; None: every request of the sum passes the clip as an argument.
        classes: The number of classes K for softmax, else 1.
        mapped: Whether each run multiplies rows by its own public matrix (d, d), and then scales them to length 1.
        single: Whether simulated noise is drawn in single precision.
    """

    terms = ClippedTerms

    loss: Loss
    unit: Unit
    clip: float | None
    classes: int = 1
    mapped: bool = False
    single: bool = False

    @property
    def counted(self) -> bool:
        return self.clip is None and self.unit == "party"

    def lengths(self, d: int) -> tuple[int, ...]:
        return (self.classes * d, 1) if self.counted else (self.classes * d,)

    def drawn(self, d: int) -> tuple[int, ...]:
        return self.lengths(d)

    def largest(self, problem: Problem) -> float:
        return problem.N  # there are at most N gradients, each of norm at most 1

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """Return Q to round loss derivatives to multiples of clip/Q; 1 if parties' gradients are rounded instead."""
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
        entries = self.classes * problem.d
        if self.unit == "party":
            return sums.imprecision(problem.M, entries)
        return sums.single_imprecision(problem.N, entries)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f4", (self.classes * d, *(0,) * (self.clip is None), *(d * d,) * self.mapped)

    def valid(self, *at: Any) -> bool:
        return self.clip is not None or bool(np.all((at[1] >= LEAST_CLIP) & (at[1] < np.inf)))


@dataclass(frozen=True)
class LabelTerms(Terms["LabelSums"]):
    """Compute sums of labels -1 and +1, or counts of the rows in each class."""

    def total(self, *at: Any) -> Array:
        return self.each().sum(axis=0)

    def each(self, *at: Any) -> Array:
        y, K = self.parties.y, self.statistic.classes
        labels = y[:, None] if K == 1 else hard_targets(y, K)
        return np.array([labels[self.parties.of(k)].sum(axis=0) for k in range(self.parties.problem.M)])

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        counts = np.rint(self.each()).astype(np.int64)[:, None] * resolutions[:, None]
        return counts if secure else counts.sum(axis=0)[None]


@dataclass(frozen=True)
class LabelSums(Statistic):
    """The sum of binary labels -1 and +1, or the number of rows in each of K classes."""

    terms = LabelTerms

    classes: int

    @property
    def sensitivity(self) -> float:
        """The L2 sensitivity of the sum to a replaced row: 2 for labels -1 and +1, and sqrt 2 for counts of classes."""
        return 2.0 if self.classes == 1 else 2.0**0.5

    def lengths(self, d: int) -> tuple[int, ...]:
        return (self.classes,)

    def largest(self, problem: Problem) -> float:
        return problem.N

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        return whole_steps(1 << BITS, widths[0])

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        return (1 / resolution,)
