"""Approximate minima perturbation: objective perturbation whose guarantee holds for what a real solver returns.

`amp` (Iyengar, Near, Song, Thakkar, Thakurta & Wang 2019, "Towards practical differentially private convex
optimization", Alg. 1) minimises the objective of `gop` until its gradient is at most gamma long, and adds Gaussian
noise to the model, which hides the distance from the exact minimiser that the proofs of `gop` assume. One sample is
the unit, and all rows are at one trusted curator.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Mechanism, Release, require_domain
from dpml.algorithms.exposure import Exposure, Pair
from dpml.algorithms.objective_perturbation import NEARLY, GaussianObjectivePerturbation
from dpml.algorithms.perturbed_objectives import SMOOTHNESS, Perturbation, perturbed_minimisers
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.optim import NotConvergedError
from dpml.optim.losses import mean_gradient
from dpml.privacy import Budget, Guarantee, Problem, gdp, noise
from dpml.privacy.proofs import approximate_minima as proof

OUTPUT = 0.02
"""The share of mu that `tight` gives to the output: the other noise grows by a 5000th."""
OUTPUT_OF_PAPER = 0.01
"""The share of eps and of delta that the paper's authors give to it."""
_ATTAINABLE = 1e-12  # a gradient that rounding allows for
_ROUNDING = 4e-13  # and one beside the length of the noise


@dataclass(frozen=True)
class ApproximatePerturbation(Perturbation):
    """The noise of `amp`: that of `gop`, the largest gradient `gamma`, and the scale of the noise in the `output`."""

    gamma: float
    output: float

    def mu(self, ridge: float, N: int) -> float:
        """The mu of releasing v beside the exact minimiser, with R = `ridge`: two models at most N gamma/R from it."""
        return 2 * N * self.gamma / ridge / self.output if self.output > 0 and ridge > 0 else math.inf


def published(budget: Budget, problem: Problem, lam: float, who: str) -> ApproximatePerturbation:
    """Algorithm 1's noise, with the split of eps that its authors use where none is tuned, and gamma = 1/N^2.

    A hundredth of eps and delta is for the output. Of the rest, eps_1, a share f(eps) is for eps_3, the noise in the
    objective, and what is left, at most .99, for its curvature: ``Lambda = r c/(eps_1 - eps_3)``, r = min(d, 2), c the
    smoothness. Then ``sigma = 2 (1 + sqrt(2 log(1/delta_1)))/eps_3``, and the output's scale is
    ``N gamma/Lambda (1 + sqrt(2 log(1/delta_2)))/eps_2``.
    """
    N, d = problem.N, problem.d
    if math.isinf(budget.eps):
        return ApproximatePerturbation(0.0, 0.0, _gamma(N**-2.0, 0.0, problem), 0.0)
    eps, delta = budget.eps, budget.require_delta(who)
    inside = (1 - OUTPUT_OF_PAPER) * eps
    curvature = min((1 - min(0.88671 + 0.0186607 / eps**0.372906, 0.99)) * inside, 0.99)
    sigma = 2 * (1 + math.sqrt(-2 * math.log((1 - OUTPUT_OF_PAPER) * delta))) / (inside - curvature)
    extra = max(0.0, min(d, 2) * SMOOTHNESS / curvature / N - lam)
    gamma = _gamma(N**-2.0, sigma, problem)
    scale = (1 + math.sqrt(-2 * math.log(OUTPUT_OF_PAPER * delta))) / (OUTPUT_OF_PAPER * eps)
    return ApproximatePerturbation(sigma, extra, gamma, gamma / (lam + extra) * scale)


def tight(budget: Budget, problem: Problem, lam: float, who: str) -> ApproximatePerturbation:
    """The least noise that is proven, with the least ridge at which it is enough."""
    N = problem.N
    if math.isinf(budget.eps):
        return ApproximatePerturbation(0.0, 0.0, _gamma(0.0, 0.0, problem), 0.0)
    eps, delta = budget.eps, budget.require_delta(who)
    whole = gdp.mu_of(eps, (1 - proof.REST) * delta)
    mu = OUTPUT * whole
    sigma = 2 / (whole * math.sqrt(1 - OUTPUT**2)) * (1 + 1e-9)  # rounded up
    extra = max(0.0, proof.free_ridge(eps, sigma, mu, delta) / N - lam)
    gamma = _gamma(0.0, sigma, problem)
    return ApproximatePerturbation(sigma, extra, gamma, 2 * gamma / (lam + extra) / mu)


def _gamma(wanted: float, sigma: float, problem: Problem) -> float:
    """The `wanted` bound on the gradient, or the least that rounding allows; it is public.

    ||eta|| is above ``sigma (sqrt d + 10)`` once in 10^21.
    """
    return max(wanted, _ATTAINABLE, _ROUNDING * sigma * (math.sqrt(problem.d) + 10) / problem.N)


@dataclass(frozen=True)
class ApproximateMinima(GaussianObjectivePerturbation):
    """`amp` (Iyengar et al. 2019, Alg. 1): a model at which gop's objective has a gradient of at most gamma, and noise.

    Lambda/N is what is added to lam. `tight` has the noise of `gop` but for a 5000th, and takes a shift of the margin.
    gamma is 1/N^2 as published, but no less than rounding allows for, which is what `tight` takes; a model with a
    longer gradient is not released. What is proven is `proofs.approximate_minima`.

    Args:
        lam: coefficient of lam/2 ||w||^2; None: 0, as the noise brings a ridge of its own.
        shift: margin b >= 0 of the loss log(1 + exp(b - y x'w)) that is minimised, for `tight` noise; 2 did well on
            Adult.
    """

    name: ClassVar[str] = "amp"
    published_lam: ClassVar[float] = 0.0

    def perturbation(self, budget: Budget, problem: Problem) -> ApproximatePerturbation:
        """Single source of both noise scales, gamma and the ridge, for sampling and for accounting."""
        calibrate = tight if self.tight else published
        return calibrate(budget, problem, self.lam, f"algo={self.name}")

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven."""
        delta = budget.require_delta(f"algo={self.name}")
        made = self.perturbation(budget, problem)
        ridge = problem.N * (self.lam + made.extra)
        eps = proof.eps_of(made.sigma, ridge, made.mu(ridge, problem.N), delta)
        proven = Guarantee("release", "sample", eps, delta, "proven", "dpml.privacy.proofs.approximate_minima")
        if self.tight:
            return [proven]
        return [Guarantee("release", "sample", budget.eps, delta, "published", "Iyengar et al. 2019, Thm 1"), proven]

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model, scored as if it were an exact minimiser: the density of the sum of both noises is not known.

        The scores are as normal as those of `gop` where the output's noise is negligible beside the other one.
        """
        (exposure,) = super().exposures(pair, budget)
        sigma, ridge = self._noise(budget, pair[0].problem)
        steepest = ridge + pair[0].problem.N * SMOOTHNESS
        lost = steepest * self.perturbation(budget, pair[0].problem).output <= NEARLY * sigma
        return [replace(exposure, normal=exposure.normal and lost, mu=math.nan)]

    def prepare(self, parties: Parties, rng: Generator) -> Mechanism:
        """Nothing to do before the noise is known."""
        require_domain(parties, self.loss)
        return PreparedApproximateMinima(self, parties)


@dataclass(frozen=True)
class PreparedApproximateMinima:
    """The data of `amp`. Each draw is a minimisation of its own; all run together."""

    algorithm: ApproximateMinima
    parties: Parties

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """What the solver returns, plus noise.

        Raises:
            NotConvergedError: some gradient is longer than gamma.
        """
        algorithm, problem = self.algorithm, self.parties.problem
        made = [algorithm.perturbation(budget, problem) for budget in budgets]
        eta = np.array([p.sigma for p in made])[:, None, None] * noise.gaussian(rng, (draws, problem.d))
        tolerance = min(p.gamma for p in made) / 2
        weights = perturbed_minimisers(algorithm.trained, algorithm.lam, self.parties, made, eta, tolerance)
        self.require_gamma(weights, eta, made)
        output = np.array([p.output for p in made])[:, None, None] * noise.gaussian(rng, (draws, problem.d))
        return Release(weights + output)

    def require_gamma(self, weights: Array, eta: Array, made: Sequence[ApproximatePerturbation]) -> None:
        """Raise NotConvergedError unless all gradients at `weights` (budgets, draws, d) are at most gamma long."""
        X, y, counts = self.parties.folded
        flat = weights.reshape(-1, weights.shape[2])
        risk = mean_gradient(self.algorithm.trained, X, y, flat, counts).reshape(weights.shape)
        ridge = np.array([self.algorithm.lam + p.extra for p in made])[:, None, None]
        lengths = np.linalg.norm(risk + ridge * weights + eta / len(self.parties.y), axis=2)
        for length, perturbation in zip(lengths.max(axis=1), made, strict=True):
            if not length <= perturbation.gamma:
                raise NotConvergedError(
                    f"algo=amp: the solver left a gradient of norm {length:.1e} > gamma = {perturbation.gamma:.1e}, of "
                    f"which nothing is proven: set a larger algo.lam."
                )
