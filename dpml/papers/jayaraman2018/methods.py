"""The methods of Jayaraman, Wang, Evans & Gu 2018, and their rivals, that no other paper here has.

One sample is the unit. M parties of n rows each, a loss of Lipschitz constant G = 1, b = 2/(n lam eps):

- *MPC Out P* is `la`: the mean of the parties' minimisers plus noise of scale b/M, added inside an MPC.
- *Pathak* adds noise of scale b to that mean.
- *Local Out P*, *Local Obj P*: the mean of models each of which its party has perturbed (Chaudhuri et al. 2011).
- *MPC Grad P* is `jayaraman` with c = 8; *Local Grad P* has M times that noise in every party's gradient.

The proof of Theorem 3.1 is about noise of density proportional to exp(-||z||/scale), as `la` has it. Table 1 and the
authors' program draw a Laplace number of the same scale in every coordinate (`variant=per_coordinate`), of which only
sqrt(d) times the eps is true: ||v||_1 <= sqrt(d) ||v||_2, with equality for a move along (1, ..., 1).

A party's own noise protects its rows whoever sees the model, so that the mean of such models has the guarantee of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from numpy.random import Generator

from dpml.algorithms.descent.kang2019 import NoisyDescent, Sites
from dpml.algorithms.ensemble.averages import LocalAggregation, trained
from dpml.algorithms.perturbation.calibration import solver_tolerance
from dpml.algorithms.perturbation.objective import ObjectivePerturbation
from dpml.algorithms.prepared import prepare_rows
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.algorithm import Release
from dpml.mechanism.guarantees import stated
from dpml.mechanism.objectives import PerturbedObjective
from dpml.mechanism.options import RegularisedLogistic
from dpml.mechanism.outputs import GridOutput, NoisyOutput, Proof, drawn
from dpml.optim.convex import minimise_convex
from dpml.privacy import Budget, Guarantee, Problem, View

_TABLE = "as in Jayaraman et al. 2018, Table 1"


@dataclass(frozen=True)
class MPCOutput(LocalAggregation):
    """MPC Out P (Theorem 3.1)."""

    name: ClassVar[str] = "mpc_output"
    claim: ClassVar[str | None] = "Jayaraman et al. 2018, Thm 3.1"
    variants: ClassVar[tuple[str, ...]] = ("paper", "per_coordinate")


@dataclass(frozen=True)
class Pathak(MPCOutput):
    """The same mean with the noise that one party's model needs."""

    name: ClassVar[str] = "pathak"
    claim: ClassVar[str | None] = f"Pathak et al. 2010, {_TABLE}"

    def messages(self, budget: Budget, problem: Problem) -> list[NoisyOutput | GridOutput]:
        """Noise of M times the scale."""
        if self.tight:
            raise UserError("algo=pathak is published noise: set calibration=published.")
        (sent,) = super().messages(budget, problem)
        return [replace(sent, scale=problem.M * sent.scale)]


@dataclass(frozen=True)
class PrivateLocals(RegularisedLogistic):
    """The mean of the models of parties of equal size, each perturbed by its party: `one` is what a party does."""

    prepare = prepare_rows
    claim: ClassVar[str]

    def one(self, budget: Budget, problem: Problem) -> NoisyOutput | GridOutput | PerturbedObjective:
        """What a party releases."""
        raise NotImplementedError

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Those of one party's model, for whoever sees it or the mean."""
        proofs: dict[View, Proof] = dict.fromkeys(("release", "client"), self.one(budget, problem).proven(0.0))
        return stated(proofs, {} if self.tight else dict.fromkeys(proofs, self.claim), "sample", budget, 0.0)


def alone(problem: Problem) -> Problem:
    """One of the parties.

    Raises:
        UserError: they are not of equal size.
    """
    if problem.M * problem.smallest != problem.N:
        raise UserError(f"parties of equal size are needed: set partition=equal, and M to a divisor of {problem.N}.")
    return Problem(1, problem.smallest, problem.d)


@dataclass(frozen=True)
class LocalOutput(PrivateLocals):
    """Local Out P: every party adds to its minimiser the noise that it needs alone."""

    name: ClassVar[str] = "local_output"
    claim: ClassVar[str] = f"Chaudhuri et al. 2011, {_TABLE}"
    variants: ClassVar[tuple[str, ...]] = ("paper", "per_coordinate")

    def one(self, budget: Budget, problem: Problem) -> NoisyOutput | GridOutput:
        """A party's minimiser plus noise."""
        (sent,) = MPCOutput(self.loss, self.calibration, self.variant, self.lam).messages(budget, alone(problem))
        return sent

    def released(self, parties: Parties, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The mean of the minimisers plus the mean of M independent noises."""
        M, d = parties.problem.M, parties.problem.d
        sent = [self.one(budget, parties.problem) for budget in budgets]
        total = sum(drawn(sent, rng, draws, d) for _ in range(M))
        exact = MPCOutput(self.loss, self.calibration, self.variant, self.lam)
        return Release(trained(exact, parties) + total / M)


@dataclass(frozen=True)
class LocalObjective(PrivateLocals):
    """Local Obj P: every party perturbs its objective, by Algorithm 2 of Chaudhuri et al. 2011.

    The authors' program differs: it draws one b for all parties, a Laplace number in every coordinate, and takes
    ``eps - 2 log(c/(n lam))`` for ``eps - 2 log(1 + c/(n lam))``.
    """

    name: ClassVar[str] = "local_objective"
    claim: ClassVar[str] = f"Chaudhuri et al. 2011, {_TABLE}"

    def one(self, budget: Budget, problem: Problem) -> PerturbedObjective:
        """A party's perturbed objective."""
        return ObjectivePerturbation(self.loss, self.calibration, lam=self.lam).objective(budget, alone(problem))

    def released(self, parties: Parties, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The mean of exact minimisers."""
        problem = parties.problem
        sent = [self.one(budget, problem) for budget in budgets]
        n, total = alone(problem).N, 0.0
        strength = [made.strength for made in sent for _ in range(draws)]
        for k in range(problem.M):
            own = parties.of(k)
            tilt = drawn(sent, rng, draws, problem.d).reshape(-1, problem.d) / n
            total += minimise_convex(
                self.loss, parties.X[own], parties.y[own], strength, tilt, tolerance=solver_tolerance(n)
            )
        return Release((total / problem.M).reshape(len(budgets), draws, problem.d))


@dataclass(frozen=True)
class LocalGradient(NoisyDescent):
    """Local Grad P: in every round each party adds the noise that its own gradient needs; published noise only."""

    sites: Sites = "clients"
    variant: str = "synchronous"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calibration == "tight" or self.sites != "clients" or self.variant != "synchronous":
            raise UserError(f"algo={self.name} needs calibration=published and algo.variant=synchronous.")

    @property
    def kind(self) -> Any:
        return replace(super().kind, name="local_gradient", claim=f"Shokri & Shmatikov 2015, {_TABLE}")

    def per_row(self, budget: Budget, problem: Problem, step: float) -> float:
        """M times that of a mean over all rows."""
        alone(problem)
        return problem.M * super().per_row(budget, problem, step)
