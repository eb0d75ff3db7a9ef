"""The runs of noisy descents (`noisy_descent`): all budgets, step sizes and draws descend together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
from numpy.random import Generator

from dpml.algorithms.descent.layouts import Layout
from dpml.algorithms.descent.step_sizes import StepSelection, held_out
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.mechanism.algorithm import Release
from dpml.mechanism.observer import Observer
from dpml.optim import descent
from dpml.optim.descent import Rows
from dpml.optim.losses import Loss, mean_loss
from dpml.optim.slopes import Slopes
from dpml.privacy import Budget, Problem


class Accounted(Protocol):
    """What a run needs of `noisy_descent.NoisyDescent`."""

    @property
    def loss(self) -> Loss: ...
    @property
    def lam(self) -> float: ...
    @property
    def rounds(self) -> int: ...
    @property
    def step_selection(self) -> StepSelection: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def slopes(self) -> Slopes: ...
    @property
    def largest(self) -> float: ...
    def tried(self, budget: Budget, problem: Problem) -> Array: ...
    def per_rows(self, budget: Budget, problem: Problem, steps: Array | None = None) -> Array: ...


@dataclass(frozen=True)
class PreparedNoisyDescent:
    """The rows and the initial model `start` (d,)."""

    algorithm: Accounted
    parties: Parties
    start: Array

    def release(
        self, budgets: Sequence[Budget], rng: Generator, draws: int, observer: Observer | None = None
    ) -> Release:
        """Run all budgets, step sizes and draws together; every draw is a release of its own.

        Budgets share their noise directions, and so do the step sizes of an oracle. `observer` records every round of a
        release under one budget.
        """
        algorithm = self.algorithm
        steps = self.validated(budgets, rng) if algorithm.step_selection == "validated" else self.tried(budgets)
        weights = self.averaged(self.models(budgets, rng, draws, observer, steps))
        if algorithm.step_selection == "fixed":
            return Release(weights[:, 0])
        if algorithm.step_selection in ("rule", "validated"):
            return Release(weights[:, 0], {"step": np.repeat(steps, draws, axis=1)})
        best = np.argmin(self.objective(weights), axis=1)
        chosen = np.take_along_axis(weights, best[:, None, :, None], axis=1)[:, 0]
        return Release(chosen, {"step": np.take_along_axis(steps, best, axis=1)})

    def tried(self, budgets: Sequence[Budget]) -> Array:
        """The step sizes that are tried, (budgets, steps)."""
        return np.array([self.algorithm.tried(budget, self.parties.problem) for budget in budgets])

    def averaged(self, models: Array) -> Array:
        """The released average (budgets, steps, draws, d) of all groups' models."""
        averages: Array = np.einsum("g,gesij->esij", self.algorithm.layout.model_weights(self.parties), models)
        return averages

    def validated(self, budgets: Sequence[Budget], rng: Generator) -> Array:
        """The step size with which one run on four fifths of every client's rows does best on the others: (budgets, 1).

        The runs have the noise of their own sizes, and share its directions.
        """
        training, X, y = held_out(self.parties)
        trial = PreparedNoisyDescent(self.algorithm, training, self.start)
        weights = trial.averaged(trial.models(budgets, rng, 1))[:, :, 0]
        losses = mean_loss(self.algorithm.loss, X, y, weights.reshape(-1, len(self.start)))
        score = losses.reshape(weights.shape[:2]) + self.ridge(weights)
        return np.take_along_axis(self.tried(budgets), np.argmin(score, axis=1)[:, None], axis=1)

    def models(
        self,
        budgets: Sequence[Budget],
        rng: Generator,
        draws: int,
        observer: Observer | None = None,
        steps: Array | None = None,
    ) -> Array:
        """Return the last models of every group, (groups, budgets, steps, draws, d), for all `steps` (budgets, S)."""
        algorithm, parties = self.algorithm, self.parties
        steps = self.tried(budgets) if steps is None else steps
        own = zip(budgets, steps, strict=True)
        noises = np.array([algorithm.per_rows(budget, parties.problem, some) for budget, some in own])
        scales = algorithm.layout.group_stds(parties)[:, None, None] * noises
        return descent.descend(
            self.groups, self.start, steps, scales, algorithm.layout.noise_source(parties, rng, draws, observer),
            algorithm.rounds, algorithm.lam, heard=None if observer is None else partial(_tell, observer),
        )  # fmt: skip

    @cached_property
    def groups(self) -> list[Rows]:
        """The rows of every group."""
        return self.algorithm.layout.row_groups(self.parties, self.algorithm.slopes)

    def gradient(self, w: Array) -> Array:
        """The released mean gradient at models (B, d), without noise, as the rounds compute it."""
        each = np.empty((len(self.groups), *w.shape))
        for rows, gradient in zip(self.groups, each, strict=True):
            rows.gradient(w, gradient)
        return np.tensordot(self.algorithm.layout.model_weights(self.parties), each, axes=1)

    def path(self, budget: Budget) -> Array:
        """The models of every group in every round, (rounds, groups, d), if there was no noise; at the largest step."""
        models: list[Array] = []
        step = np.atleast_1d(self.algorithm.tried(budget, self.parties.problem).max())
        still = np.zeros((len(self.groups), 1, len(self.start)))
        descent.descend(
            self.groups, self.start, step, np.zeros((len(self.groups), 1)), lambda: still, self.algorithm.rounds,
            self.algorithm.lam, heard=lambda before, _: models.append(before[:, 0, 0, 0]),
        )  # fmt: skip
        return np.array(models)

    def ridge(self, weights: Array) -> Array:
        """lam/2 ||w||^2, (..., d) -> (...)."""
        return self.algorithm.lam / 2 * np.einsum("...j,...j->...", weights, weights)

    def objective(self, weights: Array) -> Array:
        """Mean loss + lam/2 ||w||^2 on the private rows, (..., d) -> (...)."""
        X, y, counts = self.parties.folded
        value = mean_loss(self.algorithm.loss, X, y, weights.reshape(-1, weights.shape[-1]), counts)
        return value.reshape(weights.shape[:-1]) + self.ridge(weights)


def _tell(observer: Observer, before: Array, sent: Array) -> None:
    """Report a round of runs (1, 1, steps, draws, d), step size by step size."""
    for models, gradients in zip(before[0, 0], sent[0, 0], strict=True):
        observer.sent(gradients, partial(_exact_gradient, models))


def _exact_gradient(models: Array, mechanism: PreparedNoisyDescent) -> Array:
    return mechanism.gradient(models)
