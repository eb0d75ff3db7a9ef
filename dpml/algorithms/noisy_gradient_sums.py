"""Regularised logistic regression over M parties by gradient descent on noisy secure sums (Rajkumar & Agarwal 2012).

`psgd` approaches the minimiser that `gop` (`objective_perturbation`) computes at one place: a third party asks the M
parties for the gradient, who answer with fresh noise rho and with their share of eta, and it sees the sum of the
answers only. One sample is the unit.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release, require_domain
from dpml.algorithms.adders import IN_PROCESS, Adder
from dpml.algorithms.exposure import Exposure, Pair
from dpml.algorithms.hyperparameters import (
    SUM_PROTOCOLS,
    RegularisedLogistic,
    SumProtocol,
    check_choice,
    check_not_negative,
)
from dpml.algorithms.neighbours import in_a_crowd, turned_label
from dpml.algorithms.perturbed_objectives import (
    SENSITIVITY,
    SMOOTHNESS,
    Perturbation,
    perturbed_minimisers,
    published_perturbation,
    tight_perturbation,
)
from dpml.algorithms.transcript import Channel, Recorder, Transcript, Watch, transcript
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.privacy import Budget, Guarantee, Problem, View, gdp, noise
from dpml.privacy.proofs import noisy_sums

_BLOCK = 1 << 16  # slopes held at once: 512 KiB, so that they stay in cache
_MOST_HALVINGS = 400  # the square of 2^400, in N d of them, is a number still


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

    `halving` is what the paper tries first (Sec. 3.2), and expects to fail: no eta and no Delta, and in round t = 1, 2,
    ... rho of density proportional to exp(-eps_t/2 ||rho||) with ``eps_t = eps/2^t``. One party's rho makes a round
    eps_t-DP in every view of it, so that T adaptive rounds are eps (1 - 2^-T)-DP, delta = 0, in every
    view, and no number of rounds is above eps. The noise doubles from round to round.

    Args:
        variant: `paper`, or `halving` (Sec. 3.2): the budget of a round is half that of the one before (rounds <= 400).
        rounds: T, the gradient sums that the third party asks for, counted in full by the guarantees.
        tolerance: a run stops before that as soon as a step is at most this long; 0 for never.
        protocol: `simulate` draws the sums; with `secagg` every party's answers go through the real secure aggregation
            (`dpml.protocols.secure_sum`), one run a round for all budgets and draws.
    """

    name: ClassVar[str] = "psgd"
    variants: ClassVar[tuple[str, ...]] = ("paper", "halving")

    rounds: int = 1000
    tolerance: float = 0.0
    protocol: SumProtocol = "simulate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 1:
            raise UserError(f"algo.rounds of psgd must be at least 1, got {self.rounds}.")
        if self.halving and self.rounds > _MOST_HALVINGS:
            raise UserError(
                f"algo.rounds of psgd must be at most {_MOST_HALVINGS} for algo.variant=halving, whose noise doubles "
                f"in every round, got {self.rounds}."
            )
        check_not_negative("algo.tolerance of psgd", self.tolerance)
        check_choice("algo.protocol", self.protocol, SUM_PROTOCOLS)

    @property
    def secure_sums(self) -> int:
        """How many vectors the parties sum in a release."""
        return self.rounds

    @property
    def halving(self) -> bool:
        """Whether every round has half the budget of the one before."""
        return self.variant == "halving"

    @property
    def growth(self) -> Array:
        """The fresh noise of every round, (T,), in units of `fresh`."""
        return np.exp2(np.arange(1, self.rounds + 1)) if self.halving else np.ones(self.rounds)

    def perturbation(self, budget: Budget, problem: Problem) -> Perturbation:
        """Single source of the noise that is drawn once and of the ridge, for sampling and for accounting."""
        if self.halving:
            return Perturbation(0.0, 0.0)
        if self.tight:
            return Perturbation(0.0, tight_perturbation(budget, problem, self.lam, "algo=psgd").extra)
        return published_perturbation(budget, problem, self.lam, "algo=psgd")

    def fresh(self, budget: Budget, problem: Problem) -> float:
        """Single source of the noise in every round's sum, but for its `growth`, for sampling and for accounting.

        Published: the scale 1/beta of a party's rho. Tight: the standard deviation of the sum.
        """
        if math.isinf(budget.eps):
            return 0.0
        if not self.tight:
            return SENSITIVITY / budget.eps
        mu = gdp.mu_of(budget.eps, budget.require_delta("algo=psgd"))
        return SENSITIVITY * math.sqrt(self.rounds) / mu * math.sqrt(problem.M / problem.honest)

    def sharing(self, problem: Problem) -> dict[View, int]:
        """How many parties' noise protects from every view; what is released is computed from the sums.

        With `tight` no view has a single party's messages, as the summation is secure. The paper's noise is also
        counted for an adversary who sees them.
        """
        M = problem.M
        share: dict[View, int] = {"release": M, "transcript": M, "client": 1, "colluders": problem.honest}
        if self.tight:
            del share["client"]
        return share

    def mus(self, budget: Budget, problem: Problem) -> dict[View, float]:
        """The mu of every view, of `tight` noise."""
        mu = SENSITIVITY * math.sqrt(self.rounds) / self.fresh(budget, problem)
        return {view: mu * math.sqrt(problem.M / h) for view, h in self.sharing(problem).items()}

    def proven(self, budget: Budget, problem: Problem) -> dict[View, tuple[float, str]]:
        """The proven eps of every view and the proof's name."""
        share = self.sharing(problem)
        if math.isinf(budget.eps):
            return dict.fromkeys(share, (math.inf, "no noise"))
        if self.halving:
            return dict.fromkeys(share, (float(np.sum(budget.eps / self.growth)), "pure rounds of eps/2^t"))
        delta = budget.require_delta("algo=psgd")
        if not self.tight:
            sigma = self.perturbation(budget, problem).sigma
            return {
                view: noisy_sums.proven(self.rounds, budget.eps, h, problem.d, sigma * math.sqrt(h / problem.M), delta)
                for view, h in share.items()
            }
        rounds = "Gaussian DP of the rounds"
        return {view: (gdp.eps_of(mu, delta), rounds) for view, mu in self.mus(budget, problem).items()}

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published; for what the third party sees, and so for what it releases) and proven."""
        delta = 0.0 if self.halving else budget.require_delta("algo=psgd")
        mus = self.mus(budget, problem) if self.tight and math.isfinite(budget.eps) else {}
        guarantees = []
        for view, (eps, proof) in self.proven(budget, problem).items():
            if not self.tight and view in ("release", "transcript"):
                of = "Sec. 3.2 (eps/2^t)" if self.halving else "Thm 4.2 (the limit point)"
                claim = f"Rajkumar & Agarwal 2012, {of}"
                guarantees.append(Guarantee(view, "sample", budget.eps, delta, "published", claim))
            source = f"{proof}, T = {self.rounds}"
            guarantees.append(Guarantee(view, "sample", eps, delta, "proven", source, mus.get(view)))
        return guarantees

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """A row in a crowd that drives the model away from 0."""
        if problem.d == 1:
            return turned_label(problem)
        ahead = np.eye(problem.d)[0]
        return in_a_crowd(problem, ahead, lambda crowd: PreparedSums(self, crowd).path(budget) @ ahead, self.loss)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model, and what each view sees of all rounds; that of single parties as in the real protocol."""
        prepared = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        asked = replace(self, tolerance=0.0)  # all rounds are counted
        sums = [replace(mechanism, algorithm=asked) for mechanism in prepared]
        parties = [PartySums(asked, mechanism.parties) for mechanism in prepared]
        return [
            _last_model(prepared, budget)
            if view == "release"
            else _rounds(view, sums if view == "transcript" else parties, budget)
            for view in self.sharing(pair[0].problem)
        ]

    def covariance(self, budget: Budget, problem: Problem) -> Array:
        """Of the noise in the sums of all rounds, in every coordinate: (T, T)."""
        fresh = self.fresh(budget, problem) ** 2 * (1 if self.tight else problem.M * (problem.d + 1))
        covariance: Array = fresh * np.diag(self.growth**2) + self.perturbation(budget, problem).sigma ** 2
        return covariance

    def round_noise(self, rng: Generator, draws: int, parties: int, M: int, d: int) -> Array:
        """The sum of some parties' fresh noise in a round, in units of `fresh`: (draws, d)."""
        if self.tight:
            return math.sqrt(parties / M) * noise.gaussian(rng, (draws, d))
        return noise.l2_laplace_total(rng, draws, parties, d)

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedSums":
        """Nothing to do before the noise is known: every answer is noisy."""
        require_domain(parties, self.loss)
        kind = PreparedSums if self.protocol == "simulate" else SecureSums
        return kind(self, parties)


def _last_model(prepared: "Sequence[PreparedSums]", budget: Budget) -> Exposure:
    """What is released."""

    def sample(which: int, rng: Generator, draws: int) -> Array:
        return prepared[which].descend([budget], rng, draws).weights[0]

    return Exposure("release", sample)


def _rounds(view: View, prepared: "Sequence[PreparedSums]", budget: Budget) -> Transcript:
    """The sum; the last party's answers; or the sum and the noise of the colluders, who are the first parties.

    The sum of a few Laplace vectors is not normal: it is matched in its variances.
    """
    algorithm, problem = prepared[0].algorithm, prepared[0].parties.problem
    sources = len(prepared[0].answering)
    each, total = np.eye(sources), np.ones(sources)
    known = problem.colluders if view == "colluders" else 0
    seen = each[-1:] if view == "client" else np.vstack([total, each[:known]])
    channel = Channel.of(seen, total)
    of_one = algorithm.covariance(budget, problem) / sources
    T = algorithm.rounds

    def release(which: int, rng: Generator, draws: int, watch: Watch) -> None:
        prepared[which].descend([budget], rng, draws, watch)

    return transcript(view, release, lambda: Recorder(prepared, channel, np.ones(T), of_one), T, algorithm.tight)


class Widths(NamedTuple):
    """The noise of every budget, (budgets, 1, 1): `sigma` of what stays, and `fresh` in every round."""

    sigma: Array
    fresh: Array

    def grown(self, growth: float) -> "Widths":
        """Those of a round."""
        return self._replace(fresh=growth * self.fresh)


class Descents(NamedTuple):
    """Last iterates (budgets, draws, d), the rounds they took (budgets, draws), and eta (budgets, draws, d)."""

    weights: Array
    rounds: Array
    eta: Array


@dataclass(frozen=True)
class PreparedSums:
    """The data of `psgd`. All rows answer at once, with the noise of all parties."""

    algorithm: PrivateSGD
    parties: Parties

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The last iterates. All budgets and draws descend together, with one gradient a round for all of them.

        `distance` is ||w_T - w_limit||, where w_limit is the minimiser that the rounds approach, with the same eta;
        `rounds` is how many were used.
        """
        algorithm, problem = self.algorithm, self.parties.problem
        weights, used, eta = self.descend(budgets, rng, draws)
        perturbations = [algorithm.perturbation(budget, problem) for budget in budgets]
        limit = perturbed_minimisers(algorithm.loss, algorithm.lam, self.parties, perturbations, eta)
        return Release(weights, {"distance": np.linalg.norm(weights - limit, axis=-1), "rounds": used})

    def descend(self, budgets: Sequence[Budget], rng: Generator, draws: int, watch: Watch | None = None) -> Descents:
        """All rounds. `watch` records every sum of a release under one budget, in units of 1."""
        algorithm, problem = self.algorithm, self.parties.problem
        perturbations = [algorithm.perturbation(budget, problem) for budget in budgets]
        widths = self.widths(budgets)
        constant = self.constant_noise(rng, draws)
        strength = np.repeat([algorithm.lam + p.extra for p in perturbations], draws)[:, None]
        growth = algorithm.growth

        def noisy(w: Array, t: int) -> Array:
            return self.noisy_sum(w, widths.grown(growth[t]), constant, rng, watch)

        w, used = self._rounds(strength, noisy)
        eta = widths.sigma * constant.sum(axis=0)
        return Descents(w.reshape(eta.shape), used.reshape(eta.shape[:2]), eta)

    def widths(self, budgets: Sequence[Budget]) -> Widths:
        """The noise of every budget, but for its growth."""
        algorithm, problem = self.algorithm, self.parties.problem
        return Widths(
            np.array([algorithm.perturbation(budget, problem).sigma for budget in budgets])[:, None, None],
            np.array([algorithm.fresh(budget, problem) for budget in budgets])[:, None, None],
        )

    def path(self, budget: Budget) -> Array:
        """The models of every round, (T, d), if there was no noise."""
        algorithm, problem = self.algorithm, self.parties.problem
        models: list[Array] = []

        def exact(w: Array, t: int) -> Array:
            models.append(w[0].copy())
            return self.gradient(w)

        self._rounds(np.array([[algorithm.lam + algorithm.perturbation(budget, problem).extra]]), exact)
        return np.array(models)

    def _rounds(self, strength: Array, ask: Callable[[Array, int], Array]) -> tuple[Array, Array]:
        """The last models (B, d) of runs with ridges (B, 1), and the rounds they took (B,); sums are asked for.

        ``ask(w, t)`` gets the models and the round, from 0, and returns the sums.
        """
        algorithm, problem = self.algorithm, self.parties.problem
        w = np.zeros((len(strength), problem.d))
        used = np.zeros(len(w))
        moving = np.ones((len(w), 1), dtype=bool)
        for t in range(algorithm.rounds):
            step = moving * (ask(w, t) / problem.N + strength * w) / (strength * (t + 1) + SMOOTHNESS)
            w -= step
            used += moving[:, 0]
            if algorithm.tolerance:
                moving &= np.linalg.norm(step, axis=1, keepdims=True) > algorithm.tolerance
                if not moving.any():
                    break
        return w, used

    @property
    def answering(self) -> Sequence[slice]:
        """The rows of everybody who answers."""
        return [slice(None)]

    def constant_noise(self, rng: Generator, draws: int) -> Array:
        """The eta in every answer, in units of sigma: (answers, draws, d)."""
        return noise.gaussian(rng, (draws, self.parties.problem.d))[None]

    def noisy_sum(self, w: Array, widths: Widths, constant: Array, rng: Generator, watch: Watch | None = None) -> Array:
        """A round's sum at the models w (B, d), B = budgets x draws: (B, d)."""
        (answering, draws, d), M = constant.shape, self.parties.problem.M
        exact = [self.answer(w, k) for k in range(answering)]
        noisy = np.empty((answering, *w.shape))
        for answer, gradient, eta in zip(noisy, exact, constant, strict=True):
            drawn = self.algorithm.round_noise(rng, draws, M // answering, M, d)
            answer[:] = gradient + (widths.sigma * eta).reshape(w.shape) + (widths.fresh * drawn).reshape(w.shape)
        total = self.added(noisy, widths, rng)
        if watch is not None:
            watch.drawn(noisy - exact)
            watch.sent(total, partial(_exact_sum, w))
        return total

    def added(self, answers: Array, widths: Widths, rng: Generator) -> Array:
        """The sum of all answers (answers, B, d): (B, d)."""
        total: Array = answers.sum(axis=0)
        return total

    def gradient(self, w: Array) -> Array:
        """The sum of all rows' gradients at w (B, d), without noise: (B, d)."""
        total: Array = sum(self.answer(w, k) for k in range(len(self.answering)))  # type: ignore[assignment]
        return total

    def answer(self, w: Array, k: int) -> Array:
        """The sum of the gradients at w (B, d) of the rows of answer k, without noise: (B, d).

        ``- sum_i u_i / (1 + exp(u_i'w))``, u = y x: three times as fast as by way of `Logistic.slope`.
        """
        total = np.zeros_like(w)
        signed, counts = self.signed[k]
        height = max(64, _BLOCK // len(w))
        for start in range(0, len(signed), height):
            block = signed[start : start + height]
            slope = w @ block.T
            with np.errstate(over="ignore"):  # exp(710) is infinite, and such a row's slope 0
                np.exp(slope, out=slope)
            slope += 1
            np.divide(1 if counts is None else counts[start : start + height], slope, out=slope)
            total -= slope @ block
        return total

    @cached_property
    def signed(self) -> list[tuple[Array, Array | None]]:
        """The rows times their labels of every answer, and how often each is there; None: once."""
        signed = self.parties.y[:, None] * self.parties.X
        return [_folded(signed[rows]) for rows in self.answering]


class PartySums(PreparedSums):
    """The same with parties who answer each on their own, with noise of their own."""

    @property
    def answering(self) -> Sequence[slice]:
        return [self.parties.of(k) for k in range(self.parties.problem.M)]

    def constant_noise(self, rng: Generator, draws: int) -> Array:
        M, d = self.parties.problem.M, self.parties.problem.d
        return noise.gaussian_messages(rng, draws, M, d).transpose(1, 0, 2) / math.sqrt(M)


@dataclass(frozen=True)
class SecureSums(PartySums):
    """Real parties; the third party gets sums and nothing else."""

    adder: Adder = IN_PROCESS

    def added(self, answers: Array, widths: Widths, rng: Generator) -> Array:
        problem = self.parties.problem
        # public: a party has at most N rows of norm 1, and longer noise is less likely than 1 in 10^40
        bound = problem.N + float(16 * widths.sigma.max() + (6 * problem.d + 100) * widths.fresh.max())
        return self.adder.reals(answers.reshape(len(answers), -1), bound, problem, rng).reshape(answers.shape[1:])


def _folded(rows: Array) -> tuple[Array, Array | None]:
    """Rows without their copies, and how often each is there, where that saves a quarter."""
    first, _, counts = distinct(rows)
    return (rows, None) if len(first) > 0.75 * len(rows) else (rows[first], counts.astype(float))


def _exact_sum(w: Array, mechanism: PreparedSums) -> Array:
    """(B, d), at the models as they are before the step."""
    return mechanism.gradient(w)
