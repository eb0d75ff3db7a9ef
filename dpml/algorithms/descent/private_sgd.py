"""Define logistic regression of M parties by descent on noisy secure sums of gradients (Rajkumar & Agarwal 2012).

A party's noise is rho, which is drawn in every round, plus eta, which is drawn once. `tight` noise and the variant
`halving` have no eta. The proven guarantees account for all rounds: docs/privacy/rajkumar2012.md, Theorems 3 and 4.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml import sums
from dpml.algorithms.perturbation import (
    SENSITIVITY,
    SMOOTHNESS,
    perturbed_minimisers,
    published_perturbation,
    tight_perturbation,
)
from dpml.arrays import Array
from dpml.errors import UserError
from dpml.mechanism.guarantees import Proof
from dpml.mechanism.objectives import PerturbedObjective
from dpml.mechanism.sharing import Sampler, Sharing, secure_sharing
from dpml.optim.gradients import MergedRows
from dpml.options import POSITIVE
from dpml.privacy import noise
from dpml.privacy.proofs import noisy_sums
from dpml.privacy.safe import round_up, with_slack
from dpml.program import Budget, Carrier, Lam, Problem, Program, Release, Rounds, Statistic, Sum, Terms, View

_MOST_HALVINGS = 400  # noise doubles so often at most: its squares, of about 2^800, then have finite sums


@dataclass(frozen=True)
class GradientTerms(Terms["Gradients"]):
    """Compute sums of logistic gradients in double precision, over all rows or over each party's rows."""

    def total(self, *at: Any) -> Array:
        return self._all.sum(at[0])

    def each(self, *at: Any) -> Array:
        return np.array([rows.sum(at[0]) for rows in self._by_party])

    @cached_property
    def _all(self) -> "MergedRows":
        return MergedRows(self.parties.X, self.parties.y)

    @cached_property
    def _by_party(self) -> "list[MergedRows]":
        own = [self.parties.of(k) for k in range(self.parties.problem.M)]
        return [MergedRows(self.parties.X[rows], self.parties.y[rows]) for rows in own]


@dataclass(frozen=True)
class Gradients(Statistic):
    """The sum of the gradients of the logistic loss over all rows, at models w (B, d)."""

    terms = GradientTerms

    def lengths(self, d: int) -> tuple[int, ...]:
        return (d,)

    def largest(self, problem: Problem) -> float:
        return problem.N  # each row's gradient has norm at most 1

    def imprecision(self, problem: Problem) -> float:
        return sums.imprecision(problem.N, 2 * problem.d, model=sums.LONG)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f8", (d,)


@dataclass(frozen=True)
class PublishedNoise(Sharing):
    """Every party adds noise rho to its part of a secure sum; the density of rho is proportional to exp(-||rho||)."""

    secure: ClassVar[bool] = True

    def views(self, problem: Problem) -> dict[View, float]:
        # placeholders: `PrivateSGD.proven` computes the guarantees of published noise without these factors
        return dict.fromkeys(("release", "aggregate", "client", "colluders"), 1.0)

    def sources(self, M: int) -> Array:
        return np.eye(M)

    def total(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "l2_laplace") -> Array:
        return noise.l2_laplace_total(rng, draws, M, size)

    def parts(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "l2_laplace") -> Array:
        return np.array([noise.l2_laplace_total(rng, draws, 1, size) for _ in range(M)])

    def reach(self, d: int) -> float:
        return 6 * d + 100.0


@dataclass(frozen=True)
class PrivateSGD(
    Program, losses=("logistic",), calibrations=("published", "tight"), variants=("paper", "halving"),
    noises=("continuous",),
):  # fmt: skip
    """`psgd`: private gradient descent on noisy secure sums of M parties (Rajkumar & Agarwal 2012, Alg. 1).

    In round t the model w becomes ``w - z_t ((1/N) sum_k G_k + (lam + Delta) w)``, where G_k is the noisy sum of party
    k's gradients, and Delta an additional ridge. The paper defines neither the first model nor the step size z_t. Here
    the first model is 0, and ``z_t = 1/((lam + Delta)(t + 1) + c)`` with the smoothness c of the loss.

    Args:
        variant: `paper`; or `halving`, in which each round spends half the eps of the previous round.
        rounds: The number of rounds T.
    """

    name: ClassVar[str] = "psgd"
    published_variants: ClassVar[bool] = True

    lam: Annotated[Lam, POSITIVE] = 0.01
    rounds: Rounds = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.halving and self.rounds > _MOST_HALVINGS:
            raise UserError(
                f"algo.rounds of psgd must be at most {_MOST_HALVINGS}, got {self.rounds}: algo.variant=halving "
                "doubles the noise in every round, and more rounds would overflow."
            )

    @property
    def halving(self) -> bool:
        return self.variant == "halving"

    def sharing(self, problem: Problem) -> Sharing:
        return secure_sharing(problem) if self.tight else PublishedNoise()

    def perturbation(self, budget: Budget, problem: Problem) -> PerturbedObjective:
        """Return the perturbed objective that gradient descent minimises."""
        if self.halving:
            return PerturbedObjective("gaussian", 0.0, 0.0, self.lam, problem.N)
        if self.tight:
            return replace(tight_perturbation(budget, problem, self.lam, "algo=psgd"), scale=0.0)
        return published_perturbation(budget, problem, self.lam, "algo=psgd")

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        constant = self.perturbation(budget, problem).scale
        if math.isinf(budget.eps):
            width = 0.0
        elif self.tight:
            width = SENSITIVITY * math.sqrt(self.rounds) / self.target_mu(budget, problem)
        else:
            width = SENSITIVITY / budget.eps
        one = Sum(Gradients(), SENSITIVITY, width, constant=constant, law="gaussian" if self.tight else "l2_laplace")
        if not self.halving:
            return (replace(one, times=self.rounds),)
        return tuple(replace(one, noise=with_slack(width) * 2.0**t) for t in range(1, self.rounds + 1))

    def claimed(self, view: View) -> str | None:
        if self.tight or view not in ("release", "aggregate"):
            return None
        return f"Rajkumar & Agarwal 2012, {'Sec. 3.2 (eps/2^t)' if self.halving else 'Thm 4.2 (the limit point)'}"

    def proven(self, budget: Budget, problem: Problem) -> dict[View, Proof]:
        views = self.sharing(problem).views(problem)
        rounds = f", T = {self.rounds}"
        if math.isinf(budget.eps):
            return dict.fromkeys(views, Proof(math.inf, f"no noise{rounds}"))
        farther = 1 + self.imprecision(problem)
        if self.halving:
            # the calibration of the noise covers this rounding
            eps = farther * float(np.sum([budget.eps / 2.0**t for t in range(1, self.rounds + 1)]))
            return dict.fromkeys(views, Proof(eps, f"Theorem 4, docs/privacy/rajkumar2012.md{rounds}"))
        if self.tight:
            proven = super().proven(budget, problem)
            return {
                view: Proof(p.eps, f"Theorem 3, docs/privacy/rajkumar2012.md{rounds}", p.mu)
                for view, p in proven.items()
            }
        delta, M = budget.require_delta("algo=psgd"), problem.M
        sigma = self.perturbation(budget, problem).scale
        protecting = {"client": 1, "colluders": problem.honest}
        found = {}
        for view in views:
            h = protecting.get(view, M)
            own = sigma * math.sqrt(h / M) / farther
            eps, source = noisy_sums.proven(self.rounds, round_up(budget.eps * farther), h, problem.d, own, delta)
            found[view] = Proof(eps, f"Theorem 3, docs/privacy/rajkumar2012.md: {source}{rounds}")
        return found

    def run(self, carrier: Carrier) -> Release:
        """Return the last round's models and, as a metric, their distance from the perturbed objective's minimiser."""
        limits = [self.perturbation(budget, carrier.problem) for budget in carrier.budgets]
        strength = carrier.per_run([made.strength for made in limits])[:, None]
        w = self.descend(carrier.problem, strength, lambda w, t: carrier.ask(t if self.halving else 0, w))
        weights = carrier.by_budget(w)
        assert carrier.constant is not None
        eta = np.array([made.scale for made in limits])[:, None, None] * carrier.constant.sum(axis=0)
        limit = perturbed_minimisers(self.loss, carrier.mechanism.parties, limits, eta)
        distance = np.linalg.norm(weights - limit, axis=-1)
        return Release(weights, {"distance": distance, "rounds": np.full(distance.shape, float(self.rounds))})

    def descend(self, problem: Problem, strength: Array, ask: Callable[[Array, int], Array]) -> Array:
        """Return the last models (B, d) of B descents; ``ask(w, t)`` returns round t's noisy gradient sums at w."""
        w = np.zeros((len(strength), problem.d))
        for t in range(self.rounds):
            w = w - (ask(w, t) / problem.N + strength * w) / (strength * (t + 1) + SMOOTHNESS)
        return w
