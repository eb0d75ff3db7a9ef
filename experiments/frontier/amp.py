"""Approximate minima perturbation: objective perturbation whose guarantee covers the error of the solver.

`amp` (Iyengar, Near, Song, Thakkar, Thakurta & Wang 2019, Alg. 1) minimises the objective of `gop` until its gradient
is at most gamma long, and adds Gaussian noise to the model (docs/privacy/perturbed_minima.md, Theorem 2).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpml.algorithms.perturbation import SMOOTHNESS, GaussianObjectivePerturbation, perturbed_minimisers
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.guarantees import Proof
from dpml.mechanism.objectives import PerturbedObjective, perturbations
from dpml.optim import NotConvergedError
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Problem, gdp
from dpml.privacy.proofs import objective_perturbation as objective
from dpml.privacy.safe import round_down, round_up
from dpml.program import Minimiser, Release, Sum

from .outpert import gradient_lengths

OUTPUT = 0.02
"""The share of mu that `tight` spends on noise in the output. It increases the noise in the objective by 1/5000."""
OUTPUT_OF_PAPER = 0.01
"""The share of eps and of delta that the paper's authors spend on the noise in the output."""
REST = 1e-3
"""The share of delta for the smaller terms of the proof."""
_LOGARITHM = 1e-9  # bound on the rounding error of `_log_excess`, whose size is below 1000
_ATTAINABLE = 1e-12  # the smallest gradient that the solver can reach with rounding errors
_ROUNDING = 4e-13  # the same, divided by the norm of eta/N


@dataclass(frozen=True, kw_only=True)
class ApproximateMinimum(PerturbedObjective):
    """The release of a point where the mean objective's gradient has norm at most `gamma`, plus N(0, output^2 I)."""

    gamma: float
    output: float

    @property
    def apart(self) -> float:
        """The largest distance between two such points, ``2 N gamma/R``."""
        return 2 * self.N * self.gamma / self.ridge if self.ridge > 0 else math.inf

    def proven(self, delta: float) -> Proof:
        mu = round_up(self.apart / self.output) if self.output else math.inf
        eps = eps_of(self.scale, self.ridge, mu, delta)
        curve = (self.scale, self.ridge, mu) if math.isfinite(eps) else None
        return Proof(eps, "Theorem 2, docs/privacy/perturbed_minima.md", curve=curve)


def published(budget: Budget, problem: Problem, lam: float, who: str) -> ApproximateMinimum:
    """Return the noise of Algorithm 1, with the split of eps in its authors' program, and gamma = 1/N^2.

    The output gets a hundredth of eps and of delta (eps_2, delta_2). The rest is eps_1 and delta_1. The curvature gets
    the share 1 - f(eps) of eps_1, at most .99. What remains is eps_3, for the noise in the objective. So the ridge is
    ``Lambda = r c/(eps_1 - eps_3)``, r = min(d, 2), c the smoothness; ``sigma = 2 (1 + sqrt(2 log(1/delta_1)))/eps_3``,
    and the output's noise_std is ``N gamma/Lambda (1 + sqrt(2 log(1/delta_2)))/eps_2``.
    """
    N, d = problem.N, problem.d
    if math.isinf(budget.eps):
        return _minimum(0.0, lam, 0.0, problem, gamma=N**-2.0)
    eps, delta = budget.eps, budget.require_delta(who)
    inside = (1 - OUTPUT_OF_PAPER) * eps
    curvature = min((1 - min(0.88671 + 0.0186607 / eps**0.372906, 0.99)) * inside, 0.99)
    sigma = 2 * (1 + math.sqrt(-2 * math.log((1 - OUTPUT_OF_PAPER) * delta))) / (inside - curvature)
    extra = max(0.0, min(d, 2) * SMOOTHNESS / curvature / N - lam)
    made = _minimum(sigma, lam, extra, problem, gamma=N**-2.0)
    scale = (1 + math.sqrt(-2 * math.log(OUTPUT_OF_PAPER * delta))) / (OUTPUT_OF_PAPER * eps)
    return replace(made, output=made.gamma / made.strength * scale)


def tight(budget: Budget, problem: Problem, lam: float, who: str) -> ApproximateMinimum:
    """Return the least noise that is proven to suffice, and a ridge at which it suffices."""
    N = problem.N
    if math.isinf(budget.eps):
        return _minimum(0.0, lam, 0.0, problem)
    eps, delta = budget.eps, budget.require_delta(who)
    whole = gdp.mu_of(eps, (1 - REST) * delta)
    mu = OUTPUT * whole
    sigma = 2 / (whole * math.sqrt(1 - OUTPUT**2)) * (1 + 1e-9)  # rounded up
    extra = max(0.0, free_ridge(eps, sigma, mu, delta) / N - lam)
    made = _minimum(sigma, lam, extra, problem)
    return replace(made, output=2 * made.gamma / made.strength / mu)


def _minimum(sigma: float, lam: float, extra: float, problem: Problem, gamma: float = 0.0) -> ApproximateMinimum:
    """Return the release without output noise; ``||eta|| > sigma (sqrt d + 10)`` has a probability below 1e-21."""
    gamma = max(gamma, _ATTAINABLE, _ROUNDING * sigma * (math.sqrt(problem.d) + 10) / problem.N)
    return ApproximateMinimum("gaussian", sigma, extra, lam, problem.N, gamma=gamma, output=0.0)


@dataclass(frozen=True)
class ApproximateMinima(GaussianObjectivePerturbation):
    """`amp` (Iyengar et al. 2019, Alg. 1): objective perturbation as in `gop`, plus noise in the model.

    The noise in the model hides the error of the solver, whose gradient has norm at most gamma. `tight` needs 1.0002
    times the noise of `gop`, and supports a shift of the margin. gamma is 1/N^2 as published, and as small as rounding
    errors allow for `tight`. A model with a longer gradient is not released.

    Args:
        loss, calibration, variant, lam, shift: as for `gop`; lam is 0 by default.
    """

    name: ClassVar[str] = "amp"
    claim: ClassVar[str | None] = "Iyengar et al. 2019, Thm 1"
    published_lam: ClassVar[float] = 0.0

    def messages(self, budget: Budget, problem: Problem) -> tuple[Any, ...]:
        made = (tight if self.tight else published)(budget, problem, self.lam, f"algo={self.name}")
        return made, Sum(Minimiser(returned, about=problem.d), made.apart, made.output)

    def run(self, carrier: Carrier) -> Release:
        parties = carrier.mechanism.parties
        sent: list[Any] = [made for made, _ in carrier.messages]
        eta = perturbations(sent, carrier.rng, carrier.draws, carrier.problem.d)
        tolerance = min(made.gamma for made in sent) / 2
        weights = perturbed_minimisers(self.trained, parties, sent, eta, tolerance)
        require_gamma(self.trained, parties, weights, eta, sent)
        return Release(carrier.by_budget(carrier.ask(1, weights.reshape(-1, carrier.problem.d))))


def returned(parties: Parties, w: Array) -> Array:
    """Return the models that the solver has found."""
    return w


def require_gamma(loss: Loss, parties: Parties, weights: Array, eta: Array, sent: Sequence[ApproximateMinimum]) -> None:
    """Raise NotConvergedError unless all gradients at `weights` (budgets, draws, d) have norm at most gamma."""
    draws, d = weights.shape[1:]
    ridges = np.repeat([made.strength for made in sent], draws)[:, None]
    tilt = eta.reshape(-1, d) / len(parties.y)
    lengths = gradient_lengths(loss, parties.folded, weights.reshape(-1, d), ridges, tilt)
    for length, made in zip(lengths.reshape(-1, draws).max(axis=1), sent, strict=True):
        if not length <= made.gamma:
            raise NotConvergedError(
                f"algo=amp: the solver left a gradient of norm {length:.1e} > gamma = {made.gamma:.1e}, "
                f"for which nothing is proven: set a larger algo.lam."
            )


def eps_of(sigma: float, ridge: float, mu: float, delta: float) -> float:
    """Return the least eps that is proven at `delta`; inf without noise (sigma) or without a ridge.

    `mu` is the mu of releasing the solver's error in addition to the exact minimiser.
    """
    if sigma == 0 or ridge == 0 or math.isinf(mu):
        return math.inf
    most, rest = round_down((1 - REST) * delta), round_down(REST * delta)
    apart = round_up(objective.eps_of(sigma, ridge, most) + gdp.eps_of(mu, rest))
    whole = gdp.eps_of(round_up(math.hypot(2 / sigma, mu)), most)
    return min(apart, whole) if _log_excess(whole, sigma, ridge, mu) + _LOGARITHM <= math.log(rest) else apart


def free_ridge(eps: float, sigma: float, mu: float, delta: float) -> float:
    """Return about the least ridge for which the release is as private as a Gaussian release at this eps."""
    precision = 1 / sigma / sigma
    # the second term of Theorem 2 is small if L hardly ever exceeds eps - paid, and 0 if paid = precision
    reach = mu * mu / 2 - mu * float(ndtri_exp(math.log(REST * delta)))  # L is above it with probability REST delta
    paid = max(eps * (1 - 1e-6) - reach, precision)
    return 2 / (paid + 2 * precision) * (1 + 1e-12)


def _log_excess(eps: float, sigma: float, ridge: float, mu: float) -> float:
    """Return log of an upper bound on the second term of the first bound in Theorem 2."""
    precision, paid = 1 / sigma / sigma, objective.paid(sigma, ridge)
    if paid <= precision:
        return -math.inf
    middle = eps - mu * mu / 2  # the mean of eps - L, a normal variable of standard deviation mu
    low = float(log_ndtr((paid - middle) / mu))
    high = float(np.logaddexp(log_ndtr((middle - precision) / mu), log_ndtr(-(middle + precision) / mu)))
    return gdp.log_delta_of(2 / sigma, precision) + min(low, high)
