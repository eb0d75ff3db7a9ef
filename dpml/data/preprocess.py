"""Preprocessing as a short list of named steps, each a row-wise map with parameters.

Parameters come from the training rows, which spends privacy that no budget here accounts for: the papers do it, so it
is allowed, and every step leaves a record of it. Or they come from public ranges and values alone
(`dataset.bounds=public`): then they are computed before any row is read, and every number is first clipped to its
`Range`, and put on a log scale where the range says so.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpml.arrays import Array, Index, blocks
from dpml.data.info import Bounds, Column, Info, Range
from dpml.data.steps import EACH_ROW, PRIVATE, STATED, STEPS, Apply, Box, Record, TrainingRows, into_ranges, levels_of
from dpml.errors import UserError, nearest

Features = Array | sparse.csr_matrix

_BLOCK = 1 << 14  # rows transformed at once
_CUTS = ("bin", "spline")
_ONCE = ("one_hot", *_CUTS)


def parse(steps: Iterable[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Return the names and arguments of steps: ``pca:50`` is the step `pca` with 50 components."""
    parsed: list[tuple[str, tuple[int, ...]]] = []
    for text in steps:
        name, colon, number = str(text).partition(":")
        if name not in STEPS:
            raise UserError(f"unknown preprocessing step {name!r} in dataset.steps: {nearest(name, STEPS)}")
        if (name == "pca") != bool(colon) or (colon and not number.isdecimal()):
            raise UserError(f"dataset.steps has {text!r}: write pca:D with a whole number D, and other steps without.")
        parsed.append((name, (int(number),) if colon else ()))
    return parsed


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
    """
    parsed = parse(steps)
    levels = levels or (0,) * train.shape[1]
    names = [name for name, _ in parsed]
    if not sparse.issparse(train):
        check_order(names, levels)
    elif names[:1] != ["pca"]:
        raise UserError("dataset.steps must begin with pca:D, because the features are sparse: they are millions.")
    # a scale that is fitted to a missing value is none, so the first step that is fitted fills them in
    check_missing([name for name in names if name != "one_hot"][:1], names, train, test)
    record: list[Record] = []
    for place, (name, number) in enumerate(parsed):
        step = STEPS[name](TrainingRows(train, levels), *number)
        levels = () if name == "pca" else levels  # what comes after it are numbers
        record.append({"step": name, "fitted_on": step.source, **step.facts(train)})
        train, test = (in_blocks(step.apply, X, in_place=place > 0) for X in (train, test))
    return train, test, record


def stated_apply(
    steps: Sequence[str], train: Any, test: Any, columns: Mapping[str, Column]
) -> tuple[Array, Array, list[Record]]:
    """Run the named `steps` in order, with parameters from the stated columns: (train, test, record).

    Args:
        steps: Names from `STEPS`, without `pca`.
        train: Training rows (n, p): numbers, NaN for a missing one, and codes of symbolic values; never modified.
        test: Test rows (m, p), likewise.
        columns: The range, or the list of values, of every column by its name, in the order of the columns. The code of
            a symbolic value is its index in the sorted list; a value that is not in the list has the code -1.
    """
    made, names = maps(steps, columns), [name for name, _ in parse(steps)]
    if train.shape[1] != len(columns):
        raise UserError(f"ranges and values are stated of {len(columns)} columns, but the rows have {train.shape[1]}.")
    # a missing value is in no part of a range
    check_missing(list(takewhile(lambda name: name not in _CUTS, names)), names, train, test)
    for place, (apply, _) in enumerate(made):
        train, test = (in_blocks(apply, X, in_place=place > 0) for X in (train, test))
    return train, test, [facts for _, facts in made]


def split_apply(
    X: Features,
    y: Array,
    parts: tuple[Index | slice, Index | slice],
    steps: Sequence[str],
    columns: Sequence[int] | Mapping[str, Column],
    target: Range | str | None,
) -> tuple[Array, Array, Array, Array, list[Record]]:
    """Split rows into the training and test rows `parts` and preprocess them: (X, y, X_test, y_test, record).

    `columns` are the statements for `stated_apply`, or the levels for `fit_apply`; `target` is None for classes.
    """
    y_train, y_test = (y[rows] for rows in parts)
    if isinstance(columns, Mapping):
        train, test, record = stated_apply(steps, X[parts[0]], X[parts[1]], columns)
    else:
        train, test, record = fit_apply(steps, X[parts[0]], X[parts[1]], columns)
    if target is not None:
        y_train, y_test, scaled = scale_target(y_train, y_test, target if isinstance(target, Range) else None)
        record.append(scaled)
    return train, y_train, test, y_test, record


def maps(steps: Sequence[str], columns: Mapping[str, Column]) -> list[tuple[Apply, Record]]:
    """The row-wise map and the record of each named step, after clipping to the ranges; no row is read."""
    return _made(steps, columns)[0]


def check_ball(steps: Sequence[str], columns: Mapping[str, Column]) -> None:
    """Raise UserError unless the steps map every row that the statements allow into the unit ball; no row is read.

    Otherwise a release would be refused, or not, for how long a private row is.
    """
    longest = _made(steps, columns)[1].norm
    if not longest <= 1 + 1e-9:
        raise UserError(
            f"dataset.steps=[{','.join(steps)}] may leave a row that is {longest:.4g} long, by what is stated of the "
            "columns, but the guarantee needs rows in the unit ball, whatever is in them: end dataset.steps with "
            "max_norm, sample_norm or clip."
        )


def _made(steps: Sequence[str], columns: Mapping[str, Column]) -> tuple[list[tuple[Apply, Record]], Box]:
    """The maps, and the set in which rows lie after the last one."""
    parsed = parse(steps)
    check_order([name for name, _ in parsed], levels_of(columns))
    apply, box = into_ranges(columns)
    made: list[tuple[Apply, Record]] = [(apply, {"step": "ranges", "fitted_on": STATED})]
    for name, number in parsed:
        step = STEPS[name](box, *number)
        made.append((step.apply, {"step": name, "fitted_on": EACH_ROW if step.source == EACH_ROW else STATED}))
        box = step.after(box)
    return made, box


def check_bounds(info: Info, bounds: str, steps: Sequence[str]) -> None:
    """Raise UserError unless a data set can be preprocessed by these steps with these bounds."""
    if bounds not in get_args(Bounds):
        raise UserError(f"unknown dataset.bounds={bounds!r}: {nearest(str(bounds), get_args(Bounds))}")
    if bounds == "fitted":
        return
    if not info.columns or (info.task == "regression" and info.target is None):
        raise UserError(f"dataset={info.name} has no public ranges, as {info.bounds}: leave dataset.bounds=fitted.")
    maps(steps, info.columns)


def check_missing(filling: Collection[str], names: Sequence[str], *parts: Features) -> None:
    """Raise UserError when a value is missing in any of the parts, and impute is not among the steps `filling`."""
    if "impute" not in filling and any(not sparse.issparse(part) and np.isnan(part).any() for part in parts):
        others = [name for name in names if name != "impute"]
        raise UserError(
            f"dataset.steps must begin with impute, because values are missing: [{', '.join(['impute', *others])}]."
        )


def check_order(names: list[str], levels: Sequence[int]) -> None:
    """Raise UserError when the named steps do not suit the symbolic columns, or each other."""
    for name in _ONCE:
        if names.count(name) > 1:
            raise UserError(f"dataset.steps must have {name} once: it is for the columns as they were.")
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
    if set(_CUTS) <= set(names):
        raise UserError("dataset.steps must have bin or spline, not both: each of them cuts all columns with edges.")
    for name in _CUTS:
        if name in names and (before := set(names[: names.index(name)]) - {"impute", "one_hot"}):
            raise UserError(
                f"dataset.steps must have {name} before {min(before)}, because edges are in the columns' own units."
            )


def in_blocks(apply: Apply, X: Any, in_place: bool) -> Array:
    """Apply `apply` to the rows of X in blocks; X is overwritten (`in_place`) if the width does not change."""
    width = apply(X[:0]).shape[1]
    out = X if in_place and width == X.shape[1] else np.empty((X.shape[0], width))
    for rows in blocks(X.shape[0], most=_BLOCK):
        out[rows] = apply(X[rows])
    return out


def width(steps: Sequence[str], columns: int | Mapping[str, Column]) -> int:
    """The number of features after the steps, from `columns`: stated, or their number after one-hot coding."""
    if not isinstance(columns, int):
        rows = np.empty((0, len(columns)))
        for apply, _ in maps(steps, columns):
            rows = apply(rows)
        return rows.shape[1]
    for name, number in parse(steps):
        columns = number[0] if number else columns + (name == "bias")
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


def private_note(record: Iterable[Mapping[str, Any]], left_out: int = 0) -> str:
    """The steps that were fitted on private rows, and whether rows were left out; in a few words, or empty.

    >>> private_note([{"step": "min_max", "fitted_on": PRIVATE}, {"step": "clip", "fitted_on": EACH_ROW}], 2)
    'min_max fitted on training rows; rows with a missing value left out'
    """
    fitted = [str(entry["step"]) for entry in record if entry["fitted_on"] == PRIVATE]
    said = [f"{','.join(fitted)} fitted on training rows"] if fitted else []
    return "; ".join([*said, *(["rows with a missing value left out"] if left_out else [])])


FOLDED = 1 << 19  # equal rows are merged up to this public number of rows, so that no time shows how often they repeat


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
