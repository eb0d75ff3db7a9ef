"""The audit of an algorithm of which nothing is known but its releases: neighbours to try, and notes on its noise.

Only models are seen, and only neighbours that are bad for sums of rows and for descents are tried: a clean audit proves
little, and its power says how little.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.audit.attacks import learn_medians, learn_normals
from dpml.audit.exposure import Attack, Exposure, Pair, model_exposure, prepared
from dpml.audit.neighbours import one_replaced, whole_party, with_rows
from dpml.audit.scores import CONFIDENCE, Scores
from dpml.errors import UserError
from dpml.mechanism.guarantees import guaranteed
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Problem
from dpml.privacy.guarantee import HELD
from dpml.seeds import generator

MEDIANS, NORMALS = "learned medians", "learned normal laws"
_PILOT = 4_000  # releases of either data set, by which neighbours are chosen
_FAR = 1e9  # what stands for an infinite number
_SEEDS = 8  # with which the random numbers of two releases are compared


@dataclass(frozen=True)
class BlackBox(Exposure):
    """A view of an algorithm of which nothing is known but its releases: attacks learn all they know from these."""

    def attacks(self, first: Array, second: Array, rng: Generator) -> tuple[list[Attack], float]:
        return [Attack(MEDIANS, learn_medians(first, second)), Attack(NORMALS, learn_normals(first, second))], math.nan


def seen(algorithm: Any, pair: Pair, budget: Budget) -> list[Exposure]:
    """The released model, in every view whose observer sees it: all but that of one client's messages."""
    shown = _released(algorithm, pair, budget)
    views = dict.fromkeys(each.view for each in guaranteed(algorithm, budget, pair[0].problem) if each.basis in HELD)
    return [replace(shown, view=view) for view in views if view != "client"]


def _released(algorithm: Any, pair: Pair, budget: Budget) -> BlackBox:
    """The released model, of which an attacker can compute with every number, and whether one of them is none."""
    shown = model_exposure(prepared(algorithm, pair), budget)

    def sample(which: int, rng: Generator, draws: int) -> Array:
        released = shown.sample(which, rng, draws)
        finite = np.nan_to_num(released, nan=0.0, posinf=_FAR, neginf=-_FAR)
        return np.column_stack([finite, np.isnan(released).any(axis=1)])

    return BlackBox("release", sample)


def farthest(algorithm: Any, budget: Budget, problem: Problem) -> Pair:
    """The neighbours whose releases an attacker tells apart best, by a few draws."""
    held = next(each for each in guaranteed(algorithm, budget, problem) if each.basis in HELD)
    found: list[tuple[tuple[float, float], Pair]] = []
    error = None
    for pair in candidates(algorithm.loss, problem, held.unit):
        try:
            pilot = Scores.of([_released(algorithm, pair, budget)], _PILOT, generator(len(found), "audit", "pilot"))
        except UserError as refused:
            error = refused
            continue
        (scores,) = pilot.values()
        found.append(((scores.lower(held.delta, CONFIDENCE)[0], scores.mu(CONFIDENCE)), pair))
    if not found:
        raise UserError(f"algo={algorithm.name} cannot be audited: it takes none of the data sets tried: {error}")
    return max(found, key=lambda each: each[0])[1]


def candidates(loss: Loss, problem: Problem, unit: str) -> Iterator[Pair]:
    """Neighbours: a label turns, of a short and of an even row, or a row becomes its opposite; beside three crowds."""
    low, high = (0.0 if loss.task == "multiclass" else -1.0), 1.0
    rng, (N, d) = np.random.default_rng(0), (problem.N, problem.d)
    directions = rng.standard_normal((N - 1, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    first, even = np.eye(d)[0], np.full(d, d**-0.5)
    turning = np.where(np.arange(N - 1) % 2, low, high)
    crowds: list[tuple[Array, Array]] = [
        (np.zeros((N - 1, d)), turning),
        (np.tile(first, (N - 1, 1)), turning),
        (directions, np.where(directions[:, 0] > 0, high, low)),
    ]
    for rows, labels in crowds:
        for row, other, turned in ((first, first, low), (even, even, low), (first, -first, high)):
            pair = one_replaced(loss.task, problem, row, other, (high, turned), rows)
            pair = tuple(with_rows(each, each.X, np.append(labels, each.y[-1])) for each in pair)  # type: ignore[assignment]
            yield whole_party(pair) if unit == "party" else pair


def notes(algorithm: Any, pair: Pair, budget: Budget) -> tuple[str, ...]:
    """What releases of either data set show of how random numbers are used, where both get the same ones.

    How many are drawn may depend on what was released before, but not on rows; which it was, somebody has to look up.
    """
    first, second = prepared(algorithm, pair)
    runs = [[_with_seed(each, budget, seed) for each in (first, first, second)] for seed in range(_SEEDS)]
    same = [np.array_equal(one[0], again[0], equal_nan=True) for one, again, _ in runs]
    found = []
    if not all(same):
        found.append("it draws random numbers of its own beside those it is given, which the self-test cannot halve")
    if any(alike and one[1] != other[1] for alike, (one, _, other) in zip(same, runs, strict=True)):
        found.append("how many random numbers it draws depends on the rows: what decides that has to be noisy itself")
    return tuple(found)


def _with_seed(mechanism: Any, budget: Budget, seed: int) -> tuple[Array, Any]:
    """A release, and where its random numbers stand after it."""
    rng = np.random.default_rng(seed)
    weights = np.asarray(mechanism.release([budget], rng, 1).weights, dtype=float)
    return weights, (rng.bit_generator.state, rng.bit_generator.seed_seq.n_children_spawned)  # type: ignore[attr-defined]
