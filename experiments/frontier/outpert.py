"""Release a regularised minimiser plus Gaussian noise (`outpert`), for a sharp bound on its sensitivity.

docs/privacy/outputs_and_newton.md, Theorems 1 and 2, bounds the change of the minimiser when a row is replaced.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from dpml.algorithms.perturbation import solver_tolerance
from dpml.arrays import Array, blocks
from dpml.data.partition import Parties, Rows
from dpml.mechanism.algorithm import SIMULATED
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.optim import NotConvergedError
from dpml.optim.convex import minimise_convex
from dpml.optim.losses import Loss, longest_minimiser
from dpml.optim.quadratic import minimise_quadratic_in_ball
from dpml.options import POSITIVE
from dpml.privacy import Budget, Problem, gdp
from dpml.program import Minimiser, Program, Release, Sum

_HALVINGS = 36  # bisection steps on [0, 1/2], which contains b*; the result is an upper bound after any number
_UP = 1 + 1e-12  # the increase of a radius, which is more than its rounding error
_HEIGHT = 1 << 12  # the number of rows in a block; first the rows of a block are added, then the blocks
_SLACK = 1.01  # allows for other rounding errors, because a gradient is computed again in another order


@dataclass(frozen=True)
class GaussianOutput(
    Program, losses=("squared", "logistic"), calibrations=("tight",), lam=0.0, variants=("paper",), **SIMULATED
):
    """`outpert`: output perturbation, the regularised minimiser plus Gaussian noise, at one trusted curator.

    A larger ridge reduces the noise as 1/lam, but pulls w towards 0. If the best w has norm W, gradients are at most D
    apart and curvatures at most c, the expected excess loss is at most ``lam/2 W^2 + c/2 (D/(N lam mu))^2``, least for

        lam^3 = 2 c D^2 / (N mu W)^2,

    which is used unless `lam` is larger. This rule reads no rows.

    Args:
        loss: logistic; or squared, minimised over the ball ||w|| <= `radius`.
        lam: the least coefficient of lam/2 ||w||^2; a rule in eps, delta and N increases it.
        model_norm: W, the norm of w for which the rule is best; a larger W gives less ridge. The default is for Adult.
        radius: the radius of the ball over which the squared loss is minimised.
    """

    name: ClassVar[str] = "outpert"
    proof: ClassVar[str] = "Theorem 2, docs/privacy/outputs_and_newton.md"

    model_norm: Annotated[float, POSITIVE] = 4.0
    radius: Annotated[float, POSITIVE] = 1.0

    @property
    def logistic(self) -> bool:
        return self.loss.name == "logistic"

    def longest(self, strength: float) -> float:
        """Return L, an upper bound on the norm of every minimiser.

        For the squared loss, w inside the ball has ``strength ||w||^2 = 2 mean (y - t) t <= 1/2``, and w on its surface
        less.
        """
        if self.logistic:
            return longest_minimiser(self.loss, strength)
        return min(self.radius, 1 / math.sqrt(2 * strength))

    def apart(self, length: float) -> float:
        radius = logistic_radius if self.logistic else squared_radius
        return 2 * float(radius(length))

    def unsolved(self, problem: Problem, strength: float) -> float:
        """Return a bound on the distance of the computed minimiser from the exact one.

        For a gradient g, the distance is at most ``||g||/strength``. In a ball, for a projected gradient step of length
        e, it is at most ``(1 + smoothness) e/strength`` (Pang 1987). Floating-point errors are added.
        """
        conditioning = 1.0 if self.logistic else 1 + self.loss.smoothness + strength
        length = self.longest(strength)
        steepest, terms = (1.0, added(problem.N)) if self.logistic else (2 * (1 + length), problem.N)
        wrong = gradient_error(terms, problem.d, steepest, length, strength)
        return conditioning * (_SLACK * solver_tolerance(problem.N) + wrong) / strength

    def sensitivity(self, problem: Problem, strength: float) -> float:
        longest = self.longest(strength)
        shift = min(self.apart(longest) / (problem.N * strength), 2 * longest)
        return shift + 2 * self.unsolved(problem, strength)

    def ridge(self, budget: Budget, problem: Problem) -> float:
        """Return the coefficient of ||w||^2 / 2 in the objective: `lam`, or more by the rule."""
        if math.isinf(budget.eps):
            return self.lam
        W = self.model_norm if self.logistic else min(self.model_norm, self.radius)
        steepest = 2.0 if self.logistic else self.apart(self.radius)
        return max(
            self.lam, (2 * self.loss.smoothness * (steepest / (problem.N * self.mu(budget) * W)) ** 2) ** (1 / 3)
        )

    def mu(self, budget: Budget) -> float:
        return gdp.mu_of(budget.eps, budget.require_delta(f"algo={self.name}"))

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        fit = Fit(self.loss, self.radius)
        if math.isinf(budget.eps):
            return (Sum(Minimiser(fit, about=1), math.inf, 0.0),)
        strength = self.ridge(budget, problem)
        shift = self.sensitivity(problem, strength)
        return (Sum(Minimiser(fit, about=1), shift, shift / self.mu(budget)),)

    def run(self, carrier: Carrier) -> Release:
        ridges = carrier.per_run([self.ridge(budget, carrier.problem) for budget in carrier.budgets])
        return Release(carrier.by_budget(carrier.ask(0, ridges[:, None])))


@dataclass(frozen=True)
class Fit:
    """Compute the minimiser of a loss; for the squared loss, over the ball of this radius."""

    loss: Loss
    radius: float

    def __call__(self, parties: Parties, strengths: Array) -> Array:
        return self.minimise(parties.folded, strengths[:, 0])

    def minimise(self, rows: Rows, strengths: Array) -> Array:
        """Return the minimisers of mean loss + strength/2 ||w||^2 for several strengths (B,): (B, d)."""
        X, y, counts = rows
        N = len(y) if counts is None else round(float(counts.sum()))
        if self.loss.name == "logistic":
            still = np.zeros((len(strengths), X.shape[1]))
            w = minimise_convex(self.loss, X, y, strengths, still, counts, solver_tolerance(N))
            left = float(gradient_lengths(self.loss, rows, w, strengths[:, None]).max())
            if not left <= _SLACK * solver_tolerance(N):
                raise NotConvergedError(f"the solver left a gradient of norm {left:.1e}: set a larger algo.lam.")
            return w
        share = np.full(len(y), 1 / N) if counts is None else counts / N
        A, b = (share[:, None] * X).T @ X, -2 * (share * y) @ X
        w = minimise_quadratic_in_ball(A, np.tile(b, (len(strengths), 1)), self.radius, strengths / 2)
        step = w - (2 * w @ A + b + strengths[:, None] * w)
        step /= np.maximum(np.linalg.norm(step, axis=1, keepdims=True) / self.radius, 1.0)
        left = float(np.linalg.norm(w - step, axis=1).max())
        if not left <= solver_tolerance(N):
            raise NotConvergedError(
                f"a least-squares fit in the ball of algo.radius={self.radius:g} leaves a projected gradient of "
                f"{left:.1e}: rescale the features."
            )
        return w


def gradient_lengths(
    loss: Loss, rows: Rows, weights: Array, strength: Array | float, tilt: Array | float = 0.0
) -> Array:
    """Return the norms of the gradients of mean loss + strength/2 ||w||^2 + tilt'w at models (B, d): (B,)."""
    X, y, counts = rows
    total = np.zeros_like(weights)
    for some in blocks(len(y), most=_HEIGHT):
        slopes = loss.slope(X[some] @ weights.T, y[some])
        if counts is not None:
            slopes = slopes * counts[some, None]
        total += slopes.T @ X[some]
    mean = total / (len(y) if counts is None else counts.sum())
    lengths: Array = np.linalg.norm(mean + strength * weights + tilt, axis=1)
    return lengths


def gradient_error(terms: int, d: int, steepest: float, length: float, strength: float) -> float:
    """Return a bound on the distance of a computed gradient from the exact one (docs/privacy/outputs_and_newton.md).

    `terms` products are added one after the other (`added`). `steepest` is the largest norm of a row's gradient,
    `length` the norm of the model, and `strength` the coefficient of the ridge.
    """
    return 1.01 * 2.0**-53 * ((terms + 32) * steepest + 2 * (d + 8) * length + 4 * strength * length)


def added(rows: int) -> int:
    """Return how many numbers `gradient_lengths` adds one after the other: rows of a block, then blocks."""
    return min(rows, _HEIGHT + -(-rows // _HEIGHT))


def logistic_radius(length: ArrayLike) -> Array:
    """Return the radius of a ball that contains the logistic gradients of all rows at models of these norms (...,).

    It rises from 1/2 at w = 0 to 1. Two gradients are at most twice the radius apart (Theorem 1).
    """
    length = np.asarray(length, dtype=float)
    low, high = np.zeros(length.shape), np.full(length.shape, 0.5)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rising = length * expit(-middle * length) > middle / (1 - middle**2)
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.minimum(np.sqrt(1 - low**2) * expit(high * length) * _UP, 1.0)


def squared_radius(length: ArrayLike) -> Array:
    """Return `logistic_radius` for the squared loss ``(x'w - y)^2`` and labels in [-1, 1]."""
    length = np.asarray(length, dtype=float)
    b = 2 * length / (1 + np.sqrt(1 + 8 * length**2))
    radius: Array = 2 * np.sqrt(1 - b**2) * (1 + b * length) * _UP
    return radius
