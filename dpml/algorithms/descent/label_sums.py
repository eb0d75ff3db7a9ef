"""The sum of labels, or the number of rows of every class: of reals, and of integers, of which a label is one step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.mechanism.discrete import BITS, whole_steps
from dpml.mechanism.message import Statistic, Terms
from dpml.privacy import Problem
from dpml.privacy.discrete.rounding import Integers


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
        """Steps of a label.

        Raises:
            UserError: so much noise does not fit into 64 bits.
        """
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
