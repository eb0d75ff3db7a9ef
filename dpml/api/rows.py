"""An estimator's rows: mapped into the unit ball by public ranges, and kept with a probability, their weight."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, column_or_1d

from dpml.arrays import Array, Index
from dpml.data.preprocess import shrink, to_both_sides
from dpml.errors import UserError, nearest

Bounds = tuple[ArrayLike, ArrayLike]


def into_ball(X: Array, low: Array, high: Array, constant: bool) -> Array:
    """Map rows (n, p) into the unit ball, each independently: (n, p), or (n, p + 1) with a `constant` feature last.

    Features are clipped to their ranges, `low` and `high` (p,), and mapped to [-1, 1]; then rows are divided by their
    lengths. The constant is appended before the division, so the sign of a score is still that of a linear function.
    """
    X = to_both_sides(low, high, len(low))(np.clip(X, low, high))
    return shrink(np.column_stack([X, np.ones(len(X))]) if constant else X, always=True)


def checked_ranges(given: Bounds, key: str, width: int) -> tuple[Array, Array]:
    """Return the ends of public ranges, each (width,)."""
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=float), (width,)) for end in given)
    except (TypeError, ValueError):
        each = f", or {width} of them" if width > 1 else ""
        raise UserError(f"{key} must be a pair (low, high), each of them one number{each}.") from None
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = np.flatnonzero(~(np.isfinite(high - low) & (low < high)))
    if len(wrong):
        first = wrong[0]
        got = f"{low[first]:g} and {high[first]:g} at {first}"
        raise UserError(f"{key} must be finite, low < high, less than 1.8e308 apart, got {got}.")
    return low.copy(), high.copy()


def thinned(X: Array, weights: Sequence[Array], rng: Generator) -> Array:
    """Keep each row (n, d) with the product of its `weights` (n,) as the probability; replace other rows by zeros.

    This is cost-proportionate rejection sampling (Zadrozny, Langford & Abe 2003): in the mean over `rng`, a sum over
    the rows has each of them times its weight. A coin is drawn for each row whatever is in it. Given the coins, a row
    and its weight alone decide what becomes of the row, and zeros lie in the unit ball: neighbours stay neighbours for
    every coin, even if the coins are known, so that each guarantee holds for rows together with their weights.
    """
    if not weights:
        return X
    kept = rng.random(len(X)) < np.prod(weights, axis=0)
    return np.where(kept[:, None], X, 0.0)


def checked_weights(given: ArrayLike | None, X: Array) -> Array | None:
    """Weights of rows as an array (n,); one above 1 is cut to 1, with a warning, as is a value outside of its range.

    Raises:
        ValueError: they are not one number >= 0 for each row, or all 0.
    """
    if given is None:
        return None
    weights = np.asarray(given, dtype=float)
    if weights.ndim > 1:
        raise ValueError("Sample weights must be 1D array or scalar")  # scikit-learn's words
    weights = np.broadcast_to(weights, len(X)) if weights.ndim == 0 else weights
    check_consistent_length(X, weights)
    if not (weights >= 0).all() or not weights.any():
        raise ValueError("sample_weight must be numbers >= 0, and not all zero.")
    if (weights > 1).any():
        warnings.warn(
            "sample_weight above 1 counts as 1: a heavier row would move the model farther than is proven. Divide all "
            "by a public largest weight, not by the largest that there is.",
            stacklevel=3,
        )
    return np.minimum(weights, 1.0)


def whose(party: ArrayLike) -> Index:
    """Return the number of each row's party, (n,), in the order of the parties' ids."""
    owners: Index = np.unique(column_or_1d(party), return_inverse=True)[1]
    return owners


def class_weights(given: Any, classes: Index, codes: Index) -> Array | None:
    """The weight of each row (n,) by its class, over the largest weight of a class.

    Args:
        given: positive numbers by class, public; a class that is not named has 1. None: all rows have weight 1.
        classes: the labels, in order.
        codes: the place of each row's label in `classes`, (n,).
    """
    if given is None:
        return None
    if isinstance(given, str) and given == "balanced":
        raise UserError(
            "class_weight='balanced' counts the private labels, which no budget covers: give public weights, such as "
            "class_weight={0: 0.1, 1: 1}, from what is known of these classes elsewhere."
        )
    known = list(classes)
    for name, weight in given.items():
        if name not in known:
            raise UserError(f"class_weight: no label is {name!r}: {nearest(str(name), map(str, known))}")
        if not 0 < weight < np.inf:
            raise UserError(f"class_weight of {name!r} must be a positive number, got {weight!r}.")
    weights = np.array([float(given.get(name, 1.0)) for name in known])
    return (weights / weights.max())[codes]
