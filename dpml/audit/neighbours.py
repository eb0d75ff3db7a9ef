"""Build pairs of neighbouring data sets, which differ in one row or one party, for the audit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, differential_evolution

from dpml.arrays import Array, Index
from dpml.audit.exposure import Pair
from dpml.data import Dataset
from dpml.data.info import Task
from dpml.data.partition import Equal, Parties
from dpml.optim.losses import Loss, Slopes
from dpml.privacy import Adversary, Problem

_LENGTHS = np.linspace(0.1, 1, 19).tolist()


def synthetic_parties(
    task: Task, X: Array, y: Array, sizes: Index, auxiliary: Array | None = None, classes: int = 2
) -> Parties:
    """Split rows X (N, d) with labels y (N,) among M parties of the given `sizes`, and add public rows (n, d).

    A test row has the highest class as its label, so that the number of classes does not depend on private labels.
    """
    data = Dataset("neighbours", task, X, y, np.zeros((1, X.shape[1])), np.array([classes - 1.0]))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Parties(data, np.arange(len(y)), offsets, X, y, X[:0] if auxiliary is None else auxiliary)


def one_replaced(
    task: Task,
    problem: Problem,
    row: ArrayLike,
    other: ArrayLike,
    labels: tuple[float, float] = (1.0, -1.0),
    rest: ArrayLike = (),
) -> Pair:
    """Return two data sets whose last rows are `row` and `other`; both data sets share all other rows.

    Rows are given by their first entries; all further entries are 0. A single row `rest` stands for all shared
    rows. For a multiclass task, labels above 0 become class 1, and others class 0.
    """
    X = np.zeros((2, problem.N, problem.d))
    for where, entries in ((np.s_[:, :-1], rest), (np.s_[0, -1:], row), (np.s_[1, -1:], other)):
        values = np.asarray(entries, dtype=float)[..., : problem.d]
        X[where][..., : values.shape[-1]] = values * (1 - 1e-15)  # rounding must not put a row outside the ball
    y = np.full((2, problem.N), 0.0 if task == "regression" else 1.0)
    y[:, -1] = labels
    if task == "multiclass":
        y = (y > 0).astype(float)
    sizes = Equal().sizes(problem.N, problem.M, np.random.default_rng(0))
    adversary = Adversary(problem.colluders)
    first, second = (
        replace(synthetic_parties(task, X[which], y[which], sizes, None, max(problem.classes, 2)), adversary=adversary)
        for which in (0, 1)
    )
    return first, second


def turned_label(problem: Problem, task: Task = "binary") -> Pair:
    """Return two data sets that differ in the label of one row, whose norm is 1."""
    return one_replaced(task, problem, [1.0], [1.0])


def whole_party(pair: Pair) -> Pair:
    """In both data sets of a pair, replace every row of the last party by that party's last row."""
    found = []
    for parties in pair:
        X, y, rows = parties.X.copy(), parties.y.copy(), parties.of(len(parties.sizes) - 1)
        X[rows], y[rows] = X[-1], y[-1]
        found.append(with_rows(parties, X, y))
    return found[0], found[1]


def with_rows(parties: Parties, X: Array, y: Array) -> Parties:
    """Replace all rows by X (N, d) and all labels by y (N,), without changing any party's number of rows."""
    return replace(parties, data=replace(parties.data, X=X, y=y), X=X, y=y)


def mirrored_crowd(n: int, across: float, along: float) -> Array:
    """Return n rows (n, 2) that alternate between the points (across, along) and (-across, along)."""
    rows = np.tile([[across, along], [-across, along]], (n // 2 + 1, 1))[:n]
    if n % 2:
        rows[-1, 0] = 0.0
    return rows


def polar(log_norm: Array, angle: Array) -> Array:
    """Convert polar coordinates (log of the norm, angle) to points in the plane, (..., 2)."""
    return np.exp(log_norm)[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def highest(value: Callable[[Array], Array], low: ArrayLike, high: ArrayLike) -> Array:
    """Search a box for the point (k,) at which the function `value` is largest."""
    options: Any = {"updating": "deferred", "vectorized": True, "popsize": 40, "tol": 1e-6, "seed": 0}
    found = differential_evolution(lambda x: -value(x.T), Bounds(low, high), **options)  # type: ignore[arg-type, misc]
    return np.asarray(found.x)


def in_a_crowd(problem: Problem, ahead: Array, reached: Callable[[Parties], Array], loss: Loss | Slopes) -> Pair:
    """Return two data sets that differ in one row. Training on the other rows moves the model along `ahead` (d,).

    The replaced row is ``a e - b ahead`` or ``-a e - b ahead``, with a unit vector e orthogonal to `ahead`. All other
    rows are the vector ``r ahead``. A search finds the numbers r and b for which the replaced row shifts the sums of
    gradients the most. ``reached(crowd)`` runs T rounds on equal rows, and returns each round's score of `ahead`, (T,).
    """
    against = np.linspace(0, 1, 101)
    best = 0.0, 1.0, 0.5
    for r in _LENGTHS:
        crowd, _ = one_replaced("binary", problem, r * ahead, r * ahead, labels=(1.0, 1.0), rest=r * ahead)
        scores = -against * reached(crowd)[:, None]
        slopes = loss.slope(scores, np.ones(len(scores)))
        moved = (1 - against**2) * np.mean(slopes**2, axis=0)
        most = int(np.argmax(moved))
        best = max(best, (float(moved[most]), r, float(against[most])))
    _, r, b = best
    a, beside = np.sqrt(1 - b * b), _across(ahead)
    rows = a * beside - b * ahead, -a * beside - b * ahead
    return one_replaced("binary", problem, *rows, labels=(1.0, 1.0), rest=r * ahead)


def turned_target(problem: Problem, start: Array) -> Pair:
    """Return data sets that differ in one row's target; its two clipped gradients at the model `start` are opposite."""
    length = float(np.linalg.norm(start))
    row = _across(start / length) if problem.d > 1 else np.array([1 / max(1.0, 2 * length)])
    return one_replaced("regression", problem, row, row)


def _across(ahead: Array) -> Array:
    beside = np.eye(len(ahead))[np.argmin(np.abs(ahead))]
    beside = beside - beside @ ahead * ahead
    beside /= np.linalg.norm(beside)
    return beside


def undecided(problem: Problem, unit: str = "sample", task: Task = "binary") -> Pair:
    """Return data sets of equal rows with nearly balanced labels; the labels of one `unit` (row or party) differ."""
    first, second = one_replaced(task, problem, [1.0], [1.0], rest=[1.0])
    low = 0.0 if task == "multiclass" else -1.0
    if unit == "party":
        labels, own = np.repeat(np.where(np.arange(problem.M) % 2, low, 1.0), first.sizes), first.of(problem.M - 1)
    else:
        labels, own = np.where(np.arange(problem.N) % 2, low, 1.0), slice(-1, None)
    turned = labels.copy()
    labels[own], turned[own] = 1.0, low
    return with_rows(first, first.X, labels), with_rows(second, second.X, turned)
