"""The functional mechanism, at one curator and at M sites (Imtiaz, Mohammadi & Sarwate 2019).

Site k sends N_k/N of its own coefficients (Remark 3), so that a replaced sample moves every site's message by the same
amount. The mu of every view: docs/privacy/imtiaz2019.md, Theorem 2, which also says where Theorem 1 of the paper fails.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpml.algorithms.quadratic.coefficients import (
    SOURCE,
    Coefficients,
    Minimise,
    Scales,
    coefficients_sum,
    draws_together,
    minimised,
    raised_to_floor,
    split,
)
from dpml.arrays import Array
from dpml.errors import UserError
from dpml.mechanism.algorithm import VARIANTS, Release, Variant
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import CapeNoise, IndependentNoise, SecureSumNoise, Sharing, TrustedCurator, cape_spread
from dpml.optim.interior_point import stop_in_box, usual_start
from dpml.optim.quadratic import minimise_quadratic
from dpml.options import NOT_NEGATIVE, POSITIVE
from dpml.privacy import Budget, Problem, gdp

PUBLISHED_SENSITIVITY = {"squared": (1.0, 4.0, math.sqrt(2)), "logistic": (0.0, 1.0, math.sqrt(2) / 8)}
"""The paper's L2 sensitivities of (L0, L1, L2), times N (Secs. 4.3 and H)."""

Sites = Literal["curator", "cape", "independent", "last"]

NAMES: dict[Sites, str] = {"curator": "fm", "cape": "capefm", "independent": "conv", "last": "local"}
CLAIMS: dict[Sites, str] = {
    "curator": "Imtiaz et al. 2019, Thm 2",
    "cape": "Imtiaz et al. 2019, Thms 1 and 2",
    "independent": "Imtiaz et al. 2019, Sec. 4.4",
    "last": "Imtiaz et al. 2019, Thm 2",
}


@dataclass(frozen=True)
class FunctionalMechanism(
    Program, losses=("squared", "logistic"), calibrations=("published", "tight"), lam=0.0, variants=VARIANTS
):
    """The improved functional mechanism: `fm` (Alg. 3), `capefm` (Alg. 4), `conv` (Sec. 4.4) and `local`.

    Args:
        sites: who draws the noise: one trusted `curator`; the sites, correlated by `cape`, so that the sum has the
            curator's noise; every site an `independent` noise that alone protects its message; or the `last` site only,
            on its own rows, while the others reveal nothing.
        variant: `paper` solves, `published`, in the way of Zhang et al. 2012, Sec. 6 (Imtiaz et al. say nothing of it):
            add a ridge, and trim the spectrum if that is not enough; `tight`, by raising its eigenvalues to a floor.
            `authors` is what the authors ran: minimise over the box [-1, 1]^d, and stop where their solver does, before
            it has converged if d is large.
        radius: the norm of w that the `tight` split of the noise between L1 and L2 is best for; None: 2 (squared) or 4
            (logistic).
        ridge: that ridge, of a size of ours, in units of the spectral edge of the noise on L2 (data-independent, so it
            costs no privacy); `tight` has a floor under the spectrum instead.
        protocol: of `cape`: `simulate` draws the noise of the sum; with `secagg` every site's coefficients
            and noise go through the real protocol (`dpml.protocols.cape`), all budgets and a block of draws at once.
        noise: `continuous`; or `discrete`, of `curator` and `cape` with calibration=tight: exact integers on a grid
            (docs/privacy/discrete_noise.md). Modulo 2^64 zero-sum noise can be uniform: nothing but the sum is seen.
    """

    variant: Variant = "paper"
    sites: Sites = "curator"
    radius: Annotated[float | None, POSITIVE] = None
    ridge: Annotated[float, NOT_NEGATIVE] = 1.25

    proof: ClassVar[str] = SOURCE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protocol == "secagg" and self.sites != "cape":
            raise UserError(f"algo.protocol=secagg is for algo=capefm: there is no secure sum in algo={self.name}.")
        if self.noise == "discrete" and self.sites not in ("curator", "cape"):
            raise UserError(f"algo.noise=discrete is for algo=fm and algo=capefm, not for algo={self.name}.")

    @property
    def name(self) -> str:  # type: ignore[override]
        return NAMES[self.sites]

    @property
    def claim(self) -> str:  # type: ignore[override]
        return CLAIMS[self.sites]

    def sharing(self, problem: Problem) -> Sharing:
        if self.sites == "independent":
            return IndependentNoise()
        if self.sites == "cape":
            return CapeNoise(cape_spread(self.calibration)) if self.noise == "continuous" else SecureSumNoise()
        return TrustedCurator() if self.sites == "curator" else TrustedCurator(("release", "client"))

    def scales(self, budget: Budget, problem: Problem) -> Scales:
        """The noise on N times (L0, L1, L2)."""
        if math.isinf(budget.eps):
            return Scales(math.inf if self.tight else 0.0, 0.0, 0.0)
        if self.tight:
            return split(Coefficients(self.loss), problem.d, self.target_mu(budget, problem), self.radius)
        delta = budget.require_delta(f"algo={self.name}")
        wider = math.sqrt(problem.M) if self.sites == "independent" else 1.0
        width = wider / gdp.classical_mu(budget.eps, delta)
        return Scales(*(width * sensitivity for sensitivity in PUBLISHED_SENSITIVITY[self.loss.name]))

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        scales = self.scales(budget, problem)
        of = Coefficients(self.loss, constant=math.isfinite(scales.constant), last=self.sites == "last")
        return (coefficients_sum(of, scales, problem.d),)

    def together(self, problem: Problem) -> int:
        return draws_together(problem.d)

    def run(self, carrier: Carrier) -> Release:
        return minimised(carrier, self.lam, minimiser(self.variant, self.tight, self.ridge))


def minimiser(variant: Variant, tight: bool, ridge: float) -> Minimise:
    """Return what minimises noisy polynomials, by the variant and the calibration."""

    def stopped(A: Array, b: Array, edges: Array) -> tuple[Array, NDArray[np.bool_]]:
        d = b.shape[-1]
        flat = stop_in_box(A.reshape(-1, d, d), b.reshape(-1, d), usual_start(d))
        return flat.reshape(b.shape), np.zeros(b.shape[:-1], dtype=bool)

    def with_ridge(A: Array, b: Array, edges: Array) -> tuple[Array, NDArray[np.bool_]]:
        return minimise_quadratic(A, b, ridge * edges[:, None])

    return stopped if variant == "authors" else raised_to_floor if tight else with_ridge
