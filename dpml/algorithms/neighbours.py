"""Neighbours that are bad for noisy rounds: a crowd holds the model where one row counts the most."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.random import Generator
from scipy.special import expit

from dpml.algorithms.exposure import Pair, one_replaced
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.privacy import Problem

_SEEDS = 1000


def initial_model(rng: Generator, d: int) -> Array:
    """A random model (d,), about as long as a row."""
    return rng.standard_normal((d,)) / np.sqrt(d)


def far_start(d: int) -> Generator:
    """Of a thousand seeds the one with the longest initial model: that is public, and what is proven holds for any."""
    return np.random.default_rng(_far_seed(d))


@lru_cache
def _far_seed(d: int) -> int:
    return max(range(_SEEDS), key=lambda seed: float(np.linalg.norm(initial_model(np.random.default_rng(seed), d))))


def in_a_crowd(problem: Problem, ahead: Array, reached: Array) -> Pair:
    """All rows are `ahead` (d,), but for one that is ``a e - b ahead`` and becomes ``-a e - b ahead``, e orthogonal.

    The logistic slopes of both are ``expit(b t)`` where a model's score of the crowd is t: close to 1 where the crowd
    has driven the model far. `reached` (T,) are the scores in every round; b is the best for them.
    """
    against = np.linspace(0, 1, 101)
    lengths = (1 - against**2) * np.mean(expit(against * reached[:, None]) ** 2, axis=0)
    b = float(against[np.argmax(lengths)])
    a = np.sqrt(1 - b * b)
    beside = np.eye(len(ahead))[np.argmin(np.abs(ahead))]
    beside = beside - beside @ ahead * ahead
    beside /= np.linalg.norm(beside)
    return one_replaced("binary", problem, a * beside - b * ahead, -a * beside - b * ahead, (1.0, 1.0), rest=ahead)


def a_crowd(problem: Problem, ahead: Array) -> Pair:
    """Twice the same: all rows are `ahead`."""
    return one_replaced("binary", problem, ahead, ahead, (1.0, 1.0), rest=ahead)


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
