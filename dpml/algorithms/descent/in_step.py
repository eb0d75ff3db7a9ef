"""Run the noisy gradient descents of several releases on the same rows together, to share matrix products."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.algorithms.descent.layouts import GradientMeans
from dpml.arrays import Array
from dpml.optim.gradients import Single
from dpml.optim.merged_descent import descend, merged
from dpml.privacy.noise import single_gaussian
from dpml.program import Carrier, Release


@dataclass(frozen=True)
class Trial:
    """The gradient descents of one release: one for each combination of a budget, a step size and a noise draw."""

    carrier: Carrier
    numbers: NDArray[np.intp]  # the indices of each budget's S step sizes, (budgets, S)

    @property
    def steps(self) -> Array:
        carrier = self.carrier
        tried = np.array([carrier.algorithm.tried(budget, carrier.problem) for budget in carrier.budgets])
        return np.take_along_axis(tried, self.numbers, axis=1)

    @property
    def alike(self) -> Any:
        """The properties that two releases must share so that their gradient descents can run together."""
        algorithm = self.carrier.algorithm
        return self.carrier.statistic(0), self.numbers.size, algorithm.lam, algorithm.rounds


Train = Callable[[Sequence[Trial]], Sequence[Array]]
"""A function that runs trials, and returns the models (budgets, S, draws, d) of each trial."""


def released(carriers: Sequence[Carrier], train: Train) -> list[Release]:
    """Train each algorithm with all its step sizes, and return the models with the step sizes that it selects."""
    trials = []
    for carrier in carriers:
        numbers = np.arange(len(carrier.messages[0]))
        trials.append(Trial(carrier, np.tile(numbers, (len(carrier.budgets), 1))))
    validated = [i for i, carrier in enumerate(carriers) if carrier.algorithm.step_selection == "validated"]
    models = train([carriers[i].algorithm.validation(trials[i]) for i in validated])
    for i, tested in zip(validated, models, strict=True):
        trials[i] = Trial(carriers[i], carriers[i].algorithm.best_on_held_out(trials[i], tested))
    return [trial.carrier.algorithm.selected(trial, of) for trial, of in zip(trials, train(trials), strict=True)]


def in_step(carriers: Sequence[Carrier]) -> list[Release]:
    """Run several algorithms with calibration=published at the same time on the same rows; return their releases."""
    return released(carriers, _together)


def _together(trials: Sequence[Trial]) -> list[Array]:
    groups: dict[Any, list[int]] = defaultdict(list)
    for number, trial in enumerate(trials):
        groups[trial.alike].append(number)
    models: dict[int, Array] = {}
    for numbers in groups.values():
        models |= zip(numbers, _models([trials[number] for number in numbers]), strict=True)
    return [models[number] for number in range(len(trials))]


def _models(trials: Sequence[Trial]) -> list[Array]:
    carriers, first = [trial.carrier for trial in trials], trials[0]
    algorithm, d = first.carrier.algorithm, first.carrier.problem.d
    terms = first.carrier.mechanism.terms(first.carrier.statistic(0))
    assert isinstance(terms, GradientMeans)
    groups, S = list(terms.weighted()), first.numbers.size
    steps, widths, starts = [], [], []
    for trial in trials:
        draws = trial.carrier.draws
        own = np.repeat(trial.carrier.widths(0)[:, ::d], trial.numbers.shape[1], axis=0)  # (budgets S, groups)
        widths.append(np.broadcast_to(own.T[:, None], (len(groups), draws, S)))
        steps.append(np.tile(trial.steps.ravel(), draws))
        starts.append(np.broadcast_to(trial.carrier.start[:, None], (len(groups), d, draws * S)))
    w, runs, step = np.concatenate(starts, axis=2), [len(each) for each in steps], np.concatenate(steps)
    loss, noise, width = algorithm.loss, _noise(carriers, len(groups)), np.concatenate(widths, axis=1)
    descend(merged(loss, groups, sum(runs)), loss, w, step, width, noise, algorithm.lam, algorithm.rounds)
    found = []
    for trial, own in zip(trials, np.split(w, np.cumsum(runs)[:-1], axis=2), strict=True):
        weights = trial.carrier.algorithm.layout.model_weights(trial.carrier.problem)
        models = np.tensordot(weights, own, axes=1).reshape(d, trial.carrier.draws, *trial.numbers.shape)
        found.append(models.transpose(2, 3, 1, 0))
    return found


def _noise(carriers: Sequence[Carrier], groups: int) -> Callable[[int], Single]:
    """Return a function that draws some rounds' Gaussian noise as an array (rounds, groups of rows, d, noise draws)."""

    def draw(rounds: int) -> Single:
        parts = []
        for carrier in carriers:
            shape = rounds, groups, carrier.draws, carrier.problem.d
            parts.append(single_gaussian(carrier.rng, shape))
        return (np.concatenate(parts, axis=2) if len(parts) > 1 else parts[0]).swapaxes(2, 3)

    return draw
