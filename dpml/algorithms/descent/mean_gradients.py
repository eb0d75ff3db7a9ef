"""Mean gradients, for the rounds of a noisy descent (`noisy_descent`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.mechanism.message import Statistic, Terms
from dpml.optim.descent import Rows
from dpml.optim.slopes import Slopes
from dpml.privacy import Problem
from dpml.sums import single_imprecision


@dataclass(frozen=True)
class MeanGradients(Statistic):
    """The mean gradient of all rows at models w (B, d), or of every client's rows at its own model, w (B, M d).

    Args:
        slopes: of the loss.
        by_party: whether it is the mean of the parties' means.
        clients: M, of local rounds; 0: all rows have one model.
    """

    slopes: Slopes
    by_party: bool = False
    clients: int = 0

    @property
    def single(self) -> bool:
        return True

    def lengths(self, d: int) -> tuple[int, ...]:
        return (d,) * max(self.clients, 1)

    def drawn(self, d: int) -> tuple[int, ...]:
        return self.lengths(d)

    def on(self, parties: Parties) -> "GradientMeans":
        return GradientMeans(self, parties)

    def largest(self, problem: Problem) -> float:
        return self.slopes.lipschitz

    def imprecision(self, problem: Problem) -> float:
        return single_imprecision(problem.N, problem.d)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f8", (d * max(self.clients, 1),)


@dataclass(frozen=True)
class GradientMeans(Terms):
    """The gradients of some rows, in single precision."""

    statistic: MeanGradients
    parties: Parties

    def total(self, *at: Any) -> Array:
        w, d = at[0], self.parties.problem.d
        gradients = np.empty((len(self.groups), len(w), d))
        for rows, models, gradient in zip(self.groups, np.split(w, len(self.groups), axis=1), gradients, strict=True):
            rows.gradient(models, gradient)
        return gradients[0] if len(gradients) == 1 else np.concatenate(gradients, axis=1)

    @cached_property
    def groups(self) -> list[Rows]:
        """The rows that have a model of their own."""
        return [self.statistic.slopes.rows(*rows) for rows in self.weighted()]

    def weighted(self) -> Iterator[tuple[Array, Array, Array]]:
        """Yield the rows (n, d), labels (n,) and weights (n,) of every group."""
        X, y, sizes = self.parties.X, self.parties.y, self.parties.sizes
        if self.statistic.clients:
            for own in map(self.parties.of, range(len(sizes))):
                yield X[own], y[own], np.full(own.stop - own.start, 1 / (own.stop - own.start))
        elif self.statistic.by_party:
            yield X, y, np.repeat(1 / (len(sizes) * sizes), sizes)
        else:
            yield X, y, np.full(len(y), 1 / len(y))
