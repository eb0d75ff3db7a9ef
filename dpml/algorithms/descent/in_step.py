"""Run the noisy gradient descents of several releases on the same rows together, which shares matrix products.

Every release draws the same noise as it does alone; its result differs by rounding errors only.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.algorithms.descent.layouts import GradientMeans
from dpml.arrays import Array
from dpml.mechanism.algorithm import Release
from dpml.mechanism.carriers import Carrier
from dpml.optim.gradients import Single
from dpml.optim.merged_descent import MergedDescent
from dpml.privacy import noise


@dataclass(frozen=True)
class Trial:
    """A request of a release for gradient descents with the step sizes at indices `numbers` (budgets, S).

    `trained` says which rows are used. The answer is the models (budgets, S, draws, d).
    """

    carrier: Carrier
    numbers: NDArray[np.intp]
    trained: str

    @property
    def steps(self) -> Array:
        carrier = self.carrier
        tried = np.array([carrier.algorithm.tried(budget, carrier.problem) for budget in carrier.budgets])
        return np.take_along_axis(tried, self.numbers, axis=1)

    @property
    def alike(self) -> Any:
        """The properties that requests on the same parties must share to be answered together."""
        algorithm = self.carrier.algorithm
        return self.trained, self.carrier.statistic(0), self.numbers.size, algorithm.lam, algorithm.rounds


Trials = Generator[Trial, Array, Release]
"""A generator that yields requests, receives their models, and returns a release."""


def alone(trials: Trials, answer: Callable[[Trial], Array]) -> Release:
    """Compute one release; `answer` returns the models for each of its requests."""
    try:
        trial = next(trials)
        while True:
            trial = trials.send(answer(trial))
    except StopIteration as end:
        release: Release = end.value
        return release


def in_step(carriers: Sequence[Carrier]) -> list[Release]:
    """Compute several releases with published noise on the same parties' rows."""
    running = [carrier.algorithm.trials(carrier) for carrier in carriers]
    waiting = {number: next(trials) for number, trials in enumerate(running)}
    releases: dict[int, Release] = {}
    while waiting:
        together = defaultdict(list)
        for number, trial in waiting.items():
            together[trial.alike].append(number)
        # validation runs first, so that the trainings after it can join those of releases without validation
        numbers = min(together.values(), key=lambda some: waiting[some[0]].trained == "all")
        for number, models in zip(numbers, _answers([waiting.pop(number) for number in numbers]), strict=True):
            try:
                waiting[number] = running[number].send(models)
            except StopIteration as end:
                releases[number] = end.value
    return [releases[number] for number in range(len(carriers))]


def _answers(trials: Sequence[Trial]) -> list[Array]:
    """Return the models of requests that share `alike`."""
    carriers, (first, *_) = [trial.carrier for trial in trials], trials
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
    w, runs = np.concatenate(starts, axis=2), [len(each) for each in steps]
    rows = MergedDescent.of(algorithm.loss, groups, sum(runs))
    rows.advance(
        w, np.concatenate(steps), np.concatenate(widths, axis=1), _noise(carriers, len(groups)), algorithm.lam,
        algorithm.rounds,
    )  # fmt: skip
    found = []
    for trial, own in zip(trials, np.split(w, np.cumsum(runs)[:-1], axis=2), strict=True):
        weights = trial.carrier.algorithm.layout.model_weights(trial.carrier.problem)
        models = np.tensordot(weights, own, axes=1).reshape(d, trial.carrier.draws, *trial.numbers.shape)
        found.append(models.transpose(2, 3, 1, 0))
    return found


def _noise(carriers: Sequence[Carrier], groups: int) -> Callable[[int], Single]:
    """Return a function that draws all releases' noise of scale 1 for some rounds: (rounds, groups, d, draws)."""

    def draw(rounds: int) -> Single:
        parts = []
        for carrier in carriers:
            shape = rounds, groups, carrier.draws, carrier.problem.d
            parts.append(noise.single_gaussian(carrier.rng, shape))
        return (np.concatenate(parts, axis=2) if len(parts) > 1 else parts[0]).swapaxes(2, 3)

    return draw
