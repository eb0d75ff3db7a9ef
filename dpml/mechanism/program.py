"""An algorithm as a program of noisy sums: options, messages, and a loop of post-processing that asks for the sums.

The guarantees of every view follow from the messages, and so does all that carries the algorithm out: simulation,
secure aggregation, noise on a grid of integers, parties on machines of their own, the audit.
"""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

from numpy.random import Generator

from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.algorithm import (
    NOISES,
    SUM_PROTOCOLS,
    UNITS,
    Lam,
    Noise,
    Release,
    SumProtocol,
    Unit,
    require_domain,
)
from dpml.mechanism.carriers import Carrier, Prepared, Simulated, Way
from dpml.mechanism.guarantees import Proof, gaussian_proof, stated
from dpml.mechanism.message import RING, Statistic, Sum, eps_of, imprecision, mu_of, sums_in
from dpml.mechanism.sharing import Sharing, secure_sharing
from dpml.mechanism.ways import InRing, OnGrid
from dpml.optim.losses import LOSSES, Loss
from dpml.options import check_choice, check_options
from dpml.privacy import CALIBRATIONS, Budget, Calibration, Guarantee, Problem, View, gdp

_ARITHMETIC = 2.0**-46  # what is left of a mu for the rounding of noise that is calculated from it
_GRID = 1e-6  # what is left of a mu for the rounding of sums to a grid

CHOICES: Mapping[str, tuple[str, ...]] = {
    "lam": (), "variant": ("paper",), "unit": UNITS, "protocol": SUM_PROTOCOLS, "noise": NOISES,
}  # fmt: skip
"""Shared options that an algorithm has where its class names them, and the values of those that it declares itself."""
CARRIED = ("protocol", "noise")
"""Shared options that a class need not name: how sums are carried out is decided by their messages, not by its code."""


@dataclass(frozen=True)
class Program(ABC):
    """The base class: a frozen dataclass of options defines `messages` and `run`, and the values below that differ.

    A class says which of the shared options it has, and with which values, the default first; of `lam` the default:

        class Centroid(Program, losses=("logistic",), lam=0.0, units=UNITS): ...

    It has `protocol` and `noise`, with all their values, unless it names one value only (`protocols=("simulate",)`).

    Args:
        loss: the loss of a row.
        calibration: `published` noise, or `tight`: the least that is proven to give (eps, delta) in the worst view.
        variant: `paper`, as the text defines it, or the name of another reading.
        unit: what is protected: `sample`, one row; or `party`, all rows of a party.
        lam: coefficient of lam/2 ||w||^2, part of the objective.
        protocol: `simulate` draws the noise of sums; `secagg` runs the real secure aggregation for every sum.
        noise: `continuous`, or `discrete`: exact integers on a grid (docs/privacy/discrete_noise.md).
    """

    name: ClassVar[str]
    auxiliary: ClassVar[float] = 0.0
    claim: ClassVar[str | None] = None
    """Where the guarantee of published noise is claimed; None: nowhere."""
    linear: ClassVar[bool] = True
    """Whether it releases linear models, which can be published."""
    published_variants: ClassVar[bool] = False
    """Whether variants other than `paper` have published noise only."""
    proof: ClassVar[str] = "all noisy sums compose as one Gaussian: docs/privacy.md"
    allows: ClassVar[Mapping[str, tuple[str, ...]]] = {"loss": tuple(LOSSES), "calibration": CALIBRATIONS}

    loss: Loss
    calibration: Calibration = "tight"
    _: KW_ONLY
    variant: str = "paper"
    unit: Unit = "sample"
    lam: Lam = 0.0
    protocol: SumProtocol = "simulate"
    noise: Noise = "continuous"

    def __init_subclass__(
        cls, *, losses: tuple[str, ...] = (), calibrations: tuple[str, ...] = (), **named: Any
    ) -> None:
        """Make fields of the shared options that a class names (`variants`, `units`, ...), and no others."""
        super().__init_subclass__()
        own = {"loss": losses, "calibration": calibrations} | {key.rstrip("s"): each for key, each in named.items()}
        if Program in cls.__bases__:
            own = {key: CHOICES[key] for key in CARRIED} | own
        own = {key: values for key, values in own.items() if key not in CARRIED or len(values) > 1}
        hints = inspect.get_annotations(cls)
        declared = {key for key, hint in hints.items() if "ClassVar" not in str(hint)}
        own |= {key: CHOICES[key] for key in CHOICES if key in declared and key not in own}
        cls.allows = dict(cls.allows) | {key: values for key, values in own.items() if values or key == "lam"}
        for key in CHOICES.keys() - hints.keys():
            if key in own:
                hints[key] = Program.__annotations__[key]
                setattr(cls, key, own[key] if key == "lam" else own[key][0])
            elif key not in cls.allows:
                hints[key] = ClassVar[Any]  # a constant, of which @dataclass makes no field
        if calibrations:
            hints["calibration"] = Calibration
            cls.calibration = calibrations[0]  # type: ignore[assignment]
        cls.__annotations__ = hints

    def __post_init__(self) -> None:
        """Raise UserError unless every option has a value that is allowed."""
        for key in ("calibration", "variant", "unit", "protocol", "noise"):
            if key in self.allows:
                check_choice(key if key == "calibration" else f"algo.{key}", getattr(self, key), self.allows[key])
        check_options(self, "algo")
        if self.loss.name not in self.allows["loss"]:
            needed = " or ".join(f"loss={name}" for name in self.allows["loss"])
            raise UserError(f"algo={self.name} needs {needed}, not loss={self.loss.name}.")
        if self.noise == "discrete" and self.calibration != "tight":
            raise UserError(
                f"algo.noise=discrete of algo={self.name} is the least noise that is proven to be enough: set "
                "calibration=tight."
            )
        if self.published_variants and self.variant != "paper" and self.tight:
            raise UserError(
                f"algo={self.name} algo.variant={self.variant} is defined only for the published noise: "
                f"set calibration=published."
            )

    @property
    def tight(self) -> bool:
        """Whether the noise is the least proven."""
        return self.calibration == "tight"

    # What an algorithm says of itself.

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

    def claimed(self, view: View) -> str | None:
        """Where the budget is claimed as the guarantee of a view; None: nowhere."""
        return self.claim if self.calibration == "published" else None

    def uncounted(self) -> str | None:
        """What private rows decide outside the budget; None: nothing."""
        return None

    def way(self, carrier: Carrier) -> Way:
        """Return how the sums of a release are carried out."""
        if self.noise == "discrete":
            return OnGrid(carrier)
        return (InRing if self.protocol == "secagg" else Simulated)(carrier)

    # How much noise a budget asks for.

    def target_mu(self, budget: Budget, problem: Problem, of: Statistic | None = None) -> float:
        """The mu of all sums together with which the worst view has exactly the budget.

        It leaves room for what rounding adds to the mu of sums of a statistic; None: of any here.
        """
        if math.isinf(budget.eps):
            return math.inf
        mu = gdp.mu_of(budget.eps, budget.require_delta(f"algo={self.name}")) * (1 - _ARITHMETIC)
        mu = mu * (1 - _GRID) if self.noise == "discrete" else mu / (1 + self.imprecision(problem, of))
        return mu / max(self.sharing(problem).views(problem).values())

    def imprecision(self, problem: Problem, of: Statistic | None = None) -> float:
        """How much rounding in floating point adds to the mu of sums of a statistic, relative to it; None: of any."""
        every = [of] if of else [message.of for message in self.messages(Budget(math.inf), problem)]
        return imprecision(every, problem) + self._ring * RING

    @property
    def _ring(self) -> bool:
        """Whether parties round their noisy parts to the ring of a secure sum."""
        return self.protocol == "secagg" and self.noise == "continuous"

    # What holds.

    def pure(self, budget: Budget, problem: Problem) -> bool:
        """Whether what is claimed and proven has delta = 0."""
        messages = self.messages(budget, problem)
        return bool(messages) and all(message.pure for message in messages)

    def proven(self, budget: Budget, problem: Problem) -> dict[View, Proof]:
        """What is proven for every view: the mu of all Gaussian messages, times what the view knows of their noise.

        Of pure eps-DP messages the eps adds up, and all views have the same.
        """
        messages, views = self.messages(budget, problem), self.sharing(problem).views(problem)
        if self.pure(budget, problem):
            return dict.fromkeys(views, Proof(eps_of(messages, problem, self.noise == "discrete"), self.proof))
        if any(message.law != "gaussian" for message in messages):
            return dict.fromkeys(views, Proof(math.inf, "no proof covers Gaussian and other noise together"))
        delta = budget.require_delta(f"algo={self.name}")
        total = mu_of(messages, problem, self.noise == "discrete", self._ring)
        return {view: gaussian_proof(total * factor, delta, self.proof) for view, factor in views.items()}

    def secure_sums(self, budget: Budget, problem: Problem) -> int | None:
        """How many vectors several parties sum by secure aggregation in a release; None: there is no place for it."""
        several = replace(problem, M=max(problem.M, 2), N=max(problem.N, 2), sizes=(), colluders=0)
        return sums_in(self.messages(budget, problem)) if self.sharing(several).secure else None

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """The claimed and the proven guarantee of every view."""
        delta = 0.0 if self.pure(budget, problem) else budget.require_delta(f"algo={self.name}")
        proofs = self.proven(budget, problem)
        claims = {view: claim for view in proofs if (claim := self.claimed(view)) is not None}
        return stated(proofs, claims, self.unit, budget, delta, self.uncounted())

    def prepare(self, parties: Parties, rng: Generator) -> Prepared:
        """Check the rows, and draw what is public."""
        require_domain(parties, self.loss)
        if self.unit == "party" and parties.problem.M == 1 and "unit" in self.allows:
            raise UserError(
                f"algo.unit=party of algo={self.name} protects all rows of a party together, and with M=1 those are "
                "all: set algo.unit=sample, or more parties."
            )
        return Prepared(self, parties, self.begin(parties, rng))
