"""Search for neighbours that are worse than those of `worst_case`."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.audit.exposure import Pair
from dpml.audit.neighbours import with_rows
from dpml.audit.views import exposures
from dpml.data.info import Task
from dpml.errors import UserError
from dpml.privacy import Budget

TRIES = 200
FEWER = 40  # where every try is a run of many rounds
_STEPS = (0.003, 0.03, 0.3)  # how far rows are moved, in units of the ball they lie in


def worse_pair(algorithm: Any, pair: Pair, budget: Budget, rng: Generator, tries: int | None = None) -> Pair:
    """The farthest pair that a random search from `pair` finds: rows and labels move, common rows stay common."""
    best, farthest = pair, distance(algorithm, pair, budget)
    if math.isnan(farthest):
        return pair
    if tries is None:
        shown = exposures(algorithm, pair, budget)
        rounds = any(exposure.together is not None and math.isnan(exposure.mu) for exposure in shown)
        tries = FEWER if rounds else TRIES
    for _ in range(tries):
        candidate = moved(best, rng)
        try:
            far = distance(algorithm, candidate, budget)
        except UserError:  # outside the domain, or not solvable
            continue
        if far > farthest:
            best, farthest = candidate, far
    return best


def distance(algorithm: Any, pair: Pair, budget: Budget) -> float:
    """The largest distance that any view of a pair has; NaN when none is known."""
    known = [exposure.distance() for exposure in exposures(algorithm, pair, budget)]
    return max((far for far in known if not math.isnan(far)), default=math.nan)


def moved(pair: Pair, rng: Generator) -> Pair:
    """Neighbours near a pair of neighbours, in the same places. Rows in common move together, so that a crowd of equal
    ones stays one, and so do the rows of a party that is replaced.
    """
    first, second = pair
    differ = np.any(first.X != second.X, axis=1) | (first.y != second.y)
    step = rng.choice(_STEPS)
    common = rng.random() < 0.5
    together = step * common * rng.standard_normal(first.X.shape[1])
    shift, own = (np.where(differ[:, None], 0.0, together) for _ in range(2))
    for move in (shift, own):
        move[differ] = step * rng.standard_normal(first.X.shape[1])
    turn = np.where(differ, rng.random(len(differ)) < 0.1, rng.random() < 0.1)
    task = first.data.task
    y_first = relabelled(first.y, turn & (common | differ), task, rng)
    y_second = np.where(differ, relabelled(second.y, turn & differ, task, rng), y_first)
    auxiliary = _into_ball(first.X_auxiliary + step * rng.standard_normal(first.X_auxiliary.shape) * common)
    return (
        replace(with_rows(first, _into_ball(first.X + shift), y_first), X_auxiliary=auxiliary),
        replace(with_rows(second, _into_ball(second.X + own), y_second), X_auxiliary=auxiliary),
    )


def relabelled(y: Array, which: Array, task: Task, rng: Generator) -> Array:
    """Labels, some of them changed to others that the task allows."""
    if task == "binary":
        other = -y
    elif task == "multiclass":
        other = rng.permutation(y)
    else:
        other = np.clip(y + 0.3 * rng.standard_normal(len(y)), -1, 1)
    return np.where(which, other, y)


def _into_ball(X: Array) -> Array:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.maximum(norms * (1 + 1e-15), 1.0)
