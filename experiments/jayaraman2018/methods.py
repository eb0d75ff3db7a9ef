"""Define the methods that only Jayaraman, Wang, Evans & Gu 2018 compare with.

There are M parties of n rows each, the loss has Lipschitz constant 1, b = 2/(n lam eps), and one row is protected:

- *MPC Out P* is `la`: the mean of the parties' minimisers plus noise of scale b/M, added inside an MPC.
- *Pathak* adds noise of scale b to the mean of the minimisers.
- *Local Out P* and *Local Obj P* average models that each party has perturbed by itself (Chaudhuri et al. 2011). A
  party's noise protects its rows against observers of its model, and so also against observers of the mean.
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
    """`pathak`: the mean of the parties' minimisers, with the published noise for a single party's minimiser."""

    name: ClassVar[str] = "pathak"
    claim: ClassVar[str | None] = "Pathak et al. 2010, as in Jayaraman et al. 2018, Table 1"

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        if self.tight:
            raise UserError("algo=pathak has published noise only: set calibration=published.")
        (sent,) = super().messages(budget, problem)
        return (replace(sent, noise=problem.M * sent.noise),)


@dataclass(frozen=True)
class LocalOutput(
    Program, losses=("logistic",), calibrations=("published", "tight"), variants=("paper", "per_coordinate")
):
    """`local_output`: the mean of the models of equally large parties, each with its own noise."""

    name: ClassVar[str] = "local_output"
    published_variants: ClassVar[bool] = True
    claim: ClassVar[str | None] = "Chaudhuri et al. 2011, as in Jayaraman et al. 2018, Table 1"
    lam: Annotated[Lam, POSITIVE] = 0.01

    @property
    def alone(self) -> LocalAggregation | ObjectivePerturbation:
        return LocalAggregation(self.loss, self.calibration, variant=self.variant, lam=self.lam)

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator(("release", "client"))

    def messages(self, budget: Budget, problem: Problem) -> tuple[Any, ...]:
        """Return the message of one party, from which the guarantees for its model and for the mean follow."""
        if problem.M * problem.smallest != problem.N:
            raise UserError(f"algo={self.name} needs partition=equal, and an M that divides N={problem.N}.")
        return self.alone.messages(budget, Problem(1, problem.smallest, problem.d))

    def proven(self, budget: Budget, problem: Problem) -> dict[View, Proof]:
        self.messages(budget, problem)
        (proof,) = self.alone.proven(budget, Problem(1, problem.smallest, problem.d)).values()
        return {"release": proof, "client": proof}

    def run(self, carrier: Carrier) -> Release:
        M, unit, scale = carrier.problem.M, carrier.unit_noise, carrier.widths(0)[:, None]
        exact = MeanModel(self.lam)(carrier.mechanism.parties)
        return Release(exact + sum(scale * unit(0)[0] for _ in range(M)) / M)


@dataclass(frozen=True)
class LocalObjective(LocalOutput, variants=("paper",)):
    """`local_objective`: the mean of the parties' models, each by objective perturbation (Chaudhuri et al. 2011).

    The authors' program draws one b for all parties, with a Laplace variable in every coordinate, and uses ``eps - 2
    log(c/(n lam))`` instead of ``eps - 2 log(1 + c/(n lam))``.
    """

    name: ClassVar[str] = "local_objective"

    @property
    def alone(self) -> ObjectivePerturbation:
        return ObjectivePerturbation(self.loss, self.calibration, lam=self.lam)

    def run(self, carrier: Carrier) -> Release:
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
