"""Neighbours that are bad for noisy rounds: a crowd holds the model where one row counts the most."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from dpml.algorithms.exposure import Pair, one_replaced
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.optim.losses import Loss
from dpml.privacy import Problem

_SEEDS = 1000
_LENGTHS = np.linspace(0.1, 1, 19).tolist()


def initial_model(rng: Generator, d: int) -> Array:
    """A random model (d,), about as long as a row."""
    return rng.standard_normal((d,)) / np.sqrt(d)


def far_start(d: int) -> Generator:
    """Of a thousand seeds the one with the longest initial model: that is public, and what is proven holds for any."""
    return np.random.default_rng(_far_seed(d))


@lru_cache
def _far_seed(d: int) -> int:
    return max(range(_SEEDS), key=lambda seed: float(np.linalg.norm(initial_model(np.random.default_rng(seed), d))))


def in_a_crowd(problem: Problem, ahead: Array, reached: Callable[[Parties], Array], loss: Loss) -> Pair:
    """All rows are ``r ahead`` (d,), but for one: ``a e - b ahead`` becomes ``-a e - b ahead``, e orthogonal to ahead.

    The slopes of both are those of the loss at ``-b t`` where a model's score of `ahead` is t. Of the logistic loss
    they are close to 1 where the crowd has driven the model far, and shorter rows go on pushing for longer; of the
    sigmoid loss they are largest at 0. ``reached(crowd)`` are the scores t in every round, (T,), of a run on the crowd
    alone; r and b are the best for them.
    """
    against = np.linspace(0, 1, 101)
    best = 0.0, 1.0, 0.5
    for r in _LENGTHS:
        scores = -against * reached(_crowd(problem, r * ahead))[:, None]
        slopes = loss.slope(scores, np.ones(len(scores)))
        moved = (1 - against**2) * np.mean(slopes**2, axis=0)
        most = int(np.argmax(moved))
        best = max(best, (float(moved[most]), r, float(against[most])))
    _, r, b = best
    a = np.sqrt(1 - b * b)
    beside = np.eye(len(ahead))[np.argmin(np.abs(ahead))]
    beside = beside - beside @ ahead * ahead
    beside /= np.linalg.norm(beside)
    rows = a * beside - b * ahead, -a * beside - b * ahead
    return one_replaced("binary", problem, *rows, labels=(1.0, 1.0), rest=r * ahead)


def undecided(problem: Problem) -> Pair:
    """All rows are the first axis, and every other label is -1; the last one turns.

    A model that learns from them stays where the two labels are about as likely, and the slopes of both about 1/2.
    """
    pair = one_replaced("binary", problem, [1.0], [1.0], rest=[1.0])
    labels = np.where(np.arange(problem.N) % 2, -1.0, 1.0)
    first, second = (np.append(labels[:-1], parties.y[-1]) for parties in pair)
    return _labelled(pair[0], first), _labelled(pair[1], second)


def _labelled(parties: Parties, y: Array) -> Parties:
    return replace(parties, data=replace(parties.data, y=y), y=y)


def _crowd(problem: Problem, row: Array) -> Parties:
    return one_replaced("binary", problem, row, row, labels=(1.0, 1.0), rest=row)[0]
