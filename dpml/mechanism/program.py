"""An algorithm as a program of noisy sums: options, messages, and a loop of post-processing that asks for the sums.

The guarantees of every view follow from the messages, and so does all that carries the algorithm out: simulation,
secure aggregation, noise on a grid of integers, parties on machines of their own, the audit.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

from numpy.random import Generator

from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.algorithm import Release, require_domain
from dpml.mechanism.carriers import Carrier, Prepared
from dpml.mechanism.discrete import NOISES, target_mu
from dpml.mechanism.guarantees import stated
from dpml.mechanism.message import RING, Statistic, Sum, imprecision, mu_of, sums_in
from dpml.mechanism.options import SUM_PROTOCOLS, UNITS, check_choice
from dpml.mechanism.outputs import Proof, gaussian_proof
from dpml.mechanism.sharing import Sharing, secure_sharing
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Guarantee, Problem, View, gdp

MOST_ROUNDS = 10**6
"""More take hours and gigabytes, for a proof as for a model."""
_ARITHMETIC = 2.0**-46  # what is left of a mu for the rounding of noise that is calculated from it


class Program(ABC):
    """The base class: a frozen dataclass of options defines `messages` and `run`, and the values below that differ."""

    name: ClassVar[str]
    auxiliary: ClassVar[float] = 0.0
    claim: ClassVar[str | None] = None
    """Where the guarantee of published noise is claimed; None: nowhere."""
    linear: ClassVar[bool] = True
    """Whether it releases linear models, which can be published."""
    proof: ClassVar[str] = "Gaussian DP of all noisy sums"
    calibration: Any = "tight"
    variant: Any = "paper"
    unit: Any = "sample"
    protocol: Any = "simulate"
    noise: Any = "continuous"
    lam: float = 0.0
    loss: Loss

    @abstractmethod
    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        """What is sent in a release under `budget`, in this order: the only place that knows the noise."""

    @abstractmethod
    def run(self, carrier: Carrier) -> Release:
        """Ask for the noisy sums, `carrier.ask(number, ...)`, and make models (budgets, draws, d) of them."""

    def begin(self, parties: Parties, rng: Generator) -> Any:
        """What is drawn before any noise, and is public: an initial model, say."""
        return None

    def together(self, problem: Problem) -> int | None:
        """How many draws run at once; None: all."""
        return None

    def sharing(self, problem: Problem) -> Sharing:
        """How the noise of a sum is shared: one trusted curator's, or M parties' who add up securely."""
        return secure_sharing(problem)

    def target_mu(self, budget: Budget, problem: Problem, of: Statistic | None = None) -> float:
        """The mu of all sums together with which the worst view has exactly the budget.

        It leaves room for what rounding adds to the mu of sums of a statistic; None: of any here.
        """
        if math.isinf(budget.eps):
            return math.inf
        mu = gdp.mu_of(budget.eps, budget.require_delta(f"algo={self.name}")) * (1 - _ARITHMETIC)
        mu = target_mu(mu) if self.noise == "discrete" else mu / (1 + self.imprecision(problem, of))
        return mu / max(self.sharing(problem).views(problem).values())

    def imprecision(self, problem: Problem, of: Statistic | None = None) -> float:
        """How much rounding in floating point adds to the mu of sums of a statistic, relative to it; None: of any."""
        every = [of] if of else [message.of for message in self.messages(Budget(math.inf), problem)]
        return imprecision(every, problem) + self._ring * RING

    @property
    def _ring(self) -> bool:
        """Whether parties round their noisy parts to the ring of a secure sum."""
        return self.protocol == "secagg" and self.noise == "continuous"

    def proven(self, budget: Budget, problem: Problem) -> dict[View, Proof]:
        """What is proven for every view: the mu of all Gaussian messages, times what the view knows of their noise."""
        delta, messages = budget.require_delta(f"algo={self.name}"), self.messages(budget, problem)
        views = self.sharing(problem).views(problem)
        total = mu_of(messages, problem, self.noise == "discrete", self._ring)
        return {view: gaussian_proof(total * factor, delta, self.proof) for view, factor in views.items()}

    def claimed(self, view: View) -> str | None:
        """Where the budget is claimed as the guarantee of a view; None: nowhere."""
        return self.claim if self.calibration == "published" else None

    def pure(self, budget: Budget) -> bool:
        """Whether what is claimed and proven has delta = 0."""
        return False

    def secure_sums(self, budget: Budget, problem: Problem) -> int | None:
        """How many vectors several parties sum by secure aggregation in a release; None: there is no place for it."""
        several = replace(problem, M=max(problem.M, 2), N=max(problem.N, 2), smallest=1, colluders=0)
        return sums_in(self.messages(budget, problem)) if self.sharing(several).secure else None

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """The claimed and the proven guarantee of every view."""
        delta = 0.0 if self.pure(budget) else budget.require_delta(f"algo={self.name}")
        proofs = self.proven(budget, problem)
        claims = {view: claim for view in proofs if (claim := self.claimed(view)) is not None}
        return stated(proofs, claims, self.unit, budget, delta)

    def prepare(self, parties: Parties, rng: Generator) -> Prepared:
        """Check the rows, and draw what is public.

        Raises:
            UserError: they break an assumption of the guarantee; or one party's rows are to be protected together, and
                there is no other.
        """
        require_domain(parties, self.loss)
        if self.unit == "party" and parties.problem.M == 1:
            raise UserError(
                f"algo.unit=party of algo={self.name} protects all rows of a party together, and with M=1 those are "
                "all: set algo.unit=sample, or more parties."
            )
        return Prepared(self, parties, self.begin(parties, rng))


def check_carriage(program: Program) -> None:
    """Raise UserError unless its `unit`, `protocol` and `noise` are known."""
    check_choice("algo.unit", program.unit, UNITS)
    check_choice("algo.protocol", program.protocol, SUM_PROTOCOLS)
    check_choice("algo.noise", program.noise, NOISES)


def check_share(key: str, value: float) -> None:
    """Raise UserError unless `value` lies strictly between 0 and 1."""
    if not 0 < value < 1:
        raise UserError(f"{key} must lie strictly between 0 and 1, got {value}.")


def check_rounds(name: str, rounds: int | None) -> None:
    """Raise UserError unless there are 1 to `MOST_ROUNDS` rounds, or no number is given."""
    if rounds is not None and not 1 <= rounds <= MOST_ROUNDS:
        raise UserError(f"algo.rounds of {name} must be at least 1 and at most {MOST_ROUNDS}, got {rounds}.")
