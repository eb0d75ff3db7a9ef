"""Linear models from noisy sufficient statistics: X'X and X'y, released once, by one party or as one secure sum.

Sufficient statistics perturbation is old for the squared loss (Vu & Slavkovic 2009; Foulds et al. 2016), and noise on
X'X alone is the mechanism of Dwork et al. 2014. Here both are released jointly: the noise is counted exactly, split
between them for the least noise in the gradient, and shared by the parties.

Logistic loss stands for its expansion at 0, ``log 2 - y x'w/2 + (x'w)^2/8``, which is the squared loss of another
length: its minimiser ``-(X'X/8)^-1 (-X'y/2)/2 = 2 (X'X)^-1 X'y`` is twice the least squares solution (without lam,
noise and floor), and so has the same classes.

*Parties.* Party k adds 1/M of the noise's variance to its own part; the sum alone is shown, and colluders know their
own noise only. One party (M = 1) is a trusted curator. With `unit=party` all rows of a party are protected together,
and every party sends the mean of its rows' coefficients: parties then count alike, whatever their sizes. That mean lies
in the convex hull of what single rows can have, (c1 x, c2 xx'), and two points of a convex hull are no farther apart
than the farthest two of which it is made. So the sum over parties moves by no more than the sum over rows when one row
is
replaced: the noise is that of `unit=sample`, and M stands in place of N.
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
        loss: squared or logistic.
        calibration: `tight`: the least noise proven to give (eps, delta) in the worst view.
        lam: coefficient of lam/2 ||w||^2, part of the objective.
        radius: the norm of w that the split of the noise between X'y and X'X is best for; None: 2 (squared) or 4
            (logistic), chosen before any data.
        unit: what is protected: one sample, or all rows of one party.
        protocol: `simulate` draws the noise of the sum; with `secagg` every party's d (d + 1)/2 + d numbers go through
            the real secure aggregation (`dpml.protocols.secure_sum`), all budgets and a block of draws in one run.
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
        check_common(self, ("squared", "logistic"))
        check_choice("calibration", self.calibration, ("tight",))
        check_carriage(self)
        if self.radius is not None:
            check_positive("algo.radius", self.radius)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        scales = split(self.loss, problem.d, self.target_mu(budget, problem), self.radius)
        return (coefficients_sum(Coefficients(self.loss, unit=self.unit), scales, problem.d),)

    def together(self, problem: Problem) -> int:
        return draws_together(problem.d)

    def run(self, carrier: Carrier) -> Release:
        return minimised(carrier, self.lam)
