"""Common parts of algorithms that minimise a perturbed objective: noise, ridges, minimisers and their tolerance.

The objective is ``J(w) + (1/N) eta'w + Delta/2 ||w||^2`` with ``J(w) = (1/N) sum loss(x_i'w, y_i) + lam/2 ||w||^2``.

The published noise is that of Rajkumar & Agarwal 2012, Alg. 4. The printed computeSlack and sigma* have misprints, and
this is what the proofs need: ``exp(eps/4)`` where Procedure 2 has ``exp(c/4)``, which is enough for eps >= c only, and
``((sigma^2 e - 2)/(2 sigma))^2`` where Procedure 3 has ``(sigma e - 2)^2/(4 sigma^2)``: for d = 10, e = .1, delta = .05
a sigma of .23, where 86 is needed.

`tight` chooses noise and ridge together. With R = N (lam + extra), the noise that is proven to be enough falls with R
down to that of a mechanism without a Jacobian, while the ridge pulls w to 0. As the objective is (lam + extra)-strongly
convex, what is lost is at most

    E J(w) - J(w*) <= extra/2 ||w*||^2 + E ||b||^2 / (2 N^2 (lam + extra)),

and `best_ridge` minimises that at a typical norm of w*. It reads no data. lam is not changed, and no ridge is added
that does not reduce the noise, unless lam is 0 and any ridge would do.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammainccinv

from dpml.algorithms.defaults import TYPICAL_NORM
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.mechanism.objectives import PerturbedObjective
from dpml.optim.convex import minimise_convex
from dpml.optim.logistic import longest_minimiser
from dpml.optim.losses import LOSSES, Loss
from dpml.privacy import Budget, Problem
from dpml.privacy.proofs import objective_perturbation as objective

SMOOTHNESS = LOSSES["logistic"].smoothness  # c of the paper
SENSITIVITY = 2.0  # of a sum of gradients: 2 L, L = 1

# A minimiser with a gradient of norm g is the exact one for noise N g away. Replacing a row moves it by up to 2.
RESIDUAL = 1e-4


def solver_tolerance(N: int) -> float:
    """The largest gradient of a released minimiser: at most 1e-9, and N times it at most `RESIDUAL`."""
    return min(1e-9, RESIDUAL / N)


def best_ridge(noise_energy: Callable[[float], float], norm: float, start: float, low: float, high: float) -> float:
    """The R in [low, high] at which ``R norm^2 + noise_energy(R)/R`` is least: 2 N times what is lost, but a constant.

    ``noise_energy(R) = E ||b||^2`` falls with R. `start` is an R to begin with.
    """

    def loss(log_R: float) -> float:
        R = math.exp(log_R)
        return math.log(R * norm**2 + noise_energy(R) / R)

    # neither summand may be above the whole at `start`
    top = loss(math.log(start))
    low = max(low, noise_energy(start) * math.exp(-top))
    bounds = math.log(low), math.log(min(high, math.exp(top) / norm**2))
    minimum = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.02})
    return math.exp(minimum.x) if minimum.fun < top else start


def typical_norm(lam: float) -> float:
    """The norm of w* that the ridge of the logistic loss is best for: `TYPICAL_NORM`, or the longest there can be."""
    return min(TYPICAL_NORM, longest_minimiser(LOSSES["logistic"], lam)) if lam > 0 else TYPICAL_NORM


@dataclass(frozen=True)
class Perturbation:
    """Gaussian noise: `sigma`, the standard deviation of eta, and `extra`, Delta, the coefficient added to lam."""

    sigma: float
    extra: float


def compute_slack(eps: float, lam: float, N: int, c: float = SMOOTHNESS) -> tuple[float, float]:
    """(Delta, e): the ridge to add, and the eps that remains after the share for the curvature c of the loss."""
    left = eps - 2 * math.log1p(c / (N * lam))
    return (0.0, left) if left > 0 else (max(0.0, c / N * over_expm1(eps / 4) - lam), eps / 2)


def over_expm1(x: float) -> float:
    """1/(e^x - 1) for x > 0, which does not overflow."""
    return math.exp(-x) / -math.expm1(-x)


def sigma_star(d: int, eps: float, delta: float) -> float:
    """The sigma with ``Pr[chi2_d <= ((sigma^2 eps - 2)/(2 sigma))^2] = 1 - delta``, the larger root."""
    q = math.sqrt(2 * float(gammainccinv(d / 2, delta)))
    return (q + math.sqrt(q * q + 2 * eps)) / eps


def published_perturbation(budget: Budget, problem: Problem, lam: float, who: str) -> Perturbation:
    """Algorithm 4's noise."""
    if math.isinf(budget.eps):
        return Perturbation(0.0, 0.0)
    extra, left = compute_slack(budget.eps, lam, problem.N)
    return Perturbation(sigma_star(problem.d, left, budget.require_delta(who)), extra)


def tight_perturbation(budget: Budget, problem: Problem, lam: float, who: str) -> Perturbation:
    """The ridge that is best at a typical norm, and the least noise that is proven to be enough with it.

    At most it is the ridge with which the noise is that of the Gaussian mechanism of sensitivity 2 at (eps, delta).
    """
    if math.isinf(budget.eps):
        return Perturbation(0.0, 0.0)
    delta = budget.require_delta(who)
    norm = typical_norm(lam)
    ridge = max(problem.N * lam, _gaussian_ridge(budget.eps, delta, problem.d, norm))
    sigma = objective.sigma_of(budget.eps, ridge, delta)
    if ridge == 0:  # then any is enough, and there has to be one: it is the best at that norm
        ridge = math.sqrt(problem.d) * sigma / norm
    return Perturbation(sigma, max(0.0, ridge / problem.N - lam))


@lru_cache(maxsize=1 << 10)
def _gaussian_ridge(eps: float, delta: float, d: int, norm: float) -> float:
    """The best R = N (lam + extra), if lam leaves the choice; 0 where noise is enough with any."""
    least = objective.sigma_of(eps, math.inf, delta)
    free = objective.free_ridge(eps, least)
    if math.sqrt(d) * least >= free * norm:  # then what is lost falls all the way to `free`
        return free
    return best_ridge(lambda R: d * objective.sigma_of(eps, R, delta) ** 2, norm, free, 0.0, free)


def perturbed_minimisers(  # many parameters: an objective, its perturbations, and how well to minimise it
    loss: Loss,
    lam: float,
    parties: Parties,
    perturbations: Sequence[Perturbation | PerturbedObjective],
    eta: Array,
    tolerance: float | None = None,
) -> Array:
    """argmin J(w) + (1/N) eta'w + Delta/2 ||w||^2 for eta (budgets, draws, d): (budgets, draws, d).

    To a gradient of `tolerance`; None: `solver_tolerance`.
    """
    ridge = np.repeat([lam + p.extra for p in perturbations], eta.shape[1])
    N = len(parties.y)
    tilt = eta.reshape(-1, eta.shape[2]) / N
    X, y, counts = parties.folded
    flat = minimise_convex(loss, X, y, ridge, tilt, counts, solver_tolerance(N) if tolerance is None else tolerance)
    return flat.reshape(eta.shape)


def optimality_bound(made: PerturbedObjective, problem: Problem, delta_p: float = 0.05) -> float:
    """Theorem 5.1: J(w_gop) - J(w*) is at most ``(c + lam)/(2 N^2 lam^2) T`` with probability 1 - delta_p.

    T is sigma^2 times the 1 - delta_p quantile of chi2_d. The theorem needs Delta = 0; with Delta, its proof bounds the
    distance ||w_gop - w*|| by ``(||eta||/N + Delta ||w*||) / (lam + Delta)``, and ||w*|| by `longest_minimiser`.
    """
    length = made.scale * math.sqrt(2 * float(gammainccinv(problem.d / 2, delta_p))) / problem.N
    pull = made.extra * longest_minimiser(LOSSES["logistic"], made.lam)
    return (SMOOTHNESS + made.lam) / 2 * ((length + pull) / made.strength) ** 2
