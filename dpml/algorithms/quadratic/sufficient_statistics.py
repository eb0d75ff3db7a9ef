"""Linear models from noisy sufficient statistics: X'X and X'y, released once, by one party or as one secure sum.

Both are released jointly: the noise is counted exactly, split between them for the least noise in the gradient, and
shared by the parties. The logistic loss stands for its expansion at 0, whose minimiser has the same classes as least
squares. Several classes (softmax) are centred codes of the labels. With `unit=party` every party sends the mean of its
rows' coefficients. The sensitivities: docs/privacy/sufficient_statistics.md, Theorems 1 and 2.
"""

from dataclasses import dataclass
from typing import ClassVar

from dpml.algorithms.quadratic.coefficients import Coefficients
from dpml.algorithms.quadratic.objective import SOURCE, coefficients_sum, draws_together, minimised, split
from dpml.mechanism.algorithm import Release
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.discrete import Noise
from dpml.mechanism.message import Sum
from dpml.mechanism.options import SumProtocol, Unit, check_choice, check_common, check_positive
from dpml.mechanism.program import Program, check_carriage
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Calibration, Problem


@dataclass(frozen=True)
class SufficientStatistics(Program):
    """`ssp`: the least squares solution of noisy X'X and X'y, whose M parties add up both in one secure sum.

    Args:
        loss: squared, logistic or softmax.
        calibration: `tight`: the least noise proven to give (eps, delta) in the worst view.
        lam: coefficient of lam/2 ||w||^2, part of the objective.
        radius: the norm of w that the split of the noise between X'y and X'X is best for; None: by
            `defaults.QUADRATIC_NORM`.
        unit: what is protected: one sample, or all rows of one party.
        protocol: `simulate` draws the noise of the sum; with `secagg` every party's d (d + 1)/2 + K d numbers go
            through the real secure aggregation (`dpml.protocols.secure_sum`), all budgets and a block of draws in one
            run.
        noise: `continuous`, or `discrete`: exact integers on a grid (docs/privacy/discrete_noise.md).
    """

    name: ClassVar[str] = "ssp"
    proof: ClassVar[str] = SOURCE

    loss: Loss
    calibration: Calibration = "tight"
    lam: float = 0.0
    radius: float | None = None
    unit: Unit = "sample"
    protocol: SumProtocol = "simulate"
    noise: Noise = "continuous"

    def __post_init__(self) -> None:
        check_common(self, ("squared", "logistic", "softmax"))
        check_choice("calibration", self.calibration, ("tight",))
        check_carriage(self)
        if self.radius is not None:
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
