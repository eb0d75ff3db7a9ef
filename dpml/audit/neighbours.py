"""Neighbours for the audit: data sets that differ in one row or one party, and those that are bad for a release.

A *crowd*, many equal rows, often holds the model where the one row that differs has the largest influence.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dpml.arrays import Array, Index
from dpml.audit.exposure import Pair
from dpml.data import Dataset
from dpml.data.info import Task
from dpml.data.partition import Equal, Parties
from dpml.optim.losses import Loss
from dpml.optim.slopes import Slopes
from dpml.privacy import Adversary, Problem

_LENGTHS = np.linspace(0.1, 1, 19).tolist()


def synthetic_parties(
    task: Task, X: Array, y: Array, sizes: Index, auxiliary: Array | None = None, classes: int = 2
) -> Parties:
    """Parties with given rows X (N, d), labels y (N,), rows per party (M,) and public rows (n, d).

    One test row has the highest class as its label, so that the number of classes does not depend on private labels.
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
    """Return a pair: the last party's last row is replaced; all others equal `rest`, or are its rows (N - 1, k).

    Rows are given by their first entries. For a multiclass task, labels above 0 become the class 1, others 0.
    """
    X = np.zeros((2, problem.N, problem.d))
    for where, entries in ((np.s_[:, :-1], rest), (np.s_[0, -1:], row), (np.s_[1, -1:], other)):
        values = np.asarray(entries, dtype=float)[..., : problem.d]
        X[where][..., : values.shape[-1]] = values * (1 - 1e-15)  # no rounding may put a row outside the ball
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
    """A row of length 1 changes its label: its logistic gradient moves by the row, whatever the model."""
    return one_replaced(task, problem, [1.0], [1.0])


def whole_party(pair: Pair) -> Pair:
    """Return the same pair where all rows of the last party are its last one, with its label."""
    found = []
    for parties in pair:
        X, y, rows = parties.X.copy(), parties.y.copy(), parties.of(len(parties.sizes) - 1)
        X[rows], y[rows] = X[-1], y[-1]
        found.append(with_rows(parties, X, y))
    return found[0], found[1]


def with_rows(parties: Parties, X: Array, y: Array) -> Parties:
    """The same parties with other rows (N, d) and labels (N,)."""
    return replace(parties, data=replace(parties.data, X=X, y=y), X=X, y=y)


def mirrored_crowd(n: int, across: float, along: float) -> Array:
    """n rows (across, along) and (-across, along) in turn, the last one (0, along) if n is odd: (n, 2)."""
    rows = np.tile([[across, along], [-across, along]], (n // 2 + 1, 1))[:n]
    if n % 2:
        rows[-1, 0] = 0.0
    return rows


def polar(log_norm: Array, angle: Array) -> Array:
    """Rows of these norms at these angles: (..., 2)."""
    return np.exp(log_norm)[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def highest(
    value: Callable[[Array], Array], low: ArrayLike, high: ArrayLike, points: int = 9, rounds: int = 6
) -> Array:
    """Where ``value``, (B, k) -> (B,), is largest in the box from `low` to `high` (k,), on ever finer grids: (k,)."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    bottom, top = low, high
    best, most = (low + high) / 2, -np.inf
    for _ in range(rounds):
        axes = [np.linspace(*ends, points) for ends in zip(bottom, top, strict=True)]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(low))
        values = value(grid)
        if values.max() > most:
            best, most = grid[np.argmax(values)], values.max()
        reach = (top - bottom) / 4
        bottom, top = np.maximum(low, best - reach), np.minimum(high, best + reach)
    return best


def in_a_crowd(problem: Problem, ahead: Array, reached: Callable[[Parties], Array], loss: Loss | Slopes) -> Pair:
    """All rows are ``r ahead`` (d,), but for one: ``a e - b ahead`` becomes ``-a e - b ahead``, e orthogonal to ahead.

    The slopes of both are those of the loss at ``-b t`` where a model's score of `ahead` is t. Of the logistic loss
    they are close to 1 where the crowd has driven the model far, and shorter rows go on pushing for longer; of the
    sigmoid loss they are largest at 0, and so they are where they are clipped. ``reached(crowd)`` are the scores t in
    every round, (T,), of a run on the crowd alone; r and b are the best for them.
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
    """A row's label flips from 1 to -1 where its score at the model `start` (d,) lies between; all others are 0.

    So the slopes of the squared loss have both signs, and are clipped for both labels.
    """
    length = float(np.linalg.norm(start))
    row = _across(start / length) if problem.d > 1 else np.array([1 / max(1.0, 2 * length)])
    return one_replaced("regression", problem, row, row)


def _across(ahead: Array) -> Array:
    """A unit vector orthogonal to the unit vector `ahead` (d,), d > 1."""
    beside = np.eye(len(ahead))[np.argmin(np.abs(ahead))]
    beside = beside - beside @ ahead * ahead
    beside /= np.linalg.norm(beside)
    return beside


def undecided(problem: Problem, unit: str = "sample", task: Task = "binary") -> Pair:
    """Return a pair whose rows all are the first axis, and whose labels are balanced; the last row's, or party's, flip.

    A model that learns from them stays where the two labels are about as likely, and the slopes of both about 1/2.
    """
    first, second = one_replaced(task, problem, [1.0], [1.0], rest=[1.0])
    low = 0.0 if task == "multiclass" else -1.0
    if unit == "party":
        labels, own = np.repeat(np.where(np.arange(problem.M) % 2, low, 1.0), first.sizes), first.of(problem.M - 1)
    else:
        labels, own = np.where(np.arange(problem.N) % 2, low, 1.0), slice(-1, None)
    turned = labels.copy()
    labels[own], turned[own] = 1.0, low
    return with_rows(first, first.X, labels), with_rows(second, second.X, turned)
