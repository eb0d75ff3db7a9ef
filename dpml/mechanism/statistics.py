"""Statistics of rows: sums of any function of rows, clipped; and models that are trained without noise.

`ClippedRows` needs nothing but the function. Of every row it gives a vector, which is shortened to the length `clip` if
it is longer; with `unit=party` this is done to the mean of a party's vectors. What is summed is in units of the clip:
no vector is then longer than 1, so that a row, or all rows of a party, that are replaced move the sum by at most 2.
This is the `sensitivity` to declare, whatever the function is:

    Sum(ClippedRows(function, clip, self.unit, length), 2.0, noise)

*On a grid.* Every clipped vector becomes integers of length at most 2^20, which stands for the clip, or fewer where
there is very much noise (`to_integers`). Two of them are at most twice that apart, in whole numbers.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np

from dpml import sums
from dpml.arrays import Array, Index, blocks
from dpml.data.partition import Parties, remembered
from dpml.errors import UserError
from dpml.mechanism.algorithm import Unit
from dpml.mechanism.discrete import BITS, whole_steps
from dpml.mechanism.message import Statistic, Terms
from dpml.options import POSITIVE, check_options
from dpml.privacy import Problem
from dpml.privacy.discrete import to_integers
from dpml.privacy.discrete.rounding import Integers
from dpml.sums import SHORT, TALL

_TOGETHER = 1 << 22  # numbers of rows' vectors that are held at once: 32 MiB; of 64 to 1024 rows
_LARGEST = 1 << 61  # a sum of integers


@dataclass(frozen=True)
class RowTerms(Terms["ClippedRows"]):
    """The clipped vectors of some parties' rows."""

    def total(self, *at: Any) -> Array:
        """(B, length), or (length,) where the sum is about nothing."""
        return self._plain(self._sums(_clipped, False, at).sum(axis=0))

    def each(self, *at: Any) -> Array:
        """(M, B, length) or (M, length)."""
        return self._plain(self._sums(_clipped, True, at))

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        """(P, B, length), for the bits of B runs."""
        runs: dict[int, Integers] = {}
        for bits in np.unique(resolutions).tolist():
            same = np.flatnonzero(resolutions == bits)
            sums = self._sums(partial(to_integers, bits=bits, clip=1.0), secure, [each[same] for each in at])
            runs.update({int(b): sums[:, i if at else 0] for i, b in enumerate(same)})
        summed = np.stack([runs[b] for b in range(len(resolutions))], axis=1)
        return summed if secure else summed.sum(axis=0)[None]

    def _sums(self, clip: Callable[[Array], Any], by_party: bool, at: Sequence[Any]) -> Any:
        """The sums of what `clip` makes of vectors in units of the clip, (P, B, length): every party's, or of all."""
        if self.statistic.unit == "sample":
            return self._added(clip, self.parties.offsets if by_party else np.array([0, len(self.parties.y)]), at)
        means = self._added(lambda vectors: vectors, self.parties.offsets, at)
        means /= self.parties.sizes[:, None, None]
        return clip(means)

    def _added(self, part: Callable[[Array], Any], offsets: Index, at: Sequence[Any]) -> Any:
        """What `part` makes of vectors, (B, n, length), added up between offsets: (P, B, length)."""
        total: Any = 0
        for rows, vectors in self._vectors(at):
            first, last = np.searchsorted(offsets, [rows.start, rows.stop - 1], side="right") - 1
            starts = np.maximum(offsets[first : last + 1], rows.start) - rows.start
            summed = np.add.reduceat(part(vectors), starts, axis=1).swapaxes(0, 1)
            if isinstance(total, int):
                total = np.zeros((len(offsets) - 1, *summed.shape[1:]), summed.dtype)
            total[first : last + 1] += summed
        return total

    def _vectors(self, at: Sequence[Any]) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows, always the same ones, and their vectors in units of the clip: (B, n, length)."""
        of, X, y = self.statistic, self.parties.X, self.parties.y
        runs = len(at[0]) if at else 1
        size = runs * of.length
        for rows in blocks(len(y), size, max(min(_TOGETHER, size * TALL), size * SHORT)):
            vectors = np.asarray(of.function(X[rows], y[rows], *at), dtype=float)
            due = (runs, rows.stop - rows.start, of.length)
            if vectors.shape != (due if at else due[1:]):
                raise UserError(f"the function of ClippedRows returns shape {vectors.shape} where {due} is due.")
            with np.errstate(over="ignore"):
                vectors = vectors.reshape(due) / of.clip
            if not np.isfinite(vectors).all():  # clipped, it would be no number; naming the row would reveal it
                raise UserError(
                    "the function of ClippedRows returns a number that is not finite, or is not in units of the clip."
                )
            yield rows, vectors

    def _plain(self, sums: Array) -> Array:
        return sums if self.statistic.about else sums[..., 0, :]


@dataclass(frozen=True)
class ClippedRows(Statistic):
    """The sum of clipped vectors of rows, or of parties' clipped means of them, in units of the clip.

    Args:
        function: ``function(X, y)``, (n, d) and (n,) -> (n, length), each row's vector from that row alone. A sum that
            is asked about something, ``carrier.ask(number, w)``, has ``function(X, y, w)``, (B, ...) -> (B, n, length).
            A function of a module, or a frozen dataclass with ``__call__``, so that it can be compared and pickled.
        clip: the longest vector of a row, or longest mean of a party; positive.
        unit: what is clipped and summed, and so protected: `sample` or `party`.
        length: how many numbers are in a vector.
        about: how many numbers there are in each thing that a sum is asked about, in each run: ``(d,)`` for models w
            (B, d); (): it is about nothing but the rows.
    """

    terms = RowTerms

    function: Callable[..., Array]
    clip: Annotated[float, POSITIVE]
    unit: Unit
    length: int
    about: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_options(self, "ClippedRows")

    def lengths(self, d: int) -> tuple[int, ...]:
        return (self.length,)

    def largest(self, problem: Problem) -> float:
        return problem.N if self.unit == "sample" else 1

    def imprecision(self, problem: Problem) -> float:
        """Blocks of rows are added up one after the other."""
        return sums.imprecision(problem.N, problem.d + self.length, TALL + problem.N / SHORT)

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """The fractional bits of a vector in units of the clip."""
        return whole_steps(min(1 << BITS, _LARGEST // problem.N), widths[0]).bit_length() - 1

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        return (0.5**resolution,)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f8", self.about


def _clipped(vectors: Array) -> Array:
    """None longer than 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1.0)


@dataclass(frozen=True)
class Minimised(Terms["Minimiser"]):
    """The models of some rows."""

    def total(self, *at: Any) -> Array:
        if not at:
            return self._only
        first, where = np.unique(at[0], axis=0, return_index=True, return_inverse=True)[1:]
        order = np.argsort(first)
        models = self.statistic.fit(self.parties, at[0][first[order]])
        return models[np.argsort(order)[where.reshape(-1)]]

    @cached_property
    def _only(self) -> Array:
        return _fitted(self.parties, self.statistic.fit)


@dataclass(frozen=True)
class Minimiser(Statistic):
    """A model that one curator trains on all rows. Its sensitivity counts what the solver leaves.

    Args:
        fit: ``fit(parties)`` -> (D,); or where it is about something, ``fit(parties, at)`` -> (B, D), for distinct
            numbers `at` (B, about). A function of a module, or a frozen dataclass with ``__call__``.
        classes: D over the number of features.
        about: how many numbers it is about, in each run; 0: none but the rows.
    """

    terms = Minimised

    fit: Callable[..., Array]
    classes: int = 1
    about: int = 0

    def lengths(self, d: int) -> tuple[int, ...]:
        return (self.classes * d,)

    def largest(self, problem: Problem) -> float:
        return math.inf

    def imprecision(self, problem: Problem) -> float:
        return 0.0

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f8", (self.about,) if self.about else ()


@remembered
def _fitted(parties: Parties, fit: Callable[..., Array]) -> Array:
    return fit(parties)
