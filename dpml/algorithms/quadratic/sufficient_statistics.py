"""Define linear models from noisy X'X and X'y (`ssp`), optionally with rounds of gradient descent (`ssp_descent`).

The proofs: docs/privacy/sufficient_statistics.md, Theorems 1 and 2.
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
    minimised,
    polynomial,
    spectral_edge,
    split,
)
from dpml.arrays import Array
from dpml.optim.gradients import Single
from dpml.options import POSITIVE, SHARE
from dpml.program import UNITS, Budget, Carrier, Clip, Problem, Program, Release, Rounds, Sum


@dataclass(frozen=True)
class SufficientStatistics(
    Program, losses=("squared", "logistic", "softmax"), calibrations=("tight",), lam=0.0, units=UNITS
):
    """`ssp`: least squares from noisy sufficient statistics X'X and X'y, which M parties release in one secure sum.

    Args:
        radius: The norm of w for which the split of the noise between X'y and X'X is best; None: a typical norm.
        protocol: `simulate` draws the noise of the sum directly; `secagg` runs the real secure aggregation
            (`dpml.protocols.secure_sum`) with every party's d (d + 1)/2 + K d numbers.
    """

    name: ClassVar[str] = "ssp"
    proof: ClassVar[str] = "Theorems 1 and 2, docs/privacy/sufficient_statistics.md"
    matrices: ClassVar[bool] = True

    radius: Annotated[float | None, POSITIVE] = None

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        least = 2 if self.loss.task == "multiclass" else 1  # if K is unknown; the sensitivity does not depend on K
        of = Coefficients(self.loss, unit=self.unit, classes=max(least, self.loss.outputs(problem.classes)))
        scales = split(of, problem.d, self.target_mu(budget, problem, of), self.radius)
        return (coefficients_sum(of, scales, problem.d),)

    def run(self, carrier: Carrier) -> Release:
        return minimised(carrier, self.lam)


@dataclass(frozen=True)
class PreconditionedDescent(Program, losses=("logistic", "squared"), calibrations=("tight",), lam=0.0, units=UNITS):
    """`ssp_descent`: least squares (`ssp`), then rounds of clipped noisy gradient descent preconditioned by noisy X'X.

    Args:
        budget_share: The share of mu^2 for the sufficient statistics.
        rounds: The number of rounds T; None: chosen by a public rule (`defaults.PRECONDITIONED_RULES`).
        clip: The largest norm of a row's gradient, or of a party's mean gradient; None: chosen by a public rule.
    """

    name: ClassVar[str] = "ssp_descent"
    proof: ClassVar[str] = "Theorem 3, docs/privacy/clipped_descent.md"
    matrices: ClassVar[bool] = True

    budget_share: Annotated[float, SHARE] = 0.3
    rounds: Rounds | None = None
    clip: Clip | None = None

    def schedule(self, budget: Budget, problem: Problem) -> Schedule:
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
    """Return the inverses of 2 A, with A's small eigenvalues raised to `floors`, for A (budgets, draws, d, d)."""
    values, vectors = np.linalg.eigh(A)
    least = A.shape[-1] * np.finfo(float).eps * np.abs(values).max(axis=-1, keepdims=True)
    values = np.maximum(values, floors[:, None, None])
    inverse = np.divide(0.5, values, out=np.zeros_like(values), where=values > least)
    return (vectors * inverse[..., None, :]) @ vectors.swapaxes(-1, -2)
