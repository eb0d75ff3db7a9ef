"""Define the functional mechanism with Laplace noise (Zhang et al. 2012), for pure eps-DP."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from scipy.optimize import minimize_scalar

from dpml.algorithms.defaults import QUADRATIC_NORM
from dpml.algorithms.quadratic.coefficients import (
    NO_NOISE,
    SOURCE,
    Coefficients,
    Scales,
    coefficients_sum,
    minimised,
    quadratic_of,
)
from dpml.algorithms.quadratic.functional_mechanism import minimiser
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.options import NOT_NEGATIVE, POSITIVE
from dpml.privacy import gdp
from dpml.privacy.safe import with_slack
from dpml.program import VARIANTS, Budget, Carrier, Problem, Program, Release, Sum, Variant, View


@dataclass(frozen=True)
class LaplaceFunctionalMechanism(
    Program,
    losses=("squared", "logistic"),
    calibrations=("published", "tight"),
    lam=0.0,
    variants=VARIANTS,
    protocols=("simulate",),
):
    """`dpfm`: the functional mechanism with Laplace noise, for pure eps-DP at one trusted curator (Zhang et al. 2012).

    Published noise has the scale Delta/eps on all coefficients, with the sensitivity Delta = 2 (d+1)^2 (squared loss)
    or d^2/4 + 3d (logistic loss). The exact L1 sensitivity is far smaller. `tight` noise uses the exact sensitivity,
    and splits eps between the linear coefficients and the upper triangle of the square coefficients.

    Args:
        variant: `paper`; or `authors`: as in the scripts of Imtiaz et al., Gaussian noise for (eps, delta)-DP with
            Delta as its L2 sensitivity, and a minimum over the box [-1, 1]^d.
        radius: The norm of w for which the `tight` split of the noise between the linear and the square coefficients is
            best; None: 2 (squared loss) or 4 (logistic loss).
        ridge: The ridge for the variant `paper` with the paper's noise, in units of the largest eigenvalue of the noise
            in the square coefficients.
        noise: `continuous` is floating-point noise; `discrete`, with calibration=tight, is discrete Laplace noise on
            sums of integers (docs/privacy/discrete_noise.md).
    """

    name: ClassVar[str] = "dpfm"
    matrices: ClassVar[bool] = True
    published_variants: ClassVar[bool] = True

    variant: Variant = "paper"
    radius: Annotated[float | None, POSITIVE] = None
    ridge: Annotated[float, NOT_NEGATIVE] = 1.25

    @property
    def proof(self) -> str:  # type: ignore[override]
        return "Theorem 4, docs/privacy/imtiaz2019.md" if self.laplace else SOURCE

    @property
    def laplace(self) -> bool:
        return self.variant == "paper"

    @property
    def mirrored(self) -> bool:
        return self.laplace and self.tight

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def l1_sensitivity(self, d: int) -> tuple[float, float, float]:
        """Return L1 sensitivity bounds for the sums of the loss's constant, linear and square coefficients.

        The linear coefficients change by at most ``2 linear_bound sqrt(d)``, the matrix xx' by at most ``sqrt(2) d``,
        and its diagonal by at most 2. `tight` noise is only on the diagonal and the entries above it, which change by
        half of the matrix's change plus half of the diagonal's change.
        """
        q = quadratic_of(self.loss)
        square = math.sqrt(2) * d
        if d == 1:
            square = 1.0
        elif self.tight:
            square = (square + 2) / 2
        return q.constant_range, 2 * q.linear_bound * math.sqrt(d), q.square * square

    def pure_eps(self, scales: Scales, d: int) -> float:
        """Return the eps of Laplace noise with the given scales (docs/privacy/imtiaz2019.md, Theorem 4)."""
        moves = self.l1_sensitivity(d)
        constant = moves[0] / scales.constant if moves[0] and math.isfinite(scales.constant) else 0.0
        a, b = moves[1] / scales.linear, moves[2] / scales.square
        if d == 1:
            r = min(1.0, a / (4 * b))
            return constant + a * (1 + r) / 2 + b * (1 - r * r)
        sine = 4 * b / (a + math.sqrt(a * a + 32 * b * b))  # the root of 4 b s^2 + a s - 2 b, without cancellation
        return constant + math.sqrt(1 - sine * sine) * (a + 2 * b * sine)

    def scales(self, budget: Budget, problem: Problem) -> Scales:
        """Return the noise scales for the sums of the loss's constant, linear and square coefficients."""
        d = problem.d
        if math.isinf(budget.eps):
            return NO_NOISE if self.noise == "continuous" else Scales(math.inf, 0.0, 0.0)
        if self.tight:
            farther = 1.0 if self.noise == "discrete" else 1 + self.imprecision(problem)
            return self._tight_scales(budget.eps / farther, d)
        delta_fm = 2.0 * (d + 1) ** 2 if self.loss.task == "regression" else d * d / 4 + 3.0 * d
        scale = delta_fm / budget.eps
        if not self.laplace:
            scale = delta_fm / gdp.classical_mu(budget.eps, budget.require_delta("algo=dpfm variant=authors"))
        constant = scale if quadratic_of(self.loss).constant_range else 0.0
        return Scales(constant, scale, scale)

    def _tight_scales(self, eps: float, d: int) -> Scales:
        """Return the coefficients' eps-DP noise scales that minimise the gradient noise at models of norm `radius`."""
        norm = QUADRATIC_NORM[self.loss.name] if self.radius is None else self.radius

        def stretched(log_ratio: float) -> tuple[float, float]:
            ratio = math.exp(log_ratio)
            unit = with_slack(self.pure_eps(Scales(math.inf, 1.0, ratio), d) / eps)
            return unit, unit * ratio

        def energy(log_ratio: float) -> float:
            linear, square = stretched(log_ratio)
            return math.log(linear**2 + (2 * norm * square) ** 2)

        best = minimize_scalar(energy, bounds=(-15.0, 15.0), method="bounded", options={"xatol": 1e-9})
        return Scales(math.inf, *stretched(float(best.x)))

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        scales = self.scales(budget, problem)
        of = Coefficients(self.loss, constant=math.isfinite(scales.constant), mirrored=self.mirrored)
        message = coefficients_sum(of, scales, problem.d)
        if not self.laplace:
            return (message,)
        eps = math.inf if math.isinf(budget.eps) else self.pure_eps(scales, problem.d)
        return (replace(message, sensitivity=eps, law="laplace"),)

    def claimed(self, view: View) -> str | None:
        if not self.laplace:
            return "the authors' scripts"
        of = "Zhang et al. 2012, as in Imtiaz et al. 2019, Secs. 4.1 and H"
        return of if self.calibration == "published" else None

    def run(self, carrier: Carrier) -> Release:
        # of off-diagonal noise: one Laplace number has variance 2, the mean of two has 1, of two Gaussian numbers 1/2
        variance = 0.5 if not self.laplace else 2.0 if self.mirrored else 1.0
        return minimised(carrier, self.lam, minimiser(self.variant, self.tight, self.ridge), variance)
