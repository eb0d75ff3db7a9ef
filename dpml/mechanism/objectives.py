"""Describe objective perturbation, which minimises ``sum loss(x_i'w, y_i) + R/2 ||w||^2 + b'w`` for a random b."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.mechanism.algorithm import SIMULATED
from dpml.mechanism.guarantees import Proof
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import Sharing, TrustedCurator, unit
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Problem, View
from dpml.privacy.proofs import objective_perturbation
from dpml.privacy.safe import round_up


@dataclass(frozen=True)
class PerturbedObjective:
    """The release of the exact minimiser of a randomly perturbed objective.

    Attributes:
        law: The distribution of b.
        extra: The coefficient of ||w||^2 / 2 that is added to `lam`; both are for an objective with the mean loss.
        slope, curvature: For the squared loss, bounds on a row's gradient and second derivative.
    """

    of: ClassVar[Any] = None  # no statistic is summed, because the noise is in the objective
    times: ClassVar[int] = 1
    constant: ClassVar[float | None] = None

    law: Literal["gaussian", "l2_laplace"]
    scale: float
    extra: float
    lam: float
    N: int
    slope: float | None = None
    curvature: float = 0.0

    @property
    def pure(self) -> bool:
        return self.law != "gaussian"

    @property
    def strength(self) -> float:
        """The coefficient of ||w||^2 / 2 if the objective is a mean of losses."""
        return self.lam + self.extra

    @property
    def ridge(self) -> float:
        """The coefficient R of ||w||^2 / 2 if the objective has the sum, not the mean, of the losses."""
        return self.N * self.strength

    def proven(self, delta: float) -> Proof:
        if self.law == "gaussian":
            if self.slope is not None:
                return Proof(math.inf, "no proof for the squared loss with Gaussian noise")
            source = "Theorem 2, docs/privacy/rajkumar2012.md"
            curve = (self.scale, self.ridge, 0.0) if self.scale and self.ridge else None
            return Proof(objective_perturbation.eps_of(self.scale, self.ridge, delta), source, curve=curve)
        if self.scale == 0:
            return Proof(math.inf, "no noise")
        if self.ridge == 0:
            return Proof(math.inf, "no proof without a ridge")
        if self.slope is None:
            eps = objective_perturbation.pure_eps_of(round_up(1 / self.scale), self.ridge)
        else:
            eps = objective_perturbation.jacobian_eps_of(self.slope / self.scale, self.curvature / self.ridge)
        return Proof(eps, "Theorem 5, docs/privacy/imtiaz2019.md")


class Perturbed(Program, **SIMULATED):
    """The base class of algorithms that may release the minimiser of a perturbed objective."""

    @property
    def trained(self) -> Loss:
        return self.loss

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def proven(self, budget: Budget, problem: Problem) -> dict[View, Proof]:
        first = self.messages(budget, problem)[0]
        if isinstance(first, Sum):
            return super().proven(budget, problem)
        return {"release": first.proven(0.0 if first.pure else budget.require_delta(f"algo={self.name}"))}


def perturbations(sent: Sequence[PerturbedObjective], rng: Generator, draws: int, size: int) -> Array:
    """Draw the vectors b of the random terms b'w, (budgets, draws, size); each budget rescales the same noise."""
    scales = np.array([message.scale for message in sent])
    b: Array = scales[:, None, None] * unit(sent[0].law, rng, draws, size)
    return b
