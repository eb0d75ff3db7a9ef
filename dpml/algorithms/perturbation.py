"""Objective perturbation: one trusted curator minimises the risk plus a random linear term and a ridge.

`objpert` draws an L2-Laplace term, for pure eps-DP; `gop` draws a Gaussian term. The objective is ``J(w) + (1/N) eta'w
+ Delta/2 ||w||^2`` with ``J(w) = (1/N) sum loss(x_i'w, y_i) + lam/2 ||w||^2`` over rows in the unit ball. One row is
protected. docs/privacy/perturbed_minima.md and docs/privacy/rajkumar2012.md have the proofs, the misprints of the
papers, and how `tight` chooses noise and ridge together.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammainccinv

from dpml.algorithms.defaults import TYPICAL_NORM
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.algorithm import VARIANTS, Lam, Release, Variant
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Sum
from dpml.mechanism.objectives import Perturbed, PerturbedObjective, perturbations
from dpml.mechanism.statistics import Minimiser
from dpml.optim.convex import minimise_convex
from dpml.optim.interior_point import stopped_model
from dpml.optim.logistic import longest_minimiser
from dpml.optim.losses import LOSSES, Loss, ShiftedLogistic, mean_loss
from dpml.optim.quadratic import minimise_quadratic_in_ball
from dpml.options import NOT_NEGATIVE, POSITIVE
from dpml.privacy import Budget, Problem
from dpml.privacy.proofs import objective_perturbation as proof
from dpml.privacy.safe import with_slack

SMOOTHNESS = LOSSES["logistic"].smoothness  # c in the papers
SENSITIVITY = 2.0  # the sensitivity of a sum of gradients, 2 L with L = 1

# If a solver stops at a gradient of norm g, its model is the exact minimiser for noise that differs by N g.
RESIDUAL = 1e-4


def solver_tolerance(N: int) -> float:
    """Return the largest gradient norm of a released minimiser: at most 1e-9, and at most `RESIDUAL` / N."""
    return min(1e-9, RESIDUAL / N)


def best_ridge(noise_energy: Callable[[float], float], norm: float, start: float, low: float, high: float) -> float:
    """Return the ridge R in [low, high] with the least expected excess risk, ``(R norm^2 + noise_energy(R)/R) / 2 N``.

    ``noise_energy(R) = E ||b||^2`` decreases with R. `start` is an initial R.
    """

    def loss(log_R: float) -> float:
        R = math.exp(log_R)
        return math.log(R * norm**2 + noise_energy(R) / R)

    # at the minimum, neither summand exceeds the sum at `start`, which bounds R
    top = loss(math.log(start))
    low = max(low, noise_energy(start) * math.exp(-top))
    bounds = math.log(low), math.log(min(high, math.exp(top) / norm**2))
    minimum = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.02})
    return math.exp(minimum.x) if minimum.fun < top else start


def typical_norm(lam: float) -> float:
    """Return the norm of the minimiser for which the ridge is chosen: `TYPICAL_NORM`, or the largest possible one."""
    return min(TYPICAL_NORM, longest_minimiser(LOSSES["logistic"], lam)) if lam > 0 else TYPICAL_NORM


@dataclass(frozen=True)
class Perturbation:
    """The noise and ridge of `gop`: `sigma` is the standard deviation of eta, and `extra` (Delta) is added to lam."""

    sigma: float
    extra: float


def compute_slack(eps: float, lam: float, N: int, c: float = SMOOTHNESS) -> tuple[float, float]:
    """Return the ridge Delta to add, and the eps that remains for the noise, for a loss of curvature c."""
    left = eps - 2 * math.log1p(c / (N * lam))
    return (0.0, left) if left > 0 else (max(0.0, c / N * over_expm1(eps / 4) - lam), eps / 2)


def over_expm1(x: float) -> float:
    """Return 1/(e^x - 1) for x > 0, without overflow."""
    return math.exp(-x) / -math.expm1(-x)


def sigma_star(d: int, eps: float, delta: float) -> float:
    """Return the larger root sigma of ``Pr[chi2_d <= ((sigma^2 eps - 2)/(2 sigma))^2] = 1 - delta``."""
    q = math.sqrt(2 * float(gammainccinv(d / 2, delta)))
    return (q + math.sqrt(q * q + 2 * eps)) / eps


def published_perturbation(budget: Budget, problem: Problem, lam: float, who: str) -> Perturbation:
    """Return the noise and ridge of Algorithm 4 of Rajkumar & Agarwal 2012."""
    if math.isinf(budget.eps):
        return Perturbation(0.0, 0.0)
    extra, left = compute_slack(budget.eps, lam, problem.N)
    return Perturbation(sigma_star(problem.d, left, budget.require_delta(who)), extra)


def tight_perturbation(budget: Budget, problem: Problem, lam: float, who: str) -> Perturbation:
    """Return the ridge with the least expected excess risk at `typical_norm`, and the least proven noise for it.

    A ridge above `free_ridge` would not reduce the noise.
    """
    if math.isinf(budget.eps):
        return Perturbation(0.0, 0.0)
    delta = budget.require_delta(who)
    norm = typical_norm(lam)
    ridge = max(problem.N * lam, _gaussian_ridge(budget.eps, delta, problem.d, norm))
    sigma = proof.sigma_of(budget.eps, ridge, delta)
    if ridge == 0:  # every ridge needs the same noise, so take the best one for `norm`
        ridge = math.sqrt(problem.d) * sigma / norm
    return Perturbation(sigma, max(0.0, ridge / problem.N - lam))


@lru_cache(maxsize=1 << 10)
def _gaussian_ridge(eps: float, delta: float, d: int, norm: float) -> float:
    """Return the best ridge R, unless N lam is larger; 0 if every ridge needs the same noise."""
    least = proof.sigma_of(eps, math.inf, delta)
    free = proof.free_ridge(eps, least)
    if math.sqrt(d) * least >= free * norm:  # the excess risk decreases in R up to `free`
        return free
    return best_ridge(lambda R: d * proof.sigma_of(eps, R, delta) ** 2, norm, free, 0.0, free)


def perturbed_minimisers(
    loss: Loss,
    lam: float,
    parties: Parties,
    perturbations: Sequence[Perturbation | PerturbedObjective],
    eta: Array,
    tolerance: float | None = None,
) -> Array:
    """Minimise J(w) + (1/N) eta'w + Delta/2 ||w||^2 for every eta (budgets, draws, d): (budgets, draws, d)."""
    ridge = np.repeat([lam + p.extra for p in perturbations], eta.shape[1])
    N = len(parties.y)
    tilt = eta.reshape(-1, eta.shape[2]) / N
    X, y, counts = parties.folded
    flat = minimise_convex(loss, X, y, ridge, tilt, counts, solver_tolerance(N) if tolerance is None else tolerance)
    return flat.reshape(eta.shape)


def optimality_bound(made: PerturbedObjective, problem: Problem, delta_p: float = 0.05) -> float:
    """Return Theorem 5.1's bound on J(w_gop) - J(w*), which holds with probability 1 - delta_p.

    It is ``(c + lam)/(2 N^2 lam^2) T``, where T is sigma^2 times the 1 - delta_p quantile of chi2_d. For Delta > 0 the
    theorem's proof bounds ||w_gop - w*|| by ``(||eta||/N + Delta ||w*||) / (lam + Delta)``, where ||w*|| is at most
    `longest_minimiser`.
    """
    length = made.scale * math.sqrt(2 * float(gammainccinv(problem.d / 2, delta_p))) / problem.N
    pull = made.extra * longest_minimiser(LOSSES["logistic"], made.lam)
    return (SMOOTHNESS + made.lam) / 2 * ((length + pull) / made.strength) ** 2


@dataclass(frozen=True)
class ObjectivePerturbation(
    Perturbed, losses=("squared", "logistic"), calibrations=("published", "tight"), lam=0.0, variants=VARIANTS
):
    """`objpert`: objective perturbation with L2-Laplace noise, for pure eps-DP at one trusted curator.

    It minimises the risk + b'w/N + extra/2 ||w||^2 with a private b (Chaudhuri, Monteleoni & Sarwate 2011, Alg. 2). b
    has density proportional to exp(-beta ||b||) with beta = eps'/(2 zeta), where zeta is the Lipschitz constant of the
    loss, and eps' is eps minus the share for the loss's curvature c. `variant=authors` is the method in the figures of
    the capeFM authors: the point in the box [-1, 1]^d where their solver stops, plus noise with beta = eps/2 for every
    N. Its proof uses only the diameter of the box, 2 sqrt d.

    Args:
        loss: `logistic`; or `squared`, minimised over the ball ||w|| <= `radius`.
        calibration: `published` uses the paper's noise and ridge; `tight` those of the least expected excess risk among
            all that are proven.
        variant: `paper`; or `authors`, output noise that does not depend on N.
        radius: The radius of the ball over which the squared loss is minimised.
    """

    name: ClassVar[str] = "objpert"
    proof: ClassVar[str] = "the box [-1, 1]^d has diameter 2 sqrt d"
    published_variants: ClassVar[bool] = True

    variant: Variant = "paper"
    radius: Annotated[float, POSITIVE] = 1.0

    @property
    def claim(self) -> str:  # type: ignore[override]
        """The publication that claims the guarantee."""
        return "the authors' scripts" if self.variant == "authors" else "Chaudhuri et al. 2011, Thm 9"

    @property
    def zeta(self) -> float:
        """A bound on the norm of one row's gradient."""
        return self.loss.lipschitz if self.loss.lipschitz is not None else 2 * (1 + self.radius)

    def calibrate(self, budget: Budget, problem: Problem) -> tuple[float, float]:
        """Return the scale 1/beta of b, and the ridge that is added to lam."""
        eps, N, c = budget.eps, problem.N, self.loss.smoothness
        if math.isinf(eps):
            return 0.0, 0.0
        if self.variant == "authors":
            return 2 / eps, 0.0
        if self.calibration == "tight":
            ridge = max(N * self.lam, self.ridge(eps, problem.d))
            return 1 / self.beta(eps, ridge), max(0.0, ridge / N - self.lam)
        curvature = 2 * math.log1p(c / (N * self.lam)) if self.lam > 0 else math.inf
        if eps > curvature:
            return 2 * self.zeta / (eps - curvature), 0.0
        return 2 * self.zeta / (eps / 2), max(0.0, c / N * over_expm1(eps / 4) - self.lam)

    def ridge(self, eps: float, d: int) -> float:
        """Return the best ridge R, unless N lam is larger."""
        c = self.loss.smoothness
        least = c * over_expm1(eps) * (1 + 1e-6)  # no noise suffices with a smaller ridge

        def energy(ridge: float) -> float:
            return d * (d + 1) / self.beta(eps, ridge) ** 2

        if self.loss.lipschitz is not None:  # a ridge above 2/eps does not reduce the noise
            return best_ridge(energy, typical_norm(self.lam), 2 / eps, least, 2 / eps)
        return best_ridge(energy, self.radius, max(c * over_expm1(eps / 2), 1 / eps), least, math.inf)

    def beta(self, eps: float, ridge: float) -> float:
        """Return the largest beta (the least noise) that is proven to give this eps with this ridge."""
        if self.loss.lipschitz is not None:
            return proof.beta_of(eps, ridge)
        return (eps / with_slack(1.0) - math.log1p(self.loss.smoothness / ridge)) / (2 * self.zeta)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Any, ...]:
        if self.variant != "authors":
            return (self.objective(budget, problem),)
        scale, _ = self.calibrate(budget, problem)
        return (Sum(Minimiser(Stopped(self.loss, self.lam)), 2 * math.sqrt(problem.d), scale, law="l2_laplace"),)

    def objective(self, budget: Budget, problem: Problem) -> PerturbedObjective:
        made = PerturbedObjective("l2_laplace", *self.calibrate(budget, problem), self.lam, problem.N)
        if self.loss.lipschitz is not None:
            return made
        return replace(made, slope=self.zeta, curvature=self.loss.smoothness)

    def run(self, carrier: Carrier) -> Release:
        """Release minimisers of the perturbed objectives, exact up to `solver_tolerance`."""
        problem, parties = carrier.problem, carrier.mechanism.parties
        X, y = parties.X, parties.y
        if self.variant == "authors":
            flat = carrier.ask(0)
            value = mean_loss(self.loss, X, y, flat)
            return Release(carrier.by_budget(flat), {"noisy_objective": carrier.by_budget(value)})
        sent: list[Any] = [message for (message,) in carrier.messages]
        b = perturbations(sent, carrier.rng, carrier.draws, problem.d)
        if self.loss.lipschitz is not None:
            return Release(perturbed_minimisers(self.loss, self.lam, parties, sent, b))
        strength = carrier.per_run([made.strength for made in sent])
        tilt = b.reshape(-1, problem.d) / problem.N - 2 * y @ X / problem.N
        flat = minimise_quadratic_in_ball(X.T @ X / problem.N, tilt, self.radius, shift=strength / 2)
        return Release(flat.reshape(b.shape))


@dataclass(frozen=True)
class Stopped:
    """Compute the point in the box [-1, 1]^d where the authors' solver stops, (d,)."""

    loss: Loss
    lam: float

    def __call__(self, parties: Parties) -> Array:
        return stopped_model(self.loss, parties.X, parties.y, self.lam)


@dataclass(frozen=True)
class GaussianObjectivePerturbation(
    Perturbed, losses=("logistic",), calibrations=("published", "tight"), variants=("paper",)
):
    """`gop`: objective perturbation with Gaussian noise at one trusted curator (Rajkumar & Agarwal 2012, Alg. 4).

    It minimises ``J(w) + (1/N) eta'w + Delta/2 ||w||^2``. With a shift b, the loss of a row is ``log(1 + exp(b - y
    x'w))``, which demands a margin of b and has the same guarantee (docs/privacy/perturbed_minima.md). The reported
    optimality gap is that of J with the logistic loss.

    Args:
        lam: The coefficient lam of lam/2 ||w||^2; None: 0 for `tight` noise, which adds its own ridge, or 0.01 for
            published noise, which needs one.
        shift: The margin b >= 0 of the loss log(1 + exp(b - y x'w)), for `tight` noise only; 2 worked well on Adult.
    """

    name: ClassVar[str] = "gop"
    claim: ClassVar[str | None] = "Rajkumar & Agarwal 2012, Thm 4.1"
    published_lam: ClassVar[float] = 0.01
    """The default lam of published noise. If it is positive, published noise needs a positive lam."""

    shift: Annotated[float, NOT_NEGATIVE] = 0.0
    if not TYPE_CHECKING:  # __post_init__ replaces None by a number
        lam: Lam | None = None

    def __post_init__(self) -> None:
        if self.lam is None:
            object.__setattr__(self, "lam", 0.0 if self.tight else self.published_lam)
        super().__post_init__()
        if self.tight:
            return
        if self.published_lam > 0 and self.lam == 0:
            raise UserError("algo.lam must be a positive number with calibration=published, whose noise needs a ridge.")
        if self.shift > 0:
            raise UserError(f"algo.shift={self.shift:g} of {self.name} has no published noise: set calibration=tight.")

    @property
    def trained(self) -> Loss:
        return ShiftedLogistic(self.shift) if self.shift > 0 else self.loss

    def messages(self, budget: Budget, problem: Problem) -> tuple[Any, ...]:
        calibrate = tight_perturbation if self.tight else published_perturbation
        made = calibrate(budget, problem, self.lam, f"algo={self.name}")
        return (PerturbedObjective("gaussian", made.sigma, made.extra, self.lam, problem.N),)

    def run(self, carrier: Carrier) -> Release:
        """Release minimisers of the perturbed objectives, exact up to `solver_tolerance`.

        The metric `gap_bound` is Theorem 5.1's bound on the optimality gap, which holds for 95 % of the noise draws, if
        lam > 0 and without a shift.
        """
        problem = carrier.problem
        sent: list[Any] = [message for (message,) in carrier.messages]
        eta = perturbations(sent, carrier.rng, carrier.draws, problem.d)
        weights = perturbed_minimisers(self.trained, self.lam, carrier.mechanism.parties, sent, eta)
        if self.lam == 0 or self.shift > 0:
            return Release(weights)
        bounds = [optimality_bound(made, problem) for made in sent]
        return Release(weights, {"gap_bound": np.repeat(np.array(bounds)[:, None], carrier.draws, axis=1)})
