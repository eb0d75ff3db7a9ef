"""The base of noisy gradient descents: their accounting, their step sizes, and the runs themselves.

T rounds of ``w <- w - step (gradient + z)``, z Gaussian. One row moves a mean gradient over n rows by at most 2G/n, G
the loss's Lipschitz constant or what its slopes are clipped to, and no less in general: a row nearly orthogonal to w
may have any score. So a round with noise of standard deviation s is (2G/(n s))-GDP, and

- a view of T rounds, each of which may depend on those before, has sqrt(T) times that mu (Dong, Roth & Su 2019, Cor.
  3.3);
- a view of the last model only has less (`privacy.proofs.last_iterate`): a round is Lipschitz in w with ``c = max(|1 -
  step m|, |1 - step (L + lam)|)``, where the objective's curvature lies between m and L + lam; m = lam for a convex
  loss, lam - L otherwise.

Noise is counted in units of `per_row`, that on a mean over n rows times n; every mu is inversely proportional to it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release, require_domain
from dpml.algorithms.descent_options import DescentOptions
from dpml.algorithms.initial_models import initial_model
from dpml.algorithms.noisy_views import all_rounds, last_models
from dpml.algorithms.step_sizes import CHOSEN, SHARE, UNCOUNTED, clipped_losses, distance, held_out, largest, rule
from dpml.algorithms.transcript import Channel, Watch
from dpml.arrays import Array
from dpml.audit.exposure import Exposure, Pair
from dpml.audit.neighbours import far_start, in_a_crowd, turned_label, turned_target, undecided
from dpml.data.partition import Parties
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.optim import descent
from dpml.optim.descent import Rows, Single
from dpml.optim.losses import mean_loss
from dpml.privacy import Budget, Guarantee, Problem, View, gdp, noise
from dpml.privacy.proofs.last_iterate import last_iterate_mu

_ROUNDS = "Gaussian DP of T adaptive rounds"
_LAST = "Gaussian DP of the last of T rounds (shifted interpolation), of which each is {:.9g}-Lipschitz{}"
_NOT_COUNTED = {
    "oracle": "selection by the private objective is not counted",
    "validated": "selection by private rows held out is not counted",
}


@lru_cache(maxsize=1 << 12)
def _last_of_rounds(contraction: float, rounds: int, last: float) -> float:
    """The mu of the last model, for rounds of mu = 1 each but the last, whose noise is `last` times as large."""
    noises = np.ones(rounds)
    noises[-1] = last
    return last_iterate_mu(np.full(rounds, contraction), np.ones(rounds), noises)


@dataclass(frozen=True)
class NoisyDescent(DescentOptions, ABC):
    """The base class of the three: hyper-parameters, accounting, and the runs themselves."""

    # Each algorithm defines these, for noise of per_row = 1.

    @abstractmethod
    def single(self, problem: Problem) -> Mapping[View, float]:
        """The mu of one round for every view that has a guarantee, if the view sees it."""

    @abstractmethod
    def hidden(self, problem: Problem) -> Mapping[View, tuple[float, float]]:
        """The views that see last models only: the mu of a round, and how much larger the last round's noise is."""

    @abstractmethod
    def reaching(self, problem: Problem) -> float:
        """The noise in the released mean gradient."""

    @abstractmethod
    def sources(self, parties: Parties) -> Array:
        """How much of each independent source of noise reaches the released mean gradient, (sources,)."""

    @abstractmethod
    def weights(self, parties: Parties) -> Array:
        """Every row's weight in the released mean gradient, (N,)."""

    @abstractmethod
    def groups(self, parties: Parties) -> list[Rows]:
        """The rows of every group of runs; groups do not interact."""

    @abstractmethod
    def shares(self, parties: Parties) -> Array:
        """The weights of the groups' models in the release, (groups,)."""

    @abstractmethod
    def unit_scales(self, parties: Parties) -> Array:
        """The noise in every group's gradient, (groups,)."""

    @abstractmethod
    def noise_source(
        self, parties: Parties, rng: Generator, draws: int, watch: Watch | None = None
    ) -> Callable[[], Single]:
        """Makes a round's unit noise, (groups, draws, d). `watch` records that of every source."""

    @abstractmethod
    def channel(self, view: View, parties: Parties) -> Channel:
        """One round as seen by a view of rounds, in units of `per_row`."""

    # The same for all algorithms.

    def unit_mus(self, step: float, problem: Problem) -> dict[View, float]:
        """The mu of every view of a run with this step size and noise of per_row = 1. A step of 0: as if composed."""
        mus = {view: math.sqrt(self.rounds) * mu for view, mu in self.single(problem).items()}
        for view, (mu, last) in self.hidden(problem).items():
            if view in mus:
                mus[view] = mu * min(_last_of_rounds(self.contraction(step), self.rounds, last), math.sqrt(self.rounds))
        return mus

    def run_mu(self, budget: Budget) -> float:
        """The mu that the budget allows one run, for `tight` noise."""
        mu = gdp.mu_of(budget.eps, budget.require_delta(f"algo={self.name}"))
        return mu * math.sqrt((1 - SHARE) / len(self.steps)) if self.tuned == "private" else mu

    def per_row(self, budget: Budget, problem: Problem, step: float) -> float:
        """The noise on a mean over n rows, times n: published ``G sqrt(c T ln(1/delta)) / eps``; tight, by GDP."""
        if math.isinf(budget.eps):
            return 0.0
        delta = budget.require_delta(f"algo={self.name}")
        if self.calibration == "tight":
            return self.unit_mus(step, problem)[self.protects] / self.run_mu(budget)
        return self.lipschitz * math.sqrt(self.c * self.rounds * math.log(1 / delta)) / budget.eps

    def tried(self, budget: Budget, problem: Problem) -> Array:
        """The step sizes of a release, (S,)."""
        if self.tuned in CHOSEN:
            return np.array(self.steps)
        if self.tuned == "fixed":
            return np.array([self.largest if self.step is None else self.step])
        scale = self.per_row(budget, problem, 0.0) * self.reaching(problem)
        most = largest(self.slopes, self.lam, self.rounds)
        return np.array([rule(scale, problem.d, self.rounds, most, distance(self.slopes))])

    def per_rows(self, budget: Budget, problem: Problem, steps: Array | None = None) -> Array:
        """`per_row` of step sizes (S,), by default of all that are tried.

        Single source of the noise scales, for sampling and for accounting.
        """
        steps = self.tried(budget, problem) if steps is None else steps
        return np.array([self.per_row(budget, problem, step) for step in steps])

    def per_score(self, budget: Budget, problem: Problem) -> float:
        """The noise on every score of a private choice, in the same unit; a row moves the score of one n by 1/n."""
        mu = gdp.mu_of(budget.eps, budget.require_delta(f"algo={self.name}")) * math.sqrt(SHARE / len(self.steps))
        return self.single(problem)[self.protects] / (2 * self.lipschitz * mu)

    def mus(self, budget: Budget, problem: Problem) -> dict[View, float]:
        """The GDP parameter of every view: of all candidates and their scores, or of the worst step that is tried."""
        runs = [
            {view: mu / noise if noise else math.inf for view, mu in self.unit_mus(step, problem).items()}
            for step, noise in zip(self.tried(budget, problem), self.per_rows(budget, problem), strict=True)
        ]
        if self.tuned != "private":
            return {view: max(run[view] for run in runs) for view in runs[0]}
        score = 2 * self.lipschitz * self.per_score(budget, problem)
        single = self.single(problem)
        choice = {view: math.sqrt(len(runs)) * mu / score if score else math.inf for view, mu in single.items()}
        return {view: gdp.compose([*(run[view] for run in runs), choice[view]]) for view in single}

    def argument(self, view: View, budget: Budget, problem: Problem) -> str:
        """The `source` of a view's proven guarantee."""
        source = _ROUNDS
        if view in self.hidden(problem):
            contraction = max(self.contraction(step) for step in self.tried(budget, problem))
            why = ": " + ("a step is above 2/(L + lam)" if self.loss.convex else f"loss={self.loss.name} is not convex")
            source = _LAST.format(contraction, why if contraction > 1 else "")
        if self.tuned == "private":
            source += f"; {len(self.steps)} runs and a noisy choice composed"
        return f"{source} (noisy_descent.{type(self).__name__})"

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven guarantee of every view; one sample is the unit."""
        delta = budget.require_delta(f"algo={self.name}")
        guarantees = []
        for view, mu in self.mus(budget, problem).items():
            if self.calibration == "published":
                guarantees.append(Guarantee(view, "sample", budget.eps, delta, "published", self.claim))
            eps, source = gdp.eps_of(mu, delta), self.argument(view, budget, problem)
            if self.tuned in UNCOUNTED:
                guarantees.append(Guarantee(view, "sample", math.inf, delta, "proven", _NOT_COUNTED[self.tuned]))
                guarantees.append(Guarantee(view, "sample", eps, delta, "conditional", source, mu))
            else:
                guarantees.append(Guarantee(view, "sample", eps, delta, "proven", source, mu))
        return guarantees

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """One row differs among many equal ones, which drive the model from a far start still farther.

        Clipped slopes are as steep as they get where a row has no score, and no crowd is needed: of the squared loss a
        label turns there.
        """
        start = initial_model(far_start(problem.d), problem.d)
        if self.loss.name == "squared":
            return turned_target(problem, start)
        if problem.d == 1:
            return undecided(problem) if self.slopes.cut else turned_label(problem)
        ahead = start / np.linalg.norm(start)

        def reached(crowd: Parties) -> Array:
            path: Array = self.prepare(crowd, far_start(problem.d)).path(budget)[:, -1] @ ahead
            return path

        return in_a_crowd(problem, ahead, reached, self.slopes)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """Last models, or all rounds as a view sees them; a private choice shows all candidates' rounds and scores.

        Raises:
            UserError: the step is `validated`.
        """
        if self.tuned == "validated":
            raise UserError(
                "algo.tuned=validated has no guarantee that could be audited: choose rule, private or fixed."
            )
        problem = pair[0].problem
        prepared = [self.prepare(p, far_start(problem.d)) for p in pair]
        return [
            last_models(view, prepared, budget)
            if view == "release" or view in self.hidden(problem)
            else all_rounds(view, prepared, budget)
            for view in self.single(problem)
        ]

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedNoisyDescent":
        """Lay out the rows, and draw the random initial model, about as long as a row."""
        require_domain(parties, self.loss)
        d = parties.X.shape[1]
        return PreparedNoisyDescent(self, parties, initial_model(rng, d))


@dataclass(frozen=True)
class PreparedNoisyDescent:
    """The rows and the initial model `start` (d,)."""

    algorithm: NoisyDescent
    parties: Parties
    start: Array

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int, watch: Watch | None = None) -> Release:
        """All budgets, step sizes and draws descend together; every draw is a release of its own, its choice included.

        Budgets share their noise directions, and so do the step sizes of an oracle. `watch` records every round of a
        release under one budget, and the scores.
        """
        algorithm = self.algorithm
        steps = self.validated(budgets, rng) if algorithm.tuned == "validated" else self.tried(budgets)
        weights = self.averaged(self.models(budgets, rng, draws, watch, steps))
        if algorithm.tuned == "fixed":
            return Release(weights[:, 0])
        if algorithm.tuned in ("rule", "validated"):
            return Release(weights[:, 0], {"step": np.repeat(steps, draws, axis=1)})
        score = (
            self.noisy_score(budgets, weights, rng, watch) if algorithm.tuned == "private" else self.objective(weights)
        )
        best = np.argmin(score, axis=1)
        chosen = np.take_along_axis(weights, best[:, None, :, None], axis=1)[:, 0]
        return Release(chosen, {"step": np.take_along_axis(steps, best, axis=1)})

    def tried(self, budgets: Sequence[Budget]) -> Array:
        """The step sizes that are tried, (budgets, steps)."""
        return np.array([self.algorithm.tried(budget, self.parties.problem) for budget in budgets])

    def averaged(self, models: Single) -> Array:
        """The released average (budgets, steps, draws, d) of all groups' models."""
        averages: Array = np.einsum("g,gesij->esij", self.algorithm.shares(self.parties), models.astype(float))
        return averages

    def validated(self, budgets: Sequence[Budget], rng: Generator) -> Array:
        """The step size with which one run on four fifths of every client's rows does best on the others: (budgets, 1).

        The runs have the noise of their own sizes, and share its directions.
        """
        training, X, y = held_out(self.parties)
        trial = PreparedNoisyDescent(self.algorithm, training, self.start)
        weights = trial.averaged(trial.models(budgets, rng, 1))[:, :, 0]
        losses = mean_loss(self.algorithm.loss, X, y, weights.reshape(-1, len(self.start)))
        score = losses.reshape(weights.shape[:2]) + self.ridge(weights)
        return np.take_along_axis(self.tried(budgets), np.argmin(score, axis=1)[:, None], axis=1)

    def models(
        self,
        budgets: Sequence[Budget],
        rng: Generator,
        draws: int,
        watch: Watch | None = None,
        steps: Array | None = None,
    ) -> Single:
        """The last models of every group, (groups, budgets, steps, draws, d), of all `steps` (budgets, S) tried.

        Candidates of a private choice have noise of their own.
        """
        algorithm, parties = self.algorithm, self.parties
        steps = self.tried(budgets) if steps is None else steps
        own = zip(budgets, steps, strict=True)
        noises = np.array([algorithm.per_rows(budget, parties.problem, some) for budget, some in own])
        scales = algorithm.unit_scales(parties)[:, None, None] * noises
        together = [slice(i, i + 1) for i in range(steps.shape[1])] if algorithm.tuned == "private" else [slice(None)]
        models = [
            descent.descend(
                self.groups, self.start, steps[:, some], scales[..., some],
                algorithm.noise_source(parties, rng, draws, watch), algorithm.rounds, algorithm.lam,
                heard=None if watch is None else partial(_tell, watch),
            )
            for some in together
        ]  # fmt: skip
        return np.concatenate(models, axis=2)

    def noisy_score(
        self, budgets: Sequence[Budget], weights: Array, rng: Generator, watch: Watch | None = None
    ) -> Array:
        """The noisy score of every candidate's model, (budgets, steps, draws, d) -> (budgets, steps, draws)."""
        algorithm, parties = self.algorithm, self.parties
        exact = self.exact_score(weights)
        sources = algorithm.sources(parties)
        drawn = noise.gaussian(rng, (len(sources), *exact.shape[1:]))
        widths = np.array([algorithm.per_score(budget, parties.problem) for budget in budgets])
        noisy: Array = exact + widths[:, None, None] * np.tensordot(sources, drawn, axes=1)
        if watch is not None:
            for i in range(noisy.shape[1]):
                watch.drawn(drawn[:, i, :, None])
                watch.sent(noisy[0, i, :, None], partial(_exact_score, weights[:1, i : i + 1]))
        return noisy + self.ridge(weights)

    def exact_score(self, weights: Array) -> Array:
        """The mean clipped losses (budgets, steps, draws) of models (budgets, steps, draws, d)."""
        return clipped_losses(self.algorithm.loss, *self.folded, weights)

    @cached_property
    def folded(self) -> tuple[Array, Array, Array]:
        """The distinct rows, their labels, and the total weight of their copies in the released mean."""
        X, y, v = self.parties.X, self.parties.y, self.algorithm.weights(self.parties)
        first, where, _ = distinct(X, y)
        return X[first], y[first], np.bincount(where, weights=v).astype(float)

    @cached_property
    def groups(self) -> list[Rows]:
        """The rows of every group."""
        return self.algorithm.groups(self.parties)

    @cached_property
    def precise(self) -> Rows:
        """All rows in double precision."""
        parties = self.parties
        return self.algorithm.slopes.rows(parties.X, parties.y, self.algorithm.weights(parties), np.float64)

    def gradient(self, w: Array) -> Array:
        """The released mean gradient at models (B, d), without noise."""
        out = np.empty(w.shape)
        self.precise.gradient(w, out)
        return out

    def path(self, budget: Budget) -> Array:
        """The models of every group in every round, (rounds, groups, d), if there was no noise; at the largest step."""
        models: list[Single] = []
        step = np.atleast_1d(self.algorithm.tried(budget, self.parties.problem).max())
        still = np.zeros((len(self.groups), 1, len(self.start)), np.float32)
        descent.descend(
            self.groups, self.start, step, np.zeros((len(self.groups), 1)), lambda: still, self.algorithm.rounds,
            self.algorithm.lam, heard=lambda before, _: models.append(before[:, 0, 0, 0]),
        )  # fmt: skip
        return np.array(models, dtype=float)

    def ridge(self, weights: Array) -> Array:
        """lam/2 ||w||^2, (..., d) -> (...)."""
        return self.algorithm.lam / 2 * np.einsum("...j,...j->...", weights, weights)

    def objective(self, weights: Array) -> Array:
        """Mean loss + lam/2 ||w||^2 on the private rows, (..., d) -> (...)."""
        X, y, counts = self.parties.folded
        value = mean_loss(self.algorithm.loss, X, y, weights.reshape(-1, weights.shape[-1]), counts)
        return value.reshape(weights.shape[:-1]) + self.ridge(weights)


def _tell(watch: Watch, before: Single, sent: Single) -> None:
    """Report a round of runs (1, 1, steps, draws, d), step size by step size."""
    for models, gradients in zip(before[0, 0], sent[0, 0], strict=True):
        watch.sent(gradients, partial(_exact_gradient, models))


def _exact_gradient(models: Single, mechanism: PreparedNoisyDescent) -> Array:
    return mechanism.gradient(models.astype(float))


def _exact_score(weights: Array, mechanism: PreparedNoisyDescent) -> Array:
    return mechanism.exact_score(weights)[0, 0, :, None]
