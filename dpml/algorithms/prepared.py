"""Mechanisms of algorithms that say what they release (`Announced`), and those that release it without noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.mechanism.algorithm import Hyperparameters, Release, require_domain
from dpml.mechanism.guarantees import Announced
from dpml.mechanism.outputs import drawn
from dpml.privacy import Budget, Problem


@dataclass(frozen=True)
class PreparedRows:
    """The rows of an algorithm that has nothing to do before the noise is known: its `released` does all."""

    algorithm: Any
    parties: Parties

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """As a `Mechanism`."""
        release: Release = self.algorithm.released(self.parties, budgets, rng, draws)
        return release


def prepare_rows(algorithm: Hyperparameters, parties: Parties, rng: Generator) -> PreparedRows:
    """The method `prepare` of such an algorithm."""
    require_domain(parties, algorithm.loss)
    return PreparedRows(algorithm, parties)


@dataclass(frozen=True)
class PreparedOutput:
    """A model `weights` (D,), before the noise; `metrics` are those of noisy models (budgets, draws, D)."""

    algorithm: Announced
    weights: Array
    problem: Problem
    metrics: Callable[[Sequence[Budget], Array], Mapping[str, Array]] = lambda budgets, noisy: {}

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The model plus noise over all its coordinates; the budgets share their noise directions."""
        sent = [message for budget in budgets for message in self.algorithm.messages(budget, self.problem)]
        released = self.weights + drawn(sent, rng, draws, len(self.weights))
        return Release(released, self.metrics(budgets, released))


@dataclass(frozen=True)
class Fixed:
    """A model `weights` (d,) or None, and metrics, that are the same for every budget and draw."""

    weights: Array | None
    metrics: Mapping[str, float]

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """Draw nothing."""
        shape = (len(budgets), draws)
        weights = None if self.weights is None else np.broadcast_to(self.weights, (*shape, len(self.weights)))
        return Release(weights, {name: np.full(shape, value) for name, value in self.metrics.items()})
