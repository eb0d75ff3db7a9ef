"""Noisy sums of clipped gradients, at many models at once: of rows, of parties' means, and by the real protocol.

All are in units of the clip, and so is their noise.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.algorithms.distributed_noise import SecureSumNoise, secure_sharing
from dpml.algorithms.hyperparameters import Unit
from dpml.algorithms.transcript import Watch
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.optim.descent import Rows, Single
from dpml.optim.losses import Loss
from dpml.optim.party_gradients import PartyGradients


@dataclass(frozen=True)
class Widths:
    """The noise of B runs, `draws` of each budget: their standard deviations in sums (B,), and in counts, if any."""

    draws: int
    sums: Array
    counts: Array | None = None


@dataclass(frozen=True)
class ClippedSums(ABC):
    """The base class: the loss, and the parties' rows."""

    loss: Loss
    parties: Parties

    @abstractmethod
    def exact(self, w: Single, clip: Single) -> tuple[Single, Single]:
        """At models w (B, d): sums of gradients clipped at `clip` (B,), (B, d), in units of it, and counts (B,).

        A count says how many gradients were not longer.
        """

    def noisy(
        self, w: Single, clip: Single, widths: Widths, rng: Generator, watch: Watch | None = None
    ) -> tuple[Single, Single]:
        """The same with noise; runs of different budgets share their noise, draw by draw.

        `watch` records the sums and, where there are any, the counts.
        """
        problem = self.parties.problem
        draws = widths.draws

        def noise_of(size: int) -> Array:
            drawn = secure_sharing(problem).total(rng, draws, problem.M, size, watch)
            return np.tile(drawn, (len(w) // draws, 1))

        sums, counts = self.exact(w, clip)
        sums = (sums + widths.sums[:, None] * noise_of(problem.d)).astype(np.float32)
        if watch is not None:
            watch.sent(sums, partial(exact_sums, w.copy(), clip.copy()))
        if widths.counts is None:
            return sums, counts
        counts = counts + widths.counts * noise_of(1)[:, 0]
        if watch is not None:
            watch.sent(counts[:, None], partial(exact_counts, w.copy(), clip.copy()))
        return sums, counts


@dataclass(frozen=True)
class RowSums(ClippedSums):
    """Record level: all parties' rows at once, as only their sum is seen. All runs have one clip."""

    _rows: dict[tuple[float, str], Rows] = field(default_factory=dict, compare=False)

    def rows(self, clip: float, dtype: type[np.floating] = np.float32) -> Rows:
        """The rows, with slopes clipped."""
        key = clip, np.dtype(dtype).name
        if key not in self._rows:
            self._rows[key] = Rows.clipped(self.loss, self.parties.X, self.parties.y, clip, dtype)
        return self._rows[key]

    def exact(self, w: Single, clip: Single) -> tuple[Single, Single]:
        out = np.empty(w.shape)
        self.rows(float(clip[0]), np.float64).gradient(w.astype(float), out)
        return out / clip[:, None], np.zeros(len(w))


@dataclass(frozen=True)
class PartySums(ClippedSums):
    """Party level: every party's mean gradient."""

    def exact(self, w: Single, clip: Single) -> tuple[Single, Single]:
        sums, counts = self.gradients.clipped_sums(w, clip)
        return sums / clip[:, None], counts

    @cached_property
    def gradients(self) -> PartyGradients:
        """The rows, party by party."""
        return PartyGradients.of(self.loss, self.parties.X, self.parties.y, self.parties.offsets)


@dataclass(frozen=True)
class SecureSums(PartySums):
    """Either level by the real protocol: every party's part, with its noise, goes through secure aggregation."""

    unit: Unit = "sample"

    def exact(self, w: Single, clip: Single) -> tuple[Single, Single]:
        parts, counts = self.answers(w, clip)
        return parts.sum(axis=0), counts.sum(axis=0)

    def answers(self, w: Single, clip: Single) -> tuple[Single, Single]:
        """Every party's part of the sums, (M, B, d), and of the counts, (M, B)."""
        if self.unit == "party":
            parts, counts = self.gradients.clipped(w, clip)
            return parts / clip[:, None], counts
        X, y, problem = self.parties.X, self.parties.y, self.parties.problem
        each = np.empty((problem.M, *w.shape), w.dtype)
        for k, gradient in enumerate(each):
            own = self.parties.of(k)
            Rows.clipped(self.loss, X[own], y[own], float(clip[0])).gradient(w, gradient)
        return each / clip[:, None], np.zeros(each.shape[:2])

    def noisy(
        self, w: Single, clip: Single, widths: Widths, rng: Generator, watch: Watch | None = None
    ) -> tuple[Single, Single]:
        from dpml.protocols import choose, secure_sum  # most runs need no cryptography

        problem = self.parties.problem
        d = problem.d
        answers, counts = self.answers(w, clip)
        wide = np.repeat(widths.sums[:, None], d, axis=1)
        if widths.counts is not None:
            answers = np.concatenate([answers, counts[..., None]], axis=2)
            wide = np.column_stack([wide, widths.counts])
        parts = SecureSumNoise().parts(rng, widths.draws, problem.M, answers.shape[2])
        answers = answers + wide * np.tile(parts, (1, len(w) // widths.draws, 1))
        # public: no more gradients than rows, and longer noise is less likely than 1 in 10^40
        bound = problem.N + 16 * float(wide.max())
        topology = choose(problem.M, problem.colluders)
        summed = secure_sum(answers.reshape(problem.M, -1), bound, rng, topology=topology)
        total = summed.total.reshape(answers.shape[1:])
        sums = total[:, :d].astype(np.float32)
        if watch is not None:
            watch.drawn(parts[..., :d])
            watch.sent(sums, partial(exact_sums, w.copy(), clip.copy()))
        if widths.counts is None:
            return sums, counts.sum(axis=0)
        if watch is not None:
            watch.drawn(parts[..., d:])
            watch.sent(total[:, d:], partial(exact_counts, w.copy(), clip.copy()))
        return sums, total[:, d]


def exact_sums(w: Single, clip: Single, mechanism: Any) -> Array:
    """The sums of a prepared mechanism with `sums`, without noise: (B, d)."""
    return mechanism.sums.exact(w, clip)[0]


def exact_counts(w: Single, clip: Single, mechanism: Any) -> Array:
    """The same of the counts: (B, 1)."""
    return mechanism.sums.exact(w, clip)[1][:, None]
