"""Linear models from noisy sufficient statistics: X'X and X'y, released once, by one party or as one secure sum.

Sufficient statistics perturbation is old for the squared loss (Vu & Slavkovic 2009; Foulds et al. 2016), and noise on
X'X alone is the mechanism of Dwork et al. 2014. Here both are released jointly: the noise is counted exactly, split
between them for the least noise in the gradient, and shared by the parties.

Logistic loss stands for its expansion at 0, ``log 2 - y x'w/2 + (x'w)^2/8``, which is the squared loss of another
length: its minimiser ``-(X'X/8)^-1 (-X'y/2)/2 = 2 (X'X)^-1 X'y`` is twice the least squares solution (without lam,
noise and floor), and so has the same classes.

*Several classes* (softmax). W solves ``min ||Y - X W'||^2`` for the centred codes Y of the labels (`losses.codes`), one
score per class; one sum holds X'X and all of X'Y. A row x of code c that becomes z of code e moves X'Y by ``x c' - z
e'`` and X'X by ``xx' - zz'``, of squared Frobenius norms ``|x|^2 |c|^2 + |z|^2 |e|^2 - 2 <x, z> <c, e>`` and ``|x|^4 +
|z|^4 - 2 <x, z>^2``. All codes have ``|c|^2 = a = 1 - 1/K``, and <c, e> is a (one class) or -1/K (two), never larger
than a in size. For noise T1 on -2 X'Y and T2 on X'X, with A = 4/T1^2, B = 1/T2^2 and p = |<x, z>|, neighbours are at
most

    (A a (|x|^2 + |z|^2 + 2 p) + B (|x|^4 + |z|^4 - 2 p^2))^(1/2)

apart. For any p that grows with both lengths, and p may be up to their product, so that two rows of length 1 are worst;
on a line, where p is that product, the squared loss has the same formula. So `joint_sensitivity` is that of the squared
loss with labels of +-sqrt a. Two rows of one class at an obtuse angle reach it. Codes e_y would have a = 1.

*Parties.* Party k adds 1/M of the noise's variance to its own part; the sum alone is shown, and colluders know their
own noise only. One party (M = 1) is a trusted curator. With `unit=party` all rows of a party are protected together,
and every party sends the mean of its rows' coefficients: parties then count alike, whatever their sizes. That mean lies
in the convex hull of what single rows can have, (c1 x, c2 xx'), and two points of a convex hull are no farther apart
than the farthest two of which it is made. So the sum over parties moves by no more than the sum over rows when one row
is replaced: the noise is that of `unit=sample`, and M stands in place of N.
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
