"""The rivals of Jayaraman, Wang, Evans & Gu 2018 that no other paper here has: noise that is not added once to a mean.

M parties of n rows each, a loss of Lipschitz constant 1, b = 2/(n lam eps); one sample is the unit:

- *MPC Out P* is `la`: the mean of the parties' minimisers plus noise of scale b/M, added inside an MPC.
- *Pathak* adds noise of scale b to that mean.
- *Local Out P* and *Local Obj P* average models each of which its party has perturbed (Chaudhuri et al. 2011). A
  party's own noise protects its rows from whoever sees its model, and so from whoever sees the mean.
- *MPC Grad P* is `jayaraman` with c = 8, *Local Grad P* is `wddp` in synchronous rounds with c = 8 M^2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.ensemble.averages import LocalAggregation
from dpml.algorithms.ensemble.local_models import mean_model
from dpml.algorithms.perturbation.calibration import solver_tolerance
from dpml.algorithms.perturbation.objective import ObjectivePerturbation
from dpml.algorithms.prepared import prepare_rows
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.algorithm import Release
from dpml.mechanism.guarantees import stated
from dpml.mechanism.objectives import PerturbedObjective
from dpml.mechanism.options import RegularisedLogistic
from dpml.mechanism.outputs import NoisyOutput, Proof, drawn
from dpml.optim.convex import minimise_convex
from dpml.privacy import Budget, Guarantee, Problem, View


@dataclass(frozen=True)
class Pathak(LocalAggregation):
    """The mean of the parties' minimisers with the noise that one party's needs; published noise only."""

    name: ClassVar[str] = "pathak"
    claim: ClassVar[str | None] = "Pathak et al. 2010, as in Jayaraman et al. 2018, Table 1"

    def messages(self, budget: Budget, problem: Problem) -> list[NoisyOutput]:
        """Noise of M times the scale."""
        if self.tight:
            raise UserError("algo=pathak is published noise: set calibration=published.")
        (sent,) = super().messages(budget, problem)
        return [replace(sent, scale=problem.M * sent.scale)]


@dataclass(frozen=True)
class LocalOutput(RegularisedLogistic):
    """`local_output`: the mean of models of parties of equal size, to which each has added the noise that it needs."""

    prepare = prepare_rows
    name: ClassVar[str] = "local_output"
    claim: ClassVar[str] = "Chaudhuri et al. 2011, as in Jayaraman et al. 2018, Table 1"
    variants: ClassVar[tuple[str, ...]] = LocalAggregation.variants

    @property
    def alone(self) -> LocalAggregation | ObjectivePerturbation:
        """What a party does."""
        return LocalAggregation(self.loss, self.calibration, self.variant, self.lam)

    def message(self, budget: Budget, problem: Problem) -> NoisyOutput | PerturbedObjective:
        """What a party would release."""
        if problem.M * problem.smallest != problem.N:
            raise UserError(f"algo={self.name} needs partition=equal, and M to divide N={problem.N}.")
        (sent,) = self.alone.messages(budget, Problem(1, problem.smallest, problem.d))
        return sent

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Those of one party's model, for whoever sees it or the mean."""
        proof = self.message(budget, problem).proven(0.0)
        proofs: dict[View, Proof] = {"release": proof, "client": proof}
        return stated(proofs, {} if self.tight else dict.fromkeys(proofs, self.claim), "sample", budget, 0.0)

    def released(self, parties: Parties, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The mean of the minimisers, plus the mean of M independent noises."""
        M, d = parties.problem.M, parties.problem.d
        sent = [self.message(budget, parties.problem) for budget in budgets]
        noise = sum(drawn(sent, rng, draws, d) for _ in range(M)) / M
        return Release(mean_model(parties, self.lam) + noise)


@dataclass(frozen=True)
class LocalObjective(LocalOutput):
    """`local_objective`: every party perturbs its objective instead, by Algorithm 2 of Chaudhuri et al. 2011.

    The authors' program differs: it draws one b for all parties, a Laplace number in every coordinate, and takes
    ``eps - 2 log(c/(n lam))`` for ``eps - 2 log(1 + c/(n lam))``.
    """

    name: ClassVar[str] = "local_objective"
    variants: ClassVar[tuple[str, ...]] = ("paper",)

    @property
    def alone(self) -> ObjectivePerturbation:
        return ObjectivePerturbation(self.loss, self.calibration, lam=self.lam)

    def released(self, parties: Parties, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The mean of exact minimisers."""
        problem, n = parties.problem, parties.problem.smallest
        sent = [self.alone.objective(budget, Problem(1, n, problem.d)) for budget in budgets]
        strength, total = np.repeat([made.strength for made in sent], draws), np.zeros(1)
        for k in range(problem.M):
            own, tilt = parties.of(k), drawn(sent, rng, draws, problem.d).reshape(-1, problem.d) / n
            rows = parties.X[own], parties.y[own]
            total = total + minimise_convex(self.loss, *rows, strength, tilt, tolerance=solver_tolerance(n))
        return Release((total / problem.M).reshape(len(budgets), draws, problem.d))
