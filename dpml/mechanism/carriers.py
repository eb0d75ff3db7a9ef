"""Compute the noisy sums that an algorithm requests, by default in a simulation of all parties.

All budgets and noise draws run at once: axis 0 has B = budgets * draws entries, first all draws of the first budget.
Continuous noise is drawn once for all budgets, and every budget multiplies it by its own noise scale.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, blocks
from dpml.data.partition import Parties
from dpml.mechanism.algorithm import Release
from dpml.mechanism.message import Statistic, Terms
from dpml.mechanism.sharing import Numbers, Observer, Sampler
from dpml.privacy import Budget, Problem, noise

# the noise_std that an audit assumes for sums without noise, so that any difference is significant
_EXACT = 1e-9


@dataclass(frozen=True)
class Prepared:
    """An algorithm together with the parties' rows, ready to release models.

    Attributes:
        start: The result of `Program.begin`, such as an initial model, which is drawn before any noise.
        transport: Carries the messages of secure sums between machines; None: all parties are in this process.
        announce: A function that is called before every sum, with the sum's statistic and arguments.
    """

    algorithm: Any  # a `Program`, whose module imports this one
    parties: Parties
    start: Any = None
    transport: Any = None
    announce: Callable[[Statistic, tuple[Array, ...]], None] | None = None
    _terms: dict[Statistic, Terms[Any]] = field(init=False, default_factory=dict, repr=False, compare=False)

    @property
    def problem(self) -> Problem:
        return self.parties.problem

    def terms(self, statistic: Statistic) -> Terms[Any]:
        if statistic not in self._terms:
            self._terms[statistic] = statistic.on(self.parties)
        return self._terms[statistic]

    def release(
        self, budgets: Sequence[Budget], rng: Generator, draws: int, observer: Observer | None = None
    ) -> Release:
        """Run the algorithm for all budgets and noise draws, and report every noisy sum to the observer."""
        alike: dict[Any, list[int]] = {}
        for i, budget in enumerate(budgets):
            messages = self.algorithm.messages(budget, self.problem)
            alike.setdefault(tuple((message.of, message.times) for message in messages), []).append(i)
        sizes = [some.stop - some.start for some in blocks(draws, most=self.algorithm.together(self.problem) or draws)]
        releases = []
        for numbers in alike.values():
            own, some = rng if len(alike) == 1 else deepcopy(rng), [budgets[i] for i in numbers]
            each = [self.algorithm.run(Carrier(self, some, own, size, observer)) for size in sizes]
            releases.append(_joined(each, axis=1))
        release = _joined(releases, axis=0)
        if len(releases) == 1:
            return release
        order = np.argsort(np.concatenate(list(alike.values())))
        weights = None if release.weights is None else release.weights[order]
        return Release(weights, {key: values[order] for key, values in release.metrics.items()})


class Carrier:
    """Compute the noisy sums that an algorithm requests for one release.

    Attributes:
        mechanism: The algorithm with the parties' rows; the method `run` may use these rows for metrics only.
        problem: Public facts about the parties.
        budgets, draws: The budgets, and the number of noise draws per budget.
        messages: For every budget, the descriptions of its noisy sums; those of two budgets differ only in the noise.
        start: The result of `Program.begin`, which is drawn before any noise.
        constant: Noise of scale 1, drawn once and added to all sums; by party or in total: (M or 1, draws, k), or None.
        widening: The noise_std of the last sum divided by the declared one; it differs from 1 if parties dropped out.
        scaled_up: The factor that rescaled the last sum of the surviving parties to all parties.
    """

    def __init__(
        self, mechanism: Prepared, budgets: Sequence[Budget], rng: Generator, draws: int, observer: Observer | None
    ) -> None:
        self.mechanism, self.problem, self.start = mechanism, mechanism.problem, mechanism.start
        self.budgets, self.draws, self.rng, self.observer = tuple(budgets), draws, rng, observer
        self.algorithm = algorithm = mechanism.algorithm
        self.messages = [algorithm.messages(budget, self.problem) for budget in budgets]
        self.sharing = algorithm.sharing(self.problem)
        self.secagg = algorithm.protocol == "secagg"
        self.widening = self.scaled_up = 1.0
        self._widths: dict[int, Array] = {}
        self.constant = self._drawn_once()
        self.way: Way = algorithm.way()

    # Methods for an algorithm's loop.

    def ask(self, number: int, *at: Any) -> Array:
        """Return the noisy sum with index `number`, (B runs, k entries), given the sum's arguments, such as models."""
        if self.mechanism.announce is not None:
            self.mechanism.announce(self.statistic(number), at)
        noisy, parts = self.way(self, number, at)
        if self.observer is not None:
            self.observe(number, noisy, parts, at)
        return noisy

    def statistic(self, number: int) -> Statistic:
        return self.messages[0][number].of

    def widths(self, number: int) -> Array:
        """Return the noise scales of all entries of a noisy sum, for each budget: (budgets, k)."""
        if number not in self._widths:
            self._widths[number] = np.array([messages[number].widths(self.problem.d) for messages in self.messages])
        return self._widths[number]

    def per_run(self, values: Sequence[float] | Array) -> Array:
        """Repeat every budget's value for each of its runs (noise draws), and return the values of all runs, (B,)."""
        return np.repeat(values, self.draws)

    def by_budget(self, runs: Numbers) -> Any:
        """Reshape the values (B, ...) of all runs, one per budget and noise draw, to (budgets, draws, ...)."""
        return runs.reshape(len(self.budgets), self.draws, *runs.shape[1:])

    def unit_noise(self, number: int) -> tuple[Array, Array | None]:
        """Draw noise of scale 1 for a sum, (draws, k), and for an observer also each source's (e.g. party's) noise."""
        of, d, M = self.statistic(number), self.problem.d, self.problem.M
        law: Sampler = self.messages[0][number].law
        if of.single:
            law = "single_gaussian"
        if self.observer is None:
            lots = [self.sharing.total(self.rng, self.draws, M, size, law) for size in of.drawn(d)]
            return of.project(concatenated(lots), d), None
        lots = [self.sharing.parts(self.rng, self.draws, M, size, law) for size in of.drawn(d)]
        sources = of.project(concatenated(lots), d)
        return sources[:M].sum(axis=0), sources

    def observe(self, number: int, noisy: Array, parts: Array | None, at: tuple[Any, ...]) -> None:
        """Pass a noisy sum and each source's (e.g. party's) noise to `observer`, all divided by the sum's noise_std."""
        assert self.observer is not None
        assert parts is not None
        of, widths = self.statistic(number), self.widths(number)[0]
        wide = widths * np.repeat(of.deviations(self.problem.d), of.lengths(self.problem.d))
        scale = np.where(wide > 0, wide, _EXACT)
        drawn = parts * widths
        if self.constant is not None:
            drawn = drawn + float(self.messages[0][number].constant or 0.0) * self.constant
        at = tuple(np.array(each) for each in at)

        def exact(mechanism: Prepared) -> Array:
            return np.broadcast_to(mechanism.terms(of).total(*at), noisy.shape) / scale

        self.observer(noisy / scale, drawn / scale, exact)

    def noisy(self, number: int, exact: Array, unit: Array, constant: Array | None) -> Array:
        if constant is not None:
            wide = np.array([messages[number].constant for messages in self.messages])
            exact = exact + wide[:, None, None] * constant
        noisy: Array = exact + self.widths(number)[:, None] * unit
        return noisy.reshape(-1, noisy.shape[-1])

    def shaped(self, number: int, sums: Array) -> Array:
        """Reshape sums per run (..., B, k) to (..., budgets, draws, k), and common sums (..., k) to (..., 1, 1, k)."""
        if not self.statistic(number).state(self.problem.d)[1]:
            return sums[..., None, None, :]
        return sums.reshape(*sums.shape[:-2], len(self.budgets), self.draws, sums.shape[-1])

    @cached_property
    def rounding(self) -> Generator:
        """A random generator for rounding before secure sums; this generator need not be secret."""
        return self.rng.spawn(1)[0]

    def _drawn_once(self) -> Array | None:
        messages = self.messages[0]
        if not messages or messages[0].constant is None:
            return None
        M, (size,) = self.problem.M, messages[0].of.lengths(self.problem.d)
        if self.secagg or self.observer is not None:
            return noise.gaussian_messages(self.rng, self.draws, M, size).transpose(1, 0, 2) / np.sqrt(M)
        return noise.gaussian(self.rng, (self.draws, size))[None]


def _joined(parts: Sequence[Release], axis: int) -> Release:
    """Concatenate releases of different budgets (axis 0) or of different noise draws (axis 1)."""
    if len(parts) == 1:
        return parts[0]
    weights = [part.weights for part in parts if part.weights is not None]
    metrics = {key: np.concatenate([part.metrics[key] for part in parts], axis=axis) for key in parts[0].metrics}
    return Release(np.concatenate(weights, axis=axis) if weights else None, metrics)


Way = Callable[[Carrier, int, tuple[Any, ...]], tuple[Array, Array | None]]
"""A way to compute noisy sums: ``way(carrier, number, at)`` returns noisy sum `number` at the arguments `at`, (B, k),
and for an observer the noise of each source (scale 1)."""


def simulated(carrier: Carrier, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
    """Return the sum over all parties' rows plus noise, without messages between the parties."""
    unit, parts = carrier.unit_noise(number)
    exact = carrier.shaped(number, carrier.mechanism.terms(carrier.statistic(number)).total(*at))
    constant = None if carrier.constant is None else carrier.constant.sum(axis=0)
    return carrier.noisy(number, exact, unit, constant), parts


def concatenated(lots: Sequence[Any]) -> Array:
    """Concatenate arrays along their last axis."""
    return lots[0] if len(lots) == 1 else np.concatenate(lots, axis=-1)
