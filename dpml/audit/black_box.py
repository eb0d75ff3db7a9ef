"""Audit an algorithm by its released models alone, and check how it uses random numbers."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.audit.attacks import learn_medians, learn_normals
from dpml.audit.exposure import Exposure, Pair, model_exposure, prepared
from dpml.audit.neighbours import one_replaced, whole_party, with_rows
from dpml.audit.scores import CONFIDENCE, Scores
from dpml.errors import UserError
from dpml.mechanism.guarantees import guaranteed
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Problem, View
from dpml.privacy.guarantee import HELD
from dpml.seeds import generator

MEDIANS, NORMALS = "learned medians", "learned normal laws"
_PILOT = 4_000  # releases of each data set, to choose among pairs of neighbours
_FAR = 1e9  # replaces infinite numbers
_SEEDS = 8  # seeds with which the random numbers of two releases are compared


def seen(algorithm: Any, pair: Pair, budget: Budget) -> list[Exposure]:
    """Return what each observer (view) except `client` sees: only the models released from two data sets."""
    views = dict.fromkeys(each.view for each in guaranteed(algorithm, budget, pair[0].problem) if each.basis in HELD)
    return [_released(algorithm, pair, budget, view) for view in views if view != "client"]


def _released(algorithm: Any, pair: Pair, budget: Budget, view: View = "release") -> Exposure:
    """Describe the released model by finite numbers; an additional number says whether the model contains NaN."""
    shown = model_exposure(prepared(algorithm, pair), budget)

    def source(which: int, rng: Generator, draws: int, views: Sequence[View]) -> dict[View, Array]:
        released = shown.sample(which, rng, draws)
        finite = np.nan_to_num(released, nan=0.0, posinf=_FAR, neginf=-_FAR)
        return {view: np.column_stack([finite, np.isnan(released).any(axis=1)])}

    return Exposure(view, source, learned={MEDIANS: learn_medians, NORMALS: learn_normals})


def farthest(algorithm: Any, budget: Budget, problem: Problem) -> Pair:
    """Return the pair of neighbouring data sets that an attacker distinguishes best in a few trial releases."""
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
        raise UserError(f"algo={algorithm.name} cannot be audited, because it refuses all synthetic data: {error}")
    return max(found, key=lambda each: each[0])[1]


def candidates(loss: Loss, problem: Problem, unit: str) -> Iterator[Pair]:
    """Yield nine pairs of neighbouring data sets, which differ in a label or in the sign of a row."""
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
    """Return warnings if a seed does not fix the release, and if the number of random draws depends on the rows."""
    first, second = prepared(algorithm, pair)
    runs = [[_with_seed(each, budget, seed) for each in (first, first, second)] for seed in range(_SEEDS)]
    same = [np.array_equal(one[0], again[0], equal_nan=True) for one, again, _ in runs]
    found = []
    if not all(same):
        found.append("it draws random numbers from another generator than the given one, so no self-test is possible")
    if any(alike and one[1] != other[1] for alike, (one, _, other) in zip(same, runs, strict=True)):
        found.append("how many random numbers it draws depends on the rows: this decision must be private, too")
    return tuple(found)


def _with_seed(mechanism: Any, budget: Budget, seed: int) -> tuple[Array, Any]:
    rng = np.random.default_rng(seed)
    weights = np.asarray(mechanism.release([budget], rng, 1).weights, dtype=float)
    return weights, (rng.bit_generator.state, rng.bit_generator.seed_seq.n_children_spawned)  # type: ignore[attr-defined]
