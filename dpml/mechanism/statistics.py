"""Sum clipped vectors of rows, or train a model without noise, for algorithms that add noise afterwards.

For every function of a row, the sum of `ClippedRows` has L2 sensitivity 2 to replacing a row (or a party's rows):

    Sum(ClippedRows(function, clip, self.unit, length), 2.0, noise)
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
from dpml.sums import SHORT, TALL, PairwiseSum

_TOGETHER = 1 << 22  # entries of vectors in memory at once, 32 MiB, but at least 64 and at most 1024 rows
_LARGEST = 1 << 61  # the largest sum of integers


@dataclass(frozen=True)
class RowTerms(Terms["ClippedRows"]):
    """Compute sums of the clipped vectors of some parties' rows."""

    def total(self, *at: Any) -> Array:
        parts, total = self._sums(_clipped, False, at), PairwiseSum()
        for some in blocks(len(parts), most=TALL):  # as `imprecision` assumes
            total.add(parts[some].sum(axis=0))
        return self._plain(total.result())

    def each(self, *at: Any) -> Array:
        return self._plain(self._sums(_clipped, True, at))

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        runs: dict[int, Integers] = {}
        for bits in np.unique(resolutions).tolist():
            same = np.flatnonzero(resolutions == bits)
            sums = self._sums(partial(to_integers, bits=bits, clip=1.0), secure, [each[same] for each in at])
            runs.update({int(b): sums[:, i if at else 0] for i, b in enumerate(same)})
        summed = np.stack([runs[b] for b in range(len(resolutions))], axis=1)
        return summed if secure else summed.sum(axis=0)[None]

    def _sums(self, clip: Callable[[Array], Any], by_party: bool, at: Sequence[Any]) -> Any:
        """Sum rows' clipped vectors, in total or `by_party`; if unit=party, return each party's clipped mean vector."""
        if self.statistic.unit == "sample":
            return self._added(clip, self.parties.offsets if by_party else np.array([0, len(self.parties.y)]), at)
        means = self._added(lambda vectors: vectors, self.parties.offsets, at)
        means /= self.parties.sizes[:, None, None]
        return clip(means)  # (M, B, length)

    def _added(self, part: Callable[[Array], Any], offsets: Index, at: Sequence[Any]) -> Any:
        """Apply `part`, e.g. clipping, to each row's vector in B runs, and sum each of P row groups: (P, B, length)."""
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
        """Yield slices of n rows and, for B runs, their vectors divided by clip, but not clipped: (B, n, length)."""
        of, X, y = self.statistic, self.parties.X, self.parties.y
        runs = len(at[0]) if at else 1
        size = runs * of.length
        for rows in blocks(len(y), size, max(min(_TOGETHER, size * TALL), size * SHORT)):
            vectors = np.asarray(of.function(X[rows], y[rows], *at), dtype=float)
            shape = (runs, len(y[rows]), of.length) if at else (len(y[rows]), of.length)
            if vectors.shape != shape:
                raise UserError(f"the function of ClippedRows returns shape {vectors.shape}, but must return {shape}.")
            with np.errstate(over="ignore"):
                vectors = vectors.reshape(runs, -1, of.length) / of.clip
            if not np.isfinite(vectors).all():  # clipping would give NaN; the message must not reveal the row
                raise UserError("ClippedRows: `function` must return numbers that stay finite when divided by `clip`.")
            yield rows, vectors

    def _plain(self, sums: Array) -> Array:
        return sums if self.statistic.about else sums[..., 0, :]


@dataclass(frozen=True)
class ClippedRows(Statistic):
    """The sum of rows' clipped vectors, or of parties' clipped mean vectors; each vector is divided by the clip.

    Args:
        function: ``function(X, y)``, (n, d) and (n,) -> (n, length); a row's vector may depend on that row only. If
            ``carrier.ask(number, w)`` passes arguments of B runs, ``function(X, y, w)`` -> (B, n, length). Use a
            top-level function, or a frozen dataclass with ``__call__``, so that it can be compared and pickled.
        clip: The largest norm of a row's vector, or of a party's mean vector; longer vectors are shortened to it.
        unit: Whose vectors are clipped and summed, and who is thus protected: `sample` or `party`.
        length: The number of entries of a vector.
        about: The length of each argument of `function` per run: ``(d,)`` for models w (B, d); () without arguments.
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
        return sums.imprecision(problem.N, problem.d + self.length, TALL + problem.N / SHORT)

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """Return the number of fractional bits to which vectors are rounded after division by the clip."""
        return whole_steps(min(1 << BITS, _LARGEST // problem.N), widths[0]).bit_length() - 1

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        return (0.5**resolution,)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f8", self.about


def _clipped(vectors: Array) -> Array:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1.0)


@dataclass(frozen=True)
class Minimised(Terms["Minimiser"]):
    """Train the models of the statistic `Minimiser` on the rows of all parties, without adding noise."""

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
    """A model that a curator trains on all rows; its sensitivity must include the error of the solver.

    Args:
        fit: ``fit(parties)`` -> (D,), or ``fit(parties, at)`` -> (B, D) with an argument `at` (B, about) whose rows are
            distinct. Use a top-level function, or a frozen dataclass with ``__call__``.
        classes: D divided by the number of features.
        about: The length of the argument `at` per run; 0: no argument.
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
