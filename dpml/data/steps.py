"""The steps of preprocessing: what each makes of rows, and of the set in which rows can lie.

A step takes its parameters from what is known of the rows before it: from `TrainingRows`, or from a `Box`. Both have
the same attributes, so a step is written once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from dpml.arrays import Array, Index
from dpml.data.info import Column, Range
from dpml.errors import UserError

Record = dict[str, Any]
Apply = Callable[[Any], Array]

PRIVATE = "training rows, no budget spent"
EACH_ROW = "nothing: row by row"
SCHEMA = "the list of symbolic values in the official file, taken as public"
STATED = "nothing: stated ranges and lists of values"


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


@dataclass(frozen=True)
class Step:
    """A step with its parameters.

    Attributes:
        apply: The map, rows (n, p) -> (n, q).
        source: Where the parameters come from if they come from training rows.
        facts: What the record says besides, from the training rows before the step.
        box: What the step makes of a `Box`; None: its ends are mapped, and `length` bounds the norm.
        length: A bound on the L2 norm of a row of the box after the step.
    """

    apply: Apply
    source: str = PRIVATE
    facts: Callable[[Any], Record] = lambda train: {}
    box: Callable[[Box], Box] | None = None
    length: float = math.inf

    def after(self, box: Box) -> Box:
        """The set in which rows of `box` can lie after the step."""
        if self.box is not None:
            return self.box(box)
        return replace(box, low=self.apply(box.low), high=self.apply(box.high), length=self.length)


def impute(extent: Extent) -> Step:
    """Replace missing values (NaN) by the feature's median over the training rows."""
    median = extent.median
    return Step(
        lambda X: np.where(np.isnan(X), median, X),
        facts=lambda train: {"training_cells_imputed": int(np.isnan(train).sum())},
    )


def one_hot(extent: Extent) -> Step:
    """The numeric columns, then one 0/1 column for every value of each symbolic one; an unknown value is all zeros."""
    if not any(extent.levels):
        return Step(lambda X: X, SCHEMA, lambda train: {"columns": train.shape[1]}, lambda before: before)
    levels = np.array(extent.levels, dtype=np.intp)
    numeric, symbolic = np.flatnonzero(levels == 0), np.flatnonzero(levels)
    group = np.arange(len(levels)).repeat(np.append(np.ones_like(numeric), levels[symbolic]))

    def apply(X: Array) -> Array:
        out = np.zeros((len(X), len(group)))
        out[:, : len(numeric)] = X[:, numeric]
        start = len(numeric)
        for column in symbolic:
            known = np.flatnonzero(X[:, column] >= 0)
            out[known, start + X[known, column].astype(np.intp)] = 1.0
            start += levels[column]
        return out

    def box(before: Box) -> Box:
        low, high = np.zeros(len(group)), np.ones(len(group))
        low[: len(numeric)], high[: len(numeric)] = before.low[numeric], before.high[numeric]
        return replace(before, low=low, high=high, group=group)

    return Step(apply, SCHEMA, lambda train: {"columns": len(group)}, box)


def binned(extent: Extent) -> Step:
    """For every numeric column that has edges, a 0/1 column for each part of its range; the others stay as they are.

    A linear model of them is an additive one: a step function of each feature.
    """
    return _cut(extent, "bin", indicators)


def splined(extent: Extent) -> Step:
    """As `bin`, but piecewise linear: a column for every edge and end of a range, 1 there and 0 at the next ones."""
    return _cut(extent, "spline", hats)


def _cut(extent: Extent, name: str, made: Callable[[Array, Array], Array]) -> Step:
    if not isinstance(extent, Box):
        raise UserError(
            f"dataset.steps must not have {name} with dataset.bounds=fitted, because edges are stated and not taken "
            "from rows: set dataset.bounds=public, or to a file with the columns' ranges and edges."
        )
    numeric = [column for column, count in enumerate(extent.levels) if not count]  # the first columns, in this order
    cut = [place for place, column in enumerate(numeric) if len(extent.edges[column])]
    if not cut:
        raise UserError(
            f"dataset.steps has {name}, but no column has edges: state them with the range, such as "
            "age: {low: 0, high: 100, edges: [30, 45, 60]}, or edges: 8 for eight equal parts."
        )
    ends = {p: np.array([extent.low[p], *extent.edges[numeric[p]], extent.high[p]]) for p in cut}
    kept = [place for place in range(len(extent.low)) if place not in ends]

    def apply(X: Array) -> Array:
        return np.hstack([X[:, kept], *(made(X[:, place], edges) for place, edges in ends.items())])

    def box(before: Box) -> Box:
        widths = [made(edges[:1], edges).shape[1] for edges in ends.values()]
        new, levels = sum(widths), list(before.levels)
        for place, count in zip(cut, widths, strict=True):
            levels[numeric[place]] = count
        groups = before.group.max() + 1 + np.arange(len(widths)).repeat(widths)
        low, high = np.append(before.low[kept], np.zeros(new)), np.append(before.high[kept], np.ones(new))
        return Box(low, high, np.append(before.group[kept], groups), levels)

    return Step(apply, STATED, box=box)


def indicators(values: Array, edges: Array) -> Array:
    """Whether values (n,) are in each part [a, b) between the K + 1 edges: (n, K); the last part has its end."""
    return np.eye(len(edges) - 1)[np.searchsorted(edges[1:-1], values, side="right")]


def hats(values: Array, edges: Array) -> Array:
    """The weights of the two edges between which each of the values (n,) is, by its distance from them: (n, K + 1)."""
    at = np.searchsorted(edges[1:-1], values, side="right")
    share = (values - edges[at]) / (edges[at + 1] - edges[at])
    one = np.eye(len(edges))
    return (1 - share)[:, None] * one[at] + share[:, None] * one[at + 1]


def min_max(extent: Extent) -> Step:
    """Scale each feature to [0, 1] over the training rows."""
    return Step(per_column(extent.low, extent.high - extent.low))


def symmetric(extent: Extent) -> Step:
    """Scale each numeric feature to [-1, 1] over the training rows; 0/1 columns of symbolic features are unchanged.

    A numeric feature then changes the score as much as a symbolic one, up and down; in [0, 1] it is mostly constant.
    """
    numeric = sum(not count for count in extent.levels) if any(extent.levels) else len(extent.low)  # they come first
    return Step(to_both_sides(extent.low, extent.high, numeric))


def to_both_sides(low: Array, high: Array, numeric: int) -> Apply:
    """The map that takes [low, high] (p,) of the first columns, the `numeric` ones, to [-1, 1]."""
    number = np.arange(len(low)) < numeric
    return per_column(np.where(number, (low + high) / 2, 0.0), np.where(number, (high - low) / 2, 1.0))


def max_abs(extent: Extent) -> Step:
    """Scale each feature to [-1, 1] by its largest absolute value over the training rows; zeros stay zeros."""
    return Step(per_column(np.zeros_like(extent.low), np.maximum(extent.high, -extent.low)))


def per_column(offset: Array, scale: Array) -> Apply:
    """(x - offset) / scale, column by column; a scale of 0 counts as 1."""
    safe = np.where(scale > 0, scale, 1.0)
    return lambda X: np.asarray((X - offset) / safe)


def centre(extent: Extent) -> Step:
    """Subtract each feature's mean over the training rows."""
    mean = extent.mean
    return Step(lambda X: X - mean)


def pca(extent: Extent, components: int) -> Step:
    """Centre and project onto the `components` directions of largest variance over the training rows.

    Sparse rows stay sparse: the mean is subtracted from products only, and features that are zero in all training rows
    (their variance is zero) are left out first. A direction without variance gives zeros.
    """
    if isinstance(extent, Box):
        raise UserError(
            "dataset.steps must not have pca with dataset.bounds=public, because it is fitted to training rows: leave "
            "it out, or set dataset.bounds=fitted."
        )
    X, used = extent.X, None
    if not isinstance(X, np.ndarray):
        used = np.flatnonzero(X.getnnz(axis=0))
        X = X[:, used]
    most = min(X.shape) - 1
    if not 1 <= components <= most:
        raise UserError(
            f"pca:{components} in dataset.steps needs more than {components} training rows and features, but there "
            f"are {X.shape[0]} x {X.shape[1]}: choose pca:D with D in 1..{most}, or a larger N."
        )
    mean = np.asarray(X.mean(axis=0)).ravel()
    basis, squares = principal_components(X, mean, components)
    offset = mean @ basis
    entries = X.data if used is not None else np.ravel(X)
    total = float(entries @ entries - X.shape[0] * mean @ mean)
    share = float(squares.sum()) / (total or 1.0)
    return Step(
        lambda X: np.asarray((X if used is None else X[:, used]) @ basis - offset),
        facts=lambda train: {"components": components, "variance": share},
    )


def principal_components(A: Any, mean: Array, components: int) -> tuple[Array, Array]:
    """The leading right singular vectors (p, components) of A - mean (n, p), and the squares of their singular values.

    Lanczos iteration on the smaller Gram matrix. It uses products with A only, so A is not modified or copied.
    """
    n, p = A.shape
    transposed = A.T

    def forward(v: Array) -> Array:
        return np.asarray(A @ v - mean @ v)

    def back(u: Array) -> Array:
        return np.asarray(transposed @ u - mean * u.sum())

    def gram(x: Array) -> Array:
        x = x.ravel()
        return forward(back(x)) if n < p else back(forward(x))

    size = min(n, p)
    # the start vector is fixed: the same rows give bit-identical results
    start = np.random.default_rng(0).standard_normal(size)
    squares, vectors = eigsh(
        LinearOperator((size, size), matvec=gram, dtype=np.float64), components, v0=start, tol=1e-8
    )
    squares, vectors = np.maximum(squares[::-1], 0.0), vectors[:, ::-1]
    if n < p:
        lengths = np.sqrt(squares)
        # left singular vectors sum to zero, so that the mean drops out
        vectors = transposed @ (vectors / np.where(lengths > 1e-7 * lengths[0], lengths, np.inf))
    vectors = np.ascontiguousarray(vectors)
    # the sign of a direction is arbitrary: its entry of largest magnitude is made positive
    for column in vectors.T:
        column *= 1.0 if column.max() >= -column.min() else -1.0
    return vectors, squares


def max_norm(extent: Extent) -> Step:
    """Divide every row by the largest L2 norm of a training row. A test row may still be longer than 1."""
    largest = (extent.norm or 1.0) * (1 + 1e-12)  # a division may round a norm of one up by an ulp
    return Step(lambda X: X / largest, facts=lambda train: {"norm": largest}, length=1.0)


def sample_norm(extent: Extent) -> Step:
    """Divide every row by its own L2 norm."""
    return Step(partial(shrink, always=True), EACH_ROW, box=_in_ball)


def clip(extent: Extent) -> Step:
    """Scale the rows that are longer than 1 down to the unit ball; leave the others unchanged."""
    return Step(shrink, EACH_ROW, lambda train: {"training_rows_clipped": int(np.sum(norms(train) > 1))}, _in_ball)


def shrink(X: Array, always: bool = False) -> Array:
    """Divide the rows that are longer than 1, or all rows (`always`), by their L2 norm; rows of zeros stay zeros."""
    length = norms(X)[:, None] * (1 + 1e-12)
    return X / (np.where(length > 0, length, 1.0) if always else np.maximum(length, 1.0))


def _in_ball(box: Box) -> Box:
    # each row shrinks by its own factor, so the columns of a group no longer have only two values
    low, high = np.where(box.low < 0, -1.0, 0.0), np.where(box.high > 0, 1.0, 0.0)
    return Box(low, high, np.arange(len(low)), box.levels, 1.0)


def bias(extent: Extent) -> Step:
    """Append a constant feature and keep the rows inside the ball: (x, 1) / sqrt 2. Used after the scaling step."""

    def apply(X: Array) -> Array:
        return np.column_stack([X, np.ones(len(X))]) / math.sqrt(2.0)

    def box(before: Box) -> Box:
        low, high = apply(np.stack([before.low, before.high]))
        group = np.append(before.group, before.group.max() + 1)
        return Box(low, high, group, before.levels, math.hypot(before.norm, 1.0) / math.sqrt(2.0))

    return Step(apply, EACH_ROW, box=box)


STEPS: dict[str, Callable[..., Step]] = {
    step.__name__: step
    for step in (impute, one_hot, min_max, symmetric, max_abs, centre, pca, max_norm, sample_norm, clip, bias)
} | {"bin": binned, "spline": splined}
