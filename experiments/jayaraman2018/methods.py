"""The rivals of Jayaraman, Wang, Evans & Gu 2018 that no other paper here has: noise that is not added once to a mean.

M parties of n rows each, a loss of Lipschitz constant 1, b = 2/(n lam eps); one sample is the unit:

- *MPC Out P* is `la`: the mean of the parties' minimisers plus noise of scale b/M, added inside an MPC.
- *Pathak* adds noise of scale b to that mean.
- *Local Out P* and *Local Obj P* average models each of which its party has perturbed (Chaudhuri et al. 2011). A
  party's own noise protects its rows from whoever sees its model, and so from whoever sees the mean.
- *MPC Grad P* is `jayaraman` with c = 8, *Local Grad P* is `wddp` in synchronous rounds with c = 8 M^2.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from dpml.algorithms.ensemble import LocalAggregation, MeanModel
from dpml.algorithms.perturbation import ObjectivePerturbation, solver_tolerance
from dpml.errors import UserError
from dpml.mechanism.algorithm import Lam, Release
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.guarantees import Proof
from dpml.mechanism.message import Sum
from dpml.mechanism.objectives import perturbations
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.optim.convex import minimise_convex
from dpml.options import POSITIVE
from dpml.privacy import Budget, Problem, View


@dataclass(frozen=True)
class Pathak(LocalAggregation):
    """The mean of the parties' minimisers with the noise that one party's needs; published noise only."""

    name: ClassVar[str] = "pathak"
    claim: ClassVar[str | None] = "Pathak et al. 2010, as in Jayaraman et al. 2018, Table 1"

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        """Noise of M times the scale."""
        if self.tight:
            raise UserError("algo=pathak is published noise: set calibration=published.")
        (sent,) = super().messages(budget, problem)
        return (replace(sent, noise=problem.M * sent.noise),)


@dataclass(frozen=True)
class LocalOutput(
    Program, losses=("logistic",), calibrations=("published", "tight"), variants=("paper", "per_coordinate")
):
    """`local_output`: the mean of models of parties of equal size, to which each has added the noise that it needs."""

    name: ClassVar[str] = "local_output"
    published_variants: ClassVar[bool] = True
    claim: ClassVar[str | None] = "Chaudhuri et al. 2011, as in Jayaraman et al. 2018, Table 1"
    lam: Annotated[Lam, POSITIVE] = 0.01

    @property
    def alone(self) -> LocalAggregation | ObjectivePerturbation:
        """What a party does."""
        return LocalAggregation(self.loss, self.calibration, variant=self.variant, lam=self.lam)

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator(("release", "client"))

    def messages(self, budget: Budget, problem: Problem) -> tuple[Any, ...]:
        """What a party would release, for whoever sees it or the mean."""
        if problem.M * problem.smallest != problem.N:
            raise UserError(f"algo={self.name} needs partition=equal, and M to divide N={problem.N}.")
        return self.alone.messages(budget, Problem(1, problem.smallest, problem.d))

    def proven(self, budget: Budget, problem: Problem) -> dict[View, Proof]:
        self.messages(budget, problem)
        (proof,) = self.alone.proven(budget, Problem(1, problem.smallest, problem.d)).values()
        return {"release": proof, "client": proof}

    def run(self, carrier: Carrier) -> Release:
        """The mean of the minimisers, plus the mean of M independent noises."""
        M, unit, scale = carrier.problem.M, carrier.unit_noise, carrier.widths(0)[:, None]
        exact = MeanModel(self.lam)(carrier.mechanism.parties)
        return Release(exact + sum(scale * unit(0)[0] for _ in range(M)) / M)


@dataclass(frozen=True)
class LocalObjective(LocalOutput, variants=("paper",)):
    """`local_objective`: every party perturbs its objective instead, by Algorithm 2 of Chaudhuri et al. 2011.

    The authors' program differs: it draws one b for all parties, a Laplace number in every coordinate, and takes
    ``eps - 2 log(c/(n lam))`` for ``eps - 2 log(1 + c/(n lam))``.
    """

    name: ClassVar[str] = "local_objective"

    @property
    def alone(self) -> ObjectivePerturbation:
        return ObjectivePerturbation(self.loss, self.calibration, lam=self.lam)

    def run(self, carrier: Carrier) -> Release:
        """The mean of exact minimisers."""
        problem, n, parties = carrier.problem, carrier.problem.smallest, carrier.mechanism.parties
        sent = [message for (message,) in carrier.messages]
        strength, total = carrier.per_run([made.strength for made in sent]), np.zeros(1)
        for k in range(problem.M):
            own, tilt = (
                parties.of(k),
                perturbations(sent, carrier.rng, carrier.draws, problem.d).reshape(-1, problem.d) / n,
            )
            rows = parties.X[own], parties.y[own]
            total = total + minimise_convex(self.loss, *rows, strength, tilt, tolerance=solver_tolerance(n))
        return Release(carrier.by_budget(total / problem.M))
