"""What is known of rows before a preprocessing step: training rows, or the set in which rows can lie."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpml.arrays import Array, Index
from dpml.data.info import Column, Range


def norms(X: Array) -> Array:
    """The L2 norm of every row: (n, d) -> (n,). X is not copied."""
    return np.sqrt(np.einsum("ij,ij->i", X, X))


@dataclass(frozen=True)
class TrainingRows:
    """Training rows X (n, p), an array or a sparse matrix, and the number of values of each symbolic column."""

    X: Any
    levels: Sequence[int] = ()

    @cached_property
    def low(self) -> Array:
        """The smallest value of every column, (p,)."""
        return self.X.min(axis=0)

    @cached_property
    def high(self) -> Array:
        """The largest value of every column, (p,)."""
        return self.X.max(axis=0)

    @property
    def mean(self) -> Array:
        """The mean of every column, (p,)."""
        return self.X.mean(axis=0)

    @property
    def median(self) -> Array:
        """The median of every column's values that are not missing, (p,); 0 where all are missing."""
        return np.nan_to_num(np.nanmedian(self.X, axis=0))

    @property
    def norm(self) -> float:
        """The largest L2 norm of a row."""
        return float(norms(self.X).max())


@dataclass(frozen=True)
class Box:
    """The set in which rows can lie, according to the statements.

    Attributes:
        low: The smallest value of every column (p,).
        high: The largest value of every column (p,).
        group: A number for every column (p,). The 0/1 columns of one symbolic feature share one number: at most one of
            them is at its `high`, and the others are at their `low`.
        levels: The number of values of each symbolic column of the table, 0 for a numeric column.
        length: A further bound on a row's L2 norm.
        edges: The stated edges of every column of the table, on the scale of its ends.
    """

    low: Array
    high: Array
    group: Index
    levels: Sequence[int] = ()
    length: float = math.inf
    edges: Sequence[Array] = ()

    @property
    def mean(self) -> Array:
        """The middle of every column's range, (p,): it stands for the mean and the median."""
        return (self.low + self.high) / 2

    median = mean

    @property
    def norm(self) -> float:
        """The largest L2 norm of a row."""
        least = np.sum(self.low**2)
        # at most one column of a group leaves its `low`; a numeric column is a group of its own
        more = np.zeros(int(self.group.max(initial=-1)) + 1)
        np.maximum.at(more, self.group, self.high**2 - self.low**2)
        return min(self.length, math.sqrt(least + np.sum(more)))


Extent = TrainingRows | Box
"""What is known of the rows before a step."""


def into_ranges(columns: Mapping[str, Column]) -> tuple[Callable[[Array], Array], Box]:
    """The map that clips every column to its range, on a log scale where the range says so, and the box it maps to."""
    ranges = [column if isinstance(column, Range) else Range(-1, len(column)) for column in columns.values()]
    low = np.array([r.low for r in ranges], dtype=float)
    high = np.array([r.high for r in ranges], dtype=float)
    log = np.flatnonzero([r.log for r in ranges])

    def apply(X: Array) -> Array:
        out = np.clip(X, low, high)
        out[:, log] = np.log1p(out[:, log])
        return out

    ends = apply(np.stack([low, high]))
    edges = [np.log1p(r.edges) if r.log else np.array(r.edges) for r in ranges]
    return apply, Box(ends[0], ends[1], np.arange(len(ranges)), levels_of(columns), edges=edges)


def levels_of(columns: Mapping[str, Column]) -> list[int]:
    """The number of values of each symbolic column; 0 for a numeric column."""
    return [0 if isinstance(column, Range) else len(column) for column in columns.values()]


def after_one_hot(columns: Mapping[str, Column]) -> int:
    """The number of columns after every value of each symbolic column has become a column."""
    return sum(count or 1 for count in levels_of(columns))
