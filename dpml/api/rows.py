"""Map an estimator's rows into the unit ball, and keep each row with a probability given by its weight."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from dpml.arrays import Array, Index
from dpml.data.preprocess import shrink, to_both_sides
from dpml.errors import UserError, refuse_unknown

Bounds = Sequence[Any]  # low and high, each a number or one per feature


def into_ball(X: Array, low: Array, high: Array, constant: bool, linear: bool = False) -> Array:
    """Map each row of X (n, p) into the unit ball, independently of other rows; if `constant`, append a feature 1.

    Features are clipped to their ranges, `low` and `high` (p,), and mapped to [-1, 1]; then rows are divided by their
    lengths or, if `linear`, by the largest possible length. Dividing a row does not change the sign of its score.
    """
    X = to_both_sides(low, high)(np.clip(X, low, high))
    X = np.column_stack([X, np.ones(len(X))]) if constant else X
    return X / (np.sqrt(X.shape[1]) * (1 + 1e-12)) if linear else shrink(X, always=True)


def ranges_of(given: Bounds | None, key: str, values: Array) -> tuple[Array, Array]:
    """Return the lower and upper bounds of all columns: the user's bounds `given`, or else the extremes of `values`."""
    if given is None:
        return values.min(axis=0), values.max(axis=0)
    width = values.shape[1]
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=float), (width,)).copy() for end in given)
    except (TypeError, ValueError):
        raise UserError(f"{key} must be a pair (low, high), each one number or a list of {width} numbers.") from None
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = np.flatnonzero(~(np.isfinite(high - low) & (low < high)))
    if len(wrong):
        got = f"{low[wrong[0]]:g} and {high[wrong[0]]:g} for column {wrong[0]}"
        raise UserError(f"{key} must be finite, with low < high and high - low < 1.8e308, got {got}.")
    return low, high


def thinned(X: Array, weights: Sequence[Array], rng: Generator) -> Array:
    """Keep each row of X with probability (sample weight) * (class weight), each 1 if not given, or replace it by 0.

    In expectation over `rng`, a sum over the rows counts each row with its weight (rejection sampling, Zadrozny,
    Langford & Abe 2003). Each new row depends only on its old row, its weight and its random number (coin), and a row
    of zeros lies in the unit ball. So neighbours stay neighbours even if the coins are known, and each guarantee holds
    for rows together with their weights.
    """
    if not weights:
        return X
    kept = rng.random(len(X)) < np.prod(weights, axis=0)
    return np.where(kept[:, None], X, 0.0)


def checked_weights(given: ArrayLike | None, X: Array) -> list[Array]:
    """Return a list of one array, the sample weights cut off at 1, or an empty list if the user gives no weights."""
    if given is None:
        return []
    weights = _check_sample_weight(given, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.sum() > 0:
        raise ValueError("sample_weight must be numbers >= 0, and not all zero.")
    if (weights > 1).any():
        warnings.warn(
            "sample_weight above 1 counts as 1, because the proofs need weights of at most 1. Divide all weights by a "
            "public upper bound, not by the largest private weight.",
            stacklevel=3,
        )
    return [np.minimum(weights, 1.0)]


def class_weights(given: Mapping[Any, float] | str | None, classes: Index, codes: Index) -> list[Array]:
    """Return a list of one array, each row's class weight over the largest class weight; [] if `given` is None.

    `given` maps classes to public positive numbers, 1 by default; `codes` (n,) are the labels' positions in `classes`.
    """
    if given is None:
        return []
    if isinstance(given, str):
        raise UserError(
            f"class_weight={given!r} would use counts of the private labels, which no budget covers: give "
            "weights that you know from a public source, such as class_weight={0: 0.1, 1: 1}."
        )
    refuse_unknown("class", given, list(classes), "class_weight")
    weights = np.array([float(given.get(name, 1.0)) for name in classes])
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise UserError(f"class_weight must have positive numbers, got {dict(given)}.")
    return [(weights / weights.max())[codes]]


def owners(party: ArrayLike) -> Index:
    """Return the party number of each row, (n,), where parties are numbered in the order of their ids."""
    numbers: Index = np.unique(column_or_1d(party), return_inverse=True)[1]
    return numbers
