"""Define linear or logistic regression with confidence intervals for the coefficients (`regression`)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from dpml.algorithms.quadratic.coefficients import (
    Coefficients,
    Scales,
    joint_sensitivity,
    polynomial,
    raised_to_floor,
    spectral_edge,
    split,
)
from dpml.algorithms.quadratic.moments import Moments, noise_of
from dpml.algorithms.quadratic.newton_sums import LAST, NewtonSums, newton_messages, newton_release
from dpml.options import POSITIVE
from dpml.program import Budget, Carrier, Problem, Program, Release, Sum


@dataclass(frozen=True)
class Regression(Program, losses=("squared", "logistic"), calibrations=("tight",)):
    """`regression`: private linear or logistic regression with confidence intervals for the coefficients.

    With dataset.steps=[impute,treatment,symmetric,constant,max_norm], the coefficients are those of ordinary
    regression: these steps add an intercept, omit each category's reference level, and divide all rows by one number.
    `dpml table` prints the intervals.

    Args:
        radius: The norm of w for which the split of the noise between X'y and X'X is best (squared loss); None: a
            typical norm.
    """

    name: ClassVar[str] = "regression"
    proof: ClassVar[str] = "Theorems 1 and 3, docs/privacy/inference.md"
    matrices: ClassVar[bool] = True

    radius: Annotated[float | None, POSITIVE] = None

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        if self.loss.name == "logistic":
            return newton_messages(self.target_mu(budget, problem, NewtonSums()))
        of = Coefficients(self.loss, constant=True)
        scales = split(of, problem.d, mu := self.target_mu(budget, problem, of), self.radius)
        if math.isinf(mu):
            return (Sum(of, math.inf, 1.0, (0.0,) * 4),)
        A, B = (of.quadratic.linear_bound / scales.linear) ** 2, (of.quadratic.square / scales.square) ** 2
        free = of.quadratic.constant_range / math.sqrt(A + A * A / (2 * B))
        joint = joint_sensitivity(of.quadratic, Scales(free, scales.linear, scales.square), problem.d)
        wider = max(1.0, joint / mu)  # with a single feature, y'y costs privacy, so all noise grows
        units = tuple(wider * unit for unit in (free, scales.linear, scales.square, scales.square))
        return (Sum(of, joint / wider, 1.0, units),)

    def run(self, carrier: Carrier) -> Release:
        if self.loss.name == "logistic":
            return newton_release(carrier)
        d, noisy = carrier.problem.d, carrier.ask(0)
        b, A = polynomial(carrier.by_budget(noisy), d, 1, 0.0)
        noise = np.array([noise_of(messages[0], carrier.widening) for messages in carrier.messages])
        weights, trimmed = raised_to_floor(A, b, spectral_edge(d) * noise[:, 0])
        moments = None
        if len(noisy) == 1:
            moments = Moments(
                A[0, 0], b[0, 0] / -2, float(noisy[0, 0]), float(noise[0, 0]), float(noise[0, 1]),
                carrier.problem.N, carrier.scaled_up,
            )  # fmt: skip
        return Release(weights, {"trimmed": trimmed.astype(float)}, moments)


def square_noise(messages: Sequence[Sum]) -> float:
    """Return the noise_std on the diagonal of X'X or, for the logistic loss, of 4 times the Hessian (<= X'X)."""
    if not isinstance(messages[0].of, NewtonSums):
        return noise_of(messages[0], 1.0)[0]
    return sum(messages[number].noise ** -2 for number in LAST) ** -0.5
