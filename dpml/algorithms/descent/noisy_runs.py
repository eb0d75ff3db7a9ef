"""The runs of noisy descents (`noisy_descent`): all budgets, step sizes and draws descend together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
from numpy.random import Generator

from dpml.algorithms.descent.layouts import Layout
from dpml.algorithms.descent.step_sizes import StepSelection, clipped_losses, held_out
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.data.preprocess import distinct
from dpml.mechanism.algorithm import Release
from dpml.mechanism.observer import Observer
from dpml.optim import descent
from dpml.optim.descent import Rows
from dpml.optim.losses import Loss, mean_loss
from dpml.optim.slopes import Slopes
from dpml.privacy import Budget, Problem, noise


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
    def per_score(self, budget: Budget, problem: Problem) -> float: ...


@dataclass(frozen=True)
class PreparedNoisyDescent:
    """The rows and the initial model `start` (d,)."""

    algorithm: Accounted
    parties: Parties
    start: Array

    def release(
        self, budgets: Sequence[Budget], rng: Generator, draws: int, observer: Observer | None = None
    ) -> Release:
        """All budgets, step sizes and draws descend together; every draw is a release of its own, its choice included.

        Budgets share their noise directions, and so do the step sizes of an oracle. `observer` records every round of a
        release under one budget, and the scores.
        """
        algorithm = self.algorithm
        steps = self.validated(budgets, rng) if algorithm.step_selection == "validated" else self.tried(budgets)
        weights = self.averaged(self.models(budgets, rng, draws, observer, steps))
        if algorithm.step_selection == "fixed":
            return Release(weights[:, 0])
        if algorithm.step_selection in ("rule", "validated"):
            return Release(weights[:, 0], {"step": np.repeat(steps, draws, axis=1)})
        private = algorithm.step_selection == "private"
        score = self.noisy_score(budgets, weights, rng, observer) if private else self.objective(weights)
        best = np.argmin(score, axis=1)
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
        """The last models of every group, (groups, budgets, steps, draws, d), of all `steps` (budgets, S) tried.

        Candidates of a private choice have noise of their own.
        """
        algorithm, parties = self.algorithm, self.parties
        steps = self.tried(budgets) if steps is None else steps
        own = zip(budgets, steps, strict=True)
        noises = np.array([algorithm.per_rows(budget, parties.problem, some) for budget, some in own])
        scales = algorithm.layout.group_stds(parties)[:, None, None] * noises
        together = (
            [slice(i, i + 1) for i in range(steps.shape[1])] if algorithm.step_selection == "private" else [slice(None)]
        )
        models = [
            descent.descend(
                self.groups, self.start, steps[:, some], scales[..., some],
                algorithm.layout.noise_source(parties, rng, draws, observer), algorithm.rounds, algorithm.lam,
                heard=None if observer is None else partial(_tell, observer),
            )
            for some in together
        ]  # fmt: skip
        return np.concatenate(models, axis=2)

    def noisy_score(
        self, budgets: Sequence[Budget], weights: Array, rng: Generator, observer: Observer | None = None
    ) -> Array:
        """The noisy score of every candidate's model, (budgets, steps, draws, d) -> (budgets, steps, draws)."""
        algorithm, parties = self.algorithm, self.parties
        exact = self.exact_score(weights)
        weights_of_noise = algorithm.layout.noise_weights(parties)
        drawn = noise.gaussian(rng, (len(weights_of_noise), *exact.shape[1:]))
        widths = np.array([algorithm.per_score(budget, parties.problem) for budget in budgets])
        noisy: Array = exact + widths[:, None, None] * np.tensordot(weights_of_noise, drawn, axes=1)
        if observer is not None:
            for i in range(noisy.shape[1]):
                observer.drawn(drawn[:, i, :, None])
                observer.sent(noisy[0, i, :, None], partial(_exact_score, weights[:1, i : i + 1]))
        return noisy + self.ridge(weights)

    def exact_score(self, weights: Array) -> Array:
        """The mean clipped losses (budgets, steps, draws) of models (budgets, steps, draws, d)."""
        return clipped_losses(self.algorithm.loss, *self.folded, weights)

    @cached_property
    def folded(self) -> tuple[Array, Array, Array]:
        """The distinct rows, their labels, and the total weight of their copies in the released mean."""
        X, y, v = self.parties.X, self.parties.y, self.algorithm.layout.row_weights(self.parties)
        first, where, _ = distinct(X, y)
        return X[first], y[first], np.bincount(where, weights=v).astype(float)

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


def _exact_score(weights: Array, mechanism: PreparedNoisyDescent) -> Array:
    return mechanism.exact_score(weights)[0, 0, :, None]
