"""The functional mechanism with Laplace noise (Zhang et al. 2012): pure eps-DP.

*On a grid.* The sums of integers are those of real rows in the unit ball (`coefficients`), so that they move in L1 norm
by no more than is counted of these, and discrete Laplace noise of the same scales has the same eps, exactly.
"""

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
    draws_together,
    minimised,
    quadratic_of,
)
from dpml.algorithms.quadratic.functional_mechanism import minimiser
from dpml.mechanism.algorithm import VARIANTS, Release, Variant
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.options import NOT_NEGATIVE, POSITIVE
from dpml.privacy import Budget, Problem, View, gdp
from dpml.privacy.safe import with_slack


@dataclass(frozen=True)
class LaplaceFunctionalMechanism(
    Program,
    losses=("squared", "logistic"),
    calibrations=("published", "tight"),
    lam=0.0,
    variants=VARIANTS,
    protocols=("simulate",),
):
    """`dpfm` (Zhang et al. 2012): Laplace noise on every coefficient, pure eps-DP at one trusted curator.

    Published: one scale Delta/eps, Delta = 2 (d+1)^2 (squared) or d^2/4 + 3d (logistic), on all d^2 entries of L2. By
    the L1 norm of what really moves (`pure_eps`) that is far more than needed. `tight` noises L1 and the upper
    triangle of L2, whose sensitivities it splits eps between.

    Args:
        variant: `paper`; `authors` puts Delta into the Gaussian formula instead, as their scripts do, which is (eps,
            delta)-DP, and minimises over their box.
        radius, ridge: as for `fm`.
        noise: `continuous`; or `discrete`, with calibration=tight: discrete Laplace noise on sums of integers
            (docs/privacy/discrete_noise.md).
    """

    name: ClassVar[str] = "dpfm"
    published_variants: ClassVar[bool] = True

    variant: Variant = "paper"
    radius: Annotated[float | None, POSITIVE] = None
    ridge: Annotated[float, NOT_NEGATIVE] = 1.25

    @property
    def proof(self) -> str:  # type: ignore[override]
        return "Theorem 4, docs/privacy/imtiaz2019.md" if self.laplace else SOURCE

    @property
    def laplace(self) -> bool:
        """Whether the noise is Laplace noise."""
        return self.variant == "paper"

    @property
    def mirrored(self) -> bool:
        """Whether noise is drawn for one of two equal entries of L2 only."""
        return self.laplace and self.tight

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def l1_sensitivity(self, d: int) -> tuple[float, float, float]:
        """Upper bounds on how far N (L0, L1, L2) move in L1 norm when one sample is replaced.

        ``||c1 x - c1' x'||_1 <= 2 linear_bound sqrt d``. For L2, ``||xx' - x'x''||_1 <= d ||xx' - x'x''||_F``, at
        most ``sqrt 2 d``. `tight` counts entries above the diagonal once: half of that and of the diagonal's, at most
        2. On a line (d = 1) L2 is one number, which moves by at most 1.
        """
        q = quadratic_of(self.loss)
        square = math.sqrt(2) * d
        if d == 1:
            square = 1.0
        elif self.tight:
            square = (square + 2) / 2
        return q.constant_range, 2 * q.linear_bound * math.sqrt(d), q.square * square

    def pure_eps(self, scales: Scales, d: int) -> float:
        """The eps of Laplace noise of these scales: the largest move in L1 norm, in units of the noise.

        L1 and L2 do not move most for the same neighbours. With p = ||x + x'||^2, rows of norm 1 and r, and
        q = 2 + 2 r^2 - p the moves are at most ``linear_bound sqrt(d p)``, ``d ||xx' - x'x''||_F``, whose square is
        ``d^2 (p q + (1 - r^2)^2) / 2``, and on the diagonal ``sqrt(p q)``. A label's sign makes the rows' cosine c
        positive, so that p >= 1, and then all of them grow with r at fixed p. At r = 1 they are ``a cos h`` and
        ``b sin 2h``, c = cos 2h, where a and b are the suprema of `l1_sensitivity`; the sum is largest where
        ``a sin h = 2 b cos 2h``. For d = 1 they are ``a (1 + r)/2`` and ``b (1 - r^2)``.
        """
        moves = self.l1_sensitivity(d)
        constant = moves[0] / scales.constant if moves[0] and math.isfinite(scales.constant) else 0.0
        a, b = moves[1] / scales.linear, moves[2] / scales.square
        if d == 1:
            r = min(1.0, a / (4 * b))
            return constant + a * (1 + r) / 2 + b * (1 - r * r)
        sine = 4 * b / (a + math.sqrt(a * a + 32 * b * b))  # the root of 4 b s^2 + a s - 2 b, without cancellation
        return constant + math.sqrt(1 - sine * sine) * (a + 2 * b * sine)

    def scales(self, budget: Budget, problem: Problem) -> Scales:
        """The noise on N times (L0, L1, L2)."""
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
        """The split with the least energy ``2 d b1^2 + 8 d R^2 b2^2`` of the noise in the gradient at norm R."""
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

    def together(self, problem: Problem) -> int:
        return draws_together(problem.d)

    def run(self, carrier: Carrier) -> Release:
        # beside the diagonal: 2 when mirrored, 1 when two entries of variance 2 are averaged, 1/2 for Gaussians
        variance = 0.5 if not self.laplace else 2.0 if self.mirrored else 1.0
        return minimised(carrier, self.lam, minimiser(self.variant, self.tight, self.ridge), variance)
