"""Preprocessing as a short list of named steps, each a row-wise map with parameters.

A step takes its parameters from what is known of the rows: from `TrainingRows`, or from a `Box`, the set in which rows
can lie by stated ranges and values alone (`dataset.bounds=public`). Both have the same attributes, so a step is written
once.

Training rows spend privacy that no budget here accounts for. The papers do it, so it is allowed, and every step leaves
a record of it; `private_note` summarises the record for a row of results. With a box, all parameters are computed
before any row is read. Every number is first clipped to its `Range`, and put on a log scale where the range says so.

Each step follows the one before, and works row by row. Therefore large arrays are transformed in blocks, and in place
if the width does not change.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpml.arrays import Array, Index, blocks
from dpml.data.extent import Box, Extent, TrainingRows, into_ranges, levels_of, norms
from dpml.data.info import Bounds, Column, Info, Range
from dpml.data.principal_components import principal_components
from dpml.errors import UserError, nearest

Record = dict[str, Any]
Features = Array | sparse.csr_matrix
Apply = Callable[[Any], Array]

PRIVATE = "training rows, no budget spent"
EACH_ROW = "nothing: row by row"
SCHEMA = "the list of symbolic values in the official file, taken as public"
STATED = "nothing: stated ranges and lists of values"

_BLOCK = 1 << 14  # rows transformed at once


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
        return Box(low, high, group, before.levels)

    return Step(apply, SCHEMA, lambda train: {"columns": len(group)}, box)


def min_max(extent: Extent) -> Step:
    """Scale each feature to [0, 1] over the training rows."""
    return Step(per_column(extent.low, extent.high - extent.low))


def symmetric(extent: Extent) -> Step:
    """Scale each numeric feature to [-1, 1] over the training rows; 0/1 columns of symbolic features are unchanged.

    A numeric feature then changes the score as much as a symbolic one, up and down; in [0, 1] it is mostly constant.
    """
    return Step(to_both_sides(extent.low, extent.high, numeric_columns(len(extent.low), extent.levels)))


def numeric_columns(columns: int, levels: Sequence[int]) -> int:
    """The number of numeric columns after `one_hot`; they come first."""
    return sum(not count for count in levels) if any(levels) else columns


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
}


def parse(steps: Iterable[str]) -> list[tuple[str, int | None]]:
    """Names and arguments: ``pca:50`` is the step `pca` with 50 components."""
    parsed = []
    for text in steps:
        name, colon, number = str(text).partition(":")
        if name not in STEPS:
            raise UserError(f"unknown preprocessing step {name!r} in dataset.steps: {nearest(name, STEPS)}")
        if (name == "pca") != bool(colon) or (colon and not number.isdecimal()):
            raise UserError(f"dataset.steps has {text!r}: write pca:D with a whole number D, and other steps without.")
        parsed.append((name, int(number) if colon else None))
    return parsed


def _step(extent: Extent, name: str, number: int | None) -> Step:
    return STEPS[name](extent) if number is None else STEPS[name](extent, number)


def fit_apply(
    steps: Iterable[str], train: Any, test: Any, levels: Sequence[int] = ()
) -> tuple[Array, Array, list[Record]]:
    """Run the named `steps` in order, fitted to the training rows: (train, test, record), with an entry per step.

    Args:
        steps: Names from `STEPS`; ``pca:D`` sets the number of components.
        train: Training rows (n, p), an array or a sparse matrix; never modified.
        test: Test rows (m, p), likewise.
        levels: The number of values of each symbolic column (their codes are 0, 1, ...; -1 is unknown), 0 for a numeric
            column. Empty if all columns are numeric.

    Raises:
        UserError: a step is unknown, or the steps do not suit the columns.
    """
    parsed = parse(steps)
    levels = levels or (0,) * train.shape[1]
    check_steps([name for name, _ in parsed], train, levels)
    record: list[Record] = []
    for place, (name, number) in enumerate(parsed):
        step = _step(TrainingRows(train, levels), name, number)
        record.append({"step": name, "fitted_on": step.source, **step.facts(train)})
        train, test = (in_blocks(step.apply, X, in_place=place > 0) for X in (train, test))
    return train, test, record


def stated_apply(
    steps: Iterable[str], train: Any, test: Any, columns: Mapping[str, Column]
) -> tuple[Array, Array, list[Record]]:
    """Run the named `steps` in order, with parameters from the stated columns: (train, test, record).

    Args:
        steps: Names from `STEPS`, without `pca`.
        train: Training rows (n, p): numbers, NaN for a missing one, and codes of symbolic values; never modified.
        test: Test rows (m, p), likewise.
        columns: The range, or the list of values, of every column by its name, in the order of the columns. The code of
            a symbolic value is its index in the sorted list; a value that is not in the list has the code -1.

    Raises:
        UserError: a step is unknown or `pca`, or the steps do not suit the columns.
    """
    steps = list(steps)
    made = maps(steps, columns)
    if train.shape[1] != len(columns):
        raise UserError(f"ranges and values are stated of {len(columns)} columns, but the rows have {train.shape[1]}.")
    check_steps([name for name, _ in parse(steps)], train, levels_of(columns))
    for place, (apply, _) in enumerate(made):
        train, test = (in_blocks(apply, X, in_place=place > 0) for X in (train, test))
    return train, test, [facts for _, facts in made]


def maps(steps: Iterable[str], columns: Mapping[str, Column]) -> list[tuple[Apply, Record]]:
    """The row-wise map and the record of each named step, after clipping to the ranges; no row is read.

    Raises:
        UserError: a step is unknown or `pca`.
    """
    apply, box = into_ranges(columns)
    made: list[tuple[Apply, Record]] = [(apply, {"step": "ranges", "fitted_on": STATED})]
    for name, number in parse(steps):
        step = _step(box, name, number)
        made.append((step.apply, {"step": name, "fitted_on": EACH_ROW if step.source == EACH_ROW else STATED}))
        box = step.after(box)
    return made


def check_bounds(info: Info, bounds: str, steps: Iterable[str]) -> None:
    """Raise UserError unless a data set can be preprocessed by these steps with these bounds."""
    if bounds not in get_args(Bounds):
        raise UserError(f"unknown dataset.bounds={bounds!r}: {nearest(str(bounds), get_args(Bounds))}")
    if bounds == "fitted":
        return
    if not info.columns or (info.task == "regression" and info.target is None):
        raise UserError(f"dataset={info.name} has no public ranges, as {info.bounds}: leave dataset.bounds=fitted.")
    maps(steps, info.columns)


def check_steps(names: list[str], train: Features, levels: Sequence[int]) -> None:
    """Raise UserError when the named steps do not suit the training rows (n, p) and their symbolic columns."""
    if sparse.issparse(train):
        if names[:1] != ["pca"]:
            raise UserError("dataset.steps must begin with pca:D, because the features are sparse: they are millions.")
        return
    if any(levels) and "one_hot" not in names:
        raise UserError(
            f"dataset.steps must have one_hot, because {sum(map(bool, levels))} of the columns are symbolic: "
            f"for example [{', '.join(['one_hot', *names])}]."
        )
    if any(levels) and set(names[: names.index("one_hot")]) - {"impute"}:
        raise UserError(
            "dataset.steps must have no step but impute before one_hot, because the others would scale the codes of "
            f"symbolic values, got [{', '.join(names)}]."
        )
    if "impute" not in names and np.isnan(train).any():
        raise UserError(
            f"dataset.steps must begin with impute, because values are missing: [{', '.join(['impute', *names])}]."
        )


def in_blocks(apply: Apply, X: Any, in_place: bool) -> Array:
    """Apply `apply` to the rows of X in blocks; X is overwritten (`in_place`) if the width does not change."""
    width = apply(X[:0]).shape[1]
    out = X if in_place and width == X.shape[1] else np.empty((X.shape[0], width))
    for rows in blocks(X.shape[0], most=_BLOCK):
        out[rows] = apply(X[rows])
    return out


def width(steps: Iterable[str], columns: int) -> int:
    """The number of features after the steps, from `columns` (after one-hot coding)."""
    for name, number in parse(steps):
        columns = number if number is not None else columns + (name == "bias")
    return columns


def scale_target(train: Array, test: Array, target: Range | None = None) -> tuple[Array, Array, Record]:
    """Scale regression targets into [-1, 1] by their largest absolute value over the training rows.

    With a stated range `target`, clip them to it, and scale by its largest absolute value.
    """
    if target is None:
        largest = float(np.abs(train).max()) or 1.0
        return train / largest, test / largest, {"step": "scale_target", "fitted_on": PRIVATE, "largest": largest}
    into, box = into_ranges({"target": target})
    largest = float(max(-box.low[0], box.high[0]))
    train, test = (into(y[:, None])[:, 0] / largest for y in (train, test))
    return train, test, {"step": "scale_target", "fitted_on": STATED, "largest": largest}


def private_note(record: Iterable[Mapping[str, Any]]) -> str:
    """The steps that were fitted on private rows, in a few words; empty if there are none.

    >>> private_note([{"step": "min_max", "fitted_on": PRIVATE}, {"step": "clip", "fitted_on": EACH_ROW}])
    'min_max fitted on training rows'
    """
    fitted = [str(entry["step"]) for entry in record if entry["fitted_on"] == PRIVATE]
    return f"{','.join(fitted)} fitted on training rows" if fitted else ""


def distinct(X: Array, y: Array | None = None) -> tuple[Index, Index, Index]:
    """The distinct rows of X (n, d), with labels y (n,) if given: (first, where, counts).

    `first` (m,) are the first appearances, in order; row i is a copy of row ``first[where[i]]``, and ``counts[j]`` rows
    are copies of row ``first[j]``. Weighted sums over ``X[first]`` with the counts are the sums over all rows.
    """
    parts = [X] if y is None else [X, y[:, None]]
    keys = _row_keys(parts)
    _, first, where, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    if not all(np.array_equal(part[rows], part[first[where[rows]]]) for part in parts for rows in blocks(*part.shape)):
        # two different rows have the same key, which is very rare: compare bytes; + 0.0 turns -0.0 into 0.0
        whole = np.ascontiguousarray(np.column_stack(parts) + 0.0)
        texts = whole.view(np.dtype((np.void, whole.strides[0]))).ravel()
        _, first, where, counts = np.unique(texts, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[where], counts[order]


def _row_keys(parts: Sequence[Array]) -> NDArray[np.uint64]:
    """A 64-bit hash of every row, the same for equal rows: a random linear form of the entries' scrambled bits."""
    rng = np.random.default_rng(0)
    keys = np.zeros(len(parts[0]), dtype=np.uint64)
    spread = np.uint64(0x9E3779B97F4A7C15)  # odd: without this factor numbers such as 0.5 would differ in few bits
    for part in parts:
        odd = 2 * rng.integers(2**63, size=part.shape[1], dtype=np.uint64) + np.uint64(1)
        for rows in blocks(*part.shape):
            bits = (part[rows] + 0.0).view(np.uint64)
            bits *= spread
            bits ^= bits >> np.uint64(32)
            bits *= odd
            keys[rows] += bits.sum(axis=1)
    return keys
