"""Algorithms as secure sums between machines: what a party sends, alone with its rows, and the model that they give.

A party and the aggregator run the algorithm's own code for `algo.protocol=secagg`, each with what it has. A party has
zeros in place of the others' rows, draws the noise of all, and keeps its own message (`Own`); the aggregator has zeros
in place of all rows, and gets the sum from the parties (`Remote`). So with one seed for all the model is that of one
process, to the last bit.
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
    """What is public of a release: the budget, the problem, the parties' rows `sizes` (M,), what is predicted."""

    budget: Budget
    problem: Problem
    sizes: Index
    task: Task = "binary"

    def units(self, algorithm: Algorithm) -> Index:
        """How many of what an algorithm averages every party has, (M,): its rows, or itself."""
        return np.ones_like(self.sizes) if getattr(algorithm, "unit", "sample") == "party" else self.sizes


@dataclass(frozen=True)
class Summed:
    """A secure sum (length,), and what its n `survivors` sent in the open, (n, beside)."""

    total: Ring
    beside: Array
    survivors: Index


Ask = Callable[[bytes], Summed]
"""Run the next secure sum. All parties are told the same bytes before, and no sum has parties who were told others."""

Answer = Callable[[int, bytes], tuple[Ring, Array]]
"""What a party sends, with its noise, in the secure sum of a number: in it (length,), and in the open (beside,).

It is told what the aggregator says before, and raises RefusedError where that cannot be.
"""


class Sums(Protocol):
    """An algorithm whose release is some secure sums, one after the other, under one setting."""

    lengths: tuple[int, ...]
    """Entries of a party's vector in each."""
    beside: int
    """Numbers that a party sends in the open with it."""

    def party(self, X: Array, y: Array, party: int, rng: Generator) -> Answer:
        """The party of that number, which has the rows X (n, d) with labels y (n,), and `rng` for its noise.

        With the same `rng` it sends what one process that plays all parties has this one send. For that the noise of
        all is drawn, and only its own used.
        """
        ...

    def model(self, ask: Ask) -> Array:
        """The model (d,). It is that of the survivors' rows alone."""
        ...


class Own:
    """Keeps, as `ring`, what one party sends in place of adding up what all send."""

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
    """Sums of what the parties send; whoever is missing is made up for by the others, unit for unit.

    `told` is what they are told before the next one.
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
        """The next sum as it is."""
        summed = self._ask(self.told)
        self.survivors = summed.survivors
        return summed

    @property
    def weight(self) -> float:
        """Units of all parties over those of the survivors."""
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
    """Raise RefusedError where something is said and nothing is to be said."""
    if told:
        raise RefusedError("the aggregator says something where nothing is to be said.")
