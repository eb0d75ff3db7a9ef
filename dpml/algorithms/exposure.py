"""What an attacker sees of two neighbouring data sets, for the audit.

An algorithm defines beside its sensitivity which neighbours are worst for it (`worst_case`) and what every view shows
of any pair (`exposures`). What is seen is drawn by the code that releases, never by a copy of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from dpml.algorithms import Mechanism
from dpml.arrays import Array, Index
from dpml.data import Dataset
from dpml.data.info import Task
from dpml.data.partition import Equal, Parties
from dpml.optim.losses import Loss
from dpml.privacy import Adversary, Budget, Problem, View

Pair = tuple[Parties, Parties]
"""Neighbours: one sample, or all rows of one party, are replaced; everything else is the same."""

Sample = Callable[[int, Generator, int], Array]
"""``sample(which, rng, draws)``: what is seen of the first (which = 0) or the second data set, (draws, k)."""


@dataclass(frozen=True)
class Exposure:
    """One view of a pair of neighbours under one budget.

    Attributes:
        view: Who looks.
        sample: Draws what is seen.
        score: The log of how much likelier what is seen is under the second than under the first, (draws,): the best
            that an attacker who knows everything but the noise can compute. None: not known in closed form.
        normal: Whether the score is normal with one variance under both, as for any Gaussian view, or so nearly that
            its Gaussian curve says no more than the pair shows.
        mu: The pair is at least as easy to tell apart as N(0, 1) and N(mu, 1). NaN: not known.
        loss: The largest |score| that is known, a lower bound on a pure eps. NaN: none is.
    """

    view: View
    sample: Sample
    score: Callable[[Array], Array] | None = None
    normal: bool = False
    mu: float = math.nan
    loss: float = math.nan

    def distance(self) -> float:
        """How far apart the pair is, for a search: `mu` or `loss`; NaN where neither is known."""
        return self.loss if math.isnan(self.mu) else self.mu


class Auditable(Protocol):
    """What an algorithm adds to `Algorithm` so that it can be attacked."""

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """The neighbours with `problem`'s sizes that the proof of the guarantee says are worst."""
        ...

    def exposures(self, pair: Pair, budget: Budget) -> Sequence[Exposure]:
        """What every view that has a guarantee shows of a pair."""
        ...


def synthetic_parties(
    task: Task, X: Array, y: Array, sizes: Index, auxiliary: Array | None = None, classes: int = 2
) -> Parties:
    """Parties with given rows X (N, d), labels y (N,), rows per party (M,) and public rows (n, d).

    One test row has the highest class as its label, so that the number of classes does not depend on private labels.
    """
    data = Dataset("neighbours", task, X, y, np.zeros((1, X.shape[1])), np.array([classes - 1.0]))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Parties(data, np.arange(len(y)), offsets, X, y, X[:0] if auxiliary is None else auxiliary)


def laplace_score(scale: float, first: Array, second: Array) -> Callable[[Array], Array]:
    """The score where noise of density exp(-||.|| / scale) is added to `first` or `second` (k,)."""

    def score(seen: Array) -> Array:
        return (np.linalg.norm(seen - first, axis=1) - np.linalg.norm(seen - second, axis=1)) / scale

    return score


def one_replaced(
    task: Task,
    problem: Problem,
    row: ArrayLike,
    other: ArrayLike,
    labels: tuple[float, float] = (1.0, -1.0),
    rest: ArrayLike = (),
) -> Pair:
    """The last party's last row is replaced; all others equal `rest`, or are its rows (N - 1, k).

    Rows are given by their first entries.
    """
    X = np.zeros((2, problem.N, problem.d))
    for where, entries in ((np.s_[:, :-1], rest), (np.s_[0, -1:], row), (np.s_[1, -1:], other)):
        values = np.asarray(entries, dtype=float)[..., : problem.d]
        X[where][..., : values.shape[-1]] = values * (1 - 1e-15)  # no rounding may put a row outside the ball
    y = np.full((2, problem.N), 0.0 if task == "regression" else 1.0)
    y[:, -1] = labels
    sizes = Equal().sizes(problem.N, problem.M, np.random.default_rng(0))
    adversary = Adversary(problem.colluders)
    first, second = (
        replace(synthetic_parties(task, X[which], y[which], sizes), adversary=adversary) for which in (0, 1)
    )
    return first, second


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
        found = value(grid)
        if found.max() > most:
            best, most = grid[np.argmax(found)], found.max()
        reach = (top - bottom) / 4
        bottom, top = np.maximum(low, best - reach), np.minimum(high, best + reach)
    return best


def one_replaced_for_loss(loss: Loss, problem: Problem, row: ArrayLike, other: ArrayLike, other_label: float) -> Pair:
    """`one_replaced` where the row's label is 1 and its successor's, for the squared loss, `other_label`; else -1."""
    if loss.name == "squared":
        return one_replaced("regression", problem, row, other, (1.0, other_label))
    return one_replaced("binary", problem, row, other)


def turned_label(problem: Problem) -> Pair:
    """A row of length 1 changes its label: its logistic gradient moves by the row, whatever the model."""
    return one_replaced("binary", problem, [1.0], [1.0])


def model_exposure(prepared: Sequence[Mechanism], budget: Budget) -> Exposure:
    """The released model of either data set, and nothing more."""

    def sample(which: int, rng: Generator, draws: int) -> Array:
        weights = prepared[which].release([budget], rng, draws).weights
        assert weights is not None
        return weights[0]

    return Exposure("release", sample)
