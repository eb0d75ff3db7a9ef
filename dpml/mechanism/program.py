"""Define the base class of algorithms that release noisy sums and post-process them.

A subclass lists its noisy sums (`messages`) and a loop that requests them (`run`). The guarantees, the simulation,
secure aggregation, discrete noise, parties on different machines, and audits follow from these two methods.
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
from dpml.mechanism.carriers import Carrier, Prepared, Way, simulated
from dpml.mechanism.guarantees import Proof, gaussian_proof, stated
from dpml.mechanism.message import RING, Statistic, Sum, eps_of, imprecision, mu_of, sums_in
from dpml.mechanism.sharing import Sharing, secure_sharing
from dpml.mechanism.ways import in_ring, on_grid
from dpml.optim.losses import LOSSES, Loss
from dpml.options import check_choice, check_options
from dpml.privacy import CALIBRATIONS, Budget, Calibration, Guarantee, Problem, View, gdp

_ARITHMETIC = 2.0**-46  # the share of mu that is reserved for rounding errors in the computation of noise
_TOGETHER = 1 << 18  # matrix entries in memory per budget; a total limit would make noise depend on how many budgets
_GRID = 1e-6  # the share of mu that is reserved for rounding sums to a grid

CHOICES: Mapping[str, tuple[str, ...]] = {
    "lam": (), "variant": ("paper",), "unit": UNITS, "protocol": SUM_PROTOCOLS, "noise": NOISES,
}  # fmt: skip
"""The shared options that a class may name, with their default lists of values."""
CARRIED = ("protocol", "noise")
"""The shared options that every class has, unless it restricts them to one value."""


@dataclass(frozen=True)
class Program(ABC):
    """The base class of algorithms; a subclass is a frozen dataclass with the methods `messages` and `run`.

    Keywords of the class statement list the allowed values of shared options, default first; for `lam`, the default:

        class Centroid(Program, losses=("logistic",), lam=0.0, units=UNITS): ...

    Every class has options `protocol` and `noise` with all values, unless it lists fewer: `protocols=("simulate",)`.

    Args:
        loss: The loss of a row.
        calibration: `published` uses the paper's noise; `tight` the least noise that is proven to give (eps, delta)
            against every observer.
        variant: `paper` follows the paper's text; other names are other interpretations.
        unit: The unit that is protected: `sample`, one row; or `party`, all rows of one party.
        lam: The coefficient lam of lam/2 ||w||^2, which is part of the objective.
        protocol: `simulate` draws the noise of sums directly; `secagg` runs the real secure aggregation for every sum.
        noise: `continuous` adds floating-point noise; `discrete` adds exact integer noise on a grid
            (docs/privacy/discrete_noise.md).
    """

    name: ClassVar[str]
    auxiliary: ClassVar[float] = 0.0
    claim: ClassVar[str | None] = None
    """Where the paper claims (eps, delta) for the published noise; None: nowhere."""
    matrices: ClassVar[bool] = False
    """Whether every noise draw needs a matrix (d, d), so that few draws fit into memory."""
    linear: ClassVar[bool] = True
    """Whether the algorithm releases linear models, which can be published."""
    published_variants: ClassVar[bool] = False
    """Whether variants other than `paper` exist for published noise only."""
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
        """Give the subclass a field for each option of `CHOICES`, such as `variant`, that its class statement lists."""
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
                hints[key] = ClassVar[Any]  # a constant, so that @dataclass creates no field
        if calibrations:
            hints["calibration"] = Calibration
            cls.calibration = calibrations[0]  # type: ignore[assignment]
        cls.__annotations__ = hints

    def __post_init__(self) -> None:
        for key in ("calibration", "variant", "unit", "protocol", "noise"):
            if key in self.allows:
                check_choice(key if key == "calibration" else f"algo.{key}", getattr(self, key), self.allows[key])
        check_options(self, "algo")
        if self.loss.name not in self.allows["loss"]:
            needed = " or ".join(f"loss={name}" for name in self.allows["loss"])
            raise UserError(f"algo={self.name} needs {needed}, not loss={self.loss.name}.")
        if self.noise == "discrete" and self.calibration != "tight":
            raise UserError(f"algo={self.name} with algo.noise=discrete needs tight noise: set calibration=tight.")
        if self.published_variants and self.variant != "paper" and self.tight:
            raise UserError(
                f"algo.variant={self.variant} of algo={self.name} needs the paper's noise: set calibration=published."
            )

    @property
    def tight(self) -> bool:
        return self.calibration == "tight"

    # What a subclass defines.

    @abstractmethod
    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        """Describe the noisy sums 0, 1, ... of a release; only these descriptions determine the noise for `budget`."""

    @abstractmethod
    def run(self, carrier: Carrier) -> Release:
        """Compute models, an array (budgets, draws, d), from noisy sums, which `carrier.ask(number, ...)` returns."""

    def begin(self, parties: Parties, rng: Generator) -> Any:
        """Draw public values, such as an initial model, before any noise is drawn."""
        return None

    def together(self, problem: Problem) -> int | None:
        """Return how many noise draws are computed at the same time; None means all draws."""
        return max(1, _TOGETHER // problem.d**2) if self.matrices else None

    def sharing(self, problem: Problem) -> Sharing:
        """Return who draws the noise of a sum: all parties in equal shares or, with one party, a curator."""
        return secure_sharing(problem)

    def claimed(self, view: View) -> str | None:
        """Return where the paper claims (eps, delta) against an observer, such as a theorem, or None."""
        return self.claim if self.calibration == "published" else None

    def uncounted(self) -> str | None:
        """Return a text that names each use of private rows that the proof does not cover; None if there is none."""
        return None

    def way(self) -> Way:
        """Return the function that computes noisy sums; it simulates the parties, or runs secure aggregation."""
        if self.noise == "discrete":
            return on_grid
        return in_ring if self.protocol == "secagg" else simulated

    def target_mu(self, budget: Budget, problem: Problem, of: Statistic | None = None) -> float:
        """Return the total mu that all sums may spend to meet the budget against the strongest observer.

        It excludes a small part of mu, reserved for rounding errors in all sums, or in sums of the statistic `of` only.
        """
        if math.isinf(budget.eps):
            return math.inf
        mu = gdp.mu_of(budget.eps, budget.require_delta(f"algo={self.name}")) * (1 - _ARITHMETIC)
        mu = mu * (1 - _GRID) if self.noise == "discrete" else mu / (1 + self.imprecision(problem, of))
        return mu / max(self.sharing(problem).views(problem).values())

    def imprecision(self, problem: Problem, of: Statistic | None = None) -> float:
        """Bound the relative increase of mu due to rounding in all sums; with `of`, only in sums of that statistic."""
        every = [of] if of else [message.of for message in self.messages(Budget(math.inf), problem)]
        return imprecision(every, problem) + self._ring * RING

    @property
    def _ring(self) -> bool:
        """Whether parties round their noisy contributions to integers for a secure sum."""
        return self.protocol == "secagg" and self.noise == "continuous"

    def pure(self, budget: Budget, problem: Problem) -> bool:
        messages = self.messages(budget, problem)
        return bool(messages) and all(message.pure for message in messages)

    def proven(self, budget: Budget, problem: Problem) -> dict[View, Proof]:
        """Return a proven guarantee against each observer; those who know some noise get a larger Gaussian-DP mu."""
        messages, views = self.messages(budget, problem), self.sharing(problem).views(problem)
        if self.pure(budget, problem):
            return dict.fromkeys(views, Proof(eps_of(messages, problem, self.noise == "discrete"), self.proof))
        if any(message.law != "gaussian" for message in messages):
            return dict.fromkeys(views, Proof(math.inf, "no proof covers Gaussian and other noise together"))
        delta = budget.require_delta(f"algo={self.name}")
        total = mu_of(messages, problem, self.noise == "discrete", self._ring)
        return {view: gaussian_proof(total * factor, delta, self.proof) for view, factor in views.items()}

    def secure_sums(self, budget: Budget, problem: Problem) -> int | None:
        """Return how many vectors a release sums by secure aggregation, or None without secure aggregation."""
        several = replace(problem, M=max(problem.M, 2), N=max(problem.N, 2), sizes=(), colluders=0)
        return sums_in(self.messages(budget, problem)) if self.sharing(several).secure else None

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        delta = 0.0 if self.pure(budget, problem) else budget.require_delta(f"algo={self.name}")
        proofs = self.proven(budget, problem)
        claims = {view: claim for view in proofs if (claim := self.claimed(view)) is not None}
        return stated(proofs, claims, self.unit, budget, delta, self.uncounted())

    def prepare(self, parties: Parties, rng: Generator) -> Prepared:
        """Check the parties' rows, draw public initial values, and return an object that can release models."""
        require_domain(parties, self.loss)
        if self.unit == "party" and parties.problem.M == 1 and "unit" in self.allows:
            raise UserError(
                f"algo.unit=party of algo={self.name} protects the rows of one party, but with M=1 one party has all "
                "rows: set algo.unit=sample, or a larger M."
            )
        return Prepared(self, parties, self.begin(parties, rng))
