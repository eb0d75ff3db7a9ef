"""Define the functional mechanism at one curator or at M sites (Imtiaz, Mohammadi & Sarwate 2019).

The guarantees: docs/privacy/imtiaz2019.md, Theorem 2.
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
    minimised,
    raised_to_floor,
    split,
)
from dpml.arrays import Array
from dpml.errors import UserError
from dpml.mechanism.sharing import CapeNoise, IndependentNoise, SecureSumNoise, Sharing, TrustedCurator, cape_spread
from dpml.optim.interior_point import stop_in_box, usual_start
from dpml.optim.quadratic import minimise_quadratic
from dpml.options import NOT_NEGATIVE, POSITIVE
from dpml.privacy import gdp
from dpml.program import VARIANTS, Budget, Carrier, Problem, Program, Release, Sum, Variant

PUBLISHED_SENSITIVITY = {"squared": (1.0, 4.0, math.sqrt(2)), "logistic": (0.0, 1.0, math.sqrt(2) / 8)}
"""The published L2 sensitivities of N times (L0, L1, L2), from Secs. 4.3 and H of the paper."""

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
    """The functional mechanism: add Gaussian noise to a quadratic risk's coefficients, and minimise the noisy risk.

    Imtiaz, Mohammadi & Sarwate 2019 define the mechanism for one trusted curator (`fm`, Alg. 3), for sites with
    correlated noise (`capefm`, Alg. 4), for sites with independent noise (`conv`, Sec. 4.4), and for one site alone
    (`local`).

    Args:
        sites: Who draws the noise. With `curator`, one trusted curator draws all noise. With `cape`, the sites draw
            correlated noise, and their sum has as much noise as with `curator`. With `independent`, each site draws
            enough noise to protect its own message. With `last`, only the last site uses its rows and draws noise.
        variant: How an indefinite noisy Hessian is repaired. With `paper` and published noise, a ridge is added and
            the remaining negative eigenvalues are dropped (Zhang et al. 2012, Sec. 6); Imtiaz et al. do not describe a
            repair. With `paper` and tight noise, small eigenvalues are raised to a floor. With `authors`, as in their
            scripts, the objective is minimised over the box [-1, 1]^d, and the solver stops before convergence if d is
            large.
        radius: The norm of w for which the `tight` split of the noise between the linear and the square coefficients is
            best; None: 2 (squared loss) or 4 (logistic loss).
        ridge: The ridge for the variant `paper` with the paper's noise, in units of the largest eigenvalue of the noise
            in the square coefficients. The default is our choice.
        protocol: `simulate` draws the noise of the sum directly; `secagg`, for `cape` only, runs the real protocol
            (`dpml.protocols.cape`) with every site's coefficients and noise.
        noise: `continuous` is floating-point noise; `discrete`, for `curator` and `cape` with calibration=tight, is
            exact integers on a grid (docs/privacy/discrete_noise.md) in a secure sum.
    """

    variant: Variant = "paper"
    sites: Sites = "curator"
    radius: Annotated[float | None, POSITIVE] = None
    ridge: Annotated[float, NOT_NEGATIVE] = 1.25

    proof: ClassVar[str] = SOURCE
    matrices: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protocol == "secagg" and self.sites != "cape":
            raise UserError(f"algo.protocol=secagg needs algo=capefm, because algo={self.name} has no secure sum.")
        if self.noise == "discrete" and self.sites not in ("curator", "cape"):
            raise UserError(f"algo.noise=discrete needs algo=fm or algo=capefm, not algo={self.name}.")

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
        """Return the noise_std for the sums of the constant, linear and square coefficients of the loss."""
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

    def run(self, carrier: Carrier) -> Release:
        return minimised(carrier, self.lam, minimiser(self.variant, self.tight, self.ridge))


def minimiser(variant: Variant, tight: bool, ridge: float) -> Minimise:
    """Return the function that minimises a noisy quadratic and, by `variant` and `tight`, repairs an indefinite A."""

    def stopped(A: Array, b: Array, edges: Array) -> tuple[Array, NDArray[np.bool_]]:
        d = b.shape[-1]
        flat = stop_in_box(A.reshape(-1, d, d), b.reshape(-1, d), usual_start(d))
        return flat.reshape(b.shape), np.zeros(b.shape[:-1], dtype=bool)

    def with_ridge(A: Array, b: Array, edges: Array) -> tuple[Array, NDArray[np.bool_]]:
        return minimise_quadratic(A, b, ridge * edges[:, None])

    return stopped if variant == "authors" else raised_to_floor if tight else with_ridge
