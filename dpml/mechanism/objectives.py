"""The minimiser of a perturbed objective, as a value from which the noise is drawn and the guarantee proven.

The objective is ``sum loss(x_i'w, y_i) + R/2 ||w||^2 + b'w``, b random, over N rows of norm at most 1. One sample is
the unit.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from dpml.mechanism.outputs import Law, Proof, Unit
from dpml.privacy.proofs import objective_perturbation
from dpml.privacy.safe import round_up


@dataclass(frozen=True)
class PerturbedObjective:
    """The exact minimiser of a perturbed objective, with the logistic loss where nothing else is said.

    Attributes:
        law: Of b: Gaussian or L2-Laplace.
        scale: Of b.
        extra: The coefficient of ||w||^2 / 2, beside a mean loss, that is added to `lam`, the objective's own.
        N: Rows.
        slope: A bound on a row's gradient, and `curvature`, one on its second derivative, of another loss.
    """

    unit: ClassVar[Unit] = "sample"

    law: Law
    scale: float
    extra: float
    lam: float
    N: int
    slope: float | None = None
    curvature: float = 0.0

    @property
    def strength(self) -> float:
        """The coefficient of ||w||^2 / 2 beside the mean loss."""
        return self.lam + self.extra

    @property
    def ridge(self) -> float:
        """R."""
        return self.N * self.strength

    def proven(self, delta: float) -> Proof:
        """By `dpml.privacy.proofs.objective_perturbation`."""
        source = "dpml.privacy.proofs.objective_perturbation"
        if self.law == "gaussian":
            curve = (self.scale, self.ridge, 0.0) if self.scale and self.ridge else None
            return Proof(objective_perturbation.eps_of(self.scale, self.ridge, delta), source, curve=curve)
        if self.scale == 0:
            return Proof(math.inf, "no noise")
        if self.ridge == 0:
            return Proof(math.inf, "no proof without a ridge")
        if self.slope is None:
            return Proof(objective_perturbation.pure_eps_of(round_up(1 / self.scale), self.ridge), source)
        eps = objective_perturbation.jacobian_eps_of(self.slope / self.scale, self.curvature / self.ridge)
        return Proof(eps, "noise + one Jacobian factor (objective_perturbation)")
