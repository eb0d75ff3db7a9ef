"""Noisy sufficient statistics first, then a few rounds of descent that they precondition: `ssp_descent`.

A share of mu^2 buys noisy X'X and X'y (`sufficient_statistics`), whose least squares solution is the first model. The
rest buys T sums of clipped gradients; each is multiplied by the inverse of the noisy curvature, whose eigenvalues are
floored as for the first model: a Newton step for the squared loss, and for the logistic loss one with the curvature
that the loss has at 0, where it is largest. All noise is Gaussian, so ``mu^2 = share mu^2 + (1 - share) mu^2`` exactly,
whatever the rounds depend on (Dong, Roth & Su 2019, Cor. 3.3). Where `dpgd` needs hundreds of secure sums, 1 + T are
enough.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release, require_domain
from dpml.algorithms.clipped_rounds import ClippedRounds, Schedule, run
from dpml.algorithms.clipped_sums import ClippedSums
from dpml.algorithms.discrete_sums import clipped_sums
from dpml.algorithms.distributed_noise import secure_sharing
from dpml.algorithms.hyperparameters import (
    Unit,
)
from dpml.algorithms.noisy_coefficients import FLOOR, ByCoefficient, PreparedQuadratic, blocks
from dpml.algorithms.sufficient_statistics import SufficientStatistics
from dpml.algorithms.transcript import Recorder, Watch, transcript
from dpml.arrays import Array
from dpml.audit.exposure import Exposure
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.descent import Single
from dpml.privacy import Budget, Problem, View

RULES: dict[tuple[str, Unit], tuple[int, float]] = {
    ("logistic", "sample"): (10, 0.3),
    ("logistic", "party"): (20, 0.1),
    ("squared", "sample"): (10, 0.3),
    ("squared", "party"): (20, 0.1),
}
"""T and the clip, chosen on Adult."""


@dataclass(frozen=True)
class FirstStage(SufficientStatistics):
    """The statistics, for a share of mu^2."""

    share: float = 1.0

    def mu(self, budget: Budget) -> float:
        return math.sqrt(self.share) * super().mu(budget)


@dataclass(frozen=True)
class PreconditionedDescent(ClippedRounds):
    """`ssp_descent`: ssp as a start and as a preconditioner, and T clipped gradient sums; see `ClippedRounds`.

    Rounds and clip of None are by the rule (`RULES`).

    Args:
        share: the part of mu^2 that the statistics get.
    """

    name: ClassVar[str] = "ssp_descent"

    share: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share < 1:
            raise UserError(f"algo.share of {self.name} must lie strictly between 0 and 1, got {self.share}.")

    @property
    def statistics(self) -> FirstStage:
        """The first stage: `ssp` with a share of mu^2."""
        return FirstStage(
            self.loss, "tight", self.lam, unit=self.unit, protocol=self.protocol, noise=self.noise, share=self.share
        )

    @property
    def secure_sums(self) -> int:
        """How many vectors are summed in a release: the statistics, and one a round."""
        return 1 + (self.rounds or RULES[self.loss.name, self.unit][0])

    def schedule(self, budget: Budget, problem: Problem) -> Schedule:
        rounds, clip = RULES[self.loss.name, self.unit]
        rounds, clip = self.rounds or rounds, self.clip or clip
        left = math.sqrt(1 - self.share) * self.budget_mu(budget, problem)
        return Schedule(rounds, clip, 1.0, 2 * math.sqrt(rounds) / left, math.inf)

    def counted_mu(self, budget: Budget, problem: Problem) -> tuple[float, str]:
        schedule = self.schedule(budget, problem)
        mu = math.hypot(self.statistics.released_mu(budget, problem), schedule.mu) + self.rest(schedule, problem)
        return mu, f"Gaussian DP of the statistics and {schedule.rounds} adaptive rounds (preconditioned_descent)"

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedPreconditioned":
        """The exact statistics, and the rows."""
        require_domain(parties, self.loss)
        sums = clipped_sums(self.loss, parties, self.unit, self.protocol, self.noise)
        return PreparedPreconditioned(self, self.statistics.prepare(parties, rng), sums)


@dataclass(frozen=True)
class PreparedPreconditioned:
    """The exact statistics and the rows of an `ssp_descent`."""

    algorithm: PreconditionedDescent
    statistics: PreparedQuadratic
    sums: ClippedSums

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int, watch: Watch | None = None) -> Release:
        """All budgets and a block of draws at once; `watch` records the statistics and every sum."""
        problem, statistics = self.statistics.problem, self.statistics
        schedules = [self.algorithm.schedule(budget, problem) for budget in budgets]
        scales = statistics.scales(budgets)
        floors = FLOOR * statistics.algorithm.spectral_edge(problem.d) * scales[:, 2]
        models = []
        for block in blocks(draws, problem.d):
            listener = None if watch is None else self._listener(watch)
            _, b, A = statistics.noisy(scales, rng, block, listener)
            inverse = _inverses(A, floors)
            start = -(inverse @ b[..., None])[..., 0].reshape(-1, problem.d)
            models.append(self._rounds(schedules, inverse.reshape(-1, problem.d, problem.d), start, rng, watch))
        return Release(np.concatenate(models, axis=1).astype(float))

    def _rounds(
        self, schedules: Sequence[Schedule], inverse: Array, start: Array, rng: Generator, watch: Watch | None
    ) -> Single:
        """The averaged models (budgets, draws, d) of runs from `start`, with inverse curvatures (B, d, d)."""
        n, lam = self.algorithm.counted(self.statistics.problem), self.algorithm.lam
        steps = inverse.astype(np.float32)

        def move(w: Single, gradients: Single, clip: Single) -> Single:
            mean = clip[:, None] * gradients / np.float32(n)
            return (steps @ (mean + lam * w if lam else mean)[..., None])[..., 0]

        weights, _ = run(self.sums, schedules, start.astype(np.float32), move, rng, watch)
        return weights.reshape(len(schedules), -1, weights.shape[1])

    def exposure(self, view: View, both: "Sequence[PreparedPreconditioned]", budget: Budget) -> Exposure:
        """The statistics, X'y before X'X, and all sums, one after the other."""
        problem = self.statistics.problem
        scales = [*self._widths(budget), *self.algorithm.schedule(budget, problem).scales]
        channel = secure_sharing(problem).channel(view, problem)

        def release(which: int, rng: Generator, draws: int, watch: Watch) -> None:
            both[which].release([budget], rng, draws, watch)

        return transcript(view, release, lambda: Recorder(both, channel, scales), len(scales))

    def _widths(self, budget: Budget) -> Array:
        """The noise in L1 and L2."""
        return self.statistics.scales([budget])[0, 1:]

    def _listener(self, watch: Watch) -> Watch:
        return ByCoefficient(OfStatistics(watch), self.statistics.problem.d, np.ones(2))


@dataclass(frozen=True)
class OfStatistics:
    """Reports the messages of the statistics in a `PreparedPreconditioned` to another watch."""

    watch: Watch

    def drawn(self, parts: Array | Single) -> None:
        self.watch.drawn(parts)

    def sent(self, message: Array | Single, exact: Callable[[Any], Array]) -> None:
        self.watch.sent(message, lambda prepared: exact(prepared.statistics))


def _inverses(A: Array, floors: Array) -> Array:
    """The inverses of 2 A, the curvatures of ``w'Aw``, for A (budgets, draws, d, d) floored at (budgets,).

    Without noise there is no floor: directions without curvature are then left out.
    """
    values, vectors = np.linalg.eigh(A)
    least = A.shape[-1] * np.finfo(float).eps * np.abs(values).max(axis=-1, keepdims=True)
    values = np.maximum(values, floors[:, None, None])
    inverse = np.divide(0.5, values, out=np.zeros_like(values), where=values > least)
    return (vectors * inverse[..., None, :]) @ vectors.swapaxes(-1, -2)
