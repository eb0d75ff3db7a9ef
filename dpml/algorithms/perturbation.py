"""Define objective perturbation: one trusted curator minimises the risk plus a random linear term and a ridge.

The proofs: docs/privacy/perturbed_minima.md and docs/privacy/rajkumar2012.md.
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
from dpml.mechanism.objectives import Perturbed, PerturbedObjective, perturbations
from dpml.optim.convex import minimise_convex
from dpml.optim.interior_point import stopped_model
from dpml.optim.losses import LOSSES, Logistic, Loss, longest_minimiser, mean_loss
from dpml.optim.quadratic import minimise_quadratic_in_ball
from dpml.options import NOT_NEGATIVE, POSITIVE
from dpml.privacy.proofs import objective_perturbation as proof
from dpml.privacy.safe import with_slack
from dpml.program import VARIANTS, Budget, Carrier, Lam, Minimiser, Problem, Release, Sum, Variant

SMOOTHNESS = LOSSES["logistic"].smoothness  # c in the papers
SENSITIVITY = 2.0  # the sensitivity of a sum of gradients, 2 L with L = 1

# A model at which the perturbed mean loss has a gradient of norm g is the exact minimiser for a b that differs by N g.
RESIDUAL = 1e-4


def solver_tolerance(N: int) -> float:
    """Return the solver's tolerance: the largest allowed gradient norm at a released minimiser."""
    return min(1e-9, RESIDUAL / N)


def best_ridge(noise_energy: Callable[[float], float], norm: float, start: float, low: float, high: float) -> float:
    """Return the ridge R in [low, high] with the least bound on excess risk, ``(R norm^2 + E||noise||^2 / R) / (2 N)``.

    ``noise_energy(R)`` is E||noise||^2, the expected squared norm, which decreases with R. `start` is an initial R.
    """

    def loss(log_R: float) -> float:
        R = math.exp(log_R)
        return math.log(R * norm**2 + noise_energy(R) / R)

    # at the minimum, neither summand exceeds the sum of both at `start`; this bounds R on both sides
    top = loss(math.log(start))
    low = max(low, noise_energy(start) * math.exp(-top))
    bounds = math.log(low), math.log(min(high, math.exp(top) / norm**2))
    minimum = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.02})
    return math.exp(minimum.x) if minimum.fun < top else start


def typical_norm(lam: float) -> float:
    """Return the assumed norm of the minimiser: the smaller of `TYPICAL_NORM` and an upper bound on the norm."""
    return min(TYPICAL_NORM, longest_minimiser(LOSSES["logistic"], lam)) if lam > 0 else TYPICAL_NORM


def compute_slack(eps: float, lam: float, N: int, c: float = SMOOTHNESS) -> tuple[float, float]:
    """Return the ridge to add to `lam`, and the part of `eps` for the noise; the Jacobian determinant gets the rest."""
    left = eps - 2 * math.log1p(c / (N * lam)) if lam > 0 else -math.inf
    return (0.0, left) if left > 0 else (max(0.0, c / N * over_expm1(eps / 4) - lam), eps / 2)


def over_expm1(x: float) -> float:
    """Return 1/(e^x - 1) for x > 0, without overflow."""
    return math.exp(-x) / -math.expm1(-x)


def sigma_star(d: int, eps: float, delta: float) -> float:
    """Return the larger root sigma of ``Pr[chi2_d <= ((sigma^2 eps - 2)/(2 sigma))^2] = 1 - delta``."""
    q = math.sqrt(2 * float(gammainccinv(d / 2, delta)))
    return (q + math.sqrt(q * q + 2 * eps)) / eps


def published_perturbation(budget: Budget, problem: Problem, lam: float, who: str) -> PerturbedObjective:
    """Return the perturbed objective of Rajkumar & Agarwal 2012, Alg. 4, with the noise and ridge of the paper."""
    if math.isinf(budget.eps):
        return PerturbedObjective("gaussian", 0.0, 0.0, lam, problem.N)
    extra, left = compute_slack(budget.eps, lam, problem.N)
    return PerturbedObjective("gaussian", sigma_star(problem.d, left, budget.require_delta(who)), extra, lam, problem.N)


def tight_perturbation(budget: Budget, problem: Problem, lam: float, who: str) -> PerturbedObjective:
    """Return the `tight` perturbed objective; its ridge is N lam or, if larger, `_gaussian_ridge` at `typical_norm`."""
    if math.isinf(budget.eps):
        return PerturbedObjective("gaussian", 0.0, 0.0, lam, problem.N)
    delta = budget.require_delta(who)
    norm = typical_norm(lam)
    ridge = max(problem.N * lam, _gaussian_ridge(budget.eps, delta, problem.d, norm))
    sigma = proof.sigma_of(budget.eps, ridge, delta)
    if ridge == 0:  # every ridge needs the same noise, so take the one with the least bound on excess risk
        ridge = math.sqrt(problem.d) * sigma / norm
    return PerturbedObjective("gaussian", sigma, max(0.0, ridge / problem.N - lam), lam, problem.N)


@lru_cache(maxsize=1 << 10)
def _gaussian_ridge(eps: float, delta: float, d: int, norm: float) -> float:
    """Return the ridge with the least bound on excess risk among ridges that reduce the noise; 0 if no ridge does."""
    least = proof.sigma_of(eps, math.inf, delta)
    free = proof.free_ridge(eps, least)
    if math.sqrt(d) * least >= free * norm:  # then the bound decreases up to `free`; no larger ridge reduces the noise
        return free
    return best_ridge(lambda R: d * proof.sigma_of(eps, R, delta) ** 2, norm, free, 0.0, free)


def perturbed_minimisers(
    loss: Loss, parties: Parties, sent: Sequence[PerturbedObjective], eta: Array, tolerance: float | None = None
) -> Array:
    """Return the minimisers (budgets, draws, d) of the objectives perturbed by the noise eta (budgets, draws, d)."""
    N, ridge = len(parties.y), np.repeat([made.strength for made in sent], eta.shape[1])
    X, y, counts = parties.folded
    tilt = eta.reshape(-1, eta.shape[2]) / N
    return minimise_convex(loss, X, y, ridge, tilt, counts, tolerance or solver_tolerance(N)).reshape(eta.shape)


def optimality_bound(made: PerturbedObjective, problem: Problem, delta_p: float = 0.05) -> float:
    """Bound algorithm `gop`'s optimality gap with probability 1 - `delta_p` (Rajkumar & Agarwal 2012, Theorem 5.1)."""
    length = made.scale * math.sqrt(2 * float(gammainccinv(problem.d / 2, delta_p))) / problem.N
    pull = made.extra * longest_minimiser(LOSSES["logistic"], made.lam)
    return (SMOOTHNESS + made.lam) / 2 * ((length + pull) / made.strength) ** 2


@dataclass(frozen=True)
class ObjectivePerturbation(
    Perturbed, losses=("squared", "logistic"), calibrations=("published", "tight"), lam=0.0, variants=VARIANTS
):
    """`objpert`: objective perturbation with L2-Laplace noise, for pure eps-DP at one trusted curator.

    The curator minimises the risk + b'w/N + Delta/2 ||w||^2 with a random vector b (Chaudhuri, Monteleoni & Sarwate
    2011, Alg. 2). Its density is proportional to exp(-beta ||b||) with beta = eps'/(2 zeta), where zeta is the
    Lipschitz constant of the loss, and eps' is the part of eps that the curvature of the loss leaves.

    Args:
        loss: `logistic`; or `squared`, which is minimised over the ball ||w|| <= `radius`.
        calibration: `published` uses the paper's noise and ridge; `tight` uses the proven noise and ridge with the
            least bound on excess risk; for the logistic loss, Delta is at most max(0, 2/(N eps) - lam).
        variant: `paper`; or `authors`, the method in the figures of Imtiaz et al. 2019: to the point in the box
            [-1, 1]^d where their solver stops, it adds noise with beta = eps/2 for every N. Its proof uses only the
            diameter of the box, 2 sqrt(d).
        radius: The radius of the ball over which the squared loss is minimised.
    """

    name: ClassVar[str] = "objpert"
    proof: ClassVar[str] = "the box [-1, 1]^d has diameter 2 sqrt d"
    published_variants: ClassVar[bool] = True

    variant: Variant = "paper"
    radius: Annotated[float, POSITIVE] = 1.0

    @property
    def claim(self) -> str:  # type: ignore[override]
        return "the authors' scripts" if self.variant == "authors" else "Chaudhuri et al. 2011, Thm 9"

    @property
    def zeta(self) -> float:
        """A bound on the norm of one row's gradient."""
        return self.loss.lipschitz if self.loss.lipschitz is not None else 2 * (1 + self.radius)

    def calibrate(self, budget: Budget, problem: Problem) -> tuple[float, float]:
        """Return the scale 1/beta of the noise b, and the ridge Delta that is added to lam."""
        eps, N = budget.eps, problem.N
        if math.isinf(eps):
            return 0.0, 0.0
        if self.variant == "authors":
            return 2 / eps, 0.0
        if self.tight:
            ridge = max(N * self.lam, self.ridge(eps, problem.d))
            return 1 / self.beta(eps, ridge), max(0.0, ridge / N - self.lam)
        extra, left = compute_slack(eps, self.lam, N, self.loss.smoothness)
        return 2 * self.zeta / left, extra

    def ridge(self, eps: float, d: int) -> float:
        c = self.loss.smoothness
        least = c * over_expm1(eps) * (1 + 1e-6)  # with a smaller ridge, nothing is proven, whatever the noise

        def energy(ridge: float) -> float:
            return d * (d + 1) / self.beta(eps, ridge) ** 2

        if self.loss.lipschitz is not None:  # logistic loss: a ridge above 2/eps does not reduce the noise
            return best_ridge(energy, typical_norm(self.lam), 2 / eps, least, 2 / eps)
        return best_ridge(energy, self.radius, max(c * over_expm1(eps / 2), 1 / eps), least, math.inf)

    def beta(self, eps: float, ridge: float) -> float:
        """Return the largest rate beta, and so the least noise, that the proof allows for the given eps and ridge."""
        if self.loss.lipschitz is not None:
            return proof.beta_of(eps, ridge)
        return (eps / with_slack(1.0) - math.log1p(self.loss.smoothness / ridge)) / (2 * self.zeta)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Any, ...]:
        scale, extra = self.calibrate(budget, problem)
        if self.variant == "authors":
            of = Minimiser(Stopped(self.loss, self.lam))
            return (Sum(of, 2 * math.sqrt(problem.d), scale, law="l2_laplace"),)
        made = PerturbedObjective("l2_laplace", scale, extra, self.lam, problem.N)
        if self.loss.lipschitz is None:
            made = replace(made, slope=self.zeta, curvature=self.loss.smoothness)
        return (made,)

    def run(self, carrier: Carrier) -> Release:
        problem, parties = carrier.problem, carrier.mechanism.parties
        X, y = parties.X, parties.y
        if self.variant == "authors":
            flat = carrier.ask(0)
            value = mean_loss(self.loss, X, y, flat)
            return Release(carrier.by_budget(flat), {"noisy_objective": carrier.by_budget(value)})
        sent: list[Any] = [message for (message,) in carrier.messages]
        b = perturbations(sent, carrier.rng, carrier.draws, problem.d)
        if self.loss.lipschitz is not None:
            return Release(perturbed_minimisers(self.loss, parties, sent, b))
        strength = carrier.per_run([made.strength for made in sent])
        tilt = b.reshape(-1, problem.d) / problem.N - 2 * y @ X / problem.N
        flat = minimise_quadratic_in_ball(X.T @ X / problem.N, tilt, self.radius, shift=strength / 2)
        return Release(flat.reshape(b.shape))


@dataclass(frozen=True)
class Stopped:
    """Compute the point in the box [-1, 1]^d where the solver of Imtiaz et al. 2019 stops, (d,)."""

    loss: Loss
    lam: float

    def __call__(self, parties: Parties) -> Array:
        return stopped_model(self.loss, parties.X, parties.y, self.lam)


@dataclass(frozen=True)
class GaussianObjectivePerturbation(
    Perturbed, losses=("logistic",), calibrations=("published", "tight"), variants=("paper",)
):
    """`gop`: objective perturbation with Gaussian noise at one trusted curator (Rajkumar & Agarwal 2012, Alg. 4).

    The curator minimises J(w) + eta'w/N + Delta/2 ||w||^2 with Gaussian noise eta, where J(w) is the regularised
    logistic risk. The reported optimality gap is for J.

    Args:
        lam: The coefficient lam of lam/2 ||w||^2; None: 0 for `tight` noise, which adds its own ridge, or 0.01 for
            published noise, which needs a ridge.
        shift: The margin b >= 0 of the loss log(1 + exp(b - y x'w)), for `tight` noise only. The margin does not change
            the guarantee (docs/privacy/perturbed_minima.md); 2 worked well on Adult.
    """

    name: ClassVar[str] = "gop"
    claim: ClassVar[str | None] = "Rajkumar & Agarwal 2012, Thm 4.1"
    published_lam: ClassVar[float] = 0.01
    """The default lam for calibration=published; if it is positive, calibration=published needs a positive lam."""

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
            raise UserError("calibration=published needs a ridge: set algo.lam to a positive number.")
        if self.shift > 0:
            raise UserError(f"algo.shift={self.shift:g} needs tight noise: set calibration=tight, or algo.shift=0.")

    @property
    def trained(self) -> Loss:
        return Logistic(self.shift) if self.shift > 0 else self.loss

    def messages(self, budget: Budget, problem: Problem) -> tuple[Any, ...]:
        calibrate = tight_perturbation if self.tight else published_perturbation
        return (calibrate(budget, problem, self.lam, f"algo={self.name}"),)

    def run(self, carrier: Carrier) -> Release:
        """Release the models, and a bound on the optimality gap that holds for 95 % of noise draws (`gap_bound`)."""
        problem = carrier.problem
        sent: list[Any] = [message for (message,) in carrier.messages]
        eta = perturbations(sent, carrier.rng, carrier.draws, problem.d)
        weights = perturbed_minimisers(self.trained, carrier.mechanism.parties, sent, eta)
        if self.lam == 0 or self.shift > 0:
            return Release(weights)
        bounds = [optimality_bound(made, problem) for made in sent]
        return Release(weights, {"gap_bound": np.repeat(np.array(bounds)[:, None], carrier.draws, axis=1)})
