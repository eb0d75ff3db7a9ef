"""Preprocessing as a short list of named steps, fitted on the training rows and applied to both parts.

Fitting on private rows spends privacy that no budget here accounts for. The papers do it, so we allow it, and every
step leaves a record that says so.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dpml.arrays import Array
from dpml.errors import UserError, nearest

Record = dict[str, Any]
Step = Callable[[Array, Array], tuple[Array, Array, Record]]

PRIVATE = "training rows, no budget spent"
EACH_ROW = "nothing: row by row"


def _per_column(offset: Array, scale: Array) -> Callable[[Array], Array]:
    safe = np.where(scale > 0, scale, 1.0)

    def apply(X: Array) -> Array:
        return np.asarray((X - offset) / safe)

    return apply


def min_max(train: Array, test: Array) -> tuple[Array, Array, Record]:
    """Each feature to [0, 1] over the training rows."""
    low = train.min(axis=0)
    apply = _per_column(low, train.max(axis=0) - low)
    return apply(train), apply(test), {"fitted_on": PRIVATE}


def max_abs(train: Array, test: Array) -> tuple[Array, Array, Record]:
    """Each feature to [-1, 1] by its largest absolute value over the training rows; zeros stay zeros."""
    apply = _per_column(np.zeros(train.shape[1]), np.abs(train).max(axis=0))
    return apply(train), apply(test), {"fitted_on": PRIVATE}


def centre(train: Array, test: Array) -> tuple[Array, Array, Record]:
    """Subtract each feature's mean over the training rows."""
    mean = train.mean(axis=0)
    return train - mean, test - mean, {"fitted_on": PRIVATE}


def max_norm(train: Array, test: Array) -> tuple[Array, Array, Record]:
    """Divide every row by the largest L2 norm of a training row."""
    largest = float(np.linalg.norm(train, axis=1).max()) or 1.0
    # a division may round a norm of one up by an ulp
    largest *= 1 + 1e-12
    return train / largest, test / largest, {"fitted_on": PRIVATE, "norm": largest}


def sample_norm(train: Array, test: Array) -> tuple[Array, Array, Record]:
    """Divide every row by its own L2 norm."""
    return _shrink(train, always=True), _shrink(test, always=True), {"fitted_on": EACH_ROW}


def clip(train: Array, test: Array) -> tuple[Array, Array, Record]:
    """Scale the rows that are longer than 1 down to the unit ball; leave the others."""
    outside = int(np.sum(np.linalg.norm(train, axis=1) > 1))
    return _shrink(train), _shrink(test), {"fitted_on": EACH_ROW, "rows_clipped": outside}


def bias(train: Array, test: Array) -> tuple[Array, Array, Record]:
    """Append a constant feature and keep the rows inside the ball: (x, 1) / sqrt 2. Comes after the scaling step."""

    def widen(X: Array) -> Array:
        return np.column_stack([X, np.ones(len(X))]) / np.sqrt(2.0)

    return widen(train), widen(test), {"fitted_on": EACH_ROW}


def _shrink(X: Array, always: bool = False) -> Array:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    norms = np.where(norms > 0, norms, 1.0)
    return X / (norms if always else np.maximum(norms, 1.0))


STEPS: dict[str, Step] = {step.__name__: step for step in (min_max, max_abs, centre, max_norm, sample_norm, clip, bias)}


def fit_apply(steps: Iterable[str], train: Array, test: Array) -> tuple[Array, Array, list[Record]]:
    """Run the named `steps` in order: (train, test, record), the record one entry per step.

    Raises:
        UserError: a step has a name that is not in `STEPS`.
    """
    record: list[Record] = []
    for name in steps:
        if name not in STEPS:
            raise UserError(f"unknown preprocessing step {name!r} in dataset.steps: {nearest(name, STEPS)}")
        train, test, facts = STEPS[name](train, test)
        record.append({"step": name, **facts})
    return train, test, record


def width(steps: Iterable[str], columns: int) -> int:
    """How many features `columns` columns become."""
    return columns + sum(step == "bias" for step in steps)


def scale_target(train: Array, test: Array) -> tuple[Array, Array, Record]:
    """Regression targets into [-1, 1] by the largest absolute value over the training rows."""
    largest = float(np.abs(train).max()) or 1.0
    return train / largest, test / largest, {"step": "scale_target", "fitted_on": PRIVATE, "largest": largest}
