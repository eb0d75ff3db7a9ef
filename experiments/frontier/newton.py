"""Newton's method with noise on gradients and on directions (`newton`: Ganesh, Haghifam, Steinke & Thakurta 2023).

A round of the *double noise* mechanism, at a public model w, releases G, the gradient of the objective plus noise, and
then the direction ``(H + R I)^-1 G`` plus noise, where H is the sum of the rows' curvatures, each at most 1/4 xx'.
Sensitivities: docs/privacy/outputs_and_newton.md, Theorem 3. The paper's noise is for zCDP, which dpml does not
compute, so there is no `published` noise.

The rule for R reads no rows. After T rounds, R increases the loss by about ``R/T W^2/2`` for ||w*|| = W, and the noise
on the last direction increases it by ``(N/4) (m ||G||)^2 T/(2 mu_H^2)`` with m = 1/(4 R^2), ``||G||^2 = 4 d T/mu_G^2``.
The sum is least for

    R^5 = N d T^3 / (4 W^2 (mu_G mu_H)^2).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpml import sums
from dpml.arrays import Array, blocks
from dpml.mechanism.algorithm import SIMULATED, Rounds
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.optim.convex import LOW, mean_hessian
from dpml.optim.gradients import MergedRows
from dpml.optim.losses import LOSSES, Logistic, Loss
from dpml.options import POSITIVE, SHARE
from dpml.privacy import Budget, Problem
from dpml.program import Program, Release, Statistic, Sum, Terms
from dpml.sums import LONG, TALL, gamma

from .outpert import logistic_radius

CURVATURE = 0.25
"""The largest curvature of the logistic loss, and of its quadratic upper bound."""
LEAST_FLOOR = 1e-9
"""The least R/N with which the linear system can be solved accurately."""

_BLOCK = 1 << 22  # numbers in memory for a block of models: 32 MiB


class UpperBound(Logistic):
    """The logistic loss with the curvature of the parabola that touches the loss from above at the scores t and -t.

    It is ``tanh(t/2) / (2t)`` (Jaakkola & Jordan 2000): 1/4 at 0, and above the loss's own curvature elsewhere.
    """

    def curvature(self, scores: Array, y: Array) -> Array:
        half = scores / 2
        return np.divide(np.tanh(half), 4 * half, out=np.full_like(half, CURVATURE), where=half != 0)


CURVATURES: dict[str, Loss] = {"bound": UpperBound(), "hessian": LOSSES["logistic"]}


@dataclass(frozen=True)
class NewtonTerms(Terms["Newton"]):
    """Compute gradients and directions at one curator; they are not split between parties."""

    def total(self, *at: Any) -> Array:
        exact = self.directions(*at) if self.statistic.direction else self._rows.sum(*at)
        return exact / self.statistic.unit(*at)

    def directions(self, w: Array, G: Array, floor: Array) -> Array:
        """Return ``(H + R I)^-1 G`` at w, G (B, d) and R (B, 1): (B, d)."""
        X, y, counts = self.parties.folded
        if not np.linalg.norm(w, axis=1).max() <= LONG:  # also refuses NaN
            X, y, counts = self.parties.X, self.parties.y, None
        n, d = X.shape
        directions = np.empty_like(w)
        for some in blocks(len(w), max(n, d * d), _BLOCK):
            K = mean_hessian(CURVATURES[self.statistic.curvature], X, y, w[some], counts)
            K *= len(self.parties.y)
            K += floor[some, :, None] * np.eye(d)
            directions[some] = solved(K, G[some])
        return directions

    @cached_property
    def _rows(self) -> MergedRows:
        return MergedRows(self.parties.X, self.parties.y)


@dataclass(frozen=True)
class Newton(Statistic):
    """The sum of the rows' gradients at w, or the direction ``(H + R I)^-1 G``, divided by its sensitivity."""

    terms = NewtonTerms

    loss: Loss
    curvature: str
    direction: bool

    def lengths(self, d: int) -> tuple[int, ...]:
        return (d,)

    def largest(self, problem: Problem) -> float:
        return problem.N

    def imprecision(self, problem: Problem) -> float:
        return sums.imprecision(problem.N, 2 * problem.d, model=LONG)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f8", (d, d, 1) if self.direction else (d,)

    def unit(self, *at: Any) -> Array:
        if not self.direction:
            return 2 * logistic_radius(np.linalg.norm(at[0], axis=1))[:, None]
        _, G, floor = at
        length = np.linalg.norm(G, axis=1)[:, None]
        return np.maximum(length * CURVATURE / (floor * (floor + CURVATURE)), np.finfo(float).tiny)


def solving(floor: float, problem: Problem) -> float:
    """Return a bound on the relative increase of a direction's sensitivity by floating-point errors.

    An error E of a neighbour's matrix K >= R I moves its direction by ``||E|| ||G||/R^2``. The sensitivity is m ||G||,
    ``1/m = 4 R^2 (1 + 1/(4R))``. E is the error of the sum H, at most ``gamma_n N/4`` (n: the rows of a block plus the
    number of blocks), and Cholesky's backward error ``d gamma_(3d+1) ||K||`` (Higham 2002, Thm 10.4), ||K|| <= N/4 + R.
    """
    N, d = problem.N, problem.d
    added = (gamma(TALL + N / LOW + 2 * d + 32) + LONG * gamma(2 * d)) * N / 4  # curvatures change by less than slopes
    solved = 1.01 * d * gamma(3 * d + 1) * (N / 4 + floor)
    return 8 * (added + solved) * (1 + CURVATURE / floor)


def solved(K: Array, G: Array) -> Array:
    """Return ``K^-1 G`` for positive definite K (B, d, d) and G (B, d) by Cholesky's method: (B, d)."""
    L, x, d = np.linalg.cholesky(K), G.copy(), G.shape[1]
    for i in range(d):
        x[:, i] = (x[:, i] - np.einsum("bj,bj->b", L[:, i, :i], x[:, :i])) / L[:, i, i]
    for i in reversed(range(d)):
        x[:, i] = (x[:, i] - np.einsum("bj,bj->b", L[:, i + 1 :, i], x[:, i + 1 :])) / L[:, i, i]
    return x


@dataclass(frozen=True)
class NoisyNewton(Program, losses=("logistic",), calibrations=("tight",), lam=0.0, variants=("paper",), **SIMULATED):
    """`newton`: T rounds of Newton's method with noise on gradients and directions (Ganesh et al. 2023).

    The guarantee holds if all rounds are seen. The defaults were chosen on Adult.

    Args:
        rounds: T.
        curvature: `bound` is the curvature of a quadratic upper bound, with which a step without noise never increases
            the objective; `hessian` is the curvature of the loss.
        budget_share: the share of mu^2 that is spent on gradients.
        model_norm: W, the norm of the model for which R is best.
    """

    name: ClassVar[str] = "newton"
    proof: ClassVar[str] = "Theorem 3, docs/privacy/outputs_and_newton.md"

    rounds: Rounds = 12
    curvature: Literal["bound", "hessian"] = "bound"
    budget_share: Annotated[float, SHARE] = 0.5
    model_norm: Annotated[float, POSITIVE] = 1.0

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator(("release", "aggregate"))

    def mus(self, budget: Budget, problem: Problem) -> tuple[float, float]:
        """Return the mu of all gradients together, and that of all directions."""
        mu = self.target_mu(budget, problem)
        return mu * math.sqrt(self.budget_share), mu * math.sqrt(1 - self.budget_share)

    def floor(self, budget: Budget, problem: Problem) -> float:
        gradient, direction = self.mus(budget, problem)
        flat = problem.N * problem.d * self.rounds**3
        best = (flat / (2 * self.model_norm * gradient * direction) ** 2) ** (1 / 5)
        return problem.N * self.lam + max(best, problem.N * LEAST_FLOOR)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        floor = self.floor(budget, problem)
        return tuple(
            Sum(
                Newton(self.loss, self.curvature, direction),
                farther,
                farther * math.sqrt(self.rounds) / mu,
                times=self.rounds,
            )
            for direction, mu, farther in zip(
                (False, True), self.mus(budget, problem), (1.0, 1 + solving(floor, problem)), strict=True
            )
        )

    def run(self, carrier: Carrier) -> Release:
        gradients, directions = carrier.statistic(0), carrier.statistic(1)
        assert isinstance(gradients, Newton)
        assert isinstance(directions, Newton)
        floor = carrier.per_run([self.floor(budget, carrier.problem) for budget in carrier.budgets])[:, None]
        w = np.zeros((len(floor), carrier.problem.d))
        for _ in range(self.rounds):
            G = gradients.unit(w) * carrier.ask(0, w) + carrier.problem.N * self.lam * w
            w = w - directions.unit(w, G, floor) * carrier.ask(1, w, G, floor)
        return Release(carrier.by_budget(w))
