"""Algorithms with one secure sum per round: `ssp_descent`, `dpgd` and `psgd`.

Before every sum the parties receive the model at which they compute their answers. They need not trust the aggregator
to send the right one: the guarantees hold for models that depend on all earlier sums in any way, including an
adversary's choice. A party gives one answer to each sum that the guarantees count. If the clip is adapted to the
parties, gradients are clipped at it, and gradients and noise are in units of it.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.algorithms.clipped_descent import ClippedDescent
from dpml.algorithms.clipped_rounds import LEAST_CLIP, widths_of
from dpml.algorithms.clipped_sums import ClippedSums, Widths
from dpml.algorithms.noisy_gradient_sums import PrivateSGD, SecureSums
from dpml.algorithms.noisy_gradient_sums import Widths as RoundWidths
from dpml.algorithms.preconditioned_descent import PreconditionedDescent
from dpml.algorithms.transcript import Watch
from dpml.arrays import Array
from dpml.federated.statistics import statistics_length
from dpml.federated.sums import Answer, Ask, Own, Remote, Setting, prepared, require_nothing
from dpml.optim.descent import Single
from dpml.protocols.codec import Ring
from dpml.protocols.errors import RefusedError

_LONGEST = 1e15
"""The largest allowed entry of a model: all scores of rows in the unit ball are then finite, and no answer fails."""

_NOTHING = np.empty(0)


class ClippedRoundSums:
    """`dpgd`; and `ssp_descent`, which begins with a sum of statistics."""

    beside = 0

    def __init__(self, algorithm: ClippedDescent | PreconditionedDescent, setting: Setting) -> None:
        self._algorithm, self._setting = algorithm, setting
        self._schedule = algorithm.schedule(setting.budget, setting.problem)
        d = setting.problem.d
        self._first = (statistics_length(d),) if isinstance(algorithm, PreconditionedDescent) else ()
        self.lengths: tuple[int, ...] = self._first + (d + self._schedule.adaptive,) * self._schedule.rounds

    def party(self, X: Array, y: Array, party: int, rng: Generator) -> Answer:
        own, setting = Own(party), self._setting
        mechanism = prepared(self._algorithm, setting, party, (X, y))
        sums, widths = replace(mechanism.sums, adder=own), widths_of([self._schedule], 1)
        statistics = replace(mechanism.statistics, adder=own) if self._first else None

        def answer(number: int, told: bytes) -> tuple[Ring, Array]:
            if statistics is not None and number == 0:
                require_nothing(told)
                statistics.noisy(statistics.scales([setting.budget]), rng, 1)
            else:
                w, clip = self._told(told)
                sums.noisy(w, clip, widths, rng)
            return own.ring, _NOTHING

        return answer

    def model(self, ask: Ask) -> Array:
        remote = Remote(ask, self._setting.units(self._algorithm))
        mechanism = prepared(self._algorithm, self._setting)
        sums = replace(mechanism.sums, adder=remote)
        mechanism = replace(mechanism, sums=TellingSums(sums.loss, sums.parties, sums, remote))
        if self._first:
            mechanism = replace(mechanism, statistics=replace(mechanism.statistics, adder=remote))
        found = mechanism.release([self._setting.budget], np.random.default_rng(0), 1)  # its noise is not used
        return np.asarray(found.weights[0, 0])

    def _told(self, told: bytes) -> tuple[Single, Single]:
        """The model (1, d) and the clip (1,): the plan's clip, unless the clip is adapted to the parties."""
        numbers = _numbers(told, "<f4", self._setting.problem.d + 1)
        w, clip = numbers[None, :-1], numbers[-1:]
        if not self._schedule.adaptive:
            return w, np.full(1, self._schedule.clip, np.float32)
        if not clip[0] >= LEAST_CLIP:
            raise RefusedError("the aggregator's clip is shorter than any on the way.")
        return w, clip


@dataclass(frozen=True)
class TellingSums(ClippedSums):
    """Secure sums that send the model and the clip to the parties before each sum."""

    sums: ClippedSums
    remote: Remote

    def exact(self, w: Single, clip: Single) -> tuple[Single, Single]:
        return self.sums.exact(w, clip)

    def noisy(
        self, w: Single, clip: Single, widths: Widths, rng: Generator, watch: Watch | None = None
    ) -> tuple[Single, Single]:
        self.remote.told = np.append(w[0], clip[0]).astype("<f4").tobytes()
        return self.sums.noisy(w, clip, widths, rng, watch)


class GradientSums:
    """`psgd`: every round's sum of gradients.

    A plan's noise is `tight`: fresh in every round, so different parties may be missing from different sums. The
    published noise has a part that is drawn once (eta), and its proof needs the same parties in all sums.
    """

    beside = 0

    def __init__(self, algorithm: PrivateSGD, setting: Setting) -> None:
        self._algorithm, self._setting = algorithm, setting
        self.lengths: tuple[int, ...] = (setting.problem.d,) * algorithm.rounds

    def party(self, X: Array, y: Array, party: int, rng: Generator) -> Answer:
        own = Own(party)
        mechanism: Any = replace(prepared(self._algorithm, self._setting, party, (X, y)), adder=own)
        widths: RoundWidths = mechanism.widths([self._setting.budget])
        constant, growth = mechanism.constant_noise(rng, 1), self._algorithm.growth

        def answer(number: int, told: bytes) -> tuple[Ring, Array]:
            w = _numbers(told, "<f8", self._setting.problem.d)
            mechanism.noisy_sum(w[None], widths.grown(growth[number]), constant, rng)
            return own.ring, _NOTHING

        return answer

    def model(self, ask: Ask) -> Array:
        remote = Remote(ask, self._setting.sizes)
        mechanism = prepared(self._algorithm, self._setting)
        telling = TellingGradients(mechanism.algorithm, mechanism.parties, remote)
        found = telling.descend([self._setting.budget], np.random.default_rng(0), 1)  # its noise is not used
        return found.weights[0, 0]


@dataclass(frozen=True)
class TellingGradients(SecureSums):
    """The secure sums of `psgd`, which send the model to the parties before each sum."""

    adder: Remote

    def noisy_sum(
        self, w: Array, widths: RoundWidths, constant: Array, rng: Generator, watch: Watch | None = None
    ) -> Array:
        self.adder.told = w[0].astype("<f8").tobytes()
        return super().noisy_sum(w, widths, constant, rng, watch)


def _numbers(told: bytes, kind: str, count: int) -> Any:
    """The aggregator's message as numbers (count,).

    Raises:
        RefusedError: their count is wrong, or an answer could fail depending on a row: no such request is allowed.
    """
    if len(told) != count * np.dtype(kind).itemsize:
        raise RefusedError(f"the aggregator says {len(told)} bytes where {count} numbers are due.")
    numbers = np.frombuffer(told, kind)
    if not np.abs(numbers).max() <= _LONGEST:
        raise RefusedError("the aggregator's model is not finite, or longer than any model on the way.")
    return numbers
