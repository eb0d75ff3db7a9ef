"""Linear models from noisy X'X and X'y, released once (`ssp`), or followed by rounds of descent (`ssp_descent`).

Both sums have one joint sensitivity, and the noise is split for the least noise in the gradient. The logistic loss
stands for its expansion at 0; several classes (softmax) are centred codes of the labels. With `unit=party` every party
sends the mean of its rows' coefficients. The sensitivities: docs/privacy/sufficient_statistics.md, Theorems 1 and 2.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from dpml.algorithms.defaults import PRECONDITIONED_RULES, SPECTRAL_FLOOR
from dpml.algorithms.descent.clipped import Schedule, take_rounds
from dpml.algorithms.descent.clipped_gradients import ClippedGradients
from dpml.algorithms.quadratic.coefficients import (
    Coefficients,
    coefficients_sum,
    draws_together,
    minimised,
    polynomial,
    spectral_edge,
    split,
)
from dpml.arrays import Array
from dpml.mechanism.algorithm import UNITS, Clip, Release, Rounds
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
from dpml.optim.gradients import Single
from dpml.options import POSITIVE, SHARE
from dpml.privacy import Budget, Problem


@dataclass(frozen=True)
class SufficientStatistics(
    Program, losses=("squared", "logistic", "softmax"), calibrations=("tight",), lam=0.0, units=UNITS
):
    """`ssp`: the least squares solution of noisy X'X and X'y, whose M parties add up both in one secure sum.

    Args:
        radius: the norm of w that the split of the noise between X'y and X'X is best for; None: by
            `defaults.QUADRATIC_NORM`.
        protocol: `simulate` draws the noise of the sum; with `secagg` every party's d (d + 1)/2 + K d numbers go
            through the real secure aggregation (`dpml.protocols.secure_sum`), all budgets and a block of draws in one
            run.
    """

    name: ClassVar[str] = "ssp"
    proof: ClassVar[str] = "Theorems 1 and 2, docs/privacy/sufficient_statistics.md"

    radius: Annotated[float | None, POSITIVE] = None

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        least = 2 if self.loss.task == "multiclass" else 1  # it may not be known how many; any number has the budget
        of = Coefficients(self.loss, unit=self.unit, classes=max(least, self.loss.outputs(problem.classes)))
        scales = split(of, problem.d, self.target_mu(budget, problem, of), self.radius)
        return (coefficients_sum(of, scales, problem.d),)

    def together(self, problem: Problem) -> int:
        return draws_together(problem.d)

    def run(self, carrier: Carrier) -> Release:
        return minimised(carrier, self.lam)


@dataclass(frozen=True)
class PreconditionedDescent(Program, losses=("logistic", "squared"), calibrations=("tight",), lam=0.0, units=UNITS):
    """`ssp_descent`: ssp as a start and as a preconditioner, and T clipped gradient sums.

    Args:
        budget_share: the part of mu^2 that the statistics get.
        rounds: T; None: by the rule (`defaults.PRECONDITIONED_RULES`).
        clip: the longest gradient of a row, or longest mean gradient of a party; None: by the rule.
    """

    name: ClassVar[str] = "ssp_descent"
    proof: ClassVar[str] = "Theorem 3, docs/privacy/clipped_descent.md"

    budget_share: Annotated[float, SHARE] = 0.3
    rounds: Rounds | None = None
    clip: Clip | None = None

    def schedule(self, budget: Budget, problem: Problem) -> Schedule:
        """The noise in the rounds, whose step is that of Newton's method."""
        rounds, clip = PRECONDITIONED_RULES[self.loss.name, self.unit]
        rounds, clip = self.rounds or rounds, self.clip or clip
        of = ClippedGradients(self.loss, self.unit, clip)
        left = math.sqrt(1 - self.budget_share) * self.target_mu(budget, problem, of)
        return Schedule(rounds, clip, 1.0, 2 * math.sqrt(rounds) / left)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        schedule = self.schedule(budget, problem)
        of = Coefficients(self.loss, unit=self.unit)
        mu = math.sqrt(self.budget_share) * self.target_mu(budget, problem, of)
        statistics = coefficients_sum(of, split(of, problem.d, mu, None), problem.d)
        return statistics, schedule.message(ClippedGradients(self.loss, self.unit, schedule.clip))

    def together(self, problem: Problem) -> int:
        return draws_together(problem.d)

    def run(self, carrier: Carrier) -> Release:
        d, n = carrier.problem.d, carrier.problem.units(self.unit)
        squares = np.array([messages[0].units[-1] for messages in carrier.messages])
        b, A = polynomial(carrier.by_budget(carrier.ask(0)), d, n, self.lam)
        inverse = _inverses(A, SPECTRAL_FLOOR * spectral_edge(d) * squares / n * carrier.widening)
        start = -(inverse @ b[..., None])[..., 0].reshape(-1, d)
        steps, lam = inverse.reshape(-1, d, d).astype(np.float32), self.lam

        def move(t: int, w: Single, gradients: Single, clip: Single) -> Single:
            mean = clip[:, None] * gradients / np.float32(n)
            return (steps @ (mean + lam * w if lam else mean)[..., None])[..., 0]

        first = self.schedule(carrier.budgets[0], carrier.problem)
        weights, _ = take_rounds(carrier, 1, first, start.astype(np.float32), move)
        return Release(carrier.by_budget(weights).astype(float))


def _inverses(A: Array, floors: Array) -> Array:
    """The inverses of 2 A, the curvatures of ``w'Aw``, for A (budgets, draws, d, d) floored at (budgets,).

    Without noise there is no floor: directions without curvature are then left out.
    """
    values, vectors = np.linalg.eigh(A)
    least = A.shape[-1] * np.finfo(float).eps * np.abs(values).max(axis=-1, keepdims=True)
    values = np.maximum(values, floors[:, None, None])
    inverse = np.divide(0.5, values, out=np.zeros_like(values), where=values > least)
    return (vectors * inverse[..., None, :]) @ vectors.swapaxes(-1, -2)
