"""Regularised logistic regression over M parties by gradient descent on noisy secure sums (Rajkumar & Agarwal 2012).

`psgd` approaches the minimiser that `gop` (`objective_perturbation`) computes at one place: a third party asks the M
parties for the gradient, who answer with fresh noise rho and with their share of eta, and it sees the sum of the
answers only. One sample is the unit.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release, require_domain
from dpml.algorithms.exposure import Exposure, Pair, model_exposure, round_exposure, turned_label
from dpml.algorithms.hyperparameters import (
    SUM_PROTOCOLS,
    RegularisedLogistic,
    SumProtocol,
    check_choice,
    check_not_negative,
)
from dpml.algorithms.objective_perturbation import (
    SENSITIVITY,
    SMOOTHNESS,
    Perturbation,
    perturbed_minimisers,
    published_perturbation,
    tight_perturbation,
)
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.privacy import Budget, Guarantee, Problem, View, gdp, noise
from dpml.privacy.proofs import noisy_sums

_BLOCK = 1 << 16  # slopes held at once: 512 KiB, so that they stay in cache


@dataclass(frozen=True)
class PrivateSGD(RegularisedLogistic):
    """`psgd` (Alg. 1): gradient descent on noisy sums, ``w <- w - z_t ((1/N) sum_k G_k + (lam + Delta) w)``.

    Party k answers round t with ``G_k = sum of its rows' gradients + rho_t^k + eta^k``, rho of density proportional to
    exp(-eps/2 ||rho||), eta^k ~ N(0, sigma^2/M) drawn once. Only their sum is used, and only it is seen by the third
    party. It depends on the parties through their number alone. With ``z_t = 1/((lam + Delta)(t + 1) + c)``, t from 0,
    sum z_t is infinite and sum z_t^2 is not (Robbins & Monro 1951), the first step is 1/(the largest curvature), and
    the distance to the limit point falls as T^-1/2, because no curvature is below (lam + Delta)/2.

    The theorem is about the limit point. What is released after finitely many rounds is not that point, and what the
    third party has seen are all sums: the proven guarantees are those of all sums (`proofs.noisy_sums`), for each
    view of them. `tight` promises the same eps to the third party with the colluders: fresh Gaussian noise in every
    round, no eta, T rounds composed exactly; each party's share is so large that the honest ones' is enough. More
    rounds then cost nothing but time, as the mean of their noise stays the same. It has the ridge of gop's `tight`, not
    for privacy, but because where the objective is flatter T rounds of noise would not average out. Who sees the last
    model only learns no less: the weight ``z_t prod_(s > t) (1 - z_s (lam + Delta))`` of a round in it is the same for
    all rounds, so that a row whose gradient does not turn moves it as T rounds do.

    Args:
        rounds: T, counted in full by the guarantees.
        tolerance: a run stops before that as soon as a step is at most this long; 0 for never.
        protocol: `simulate` draws the sums; with `secagg` every party's answers go through the real secure aggregation
            (`dpml.protocols.secure_sum`), one run a round for all budgets and draws.
    """

    name: ClassVar[str] = "psgd"

    rounds: int = 1000
    tolerance: float = 0.0
    protocol: SumProtocol = "simulate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 1:
            raise UserError(f"algo.rounds of psgd must be at least 1, got {self.rounds}.")
        check_not_negative("algo.tolerance of psgd", self.tolerance)
        check_choice("algo.protocol", self.protocol, SUM_PROTOCOLS)

    def perturbation(self, budget: Budget, problem: Problem) -> Perturbation:
        """Single source of the noise that is drawn once and of the ridge, for sampling and for accounting."""
        if self.tight:
            return Perturbation(0.0, tight_perturbation(budget, problem, self.lam, "algo=psgd").extra)
        return published_perturbation(budget, problem, self.lam, "algo=psgd")

    def fresh(self, budget: Budget, problem: Problem) -> float:
        """Single source of the noise in every round's sum, for sampling and for accounting.

        Published: the scale 1/beta of a party's rho. Tight: the standard deviation of the sum.
        """
        if math.isinf(budget.eps):
            return 0.0
        if not self.tight:
            return SENSITIVITY / budget.eps
        mu = gdp.mu_of(budget.eps, budget.require_delta("algo=psgd"))
        return SENSITIVITY * math.sqrt(self.rounds) / mu * math.sqrt(problem.M / problem.honest)

    def proven(self, budget: Budget, problem: Problem) -> dict[View, tuple[float, str]]:
        """The proven eps of every view and the proof's name; what is released is computed from the sums.

        With `tight` no view has a single party's messages, as the summation is secure. The paper's noise is also
        counted for an adversary who sees them.
        """
        delta = budget.require_delta("algo=psgd")
        M = problem.M
        share: dict[View, int] = {"release": M, "transcript": M, "client": 1, "colluders": problem.honest}
        if self.tight:
            del share["client"]
        if math.isinf(budget.eps):
            return dict.fromkeys(share, (math.inf, "no noise"))
        if not self.tight:
            sigma = self.perturbation(budget, problem).sigma
            return {
                view: noisy_sums.proven(self.rounds, budget.eps, h, problem.d, sigma * math.sqrt(h / M), delta)
                for view, h in share.items()
            }
        mu = SENSITIVITY * math.sqrt(self.rounds) / self.fresh(budget, problem)
        rounds = "Gaussian DP of the rounds"
        return {view: (gdp.eps_of(mu * math.sqrt(M / h), delta), rounds) for view, h in share.items()}

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published; for what the third party sees, and so for what it releases) and proven."""
        delta = budget.require_delta("algo=psgd")
        guarantees = []
        for view, (eps, proof) in self.proven(budget, problem).items():
            if not self.tight and view in ("release", "transcript"):
                claim = "Rajkumar & Agarwal 2012, Thm 4.2 (the limit point)"
                guarantees.append(Guarantee(view, "sample", budget.eps, delta, "published", claim))
            guarantees.append(Guarantee(view, "sample", eps, delta, "proven", f"{proof}, T = {self.rounds}"))
        return guarantees

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """A row changes its label."""
        return turned_label(problem)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model, and all rounds' sums: the noise of h parties, along the row by which the gradient moves."""
        problem = pair[0].problem
        M, d = problem.M, problem.d
        fresh, sigma = self.fresh(budget, problem), self.perturbation(budget, problem).sigma

        def sums(h: int) -> Callable[[Generator, int], Iterator[Array]]:
            def draw(rng: Generator, draws: int) -> Iterator[Array]:
                constant = sigma * math.sqrt(h / M) * noise.gaussian(rng, (draws, d))[:, 0]
                while True:
                    yield constant + fresh * self.round_noise(rng, draws, h, M, d)[:, 0]

            return draw

        prepared = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        exposures = [model_exposure(prepared, budget)]
        for view in self.proven(budget, problem):
            if view == "release":
                continue
            h = {"client": 1, "colluders": problem.honest}.get(view, M)
            fresh_variance = fresh**2 * (h / M if self.tight else h * (d + 1))
            covariance = np.eye(self.rounds) * fresh_variance + sigma**2 * h / M
            exposure = round_exposure(view, sums(h), 1.0, covariance)
            # the sum of a few Laplace vectors is not normal: matched to its variances, the score is merely a good one
            exposures.append(exposure if self.tight else replace(exposure, normal=False, mu=math.nan))
        return exposures

    def round_noise(self, rng: Generator, draws: int, parties: int, M: int, d: int) -> Array:
        """The sum of some parties' fresh noise in a round, in units of `fresh`: (draws, d)."""
        if self.tight:
            return math.sqrt(parties / M) * noise.gaussian(rng, (draws, d))
        return noise.l2_laplace_total(rng, draws, parties, d)

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedSums":
        """Nothing to do before the noise is known: every answer is noisy."""
        require_domain(parties, self.loss)
        kind = PreparedSums if self.protocol == "simulate" else SecureSums
        return kind(self, parties, parties.y[:, None] * parties.X)


@dataclass(frozen=True)
class PreparedSums:
    """The data of `psgd`, and its rows times their labels, `signed` (N, d)."""

    algorithm: PrivateSGD
    parties: Parties
    signed: Array

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The last iterates. All budgets and draws descend together, with one gradient a round for all of them.

        `distance` is ||w_T - w_limit||, where w_limit is the minimiser that the rounds approach, with the same eta;
        `rounds` is how many were used.
        """
        algorithm, problem = self.algorithm, self.parties.problem
        perturbations = [algorithm.perturbation(budget, problem) for budget in budgets]
        sigma = np.array([p.sigma for p in perturbations])[:, None, None]
        fresh = np.array([algorithm.fresh(budget, problem) for budget in budgets])[:, None, None]
        constant = self.constant_noise(rng, draws)
        eta = sigma * constant.sum(axis=0)
        limit = perturbed_minimisers(algorithm, self.parties, perturbations, eta)

        strength = np.repeat([algorithm.lam + p.extra for p in perturbations], draws)[:, None]
        w = np.zeros((len(strength), problem.d))
        used = np.zeros(len(w))
        moving = np.ones((len(w), 1), dtype=bool)
        for t in range(algorithm.rounds):
            total = self.noisy_sum(w, sigma, constant, fresh, rng)
            step = moving * (total / problem.N + strength * w) / (strength * (t + 1) + SMOOTHNESS)
            w -= step
            used += moving[:, 0]
            if algorithm.tolerance:
                moving &= np.linalg.norm(step, axis=1, keepdims=True) > algorithm.tolerance
                if not moving.any():
                    break
        distance = np.linalg.norm(w.reshape(eta.shape) - limit, axis=-1)
        return Release(w.reshape(eta.shape), {"distance": distance, "rounds": used.reshape(distance.shape)})

    def constant_noise(self, rng: Generator, draws: int) -> Array:
        """The eta^k in units of sigma: (parties, draws, d). Simulated: one line, their sum."""
        return noise.gaussian(rng, (draws, self.parties.problem.d))[None]

    def noisy_sum(self, w: Array, sigma: Array, constant: Array, fresh: Array, rng: Generator) -> Array:
        """A round's sum at the models w (B, d), B = budgets x draws: (B, d); `sigma` and `fresh` (budgets, 1, 1)."""
        M, d = self.parties.problem.M, w.shape[1]
        drawn = self.algorithm.round_noise(rng, constant.shape[1], M, M, d)
        return self.answers(w, slice(None)) + (sigma * constant[0]).reshape(w.shape) + (fresh * drawn).reshape(w.shape)

    def answers(self, w: Array, rows: slice) -> Array:
        """The sum of some rows' gradients at w (B, d), without noise: (B, d).

        ``- sum_i u_i / (1 + exp(u_i'w))``, u = y x: three times as fast as by way of `Logistic.slope`.
        """
        total = np.zeros_like(w)
        signed = self.signed[rows]
        height = max(64, _BLOCK // len(w))
        for start in range(0, len(signed), height):
            block = signed[start : start + height]
            slope = w @ block.T
            with np.errstate(over="ignore"):  # exp(710) is infinite, and such a row's slope 0
                np.exp(slope, out=slope)
            slope += 1
            np.divide(1, slope, out=slope)
            total -= slope @ block
        return total


class SecureSums(PreparedSums):
    """The same with real parties, who answer each on their own; the third party gets sums and nothing else."""

    def constant_noise(self, rng: Generator, draws: int) -> Array:
        M, d = self.parties.problem.M, self.parties.problem.d
        return noise.gaussian_messages(rng, draws, M, d).transpose(1, 0, 2) / math.sqrt(M)

    def noisy_sum(self, w: Array, sigma: Array, constant: Array, fresh: Array, rng: Generator) -> Array:
        from dpml.protocols import choose, secure_sum  # most runs need no cryptography

        algorithm, problem = self.algorithm, self.parties.problem
        M, d = problem.M, problem.d
        answers = np.empty((M, *w.shape))
        for k in range(M):
            drawn = algorithm.round_noise(rng, constant.shape[1], 1, M, d)
            own = (sigma * constant[k] + fresh * drawn).reshape(w.shape)
            answers[k] = self.answers(w, self.parties.of(k)) + own
        # public: a party has at most N rows of norm 1, and longer noise is less likely than 1 in 10^40
        bound = problem.N + float(16 * sigma.max() + (6 * d + 100) * fresh.max())
        topology = choose(M, problem.colluders)
        return secure_sum(answers.reshape(M, -1), bound, rng, topology=topology).total.reshape(w.shape)
