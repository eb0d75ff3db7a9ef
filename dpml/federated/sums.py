"""Algorithms as secure sums between machines: the message of a party with only its own rows, and the final model.

A party and the aggregator both run the algorithm's own code for `algo.protocol=secagg`, each with the data it has. A
party uses zeros in place of the others' rows, draws the noise of all parties, and keeps only its own message (`Own`).
The aggregator uses zeros in place of all rows and receives the sum from the parties (`Remote`). With the same seed
everywhere, the model therefore equals that of a single process, to the last bit.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Algorithm
from dpml.arrays import Array, Index
from dpml.data import Dataset, Task
from dpml.data.partition import Parties
from dpml.privacy import Adversary, Budget, Problem
from dpml.privacy.discrete.rounding import Integers
from dpml.protocols import FixedPoint
from dpml.protocols.codec import Ring
from dpml.protocols.errors import RefusedError


@dataclass(frozen=True)
class Setting:
    """The public values of a release: the budget, the problem, the parties' rows `sizes` (M,), the task."""

    budget: Budget
    problem: Problem
    sizes: Index
    task: Task = "binary"

    def units(self, algorithm: Algorithm) -> Index:
        """The number of units of every party in the algorithm's average, (M,): its rows, or 1 for the party itself."""
        return np.ones_like(self.sizes) if getattr(algorithm, "unit", "sample") == "party" else self.sizes


@dataclass(frozen=True)
class Summed:
    """A secure sum (length,), and the numbers that its n `survivors` sent openly, (n, beside)."""

    total: Ring
    beside: Array
    survivors: Index


Ask = Callable[[bytes], Summed]
"""Run the next secure sum. All parties first receive the same bytes; no sum includes a party that received others."""

Answer = Callable[[int, bytes], tuple[Ring, Array]]
"""A party's noisy message for the secure sum with a given number: in the ring (length,), and openly (beside,).

It takes the aggregator's message before the sum, and raises RefusedError if that message is invalid.
"""


class Sums(Protocol):
    """An algorithm that releases a sequence of secure sums, under one setting."""

    lengths: tuple[int, ...]
    """Entries of a party's vector in each sum."""
    beside: int
    """Numbers that a party sends openly with its vector."""

    def party(self, X: Array, y: Array, party: int, rng: Generator) -> Answer:
        """The party of that number, which has the rows X (n, d) with labels y (n,), and `rng` for its noise.

        With the same `rng` its message equals the one that it has when a single process plays all parties. For this the
        noise of all parties is drawn, and only its own is used.
        """
        ...

    def model(self, ask: Ask) -> Array:
        """The model (d,), which depends on the survivors' rows only."""
        ...


class Own:
    """Stores one party's message in `ring`, instead of adding up the messages of all parties."""

    def __init__(self, party: int) -> None:
        self._party = party
        self.ring: Ring = np.empty(0, np.uint64)

    def reals(self, vectors: Array, bound: float, problem: Problem, rng: Generator) -> Array:
        self.ring = FixedPoint.fit(problem.M, bound).encode(vectors, rng)[self._party]
        return np.zeros(vectors.shape[1])

    def integers(self, vectors: Integers, problem: Problem) -> Integers:
        self.ring = vectors[self._party].view(np.uint64)
        return np.zeros_like(vectors[0])


class Remote:
    """Sums of the parties' messages, scaled by units (`weight`) to make up for drop-outs.

    `told` is the content sent to the parties before the next sum.
    """

    def __init__(self, ask: Ask, units: Index) -> None:
        self._ask, self._units = ask, units
        self.told = b""
        self.survivors: Index = np.arange(len(units))

    def reals(self, vectors: Array, bound: float, problem: Problem, rng: Generator) -> Array:
        return FixedPoint.fit(problem.M, bound).decode(self.summed().total) * self.weight

    def integers(self, vectors: Integers, problem: Problem) -> Integers:
        found = self.summed().total.view(np.int64)
        return found if self.weight == 1 else np.rint(found * self.weight).astype(np.int64)

    def summed(self) -> Summed:
        """The next sum, not scaled."""
        summed = self._ask(self.told)
        self.survivors = summed.survivors
        return summed

    @property
    def weight(self) -> float:
        """The units of all parties divided by those of the survivors."""
        return float(self._units.sum() / self._units[self.survivors].sum())


def prepared(algorithm: Algorithm, setting: Setting, party: int = 0, rows: tuple[Array, Array] | None = None) -> Any:
    """The mechanism of the real protocol with one party's rows, or none, and zeros in place of all others."""
    d, offsets = setting.problem.d, np.concatenate([[0], np.cumsum(setting.sizes)])
    X, y = np.zeros((offsets[-1], d)), np.ones(offsets[-1])
    if rows is not None:
        own = slice(offsets[party], offsets[party + 1])
        X[own], y[own] = rows
    data = Dataset("federation", setting.task, X, y, X[:0], y[:0])
    missing = Adversary(setting.problem.colluders)
    parties = Parties(data, np.arange(len(y)), offsets, X, y, X[:0], missing)
    chosen: Any = algorithm
    return replace(chosen, protocol="secagg").prepare(parties, np.random.default_rng(0))


def require_nothing(told: bytes) -> None:
    """Raise RefusedError if the aggregator's message is not empty but should be."""
    if told:
        raise RefusedError("the aggregator says something where nothing is to be said.")
