"""The functional mechanism with Laplace noise (Zhang et al. 2012): pure eps-DP."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from scipy.optimize import minimize_scalar

from dpml.algorithms.coefficients import NO_NOISE, Scales, joint_sensitivity
from dpml.algorithms.functional_mechanism import FunctionalFamily
from dpml.algorithms.hyperparameters import check_published_only
from dpml.algorithms.noisy_coefficients import EXACT, GDP_SOURCE, PreparedQuadratic, flat
from dpml.algorithms.transcript import Watch
from dpml.arrays import Array
from dpml.audit.exposure import Exposure, Pair
from dpml.audit.neighbours import one_replaced_for_loss
from dpml.privacy import Budget, Guarantee, Problem, View, gdp, noise


class PureFunctionalMechanism(FunctionalFamily):
    """`dpfm` (Zhang et al. 2012): Laplace noise on every coefficient, pure eps-DP at one trusted curator.

    Published: one scale Delta/eps, Delta = 2 (d+1)^2 (squared) or d^2/4 + 3d (logistic), on all d^2 entries of L2. By
    the L1 norm of what really moves (`pure_eps`) that is far more than needed. `tight` noises L1 and the upper
    triangle of L2, whose sensitivities it splits eps between. `variant=authors` puts Delta into the Gaussian formula
    instead, as their scripts do: (eps, delta)-DP.
    """

    name = "dpfm"
    claim = "Zhang et al. 2012, as in Imtiaz et al. 2019, Secs. 4.1 and H"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_published_only(self)

    def l1_sensitivity(self, d: int) -> tuple[float, float, float]:
        """Upper bounds on how far N (L0, L1, L2) move in L1 norm when one sample is replaced.

        ``||c1 x - c1' x'||_1 <= 2 linear_bound sqrt d``. For L2, ``||xx' - x'x''||_1 <= d ||xx' - x'x''||_F``, at
        most ``sqrt 2 d``. `tight` counts entries above the diagonal once: half of that and of the diagonal's, at most
        2. On a line (d = 1) L2 is one number, which moves by at most 1.
        """
        q = self.quadratic
        square = math.sqrt(2) * d
        if d == 1:
            square = 1.0
        elif self.calibration == "tight":
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
        d = problem.d
        if math.isinf(budget.eps):
            return NO_NOISE
        if self.calibration == "tight":
            return self._tight_scales(budget.eps, d)
        delta_fm = 2.0 * (d + 1) ** 2 if self.loss.name == "squared" else d * d / 4 + 3.0 * d
        scale = delta_fm / budget.eps
        if self.variant == "authors":
            scale = delta_fm / gdp.classical_mu(budget.eps, budget.require_delta("algo=dpfm variant=authors"))
        constant = scale if self.quadratic.constant_range else 0.0
        return Scales(constant, scale, scale)

    def _tight_scales(self, eps: float, d: int) -> Scales:
        """The split with the least energy ``2 d b1^2 + 8 d R^2 b2^2`` of the noise in the gradient at norm R."""

        def stretched(log_ratio: float) -> tuple[float, float]:
            ratio = math.exp(log_ratio)
            unit = self.pure_eps(Scales(math.inf, 1.0, ratio), d) / eps
            return unit, unit * ratio

        def energy(log_ratio: float) -> float:
            linear, square = stretched(log_ratio)
            return math.log(linear**2 + (2 * self.norm * square) ** 2)

        best = minimize_scalar(energy, bounds=(-15.0, 15.0), method="bounded", options={"xatol": 1e-9})
        return Scales(math.inf, *stretched(float(best.x)))

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        scales = self.scales(budget, problem)
        if self.variant == "authors":
            delta = budget.require_delta("algo=dpfm variant=authors")
            eps = gdp.eps_of(joint_sensitivity(self.quadratic, scales, problem.d), delta)
            claim = Guarantee("release", "sample", budget.eps, delta, "published", "the authors' scripts")
            return [claim, Guarantee("release", "sample", eps, delta, "proven", GDP_SOURCE)]
        eps = math.inf if math.isinf(budget.eps) else self.pure_eps(scales, problem.d)
        source = "L1 sensitivity (pure_functional_mechanism)"
        proven = Guarantee("release", "sample", eps, 0.0, "proven", source)
        if self.calibration == "tight":
            return [proven]
        return [Guarantee("release", "sample", budget.eps, 0.0, "published", self.claim), proven]

    def unit_noise(
        self, rng: Generator, draws: int, problem: Problem, watch: Watch | None = None
    ) -> tuple[Array, Array, Array]:
        if self.variant == "authors":
            return super().unit_noise(rng, draws, problem, watch)
        d = problem.d
        flat = noise.laplace(rng, (draws, 1 + d + d * d))
        square = flat[:, 1 + d :].reshape(draws, d, d)
        if self.calibration == "tight":
            square = np.triu(square) + np.triu(square, 1).transpose(0, 2, 1)
        else:
            square = (square + square.transpose(0, 2, 1)) / 2
        return flat[:, 0], flat[:, 1 : 1 + d], square

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """Rows whose entries are as even as they can be, so that their L1 norms are largest; signs alternate in one."""
        if self.variant == "authors":
            return super().worst_case(budget, problem)
        even = np.full(problem.d, 1 / math.sqrt(problem.d))
        return one_replaced_for_loss(self.loss, problem, even, even * (-1.0) ** np.arange(problem.d), other_label=-1.0)

    def exposure(self, view: View, both: Sequence[PreparedQuadratic], budget: Budget) -> Exposure:
        """Every number that is released and could differ, with the exact score of its Laplace noise."""
        if self.variant == "authors":
            return super().exposure(view, both, budget)
        d = both[0].problem.d
        scale = self.scales(budget, both[0].problem).vector(d) / both[0].count
        first, second = (prepared.vector() for prepared in both)
        distinct = np.concatenate([np.ones(1 + d), np.triu(np.ones((d, d))).ravel()]) > 0
        kept = distinct & np.isfinite(scale) & ((scale > 0) | (first != second))  # what never moves may go without
        averaged = np.concatenate([np.zeros(1 + d), 1 - np.eye(d).ravel()]) > 0
        averaged = averaged[kept] & (self.calibration == "published")
        unit = np.where(scale > 0, scale, EXACT)[kept] / np.where(averaged, 2, 1)
        first, second = first[kept], second[kept]

        def sample(which: int, rng: Generator, draws: int) -> Array:
            return flat(both[which].noisy(both[which].scales([budget]), rng, draws))[:, kept]

        def log_density(x: Array) -> Array:
            """Of Laplace noise, or of the mean of two, (1 + |x|) e^-|x| / 4 in units of half their scale."""
            total: Array = np.sum(np.where(averaged, np.log1p(np.abs(x)), 0.0) - np.abs(x), axis=1)
            return total

        def score(seen: Array) -> Array:
            return log_density((seen - second) / unit) - log_density((seen - first) / unit)

        return Exposure(view, sample, score, loss=float(np.sum(np.abs(second - first) / unit)))

    def spectral_edge(self, d: int) -> float:
        # off-diagonal variance: 2 when mirrored, 1 when two entries of variance 2 are averaged, 1/2 for Gaussians
        variance = 0.5 if self.variant == "authors" else 2.0 if self.calibration == "tight" else 1.0
        return 2 * math.sqrt(variance * d)
