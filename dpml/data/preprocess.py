"""Preprocessing as a short list of named steps, fitted on the training rows and applied to training and test rows.

Fitting on private rows spends privacy that no budget here accounts for. The papers do it, so it is allowed, and every
step leaves a record of it; `private_note` summarises the record for a row of results. `dpml.data.bounds` has the same
steps without any fitting.

Each step is fitted to the training rows after the previous steps, and gives a map that works row by row. Therefore
large arrays are transformed in blocks, and in place if the width does not change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from dpml.arrays import Array, Index, blocks
from dpml.errors import UserError, nearest

Record = dict[str, Any]
Features = Array | sparse.csr_matrix
Apply = Callable[[Any], Array]
Step = Callable[..., tuple[Apply, Record]]

PRIVATE = "training rows, no budget spent"
EACH_ROW = "nothing: row by row"
SCHEMA = "the list of symbolic values in the official file, taken as public"

_BLOCK = 1 << 14  # rows transformed at once


def norms(X: Array) -> Array:
    """The L2 norm of every row: (n, d) -> (n,). X is not copied."""
    return np.sqrt(np.einsum("ij,ij->i", X, X))


def impute(train: Array) -> tuple[Apply, Record]:
    """Replace missing values (NaN) by the feature's median over the training rows."""
    median = np.nan_to_num(np.nanmedian(train, axis=0))
    return lambda X: np.where(np.isnan(X), median, X), {
        "fitted_on": PRIVATE,
        "training_cells_imputed": int(np.isnan(train).sum()),
    }


def one_hot(train: Array, levels: Sequence[int] = ()) -> tuple[Apply, Record]:
    """The numeric columns, then one 0/1 column for every value of each symbolic one; an unknown value is all zeros."""
    numeric = [column for column, count in enumerate(levels) if not count]
    columns = len(numeric) + sum(levels)

    def apply(X: Array) -> Array:
        out = np.zeros((len(X), columns))
        out[:, : len(numeric)] = X[:, numeric]
        start = len(numeric)
        for column, count in enumerate(levels):
            if count:
                known = np.flatnonzero(X[:, column] >= 0)
                out[known, start + X[known, column].astype(np.intp)] = 1.0
                start += count
        return out

    return apply, {"fitted_on": SCHEMA, "columns": columns}


def min_max(train: Array) -> tuple[Apply, Record]:
    """Scale each feature to [0, 1] over the training rows."""
    low = train.min(axis=0)
    return per_column(low, train.max(axis=0) - low), {"fitted_on": PRIVATE}


def symmetric(train: Array, levels: Sequence[int] = ()) -> tuple[Apply, Record]:
    """Scale each numeric feature to [-1, 1] over the training rows; 0/1 columns of symbolic features are unchanged.

    A numeric feature then changes the score as much as a symbolic one, up and down; in [0, 1] it is mostly constant.
    """
    low, high = train.min(axis=0), train.max(axis=0)
    return to_both_sides(low, high, numeric_columns(train.shape[1], levels)), {"fitted_on": PRIVATE}


def numeric_columns(columns: int, levels: Sequence[int]) -> int:
    """The number of numeric columns after `one_hot`; they come first."""
    return sum(not count for count in levels) if any(levels) else columns


def to_both_sides(low: Array, high: Array, numeric: int) -> Apply:
    """The map that takes [low, high] (p,) of the first columns, the `numeric` ones, to [-1, 1]."""
    number = np.arange(len(low)) < numeric
    return per_column(np.where(number, (low + high) / 2, 0.0), np.where(number, (high - low) / 2, 1.0))


def max_abs(train: Array) -> tuple[Apply, Record]:
    """Scale each feature to [-1, 1] by its largest absolute value over the training rows; zeros stay zeros."""
    largest = np.maximum(train.max(axis=0), -train.min(axis=0))
    return per_column(np.zeros(train.shape[1]), largest), {"fitted_on": PRIVATE}


def per_column(offset: Array, scale: Array) -> Apply:
    """(x - offset) / scale, column by column; a scale of 0 counts as 1."""
    safe = np.where(scale > 0, scale, 1.0)
    return lambda X: np.asarray((X - offset) / safe)


def centre(train: Array) -> tuple[Apply, Record]:
    """Subtract each feature's mean over the training rows."""
    mean = train.mean(axis=0)
    return lambda X: X - mean, {"fitted_on": PRIVATE}


def pca(train: Any, components: int) -> tuple[Apply, Record]:
    """Centre and project onto the `components` directions of largest variance over the training rows.

    Sparse rows stay sparse: the mean is subtracted from products only, and features that are zero in all training rows
    (their variance is zero) are left out first. A direction without variance gives zeros.
    """
    used = None
    if not isinstance(train, np.ndarray):
        used = np.flatnonzero(train.getnnz(axis=0))
        train = train[:, used]
    most = min(train.shape) - 1
    if not 1 <= components <= most:
        raise UserError(
            f"pca:{components} in dataset.steps needs more than {components} training rows and features, but there "
            f"are {train.shape[0]} x {train.shape[1]}: choose pca:D with D in 1..{most}, or a larger N."
        )
    mean = np.asarray(train.mean(axis=0)).ravel()
    basis, variance = _directions(train, mean, components)
    offset = mean @ basis
    entries = train.data if used is not None else np.ravel(train)
    total = float(entries @ entries - train.shape[0] * mean @ mean)

    def apply(X: Any) -> Array:
        return np.asarray((X if used is None else X[:, used]) @ basis - offset)

    return apply, {"fitted_on": PRIVATE, "components": components, "variance": float(variance.sum()) / (total or 1.0)}


def _directions(A: Any, mean: Array, components: int) -> tuple[Array, Array]:
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


def max_norm(train: Array) -> tuple[Apply, Record]:
    """Divide every row by the largest L2 norm of a training row. A test row may still be longer than 1."""
    largest = float(norms(train).max()) or 1.0
    # a division may round a norm of one up by an ulp
    largest *= 1 + 1e-12
    return lambda X: X / largest, {"fitted_on": PRIVATE, "norm": largest}


def sample_norm(train: Array) -> tuple[Apply, Record]:
    """Divide every row by its own L2 norm."""
    return partial(shrink, always=True), {"fitted_on": EACH_ROW}


def clip(train: Array) -> tuple[Apply, Record]:
    """Scale the rows that are longer than 1 down to the unit ball; leave the others unchanged."""
    return shrink, {"fitted_on": EACH_ROW, "training_rows_clipped": int(np.sum(norms(train) > 1))}


def shrink(X: Array, always: bool = False) -> Array:
    """Divide the rows that are longer than 1, or all rows (`always`), by their L2 norm; rows of zeros stay zeros."""
    length = norms(X)[:, None] * (1 + 1e-12)
    return X / (np.where(length > 0, length, 1.0) if always else np.maximum(length, 1.0))


def bias(train: Array) -> tuple[Apply, Record]:
    """Append a constant feature and keep the rows inside the ball: (x, 1) / sqrt 2. Used after the scaling step."""
    return lambda X: np.column_stack([X, np.ones(len(X))]) / np.sqrt(2.0), {"fitted_on": EACH_ROW}


STEPS: dict[str, Step] = {
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


def fit_apply(
    steps: Iterable[str], train: Any, test: Any, levels: Sequence[int] = ()
) -> tuple[Array, Array, list[Record]]:
    """Run the named `steps` in order: (train, test, record), where the record has one entry per step.

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
    names = [name for name, _ in parsed]
    check_steps(names, train, levels)
    record: list[Record] = []
    fresh = False  # whether the arrays are copies, so that they may be overwritten
    for name, number in parsed:
        options: dict[str, dict[str, Any]] = {
            "pca": {"components": number},
            "one_hot": {"levels": levels},
            "symmetric": {"levels": levels},
        }
        apply, facts = STEPS[name](train, **options.get(name, {}))
        train, test = in_blocks(apply, train, fresh), in_blocks(apply, test, fresh)
        fresh = True
        record.append({"step": name, **facts})
    return train, test, record


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


def scale_target(train: Array, test: Array) -> tuple[Array, Array, Record]:
    """Scale regression targets into [-1, 1] by the largest absolute value over the training rows."""
    largest = float(np.abs(train).max()) or 1.0
    return train / largest, test / largest, {"step": "scale_target", "fitted_on": PRIVATE, "largest": largest}


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
