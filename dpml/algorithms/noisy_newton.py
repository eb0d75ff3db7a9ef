"""Newton's method with noise on gradients and on directions (`newton`: Ganesh, Haghifam, Steinke & Thakurta 2023).

All rows are at one trusted curator. A round of the *double noise* mechanism, at a public model w, releases

    1. the sum G of the rows' gradients plus noise, and then, with G public,
    2. the direction ``(H + R I)^-1 G`` plus noise, H the sum of the rows' curvatures, each at most 1/4 xx',

and w goes on by the second. Rows lie in the unit ball, one is replaced. The sensitivity of each release:

1. At a model of length L all gradients lie in a ball of radius h(L) (`dpml.privacy.proofs.gradient_balls`), so by at
   most ``2 h(||w||)``, and w is public: 1 at w = 0, less than 2 anywhere. The noise of a round follows it.
2. Without the row that is replaced the matrix is K >= R I. The row makes it ``K + k u u'``, and by Sherman & Morrison
   takes ``P = k K^-1 u u' K^-1 / (1 + k u'K^-1 u)`` away from the inverse: P has rank one, ``0 <= P <= m I`` with

       m = k / (R (R + k)) at most,    that is 1/(R (4 R + 1)) for k = 1/4,

   since ``||K^-1 u||^2 <= u'K^-1 u / R`` and ``u'K^-1 u <= 1/R``. Its successor takes a P' with the same bounds, and
   the difference of two such matrices has norm at most m, as either: the direction moves by at most ``m ||G||``.
   For K = R I, u along G and an empty row in its place it does. The paper has the same number for *adding* a row.

T rounds of both are Gaussian releases that depend on those before: they compose exactly (Dong, Roth & Su 2019, Cor.
3.3).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release, require_domain
from dpml.algorithms.exposure import Exposure, Pair, model_exposure
from dpml.algorithms.guarantees import gaussian_views
from dpml.algorithms.hyperparameters import check_choice, check_common, check_positive
from dpml.algorithms.neighbours import one_replaced
from dpml.algorithms.transcript import PLAIN, Recorder, Watch, transcript
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.convex import mean_hessian
from dpml.optim.losses import LOSSES, Logistic, Loss, mean_gradient
from dpml.privacy import Budget, Calibration, Guarantee, Problem, View, gdp, noise
from dpml.privacy.proofs.gradient_balls import logistic_radius

SOURCE = "Gaussian DP of T noisy gradients and directions (noisy_newton)"
CURVATURE = 0.25  # the largest of the logistic loss, and of its quadratic upper bound
LEAST_FLOOR = 1e-9  # of R/N: what can be solved
VIEWS: tuple[View, ...] = ("release", "aggregate")

_BLOCK = 1 << 22  # numbers held at once for a block of models: 32 MiB


class UpperBound(Logistic):
    """The logistic loss with the curvature of the parabola that touches it at a score, and at its negative, from above.

    ``tanh(t/2) / (2t)`` (Jaakkola & Jordan 2000): 1/4 at 0, and falls to 0 more slowly than the loss's own curvature.
    """

    def curvature(self, scores: Array, y: Array) -> Array:
        half = scores / 2
        return np.divide(np.tanh(half), 4 * half, out=np.full_like(half, CURVATURE), where=half != 0)


CURVATURES: dict[str, Loss] = {"bound": UpperBound(), "hessian": LOSSES["logistic"]}


class Widths(NamedTuple):
    """The noise on gradients and on directions, in units of their sensitivities; `floor` is R."""

    gradient: float
    direction: float
    floor: float


@dataclass(frozen=True)
class NoisyNewton:
    """`newton`: T rounds of the double noise mechanism (Ganesh et al. 2023), all of which may be seen.

    The paper adds R to all eigenvalues, or clips them at R; here R is added, as its sensitivity is known exactly. The
    paper counts in zCDP and here is GDP only, so that nothing is `published`. It finds R by a noisy trace of H; here a
    rule finds R that reads no row.

    The rule: after T rounds R acts like a ridge of R/T, which costs about ``R/T W^2/2`` for ||w*|| = W. The noise of
    the last direction, where G is mostly noise, ``||G||^2 = 4 d T/mu_G^2``, costs ``(N/4) (m ||G||)^2 T/(2 mu_H^2)``
    with m = 1/(4 R^2). The sum is least for

        R^5 = N d T^3 / (4 W^2 (mu_G mu_H)^2).

    Args:
        loss: logistic.
        calibration: `tight`.
        variant: `paper`.
        lam: coefficient of lam/2 ||w||^2, part of the objective.
        rounds: T: a gradient and a direction each.
        curvature: `bound`, that of a quadratic upper bound, with which no step without noise makes the objective
            larger; or `hessian`, the loss's own, with which a step from far away may.
        share: of mu^2 that pays for gradients; the rest is for directions.
        norm: W, the norm of w that the rule for the floor of the eigenvalues is best for; larger: a lower floor. This,
            T and `share` were chosen on Adult.
    """

    name: ClassVar[str] = "newton"
    auxiliary: ClassVar[float] = 0.0

    loss: Loss
    calibration: Calibration = "tight"
    variant: str = "paper"
    lam: float = 0.0
    rounds: int = 12
    curvature: Literal["bound", "hessian"] = "bound"
    share: float = 0.5
    norm: float = 1.0

    def __post_init__(self) -> None:
        check_common(self, ("logistic",))
        check_choice("calibration", self.calibration, ("tight",))
        check_choice("algo.curvature", self.curvature, tuple(CURVATURES))
        check_positive("algo.norm", self.norm)
        if self.rounds < 1:
            raise UserError(f"algo.rounds of newton must be at least 1, got {self.rounds}.")
        if not 0 < self.share < 1:
            raise UserError(f"algo.share of newton must lie strictly between 0 and 1, got {self.share}.")

    def widths(self, budget: Budget, problem: Problem) -> Widths:
        """Single source of the noise and the floor, for sampling and for accounting."""
        if math.isinf(budget.eps):
            return Widths(0.0, 0.0, problem.N * (self.lam + LEAST_FLOOR))
        mu = gdp.mu_of(budget.eps, budget.require_delta(f"algo={self.name}"))
        gradient, direction = mu * math.sqrt(self.share), mu * math.sqrt(1 - self.share)
        flat = problem.N * problem.d * self.rounds**3
        best = (flat / (2 * self.norm * gradient * direction) ** 2) ** (1 / 5)
        floor = problem.N * self.lam + max(best, problem.N * LEAST_FLOOR)
        return Widths(math.sqrt(self.rounds) / gradient, math.sqrt(self.rounds) / direction, floor)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """The proven guarantee, the same for the last model and for every round; one sample is the unit."""
        delta = budget.require_delta(f"algo={self.name}")
        widths = self.widths(budget, problem)
        each = [1 / width if width else math.inf for width in (widths.gradient, widths.direction)]
        mu = math.sqrt(self.rounds) * gdp.compose(each)
        return gaussian_views(dict.fromkeys(VIEWS, mu), budget, delta, SOURCE, None)

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedNewton":
        """Nothing to do before the noise is known: every round is noisy. The first model is 0."""
        require_domain(parties, self.loss)
        return PreparedNewton(self, parties)

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """All other rows are zero, so that w stays near 0; a row is rotated by an angle.

        At w = 0 the gradients' difference is sin(angle/2) of what is counted, and the directions' at least sin(angle)
        where G lies in the rows' plane. On a line a row changes its label, or vanishes: one of the two is then 0.
        """
        gradients, directions = self.share, 1 - self.share
        if problem.d == 1:
            gone = gradients / 4 + directions > gradients
            return one_replaced("binary", problem, [1.0], [0.0 if gone else 1.0], (1.0, 1.0 if gone else -1.0))
        cosine = max(-1.0, -gradients / (4 * directions))
        return one_replaced("binary", problem, [1.0], [cosine, math.sqrt(1 - cosine**2)], (1.0, 1.0))

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The last model, and all rounds."""
        prepared = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        widths = self.widths(budget, pair[0].problem)
        scales = np.tile([widths.gradient, widths.direction], self.rounds)

        def release(which: int, rng: Generator, draws: int, watch: Watch) -> None:
            prepared[which].release([budget], rng, draws, watch)

        rounds = transcript("aggregate", release, lambda: Recorder(prepared, PLAIN, scales), len(scales))
        return [model_exposure(prepared, budget), rounds]


@dataclass(frozen=True)
class PreparedNewton:
    """The data of `newton`. All budgets and draws take every round together."""

    algorithm: NoisyNewton
    parties: Parties

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int, watch: Watch | None = None) -> Release:
        """The models after T rounds. `watch` records every message in units of its sensitivity."""
        problem, many = self.parties.problem, len(budgets)
        widths = [self.algorithm.widths(budget, problem) for budget in budgets]
        gradient, direction, floor = np.repeat(widths, draws, axis=0).T[..., None]
        w = np.zeros((many * draws, problem.d))
        for _ in range(self.algorithm.rounds):
            drawn = np.tile(noise.gaussian(rng, (2, draws, problem.d)), (1, many, 1))
            unit = 2 * logistic_radius(np.linalg.norm(w, axis=1))[:, None]
            exact = partial(_gradient, w, unit)
            G = unit * self._send(exact, gradient, drawn[0], watch)
            length = np.linalg.norm(G, axis=1)[:, None]
            unit = np.maximum(length * CURVATURE / (floor * (floor + CURVATURE)), np.finfo(float).tiny)
            exact = partial(_direction, w, G, floor, unit)
            w = w - unit * self._send(exact, direction, drawn[1], watch)
        return Release(w.reshape(many, draws, problem.d))

    def gradient(self, w: Array) -> Array:
        """The gradient of the summed objective at w (B, d), without noise: (B, d)."""
        X, y, counts = self.parties.folded
        return len(self.parties.y) * (mean_gradient(self.algorithm.loss, X, y, w, counts) + self.algorithm.lam * w)

    def direction(self, w: Array, G: Array, floor: Array) -> Array:
        """``(H + R I)^-1 G`` at w, G (B, d) and R (B, 1), without noise: (B, d)."""
        X, y, counts = self.parties.folded
        n, d = X.shape
        directions = np.empty_like(w)
        height = max(1, _BLOCK // max(n, d * d))
        for start in range(0, len(w), height):
            some = slice(start, start + height)
            K = mean_hessian(CURVATURES[self.algorithm.curvature], X, y, w[some], counts)
            K *= len(self.parties.y)
            K += floor[some, :, None] * np.eye(d)
            directions[some] = np.linalg.solve(K, G[some, :, None])[..., 0]
        return directions

    def _send(self, exact: "Exact", width: Array, drawn: Array, watch: Watch | None) -> Array:
        """A message (B, d) with unit noise `drawn` times `width` (B, 1)."""
        message = exact(self) + width * drawn
        if watch is not None:
            watch.drawn(drawn[None])
            watch.sent(message, exact)
        return message


Exact = Callable[[PreparedNewton], Array]
"""What a mechanism would send without noise, in units of its sensitivity."""


def _gradient(w: Array, unit: Array, mechanism: PreparedNewton) -> Array:
    return mechanism.gradient(w) / unit


def _direction(w: Array, G: Array, floor: Array, unit: Array, mechanism: PreparedNewton) -> Array:
    return mechanism.direction(w, G, floor) / unit
