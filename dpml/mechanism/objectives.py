"""The minimiser of a perturbed objective, as a message from which the noise is drawn and the guarantee proven.

The objective is ``sum loss(x_i'w, y_i) + R/2 ||w||^2 + b'w``, b random, over N rows of norm at most 1. One sample is
the unit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.mechanism.algorithm import SIMULATED
from dpml.mechanism.guarantees import Proof
from dpml.mechanism.message import Law, Sum
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import Sharing, TrustedCurator, unit
from dpml.privacy import Budget, Problem, View
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

    of: ClassVar[Any] = None  # the noise is in the objective, not in a sum
    times: ClassVar[int] = 1
    constant: ClassVar[float | None] = None

    law: Law
    scale: float
    extra: float
    lam: float
    N: int
    slope: float | None = None
    curvature: float = 0.0

    @property
    def pure(self) -> bool:
        """Whether it is eps-DP with delta = 0."""
        return self.law != "gaussian"

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
        source = "Theorem 5, docs/privacy/imtiaz2019.md"
        if self.law == "gaussian":
            source = "Theorem 2, docs/privacy/rajkumar2012.md"
            curve = (self.scale, self.ridge, 0.0) if self.scale and self.ridge else None
            return Proof(objective_perturbation.eps_of(self.scale, self.ridge, delta), source, curve=curve)
        if self.scale == 0:
            return Proof(math.inf, "no noise")
        if self.ridge == 0:
            return Proof(math.inf, "no proof without a ridge")
        if self.slope is None:
            return Proof(objective_perturbation.pure_eps_of(round_up(1 / self.scale), self.ridge), source)
        eps = objective_perturbation.jacobian_eps_of(self.slope / self.scale, self.curvature / self.ridge)
        return Proof(eps, "Noise and Jacobian apart, docs/privacy/perturbed_minima.md")


class Perturbed(Program, **SIMULATED):
    """A program at one curator whose first message may be a perturbed objective, which has a proof of its own."""

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def proven(self, budget: Budget, problem: Problem) -> dict[View, Proof]:
        first = self.messages(budget, problem)[0]
        if isinstance(first, Sum):
            return super().proven(budget, problem)
        return {"release": first.proven(0.0 if first.pure else budget.require_delta(f"algo={self.name}"))}


def perturbations(sent: Sequence[PerturbedObjective], rng: Generator, draws: int, size: int) -> Array:
    """Draw b for every budget: (budgets, draws, size). Budgets share the directions of the noise."""
    scales = np.array([message.scale for message in sent])
    b: Array = scales[:, None, None] * unit(sent[0].law, rng, draws, size)
    return b
