"""How unequal a partition is: rows, classes and label distributions by party."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data.info import Task
from dpml.data.partition import Parties

FIFTHS = 5
"""Intervals that stand for classes of real-valued targets; all have the same number of rows, except for ties."""


@dataclass(frozen=True)
class Skew:
    """The rows of M parties by K classes, called `names`: `counts` (M, K), and `chance` (M, K) after a shuffle.

    Small parties differ even after a shuffle. For real-valued targets, intervals stand for classes.
    """

    names: Sequence[str]
    counts: Index
    chance: Index
    intervals: bool = False

    @classmethod
    def of(cls, parties: Parties, rng: Generator) -> "Skew":
        """Return the skew of some parties; `rng` shuffles the rows for `chance`."""
        classes, names = named_classes(parties.y, parties.data.task)
        M, K = len(parties.sizes), len(names)
        first = K * np.repeat(np.arange(M), parties.sizes)
        counts, chance = (
            np.bincount(first + which, minlength=M * K).reshape(M, K) for which in (classes, rng.permutation(classes))
        )
        return cls(names, counts, chance, parties.data.task == "regression")

    @cached_property
    def sizes(self) -> Index:
        """Rows per party, (M,)."""
        return self.counts.sum(axis=1)

    @property
    def held(self) -> Index:
        """Classes per party, (M,)."""
        return np.count_nonzero(self.counts, axis=1)

    @cached_property
    def distances(self) -> Array:
        """The distance of each party's label distribution from that of all rows, (M,): see `distances`."""
        return distances(self.counts)


def distances(counts: Index) -> Array:
    """Return the total variation distance of each party's labels from those of all rows, (M,), from counts (M, K)."""
    mixes = counts / counts.sum(axis=1, keepdims=True)
    whole = counts.sum(axis=0) / counts.sum()
    return np.abs(mixes - whole).sum(axis=1) / 2


def named_classes(y: Array, task: Task) -> tuple[Index, list[str]]:
    """Return the class of each label, (N,) of 0..K-1 in ascending order, and the K names; fifths of real targets."""
    if task != "regression":
        labels, classes = np.unique(y, return_inverse=True)
        return classes, [f"{label:+g}" if task == "binary" else f"{label:g}" for label in labels]
    values, place, rows = np.unique(y, return_inverse=True, return_counts=True)
    middle = (np.cumsum(rows) - rows / 2) / len(y)  # the mean rank of the rows with the same target, from 0 to 1
    _, intervals = np.unique(np.floor(FIFTHS * middle), return_inverse=True)
    inside = [values[intervals == number] for number in range(intervals.max() + 1)]
    return intervals[place], [f"{each.min():.2g} to {each.max():.2g}" for each in inside]
