"""Rajkumar & Agarwal 2012: one regularised logistic regression over M parties, by stochastic gradients with two noises.

All minimise ``J(w) = (1/N) sum log(1 + exp(-y_i x_i'w)) + lam/2 ||w||^2`` over rows in the unit ball, labels -1 and +1.
`gop` adds ``(1/N) eta'w + Delta/2 ||w||^2``, eta Gaussian, and minimises exactly. `psgd` reaches the same minimum in
rounds: a third party asks the M parties for the gradient, who answer with fresh noise rho and with their share of eta,
and it sees the sum of the answers only (secure summation). `la` is what the paper compares with, the mean of the local
minimisers plus noise (Pathak et al. 2010). One sample is the unit.

The printed computeSlack and sigma* have misprints, and this is what the proofs need: ``exp(eps/4)`` where Procedure 2
has ``exp(c/4)``, and ``((sigma^2 e - 2)/(2 sigma))^2`` where Procedure 3 has ``(sigma e - 2)^2/(4 sigma^2)``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator
from scipy.special import gammainccinv

from dpml.algorithms import Release, require_domain
from dpml.algorithms.exposure import (
    Exposure,
    Pair,
    laplace_score,
    matched,
    minimiser_score,
    one_replaced,
    released_models,
    turned_label,
)
from dpml.algorithms.hamm import longest
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.logistic import fit_parties
from dpml.optim.losses import LOSSES, Loss
from dpml.optim.solvers import minimise_convex
from dpml.privacy import CALIBRATIONS, Budget, Calibration, Guarantee, Problem, View, gdp, noise
from dpml.privacy.proofs import noisy_sums as rounds
from dpml.privacy.proofs import objective_perturbation as objective

SMOOTHNESS = LOSSES["logistic"].smoothness  # c of the paper
SENSITIVITY = 2.0  # of a sum of gradients: 2 L, L = 1

_BLOCK = 1 << 16  # slopes held at once: 512 KiB, so that they stay in cache


@dataclass(frozen=True)
class Perturbation:
    """The noise of `gop`: `sigma`, the standard deviation of eta, and `extra`, Delta, the coefficient added to lam."""

    sigma: float
    extra: float


def compute_slack(eps: float, lam: float, N: int, c: float = SMOOTHNESS) -> tuple[float, float]:
    """(Delta, e): the ridge to add, and what is left of eps after the curvature c of the loss has cost its share."""
    left = eps - 2 * math.log1p(c / (N * lam))
    return (0.0, left) if left > 0 else (c / (N * math.expm1(eps / 4)) - lam, eps / 2)


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
    """The least noise that `proofs.objective_perturbation` proves to be enough, and the least ridge with which it is.

    That is the noise of the Gaussian mechanism with sensitivity 2 at the same (eps, delta).
    """
    if math.isinf(budget.eps):
        return Perturbation(0.0, 0.0)
    sigma = SENSITIVITY / gdp.mu_of(budget.eps, budget.require_delta(who))
    if budget.eps <= 1 / sigma**2:
        return Perturbation(sigma, 0.0)
    # where `objective.paid` is eps; a hair more, so that rounding does not lose it
    ridge = 2 / (budget.eps + 2 / sigma**2) * (1 + 1e-12)
    return Perturbation(sigma, max(0.0, ridge / problem.N - lam))


@dataclass(frozen=True)
class _Logistic:
    """What all have in common: the hyper-parameters.

    Args:
        loss: logistic.
        calibration: `published` noise, or `tight`: the least that is proven to be enough.
        variant: `paper` only.
        lam: coefficient of lam/2 ||w||^2.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1

    loss: Loss
    calibration: Calibration = "published"
    variant: str = "paper"
    lam: float = 0.01

    def __post_init__(self) -> None:
        if self.calibration not in CALIBRATIONS:
            raise UserError(f"calibration must be one of {', '.join(CALIBRATIONS)}, got {self.calibration!r}.")
        if self.variant != "paper":
            raise UserError(f"algo.variant of {self.name} must be paper, got {self.variant!r}.")
        if self.loss.name != "logistic":
            raise UserError(f"algo={self.name} is proven for loss=logistic only, not for loss={self.loss.name}.")
        if not 0 < self.lam < math.inf:
            raise UserError(f"algo.lam of {self.name} must be a positive number, got {self.lam}.")

    @property
    def tight(self) -> bool:
        """Whether the noise is the least proven."""
        return self.calibration == "tight"


@dataclass(frozen=True)
class GaussianObjectivePerturbation(_Logistic):
    """`gop` (Alg. 4): the minimiser of ``J(w) + (1/N) eta'w + Delta/2 ||w||^2`` at one trusted curator."""

    name: ClassVar[str] = "gop"

    def perturbation(self, budget: Budget, problem: Problem) -> Perturbation:
        """The noise of a release: the one place that says it."""
        calibrate = tight_perturbation if self.tight else published_perturbation
        return calibrate(budget, problem, self.lam, f"algo={self.name}")

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven."""
        delta = budget.require_delta(f"algo={self.name}")
        made = self.perturbation(budget, problem)
        eps = objective.eps_of(made.sigma, problem.N * (self.lam + made.extra), delta)
        proven = Guarantee("release", "sample", eps, delta, "proven", "dpml.privacy.proofs.objective_perturbation")
        if self.tight:
            return [proven]
        return [
            Guarantee("release", "sample", budget.eps, delta, "published", "Rajkumar & Agarwal 2012, Thm 4.1"),
            proven,
        ]

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """A crowd of equal rows holds w where the gradients of the replaced row and of its successor are both long."""
        made = self.perturbation(budget, problem)
        d = problem.d
        if d == 1:
            return turned_label(problem)
        X = np.eye(1, d, 1).repeat(problem.N, axis=0)
        held = minimise_convex(self.loss, X, np.ones(len(X)), self.lam + made.extra, np.zeros((1, d)))[0, 1]
        against = np.linspace(0, 1, 101)  # how far the two rows point against w: their gradients grow, and turn alike
        across = np.sqrt(1 - against**2)
        best = int(np.argmax(across / (1 + np.exp(-against * held))))
        row, other = ([sign * across[best], -against[best]] for sign in (1, -1))
        return one_replaced("binary", problem, row, other, (1.0, 1.0), crowd=[0.0, 1.0])

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model. Its density is that of the noise which makes it the minimiser, times a Jacobian."""
        made = self.perturbation(budget, pair[0].problem)

        def log_noise(b: Array) -> Array:
            return -np.einsum("ij,ij->i", b, b) / (2 * made.sigma**2)

        prepared = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        score = minimiser_score(self.loss, pair, self.lam + made.extra, log_noise)
        return [replace(released_models(prepared, budget), score=score)]

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedObjective":
        """Nothing to do before the noise is known."""
        require_domain(parties, self.loss)
        return PreparedObjective(self, parties)


@dataclass(frozen=True)
class PreparedObjective:
    """The data of `gop`. Each draw is a minimisation of its own; all run together."""

    algorithm: GaussianObjectivePerturbation
    parties: Parties

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """Minimisers of the perturbed objectives, to a gradient norm of 1e-9: the proof is about exact minimisers.

        `gap_bound` is Theorem 5.1's bound on the optimality gap, which 95 % of the draws keep.
        """
        algorithm, problem = self.algorithm, self.parties.problem
        made = [algorithm.perturbation(budget, problem) for budget in budgets]
        eta = np.array([m.sigma for m in made])[:, None, None] * noise.gaussian(rng, (draws, problem.d))
        weights = _minimisers(algorithm, self.parties, made, eta)
        bounds = [optimality_bound(m, problem, algorithm.lam) for m in made]
        return Release(weights, {"gap_bound": np.repeat(np.array(bounds)[:, None], draws, axis=1)})


def _minimisers(algorithm: _Logistic, parties: Parties, made: Sequence[Perturbation], eta: Array) -> Array:
    """argmin J(w) + (1/N) eta'w + Delta/2 ||w||^2 for eta (budgets, draws, d): (budgets, draws, d)."""
    ridge = np.repeat([algorithm.lam + m.extra for m in made], eta.shape[1])
    tilt = eta.reshape(-1, eta.shape[2]) / len(parties.y)
    return minimise_convex(algorithm.loss, parties.X, parties.y, ridge, tilt).reshape(eta.shape)


def optimality_bound(made: Perturbation, problem: Problem, lam: float, delta_p: float = 0.05) -> float:
    """Theorem 5.1: J(w_gop) - J(w*) is at most ``(c + lam)/(2 N^2 lam^2) T`` with probability 1 - delta_p.

    T is sigma^2 times the 1 - delta_p quantile of chi2_d. The theorem needs Delta = 0; with Delta, its proof bounds the
    distance ||w_gop - w*|| by ``(||eta||/N + Delta ||w*||) / (lam + Delta)``, and ||w*|| by `hamm.longest`.
    """
    length = made.sigma * math.sqrt(2 * float(gammainccinv(problem.d / 2, delta_p))) / problem.N
    pull = made.extra * longest(LOSSES["logistic"], lam)
    return (SMOOTHNESS + lam) / 2 * ((length + pull) / (lam + made.extra)) ** 2


@dataclass(frozen=True)
class PrivateSGD(_Logistic):
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
    for privacy, but because where the objective is flatter T rounds of noise would not average out.

    Args:
        rounds: T, counted in full by the guarantees.
        tolerance: a run stops before that as soon as a step is at most this long; 0 for never.
        protocol: `simulate` draws the sums; with `secagg` every party's answers go through the real secure aggregation
            (`dpml.protocols.secure_sum`), one run a round for all budgets and draws.
    """

    name: ClassVar[str] = "psgd"

    rounds: int = 1000
    tolerance: float = 0.0
    protocol: Literal["simulate", "secagg"] = "simulate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 1:
            raise UserError(f"algo.rounds of psgd must be at least 1, got {self.rounds}.")
        if not 0 <= self.tolerance < math.inf:
            raise UserError(f"algo.tolerance of psgd must be a number >= 0, got {self.tolerance}.")
        if self.protocol not in ("simulate", "secagg"):
            raise UserError(f"algo.protocol must be simulate or secagg, got {self.protocol!r}.")

    def perturbation(self, budget: Budget, problem: Problem) -> Perturbation:
        """The noise that is drawn once, and the ridge: the one place that says it."""
        if self.tight:
            return Perturbation(0.0, tight_perturbation(budget, problem, self.lam, "algo=psgd").extra)
        return published_perturbation(budget, problem, self.lam, "algo=psgd")

    def fresh(self, budget: Budget, problem: Problem) -> float:
        """The noise of every round's sum, and the one place that says it.

        Published: the scale 1/beta of a party's rho. Tight: the standard deviation of the sum.
        """
        if math.isinf(budget.eps):
            return 0.0
        if not self.tight:
            return SENSITIVITY / budget.eps
        mu = gdp.mu_of(budget.eps, budget.require_delta("algo=psgd"))
        return SENSITIVITY * math.sqrt(self.rounds) / mu * math.sqrt(problem.M / problem.honest)

    def views(self, budget: Budget, problem: Problem) -> dict[View, float]:
        """The proven eps of every view; what is released is computed from the sums.

        With `tight` nobody sees a single party's messages, as the summation is secure. The paper's noise is also looked
        at by somebody who does.
        """
        delta = budget.require_delta("algo=psgd")
        M = problem.M
        share: dict[View, int] = {"release": M, "transcript": M, "client": 1, "colluders": problem.honest}
        if math.isinf(budget.eps):
            return dict.fromkeys(share, math.inf)
        if self.tight:
            del share["client"]
            mu = SENSITIVITY * math.sqrt(self.rounds) / self.fresh(budget, problem)
            return {view: gdp.eps_of(mu * math.sqrt(M / h), delta) for view, h in share.items()}
        beta, sigma = 1 / self.fresh(budget, problem), self.perturbation(budget, problem).sigma
        return {
            view: rounds.eps_of(self.rounds, SENSITIVITY * beta, h, problem.d, sigma * math.sqrt(h / M), delta)
            for view, h in share.items()
        }

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published; for what the third party sees, and so for what it releases) and proven."""
        delta = budget.require_delta("algo=psgd")
        found = []
        for view, eps in self.views(budget, problem).items():
            if not self.tight and view in ("release", "transcript"):
                claim = "Rajkumar & Agarwal 2012, Thm 4.2 (the limit point)"
                found.append(Guarantee(view, "sample", budget.eps, delta, "published", claim))
            source = "Gaussian DP of the rounds" if self.tight else "dpml.privacy.proofs.noisy_sums"
            found.append(Guarantee(view, "sample", eps, delta, "proven", f"{source}, T = {self.rounds}"))
        return found

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
                stays = sigma * math.sqrt(h / M) * noise.gaussian(rng, (draws, d))[:, 0]
                while True:
                    yield stays + fresh * self.round_noise(rng, draws, h, M, d)[:, 0]

            return draw

        prepared = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        found = [released_models(prepared, budget)]
        for view in self.views(budget, problem):
            if view == "release":
                continue
            h = {"client": 1, "colluders": problem.honest}.get(view, M)
            fresh_variance = fresh**2 * (h / M if self.tight else h * (d + 1))
            covariance = np.eye(self.rounds) * fresh_variance + sigma**2 * h / M
            exposure = matched(view, sums(h), 1.0, covariance)
            # the sum of a few Laplace vectors is not normal: matched to its variances, the score is merely a good one
            found.append(exposure if self.tight else replace(exposure, normal=False, distance=math.nan))
        return found

    def round_noise(self, rng: Generator, draws: int, parties: int, M: int, d: int) -> Array:
        """The sum of some parties' fresh noise in a round, in units of `fresh`: (draws, d)."""
        if self.tight:
            return math.sqrt(parties / M) * noise.gaussian(rng, (draws, d))
        return noise.l2_laplace_total(rng, draws, parties, d)

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedDescent":
        """Nothing to do before the noise is known: every answer is noisy."""
        require_domain(parties, self.loss)
        kind = PreparedDescent if self.protocol == "simulate" else SecureDescent
        return kind(self, parties, parties.y[:, None] * parties.X)


@dataclass(frozen=True)
class PreparedDescent:
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
        made = [algorithm.perturbation(budget, problem) for budget in budgets]
        sigma = np.array([m.sigma for m in made])[:, None, None]
        fresh = np.array([algorithm.fresh(budget, problem) for budget in budgets])[:, None, None]
        stays = self.noise_that_stays(rng, draws)
        eta = sigma * stays.sum(axis=0)
        limit = _minimisers(algorithm, self.parties, made, eta)

        strength = np.repeat([algorithm.lam + m.extra for m in made], draws)[:, None]
        w = np.zeros((len(strength), problem.d))
        used = np.zeros(len(w))
        moving = np.ones((len(w), 1), dtype=bool)
        for t in range(algorithm.rounds):
            heard = self.hear(w, sigma, stays, fresh, rng)
            step = moving * (heard / problem.N + strength * w) / (strength * (t + 1) + SMOOTHNESS)
            w -= step
            used += moving[:, 0]
            if algorithm.tolerance:
                moving &= np.linalg.norm(step, axis=1, keepdims=True) > algorithm.tolerance
                if not moving.any():
                    break
        distance = np.linalg.norm(w.reshape(eta.shape) - limit, axis=-1)
        return Release(w.reshape(eta.shape), {"distance": distance, "rounds": used.reshape(distance.shape)})

    def noise_that_stays(self, rng: Generator, draws: int) -> Array:
        """The eta^k in units of sigma: (parties, draws, d). Simulated: one line, their sum."""
        return noise.gaussian(rng, (draws, self.parties.problem.d))[None]

    def hear(self, w: Array, sigma: Array, stays: Array, fresh: Array, rng: Generator) -> Array:
        """A round's sum at the models w (B, d), B = budgets x draws: (B, d); `sigma` and `fresh` (budgets, 1, 1)."""
        M, d = self.parties.problem.M, w.shape[1]
        drawn = self.algorithm.round_noise(rng, stays.shape[1], M, M, d)
        return self.answers(w, slice(None)) + (sigma * stays[0]).reshape(w.shape) + (fresh * drawn).reshape(w.shape)

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


class SecureDescent(PreparedDescent):
    """The same with real parties, who answer each on their own; the third party gets sums and nothing else."""

    def noise_that_stays(self, rng: Generator, draws: int) -> Array:
        M, d = self.parties.problem.M, self.parties.problem.d
        return noise.gaussian_messages(rng, draws, M, d).transpose(1, 0, 2) / math.sqrt(M)

    def hear(self, w: Array, sigma: Array, stays: Array, fresh: Array, rng: Generator) -> Array:
        from dpml.protocols import secure_sum  # most runs need no cryptography

        algorithm, problem = self.algorithm, self.parties.problem
        M, d = problem.M, problem.d
        answers = np.empty((M, *w.shape))
        for k in range(M):
            drawn = algorithm.round_noise(rng, stays.shape[1], 1, M, d)
            own = (sigma * stays[k] + fresh * drawn).reshape(w.shape)
            answers[k] = self.answers(w, self.parties.of(k)) + own
        # public: a party has at most N rows of norm 1, and longer noise is less likely than 1 in 10^40
        bound = problem.N + float(16 * sigma.max() + (6 * d + 100) * fresh.max())
        return secure_sum(answers.reshape(M, -1), bound, rng).total.reshape(w.shape)


@dataclass(frozen=True)
class LocalAggregation(_Logistic):
    """`la` (Pathak et al. 2010): the mean of the parties' own minimisers, plus noise of density exp(-||.|| eps/S).

    Replacing a row moves the gradient of its party's objective by at most 2/n, so its minimiser by 2/(n lam)
    (lam-strong convexity; Chaudhuri et al. 2011, Lemma 7), and the mean by ``S = 2/(M n lam)`` for the smallest party's
    n. `tight` knows that no minimiser is longer than `hamm.longest`, so that it cannot move by more than twice that.
    The parties' sizes are public. Pure eps-DP.
    """

    name: ClassVar[str] = "la"

    def sensitivity(self, M: int, smallest: int) -> float:
        """S, for parties of which the smallest has `smallest` rows: the one place that says it."""
        moved = 2 / (smallest * self.lam)
        if self.tight:
            moved = min(moved, 2 * longest(self.loss, self.lam))
        return moved / M

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """eps, claimed (when published) and proven, whatever the parties' sizes: S is counted for them. delta is 0."""
        proven = Guarantee("release", "sample", budget.eps, 0.0, "proven", "L2 sensitivity (rajkumar.LocalAggregation)")
        if self.tight:
            return [proven]
        return [
            Guarantee(
                "release",
                "sample",
                budget.eps,
                0.0,
                "published",
                "Pathak et al. 2010 (Rajkumar & Agarwal 2012, Sec. 2.4)",
            ),
            proven,
        ]

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """A row of the smallest party changes its label."""
        return turned_label(problem)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The exact mean plus L2-Laplace noise."""
        first, second = (self.prepare(parties, np.random.default_rng(0)) for parties in pair)
        scale = first.sensitivity / budget.eps
        far = float(np.linalg.norm(first.weights - second.weights)) / scale
        found = released_models((first, second), budget)
        return [replace(found, score=laplace_score(scale, first.weights, second.weights), distance=far)]

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedAverage":
        """Train the local models."""
        require_domain(parties, self.loss)
        total = np.zeros(parties.problem.d)
        for _, w in fit_parties(parties.X, parties.y, parties.offsets, self.lam, classes=1):
            total += w.sum(axis=0)
        M = parties.problem.M
        return PreparedAverage(total / M, self.sensitivity(M, int(parties.sizes.min())))


@dataclass(frozen=True)
class PreparedAverage:
    """The mean of the local models, `weights` (d,), and how far it can move."""

    weights: Array
    sensitivity: float

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The mean plus noise; the budgets share their noise directions."""
        scale = np.array([self.sensitivity / budget.eps for budget in budgets])[:, None, None]
        return Release(self.weights + scale * noise.l2_laplace(rng, draws, len(self.weights)))
