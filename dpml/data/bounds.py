"""Preprocessing by the stated ranges and values of each column, not fitted to rows (`dataset.bounds=public`).

Every numeric value is first clipped to its `Range`, and put on a log scale where the range says so. Then each step does
the same as the step of that name in `dpml.data.preprocess`, but takes its parameters from a `Box`, the set in which
rows can lie at that point according to the statements alone, instead of fitting them. `maps` computes all parameters
before any row is read, so they do not depend on private rows.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import numpy as np

from dpml.arrays import Array, Index
from dpml.data.info import Bounds, Column, Info, Range
from dpml.data.preprocess import (
    EACH_ROW,
    Apply,
    Record,
    check_steps,
    in_blocks,
    numeric_columns,
    one_hot,
    parse,
    per_column,
    shrink,
    to_both_sides,
)
from dpml.errors import UserError, nearest

STATED = "nothing: stated ranges and lists of values"


@dataclass(frozen=True)
class Box:
    """The set in which rows can lie, according to the statements.

    Attributes:
        low: The smallest value of every column (p,).
        high: The largest value of every column (p,).
        group: A number for every column (p,). The 0/1 columns of one symbolic feature share one number: at most one of
            them is at its `high`, and the others are at their `low`.
        length: A further bound on a row's L2 norm.
    """

    low: Array
    high: Array
    group: Index
    length: float = math.inf

    @property
    def norm(self) -> float:
        """The largest L2 norm of a row."""
        least = np.sum(self.low**2)
        # at most one column of a group leaves its `low`; a numeric column is a group of its own
        more = np.zeros(int(self.group.max(initial=-1)) + 1)
        np.maximum.at(more, self.group, self.high**2 - self.low**2)
        return min(self.length, math.sqrt(least + np.sum(more)))


def check_bounds(info: Info, bounds: str, steps: Iterable[str]) -> None:
    """Raise UserError unless a data set can be preprocessed by these steps with these bounds."""
    if bounds not in get_args(Bounds):
        raise UserError(f"unknown dataset.bounds={bounds!r}: {nearest(str(bounds), get_args(Bounds))}")
    if bounds == "fitted":
        return
    if not info.columns or (info.task == "regression" and info.target is None):
        raise UserError(f"dataset={info.name} has no public ranges, as {info.bounds}: leave dataset.bounds=fitted.")
    maps(steps, info.columns)


def after_one_hot(columns: Mapping[str, Column]) -> int:
    """The number of columns after every value of each symbolic column has become a column."""
    return sum(1 if isinstance(column, Range) else len(column) for column in columns.values())


def stated_apply(
    steps: Iterable[str], train: Any, test: Any, columns: Mapping[str, Column]
) -> tuple[Array, Array, list[Record]]:
    """Run the named `steps` in order, with parameters from the stated columns: (train, test, record).

    Args:
        steps: Names from `dpml.data.preprocess.STEPS`, without `pca`.
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
    check_steps([name for name, _ in parse(steps)], train, _levels(columns))
    for place, (apply, _) in enumerate(made):
        fresh = place > 0  # from then on the arrays are copies, so that they may be overwritten
        train, test = in_blocks(apply, train, fresh), in_blocks(apply, test, fresh)
    return train, test, [facts for _, facts in made]


def stated_target(train: Array, test: Array, target: Range) -> tuple[Array, Array, Record]:
    """Clip regression targets to their range, and divide by its largest absolute value, into [-1, 1]."""
    into, box = _into_ranges({"target": target})
    largest = float(max(-box.low[0], box.high[0]))

    def apply(y: Array) -> Array:
        return into(y[:, None])[:, 0] / largest

    return apply(train), apply(test), {"step": "scale_target", "fitted_on": STATED, "largest": largest}


def maps(steps: Iterable[str], columns: Mapping[str, Column]) -> list[tuple[Apply, Record]]:
    """The row-wise map and the record of each named step, after clipping to the ranges.

    Raises:
        UserError: a step is unknown or `pca`.
    """
    apply, box = _into_ranges(columns)
    made: list[tuple[Apply, Record]] = [(apply, {"step": "ranges", "fitted_on": STATED})]
    makers: dict[str, Callable[[Box], tuple[Apply, Box]]] = _MAKERS | {
        "one_hot": partial(_one_hot, columns),
        "symmetric": partial(_symmetric, columns),
    }
    for name, _ in parse(steps):
        if name not in makers:
            raise UserError(
                f"dataset.steps must not have {name} with dataset.bounds=public, because it is fitted to training "
                "rows: leave it out, or set dataset.bounds=fitted."
            )
        apply, box = makers[name](box)
        made.append((apply, {"step": name, "fitted_on": EACH_ROW if name in _ROW_BY_ROW else STATED}))
    return made


def _levels(columns: Mapping[str, Column]) -> list[int]:
    """The number of values of each symbolic column; 0 for a numeric column."""
    return [0 if isinstance(column, Range) else len(column) for column in columns.values()]


def _into_ranges(columns: Mapping[str, Column]) -> tuple[Apply, Box]:
    ranges = [column if isinstance(column, Range) else Range(-1, len(column)) for column in columns.values()]
    low = np.array([r.low for r in ranges], dtype=float)
    high = np.array([r.high for r in ranges], dtype=float)
    log = np.flatnonzero([r.log for r in ranges])

    def apply(X: Array) -> Array:
        out = np.clip(X, low, high)
        out[:, log] = np.log1p(out[:, log])
        return out

    ends = apply(np.stack([low, high]))
    return apply, Box(ends[0], ends[1], np.arange(len(ranges)))


def _impute(box: Box) -> tuple[Apply, Box]:
    middle = (box.low + box.high) / 2
    return lambda X: np.where(np.isnan(X), middle, X), box


def _one_hot(columns: Mapping[str, Column], box: Box) -> tuple[Apply, Box]:
    levels = np.array(_levels(columns))
    numeric, symbolic = np.flatnonzero(levels == 0), levels[levels > 0]
    group = np.arange(len(numeric) + len(symbolic)).repeat(np.append(np.ones_like(numeric), symbolic))
    low, high = np.zeros(len(group)), np.ones(len(group))
    low[: len(numeric)], high[: len(numeric)] = box.low[numeric], box.high[numeric]
    return one_hot(np.empty((0, len(levels))), levels.tolist())[0], Box(low, high, group)


def _scaled(box: Box, offset: Array, scale: Array) -> tuple[Apply, Box]:
    apply = per_column(offset, scale)
    return apply, Box(apply(box.low), apply(box.high), box.group)


def _min_max(box: Box) -> tuple[Apply, Box]:
    return _scaled(box, box.low, box.high - box.low)


def _symmetric(columns: Mapping[str, Column], box: Box) -> tuple[Apply, Box]:
    apply = to_both_sides(box.low, box.high, numeric_columns(len(box.low), _levels(columns)))
    return apply, Box(apply(box.low), apply(box.high), box.group)


def _max_abs(box: Box) -> tuple[Apply, Box]:
    return _scaled(box, np.zeros_like(box.low), np.maximum(box.high, -box.low))


def _centre(box: Box) -> tuple[Apply, Box]:
    return _scaled(box, (box.low + box.high) / 2, np.ones_like(box.low))


def _max_norm(box: Box) -> tuple[Apply, Box]:
    largest = (box.norm or 1.0) * (1 + 1e-12)  # a division may round a norm of one up by an ulp
    return lambda X: X / largest, Box(box.low / largest, box.high / largest, box.group, 1.0)


def _inside(box: Box, always: bool) -> tuple[Apply, Box]:
    # each row shrinks by its own factor, so the columns of a group no longer have only two values
    low, high = np.where(box.low < 0, -1.0, 0.0), np.where(box.high > 0, 1.0, 0.0)
    return partial(shrink, always=always), Box(low, high, np.arange(len(low)), 1.0)


def _bias(box: Box) -> tuple[Apply, Box]:
    def apply(X: Array) -> Array:
        return np.column_stack([X, np.ones(len(X))]) / math.sqrt(2.0)

    low, high = apply(np.stack([box.low, box.high]))
    group = np.append(box.group, box.group.max() + 1)
    return apply, Box(low, high, group, math.hypot(box.norm, 1.0) / math.sqrt(2.0))


_MAKERS: dict[str, Callable[[Box], tuple[Apply, Box]]] = {
    "impute": _impute,
    "min_max": _min_max,
    "max_abs": _max_abs,
    "centre": _centre,
    "max_norm": _max_norm,
    "sample_norm": partial(_inside, always=True),
    "clip": partial(_inside, always=False),
    "bias": _bias,
}
_ROW_BY_ROW = {"sample_norm", "clip", "bias"}
