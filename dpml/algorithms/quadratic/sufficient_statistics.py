"""Linear models from noisy sufficient statistics: X'X and X'y, released once, by one party or as one secure sum.

Both are released jointly: the noise is counted exactly, split between them for the least noise in the gradient, and
shared by the parties. The logistic loss stands for its expansion at 0, whose minimiser has the same classes as least
squares. Several classes (softmax) are centred codes of the labels. With `unit=party` every party sends the mean of its
rows' coefficients. The sensitivities: docs/privacy/sufficient_statistics.md, Theorems 1 and 2.
"""

from dataclasses import dataclass
from typing import ClassVar

from dpml.algorithms.quadratic.coefficients import (
    SOURCE,
    Coefficients,
    coefficients_sum,
    draws_together,
    minimised,
    split,
)
from dpml.mechanism.algorithm import UNITS, Release, check_positive
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
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
    proof: ClassVar[str] = SOURCE

    radius: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("algo.radius", self.radius)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        least = 2 if self.loss.name == "softmax" else 1  # it may not be known how many; any number has the budget
        of = Coefficients(self.loss, unit=self.unit, classes=max(least, self.loss.outputs(problem.classes)))
        scales = split(of, problem.d, self.target_mu(budget, problem, of), self.radius)
        return (coefficients_sum(of, scales, problem.d),)

    def together(self, problem: Problem) -> int:
        return draws_together(problem.d)

    def run(self, carrier: Carrier) -> Release:
        return minimised(carrier, self.lam)
