"""Kang, Liu & Wang 2019, Theorems 2 and 3 compared with the excess risk of wddp on real rows.

Both theorems are about gradient descent with step 1/L and noise in the gradient, which is what synchronous rounds do
(`variant=synchronous`, `once`). Both need ``||grad R||^2 >= 2 mu (R - min R)``: Theorem 2 with mu = lam, for a convex
loss with a regulariser; Theorem 3 with some mu > 0, the Polyak-Lojasiewicz condition. That mu is unknown for a loss
that is not convex. Here it is measured: the least ``||grad R||^2 / (2 (R - min R))`` over models on the path. This is
the largest mu with which the condition holds for these models; it says nothing about other models. Where the loss is
not convex, min R is the least value found from several starts. It may be too high; then the excess risk is too small,
and mu too large.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release
from dpml.algorithms.descent.noisy_descent import NoisyDescent, Sites
from dpml.algorithms.descent.noisy_runs import PreparedNoisyDescent
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.observer import Observer
from dpml.optim import descent
from dpml.optim.descent import Single
from dpml.optim.reference import least, least_found
from dpml.privacy import Budget

from .bounds import excess_risk_bound

EVERY = 20  # rounds between two models that are measured
STARTS = 8  # of the search for the minimum of a loss that is not convex


@dataclass(frozen=True)
class MeasuredDescent(NoisyDescent):
    """`wddp` with step 1/L in synchronous rounds, which also reports the quantities that the theorems bound.

    The release reports these metrics, for the experimenter only: `excess_risk`, R(w_T) - min R; `theorem2_bound` on its
    mean, for a convex loss; `theorem3_bound`, with the measured mu; `pl_constant`, that mu.
    """

    sites: Sites = "clients"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.layout.synchronous or self.step_selection != "fixed" or self.step is not None:
            raise UserError(
                "the theorems need algo.variant=synchronous or once, and algo.step_selection=fixed with step=null."
            )

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedMeasurement":
        """Prepare it like any noisy descent."""
        prepared = super().prepare(parties, rng)
        return PreparedMeasurement(self, parties, prepared.start)


@dataclass(frozen=True)
class PreparedMeasurement(PreparedNoisyDescent):
    """A prepared descent that measures every `EVERY`-th model on its path."""

    def release(
        self, budgets: Sequence[Budget], rng: Generator, draws: int, observer: Observer | None = None
    ) -> Release:
        """The last models, with the quantities that the theorems bound."""
        algorithm, problem = self.algorithm, self.parties.problem
        noises = np.array([algorithm.per_rows(budget, problem)[0] for budget in budgets]) * algorithm.layout.sum_std(
            problem
        )
        seen: list[Array] = []
        rounds = iter(range(algorithm.rounds))

        def keep(before: Single, _: Single) -> None:
            if next(rounds) % EVERY == 0:
                seen.append(before[0, :, 0].astype(float))

        last = descent.descend(
            self.groups, self.start, self.tried(budgets), noises[None],
            algorithm.layout.noise_source(self.parties, rng, draws, observer), algorithm.rounds, algorithm.lam, keep,
        )[0, :, 0].astype(float)  # fmt: skip
        return Release(last, self._measured(np.array([*seen, last]), noises))

    def _measured(self, path: Array, noises: Array) -> dict[str, Array]:
        """The metrics (budgets, draws) of models on the path (times, budgets, draws, d)."""
        algorithm = self.algorithm
        slopes = self.gradient(path.reshape(-1, path.shape[-1])).reshape(path.shape) + algorithm.lam * path
        values = self.objective(path)
        minimum = min(self.minimum(), values.min())
        excess = values - minimum
        ratios = np.einsum("...j,...j->...", slopes, slopes) / (2 * np.where(excess > 0, excess, np.nan))
        # at a value that rounds to the minimum the ratio is meaningless
        found = np.nanmin(np.where(excess > 1e-9, ratios, np.nan), axis=0)
        metrics = {
            "excess_risk": excess[-1],
            "theorem3_bound": self._bound(found, noises, excess[0]),
            "pl_constant": found,
        }
        if algorithm.loss.convex and algorithm.lam > 0:
            metrics["theorem2_bound"] = self._bound(np.full_like(found, algorithm.lam), noises, excess[0])
        return metrics

    def _bound(self, constants: Array, noises: Array, start: Array) -> Any:
        """Ineq. (11) for constants mu and start gaps (budgets, draws), and noises (budgets,)."""
        smoothness = 1 / self.algorithm.largest
        d, T = len(self.start), self.algorithm.rounds
        return excess_risk_bound(d, T, np.minimum(constants, smoothness), smoothness, noises[:, None] ** 2, start)

    def minimum(self) -> float:
        """The minimum of the objective; for a loss that is not convex the least value found from several starts."""
        algorithm = self.algorithm
        if algorithm.loss.convex:
            return least(self.parties, algorithm.loss, algorithm.lam)
        return least_found(
            lambda w: float(self.objective(w[None])[0]),
            lambda w: self.gradient(w[None])[0] + algorithm.lam * w,
            len(self.start),
            STARTS,
        )
