"""Preprocess rows by a list of named steps, each of which maps every row independently of the other rows.

Parameters from training rows (`TrainingRows`), in place of public ranges (`Box`), leak information that no privacy
budget accounts for. The papers fit steps to training rows; then the steps' record says so (`fitted_on`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from itertools import takewhile
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from dpml.arrays import Array, Index, blocks
from dpml.data.info import Bounds, Column, Info, Range
from dpml.errors import UserError, nearest

Features = Array | sparse.csr_matrix
Record = dict[str, Any]
Apply = Callable[[Any], Array]
Levels = tuple[int, ...]
Preprocessed = tuple[Array, Array, Array, Array, list[Record]]
"""Training rows and labels, test rows and labels, and the record of the steps."""

PRIVATE = "training rows, no budget spent"
EACH_ROW = "nothing: row by row"
SCHEMA = "the list of categorical values in the official file, taken as public"
STATED = "nothing: stated ranges and lists of values"


def norms(X: Array) -> Array:
    """Return the L2 norm of every row, (n, d) -> (n,), without a copy of X."""
    return np.sqrt(np.einsum("ij,ij->i", X, X))


@dataclass(frozen=True)
class TrainingRows:
    """Training rows X (n, p), dense or sparse, and each column's number of categories (0 for a numeric column)."""

    X: Any
    levels: Levels = ()

    @cached_property
    def low(self) -> Array:
        return self.X.min(axis=0)

    @cached_property
    def high(self) -> Array:
        return self.X.max(axis=0)

    @property
    def mean(self) -> Array:
        return self.X.mean(axis=0)

    @property
    def median(self) -> Array:
        """The median of each column over its known values; 0 if all values of the column are missing."""
        return np.nan_to_num(np.nanmedian(self.X, axis=0))

    @property
    def norm(self) -> float:
        return float(norms(self.X).max())


@dataclass(frozen=True)
class Box:
    """A set that contains all possible rows, according to the public ranges and values of their columns.

    Attributes:
        low, high: The smallest and the largest value of every column, (p,).
        group: The group of every column, (p,). The 0/1 columns of one categorical feature form a group. In a row, at
            most one column of a group is at its `high`, and the other columns are at their `low`.
        levels: The number of values of each categorical column of the table, 0 for a numeric column.
        length: An additional bound on the L2 norm of a row.
        edges: For every column of the table, where `bin` and `spline` cut its range, on the scale of `low` and `high`.
    """

    low: Array
    high: Array
    group: Index
    levels: Levels = ()
    length: float = math.inf
    edges: Sequence[Array] = ()

    @property
    def mean(self) -> Array:
        """The middle of each column's range, (p,), which is used in place of the column's mean and median."""
        return (self.low + self.high) / 2

    median = mean

    @property
    def norm(self) -> float:
        """The largest L2 norm of a possible row."""
        least = np.sum(self.low**2)
        # at most one column of a group differs from its `low`; a numeric column forms its own group
        more = np.zeros(int(self.group.max(initial=-1)) + 1)
        np.maximum.at(more, self.group, self.high**2 - self.low**2)
        return min(self.length, math.sqrt(least + np.sum(more)))


Extent = TrainingRows | Box


def into_ranges(columns: Mapping[str, Column]) -> tuple[Callable[[Array], Array], Box]:
    """Return a function that clips columns to public ranges, then takes log(1 + x) if declared; also its image."""
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


def levels_of(columns: Mapping[str, Column | None]) -> Levels:
    """Return each column's number of categories, which is 0 for a numeric column."""
    return tuple(len(column) if isinstance(column, tuple) else 0 for column in columns.values())


def coded_width(levels: Levels) -> int:
    """Return the number of columns after one-hot coding."""
    return sum(count or 1 for count in levels)


@dataclass(frozen=True)
class Step:
    """A preprocessing step with its parameters.

    Attributes:
        source: Where the step's parameters come from, if the step is made from `TrainingRows`.
        box: Returns a `Box` of the step's outputs for rows in a `Box`; None: `apply` maps its `low` and `high`.
        length: A bound on the L2 norm of the step's outputs for rows in a `Box`, if `box` is None.
    """

    apply: Apply
    source: str = PRIVATE
    box: Callable[[Box], Box] | None = None
    length: float = math.inf

    def after(self, box: Box) -> Box:
        """Return a `Box` that contains this preprocessing step's output for every input row in `box`."""
        if self.box is not None:
            return self.box(box)
        return replace(box, low=self.apply(box.low), high=self.apply(box.high), length=self.length)


def impute(extent: Extent) -> Step:
    """Replace missing values (NaN) by the feature's median over the training rows."""
    median = extent.median
    return Step(lambda X: np.where(np.isnan(X), median, X))


def one_hot(extent: Extent) -> Step:
    """Replace categorical columns by one 0/1 column per value, after all numeric columns; unknown values give zeros."""
    return _coded(extent, first=0)


def treatment(extent: Extent) -> Step:
    """Replace each categorical column as `one_hot` does, but without the column of its first value (the reference)."""
    return _coded(extent, first=1)


def _coded(extent: Extent, first: int) -> Step:
    if not any(extent.levels):
        return Step(lambda X: X, SCHEMA, lambda before: before)
    levels = np.array(extent.levels, dtype=np.intp)
    numeric, coded = np.flatnonzero(levels == 0), np.flatnonzero(levels)
    group = np.arange(len(levels)).repeat(np.append(np.ones_like(numeric), levels[coded] - first))

    def apply(X: Array) -> Array:
        return np.hstack([X[:, numeric], *(X[:, [column]] == np.arange(first, levels[column]) for column in coded)])

    def box(before: Box) -> Box:
        low, high = np.zeros(len(group)), np.ones(len(group))
        low[: len(numeric)], high[: len(numeric)] = before.low[numeric], before.high[numeric]
        return replace(before, low=low, high=high, group=group)

    return Step(apply, SCHEMA, box)


def binned(extent: Extent) -> Step:
    """Replace each numeric column that has bin edges by one 0/1 column per bin."""
    return _cut(extent, "bin", indicators)


def splined(extent: Extent) -> Step:
    """Replace each numeric column with edges by linear B-splines, one per edge or end: 1 there, 0 at all others."""
    return _cut(extent, "spline", hats)


def _cut(extent: Extent, name: str, made: Callable[[Array, Array], Array]) -> Step:
    assert isinstance(extent, Box)  # see check_steps
    numeric = [column for column, count in enumerate(extent.levels) if not count]  # the first columns, in this order
    places = [place for place, column in enumerate(numeric) if len(extent.edges[column])]
    if not places:
        raise UserError(
            f"dataset.steps has {name}, but no column has edges: add edges to a column in the bounds file, such as "
            "age: {low: 0, high: 100, edges: [30, 45, 60]}, or edges: 8 for eight equal parts."
        )
    ends = {p: np.array([extent.low[p], *extent.edges[numeric[p]], extent.high[p]]) for p in places}
    kept = [place for place in range(len(extent.low)) if place not in ends]

    def apply(X: Array) -> Array:
        return np.hstack([X[:, kept], *(made(X[:, place], edges) for place, edges in ends.items())])

    def box(before: Box) -> Box:
        widths = [made(edges[:1], edges).shape[1] for edges in ends.values()]
        new, levels = sum(widths), list(before.levels)
        for place, count in zip(places, widths, strict=True):
            levels[numeric[place]] = count
        groups = before.group.max() + 1 + np.arange(len(widths)).repeat(widths)
        low, high = np.append(before.low[kept], np.zeros(new)), np.append(before.high[kept], np.ones(new))
        return Box(low, high, np.append(before.group[kept], groups), tuple(levels))

    return Step(apply, STATED, box=box)


def indicators(values: Array, edges: Array) -> Array:
    """Return a 0/1 array (n, K) that says which of the K bins between K + 1 edges contains each value (n,)."""
    return np.eye(len(edges) - 1)[np.searchsorted(edges[1:-1], values, side="right")]


def hats(values: Array, edges: Array) -> Array:
    """Return weights (n, K + 1) of K + 1 edges: each value (n,) is the weighted mean of the two edges around it."""
    at = np.searchsorted(edges[1:-1], values, side="right")
    share = (values - edges[at]) / (edges[at + 1] - edges[at])
    one = np.eye(len(edges))
    return (1 - share)[:, None] * one[at] + share[:, None] * one[at + 1]


def min_max(extent: Extent) -> Step:
    """Scale each feature linearly so that its values in the training rows range from 0 to 1."""
    return Step(per_column(extent.low, extent.high - extent.low))


def symmetric(extent: Extent) -> Step:
    """Scale each numeric feature to [-1, 1] over the training rows; keep the 0/1 columns of categorical features."""
    low, high = extent.low.copy(), extent.high.copy()
    if any(extent.levels):
        numeric = extent.levels.count(0)  # they come first
        low[numeric:], high[numeric:] = -1.0, 1.0
    return Step(to_both_sides(low, high))


def to_both_sides(low: Array, high: Array) -> Apply:
    """Return a function that maps each column linearly from its range [low, high] to [-1, 1]."""
    return per_column((low + high) / 2, (high - low) / 2)


def max_abs(extent: Extent) -> Step:
    """Divide each feature by its largest absolute value over the training rows; zeros stay zeros."""
    return Step(per_column(np.zeros_like(extent.low), np.maximum(extent.high, -extent.low)))


def per_column(offset: Array, scale: Array) -> Apply:
    """Return a function that maps rows X to (X - offset) / scale, where a scale of 0 counts as 1."""
    safe = np.where(scale > 0, scale, 1.0)
    return lambda X: np.asarray((X - offset) / safe)


def centre(extent: Extent) -> Step:
    """Subtract each feature's mean over the training rows."""
    mean = extent.mean
    return Step(lambda X: X - mean)


def pca(extent: Extent, components: int) -> Step:
    """Subtract the mean, and project rows onto the `components` directions of largest variance of the training rows."""
    assert isinstance(extent, TrainingRows)  # see check_steps
    X, used = extent.X, None
    if not isinstance(X, np.ndarray):
        used = np.flatnonzero(X.getnnz(axis=0))
        X = X[:, used]
    n, p = X.shape
    most = min(n, p) - 1
    if not 1 <= components <= most:
        raise UserError(
            f"pca:{components} in dataset.steps needs more than {components} training rows and features, but there "
            f"are {n} x {p}: choose pca:D with D in 1..{most}, or a larger N."
        )
    mean, transposed = np.asarray(X.mean(axis=0)).ravel(), X.T
    # the leading right singular vectors of the centred rows, without a centred copy
    centred = LinearOperator(
        (n, p), lambda v: X @ v - mean @ v, lambda u: transposed @ u - mean * u.sum(), dtype=np.float64
    )
    gram = centred @ centred.T if n < p else centred.T @ centred
    # the start vector is fixed: the same rows give bit-identical results
    start = np.random.default_rng(0).standard_normal(min(n, p))
    squares, vectors = eigsh(gram, components, v0=start, tol=1e-8)
    squares, vectors = np.maximum(squares[::-1], 0.0), vectors[:, ::-1]
    if n < p:
        lengths = np.sqrt(squares)
        # each left singular vector of the centred rows sums to zero, so the mean cancels in transposed @ vectors
        vectors = transposed @ (vectors / np.where(lengths > 1e-7 * lengths[0], lengths, np.inf))
    basis = np.ascontiguousarray(vectors)
    # the sign of a direction is arbitrary: its entry of largest magnitude is made positive
    for column in basis.T:
        column *= 1.0 if column.max() >= -column.min() else -1.0
    offset = mean @ basis
    return Step(lambda X: np.asarray((X if used is None else X[:, used]) @ basis - offset))


def max_norm(extent: Extent) -> Step:
    """Divide every row by the largest L2 norm of a training row; test rows may keep a norm above 1."""
    largest = (extent.norm or 1.0) * (1 + 1e-12)  # division may round a norm of 1 up
    return Step(lambda X: X / largest, length=1.0)


def sample_norm(extent: Extent) -> Step:
    """Divide every row by its own L2 norm."""
    return Step(partial(shrink, always=True), EACH_ROW, box=_in_ball)


def clip(extent: Extent) -> Step:
    """Scale rows with an L2 norm above 1 down to norm 1; leave all other rows unchanged."""
    return Step(shrink, EACH_ROW, _in_ball)


def shrink(X: Array, always: bool = False) -> Array:
    """Divide rows with an L2 norm above 1, or all rows if `always`, by their norm; rows of zeros stay zeros."""
    length = norms(X)[:, None] * (1 + 1e-12)
    return X / (np.where(length > 0, length, 1.0) if always else np.maximum(length, 1.0))


def _in_ball(box: Box) -> Box:
    # each row has its own factor, so the columns of a group no longer have only two values
    low, high = np.where(box.low < 0, -1.0, 0.0), np.where(box.high > 0, 1.0, 0.0)
    return Box(low, high, np.arange(len(low)), box.levels, 1.0)


def constant(extent: Extent) -> Step:
    """Append a constant feature 1, for an intercept; use this step before max_norm."""
    return _with_one(1.0)


def bias(extent: Extent) -> Step:
    """Append a constant feature, and keep rows in the unit ball: a row x becomes (x, 1) / sqrt(2)."""
    return _with_one(math.sqrt(2.0))


def _with_one(divisor: float) -> Step:
    def apply(X: Array) -> Array:
        return np.column_stack([X, np.ones(len(X))]) / divisor

    def box(before: Box) -> Box:
        low, high = apply(np.stack([before.low, before.high]))
        group = np.append(before.group, before.group.max(initial=-1) + 1)
        return Box(low, high, group, before.levels, math.hypot(before.norm, 1.0) / divisor)

    return Step(apply, EACH_ROW, box=box)


_STEPS = (impute, one_hot, treatment, min_max, symmetric, max_abs, centre, constant, pca, max_norm, sample_norm)
STEPS: dict[str, Callable[..., Step]] = {step.__name__: step for step in (*_STEPS, clip, bias)}
STEPS |= {"bin": binned, "spline": splined}


_BLOCK = 1 << 14  # rows transformed at once
_CODED = ("one_hot", "treatment")
_CUTS = {"bin": {"impute", *_CODED}, "spline": {"impute", *_CODED}}
_FIRST = {name: {"impute"} for name in _CODED} | _CUTS
"""The steps that need the original columns, and the steps that may come before each."""


def parse(steps: Iterable[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Return the name and the arguments of each step: ``pca:50`` is the step `pca` with 50 components."""
    parsed: list[tuple[str, tuple[int, ...]]] = []
    for text in steps:
        name, colon, number = str(text).partition(":")
        if name not in STEPS:
            raise UserError(f"unknown preprocessing step {name!r} in dataset.steps: {nearest(name, STEPS)}")
        if (name == "pca") != bool(colon) or (colon and not number.isdecimal()):
            raise UserError(f"dataset.steps has {text!r}: write pca:D with a whole number D; other steps take no D.")
        parsed.append((name, (int(number),) if colon else ()))
    return parsed


def apply_steps(
    steps: Iterable[str], train: Any, test: Any, columns: Levels | Mapping[str, Column] = ()
) -> tuple[Array, Array, list[Record]]:
    """Apply the named `steps` in order; return the training rows, the test rows, and a record with an entry per step.

    Args:
        steps: Names from `STEPS`; ``pca:D`` sets the number of components.
        train, test: Rows (n, p) and (m, p), dense or sparse; never modified. A categorical value is coded 0, 1, ..., or
            -1 if it is unknown.
        columns: The public range or values of each column, from which all parameters are computed. To fit the steps to
            the training rows instead: each column's number of values, 0 if numeric; () if all columns are numeric.
    """
    parsed = parse(steps)
    record: list[Record] = []
    extent: Extent
    if isinstance(columns, Mapping):
        if train.shape[1] != len(columns):
            raise UserError(f"{len(columns)} bounds are given for {train.shape[1]} columns: give one bound per column.")
        into, extent = into_ranges(columns)
    else:
        extent = TrainingRows(train, columns or (0,) * train.shape[1])
    check_steps([name for name, _ in parsed], extent, train, test)
    if isinstance(extent, Box):
        train, test = (in_blocks(into, X, in_place=False) for X in (train, test))
        record.append({"step": "ranges", "fitted_on": STATED})
    for name, number in parsed:
        step = STEPS[name](extent, *number)
        train, test = (in_blocks(step.apply, X, in_place=bool(record)) for X in (train, test))
        if isinstance(extent, Box):
            extent, source = step.after(extent), EACH_ROW if step.source == EACH_ROW else STATED
        else:  # pca makes all columns numeric
            extent, source = TrainingRows(train, () if name == "pca" else extent.levels), step.source
        record.append({"step": name, "fitted_on": source})
    return train, test, record


def image(steps: Iterable[str], columns: Mapping[str, Column]) -> Box:
    """Return a set that contains all possible preprocessed rows, from the columns' public ranges and values."""
    parsed = parse(steps)
    box = into_ranges(columns)[1]
    check_steps([name for name, _ in parsed], box)
    for name, number in parsed:
        box = STEPS[name](box, *number).after(box)
    return box


def split_apply(
    X: Features,
    y: Array,
    parts: tuple[Index | slice, Index | slice],
    steps: Sequence[str],
    columns: Levels | Mapping[str, Column],
    target: Range | str | None,
) -> Preprocessed:
    """Select training and test rows of a table by the indices `parts`, and apply the preprocessing steps to the rows.

    Regression targets are scaled by the range `target`, or by the training rows if `target` is "fitted".
    """
    train, test, record = apply_steps(steps, X[parts[0]], X[parts[1]], columns)
    y_train, y_test = (y[rows] for rows in parts)
    if target is not None:
        y_train, y_test, scaled = scale_target(y_train, y_test, target if isinstance(target, Range) else None)
        record.append(scaled)
    return train, y_train, test, y_test, record


def check_ball(steps: Sequence[str], columns: Mapping[str, Column]) -> None:
    """Raise UserError unless the steps map every possible row into the unit ball.

    The check reads no row. Otherwise the norm of a private row would decide whether a release is refused.
    """
    longest = image(steps, columns).norm
    if not longest <= 1 + 1e-9:
        raise UserError(
            f"dataset.steps=[{','.join(steps)}] allow rows of L2 norm {longest:.4g}, according to the columns' ranges, "
            "but the guarantee needs rows of norm at most 1: end dataset.steps with max_norm, sample_norm or clip."
        )


def check_bounds(info: Info, bounds: Bounds, steps: Sequence[str]) -> None:
    """Raise UserError if dataset.bounds=public, but there are no public ranges or the steps cannot use them."""
    if bounds == "fitted":
        return
    if not info.columns or (info.task == "regression" and info.target is None):
        raise UserError(f"dataset={info.name} has no public ranges, because {info.bounds}: set dataset.bounds=fitted.")
    image(steps, info.columns)


def check_steps(names: Sequence[str], extent: Extent, *parts: Any) -> None:
    """Raise UserError if preprocessing steps are in the wrong order or unsuitable for the data."""
    levels = extent.levels
    for name in names:
        if isinstance(extent, TrainingRows) and name in ("treatment", *_CUTS):
            raise UserError(
                f"dataset.steps must not have {name} with dataset.bounds=fitted, because {name} needs public values or "
                "edges: set dataset.bounds=public or dataset.bounds=FILE.yaml."
            )
        if isinstance(extent, Box) and name == "pca":
            raise UserError(
                "dataset.steps must not have pca with public ranges, because pca is fitted to training rows: leave "
                "out pca, or set dataset.bounds=fitted."
            )
    if any(map(sparse.issparse, parts)):
        if names[:1] != ["pca"]:
            raise UserError("dataset.steps must begin with pca:D, because there are millions of sparse features.")
        return
    if any(levels) and not set(_CODED) & set(names):
        raise UserError(
            f"dataset.steps must have one_hot, because {sum(map(bool, levels))} of the columns are categorical: "
            f"for example [{', '.join(['one_hot', *names])}]."
        )
    # without categories, `one_hot` and `treatment` change nothing, unless `bin` or `spline` made 0/1 columns before
    for name, allowed in _FIRST.items() if any(levels) or not _CUTS.keys().isdisjoint(names) else ():
        before = set(names[: names.index(name)]) - allowed if name in names else set()
        if before or names.count(name) > 1:
            raise UserError(
                f"{name} needs the original columns, so it may occur only once in dataset.steps, and only "
                f"{' and '.join(sorted(allowed))} may come before it, got [{', '.join(names)}]."
            )
    # a missing value lies in no part of a range, so impute must come before bin and spline; no scale can be fitted to
    # missing values, so impute must be the first fitted step
    coded = [name for name in names if name not in _CODED]
    filling = takewhile(lambda name: name not in _CUTS, names) if isinstance(extent, Box) else coded[:1]
    if "impute" not in filling and any(np.isnan(part).any() for part in parts):
        others = [name for name in names if name != "impute"]
        raise UserError(
            f"dataset.steps must begin with impute, because values are missing: [{', '.join(['impute', *others])}]."
        )


def in_blocks(apply: Apply, X: Any, in_place: bool) -> Array:
    """Apply a function to blocks of rows of X; overwrite X if `in_place` and the number of columns stays the same."""
    width = apply(X[:0]).shape[1]
    out = X if in_place and width == X.shape[1] else np.empty((X.shape[0], width))
    for rows in blocks(X.shape[0], most=_BLOCK):
        out[rows] = apply(X[rows])
    return out


def width(steps: Sequence[str], columns: int | Mapping[str, Column]) -> int:
    """Return the number of features after the preprocessing steps."""
    if not isinstance(columns, int):
        return len(image(steps, columns).low)
    for name, number in parse(steps):
        columns = number[0] if number else columns + (name in ("bias", "constant"))
    return columns


def scale_target(train: Array, test: Array, target: Range | None = None) -> tuple[Array, Array, Record]:
    """Divide targets by the largest |training target|, or clip them to a range and divide by its largest |value|."""
    if target is None:
        largest = float(np.abs(train).max()) or 1.0
        return train / largest, test / largest, {"step": "scale_target", "fitted_on": PRIVATE, "largest": largest}
    into, box = into_ranges({"target": target})
    largest = float(max(-box.low[0], box.high[0]))
    train, test = (into(y[:, None])[:, 0] / largest for y in (train, test))
    return train, test, {"step": "scale_target", "fitted_on": STATED, "largest": largest}


def private_note(record: Iterable[Mapping[str, Any]], left_out: int = 0) -> str:
    """Return a note on steps fitted to private rows and on rows left out for missing values; "" if there are none."""
    fitted = ",".join(str(entry["step"]) for entry in record if entry["fitted_on"] == PRIVATE)
    notes = [f"{fitted} fitted on training rows"] if fitted else []
    return "; ".join([*notes, *(["rows with a missing value left out"] if left_out else [])])


FOLDED = 1 << 19  # merge equal rows if there are at most this many rows; this rule ignores how many rows are equal


def distinct(X: Array, y: Array | None = None) -> tuple[Index, Index, Index]:
    """Find the distinct rows of X (n, d), or of X with the labels y (n,), and count the copies of each row.

    In the returned arrays (first, where, counts), row i equals row ``first[where[i]]``, and row ``first[j]`` occurs
    ``counts[j]`` times.
    """
    places: dict[bytes, int] = {}
    where = np.empty(len(X), dtype=np.intp)
    for rows in blocks(*X.shape):
        whole = X[rows] if y is None else np.column_stack([X[rows], y[rows]])
        digests = (blake2b(row).digest() for row in np.ascontiguousarray(whole + 0.0))  # + 0.0 turns -0.0 into 0.0
        where[rows] = [places.setdefault(digest, len(places)) for digest in digests]
    _, first, counts = np.unique(where, return_index=True, return_counts=True)
    return first, where, counts
