"""Least squares from noisy sufficient statistics, with a ridge that a noisy eigenvalue chooses (Wang 2018)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release, require_domain
from dpml.algorithms.coefficients import Scales, joint_sensitivity, worst_neighbours
from dpml.algorithms.guarantees import gaussian_views
from dpml.algorithms.hyperparameters import check_common
from dpml.algorithms.noisy_coefficients import blocks
from dpml.algorithms.transcript import PLAIN, Recorder, Watch, transcript
from dpml.arrays import Array
from dpml.audit.exposure import Exposure, Pair, model_exposure
from dpml.audit.neighbours import one_replaced
from dpml.data.partition import Parties
from dpml.optim.losses import Loss, Quadratic
from dpml.optim.quadratic import minimise_quadratic
from dpml.privacy import Budget, Calibration, Guarantee, Problem, gdp, noise

RHO = 0.05  # how likely the noise on X'X may be longer than the ridge rule assumes: the paper's


@dataclass(frozen=True)
class AdaptiveStatistics:
    """`adassp` (Wang 2018, Alg. 2, AdaSSP), for squared loss at one trusted curator.

    Released are the least eigenvalue of X'X, X'X, and X'y, each with Gaussian noise of standard deviation s. With
    ``c = log(6/delta)``, a lower bound ``l = max(0, lambda_min + s z - s sqrt c)`` of that eigenvalue, noise Z of
    standard deviation t off the diagonal of X'X, and `RHO` = .05, the model is

        (X'X + Z + k I)^-1 (X'y + z),    k = max(0, t sqrt(d log(2 d^2/RHO)) - l):

    the ridge k makes up for what the eigenvalues lack to be above the noise. If the matrix is not positive definite
    even so, its spectrum is trimmed. Bounds on rows and labels are 1, as everywhere here.

    *published*: s = t = 3 sqrt(c)/eps, an (eps/3, delta/3) each, for a row that is added or removed: it moves each of
    the three by at most 1. *proven*, for a row that is replaced: let rows x, x' have the inner product g, and
    ``D = xx' - x'x''``. Two rows of length 1 with the same g move X'y at least as far, and have
    ``||D||_F^2 = 2 - 2 g^2`` and eigenvalues ``+-sqrt(1 - g^2)``, where shorter rows r, q have
    ``||D||_F^2 = r^4 + q^4 - 2 g^2``, and of eigenvalues u - v = r^2 - q^2, u v = r^2 q^2 - g^2 the larger has
    ``u^2 = (r^2 - q^2) u + u v <= r^2 - (1 - r^2) q^2 - g^2 <= 1 - g^2``. lambda_min moves by at most the larger
    (Weyl). So its part is at most half of that of X'X, and all three together are as X'X with noise s/sqrt(1.5) and
    X'y with s (`joint_sensitivity`): mu = sqrt(16/3)/s. On a line (d = 1) lambda_min and X'X are one number: 2/s.
    Noise of one variance on the upper triangle, as published, changes nothing: D may be diagonal.

    `tight` has the least s that is proven to be enough, and the isometric noise of a symmetric matrix, t = s/sqrt 2,
    which hides a diagonal D as well. A sum over parties does not have lambda_min in it, so there is no distributed
    version: `ssp` is one.

    Args:
        loss: squared.
        calibration: `published` noise, or `tight`.
        lam: coefficient of lam/2 ||w||^2, part of the objective: N lam/2 is added to X'X, exactly.
    """

    name: ClassVar[str] = "adassp"
    auxiliary: ClassVar[float] = 0.0

    loss: Loss
    calibration: Calibration = "published"
    lam: float = 0.0

    def __post_init__(self) -> None:
        check_common(self, ("squared",))

    @property
    def variant(self) -> str:
        """The only reading there is."""
        return "paper"

    @property
    def quadratic(self) -> Quadratic:
        """The loss's polynomial form."""
        assert self.loss.quadratic is not None  # squared
        return self.loss.quadratic

    @property
    def off_diagonal(self) -> float:
        """The noise off the diagonal of X'X, over that on it."""
        return 1 / math.sqrt(2) if self.calibration == "tight" else 1.0

    def joint(self, d: int) -> Scales:
        """Noise on -2 X'y and X'X that has the mu of noise of standard deviation 1 on all three."""
        return Scales(math.inf, 2.0, math.sqrt(1 / 1.5 if d > 1 else 1 / 2))

    def sensitivity(self, d: int) -> float:
        """How far lambda_min, X'X and X'y move together when one row is replaced, in units of their noise."""
        return joint_sensitivity(self.quadratic, self.joint(d), d)

    def scale(self, budget: Budget, problem: Problem) -> float:
        """Single source of s, for sampling and for accounting."""
        if math.isinf(budget.eps):
            return 0.0
        delta = budget.require_delta("algo=adassp")
        if self.calibration == "tight":
            return self.sensitivity(problem.d) / gdp.mu_of(budget.eps, delta)
        return math.sqrt(math.log(6 / delta)) / (budget.eps / 3)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven; one sample is the unit."""
        delta, scale = budget.require_delta("algo=adassp"), self.scale(budget, problem)
        mu = self.sensitivity(problem.d) / scale if scale else math.inf
        source = "Gaussian DP of all three (adaptive_statistics.AdaptiveStatistics)"
        claim = "Wang 2018, Alg. 2" if self.calibration == "published" else None
        return gaussian_views({"release": mu}, budget, delta, source, claim)

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedStatistics":
        """Sum the statistics; one pass over the data."""
        require_domain(parties, self.loss)
        X, y, problem = parties.X, parties.y, parties.problem
        square = X.T @ X + problem.N * self.lam / 2 * np.eye(problem.d)
        return PreparedStatistics(self, problem, y @ X, square, float(np.linalg.eigvalsh(square)[0]))

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """The rows that are farthest apart, turned so that D is diagonal; the others lie along the other axes.

        lambda_min is then that of the first axis, where D is positive.
        """
        d = problem.d
        worst = worst_neighbours(self.quadratic, self.joint(d), d)
        labels = 1.0, -worst.label
        if d == 1:
            return one_replaced("regression", problem, [1.0], worst.other, labels)
        half = math.asin(worst.other[0]) / 2
        row = np.array([math.cos(half), math.sin(half)])
        rest = np.eye(d)[1 + np.arange(problem.N - 1) % (d - 1)]
        return one_replaced("regression", problem, row, row[::-1], labels, rest)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model, and the statistics that it is computed from."""
        both = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        scale = self.scale(budget, both[0].problem)

        def release(which: int, rng: Generator, draws: int, watch: Watch) -> None:
            both[which].noisy(np.array([scale]), rng, draws, watch)

        mu = float(np.linalg.norm(both[1].vector() - both[0].vector())) / scale
        seen = transcript("release", release, lambda: Recorder(both, PLAIN, [scale] * 3), 3, mu=mu)
        return [model_exposure(both, budget), seen]


@dataclass(frozen=True)
class PreparedStatistics:
    """X'y (d,), X'X + N lam/2 I (d, d) and its least eigenvalue, before noise. Not private."""

    algorithm: AdaptiveStatistics
    problem: Problem
    linear: Array
    square: Array
    least: float

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """Models, and whether the spectrum of a matrix had to be trimmed (`trimmed`)."""
        d = self.problem.d
        scales = np.array([self.algorithm.scale(budget, self.problem) for budget in budgets])
        # in units of s: bounds on the noise in lambda_min and on the norm of that in X'X, with high probability
        below = np.array([math.sqrt(math.log(6 / budget.delta)) if budget.delta else 0.0 for budget in budgets])
        above = self.algorithm.off_diagonal * math.sqrt(d * math.log(2 * d * d / RHO))
        released = []
        for block in blocks(draws, d):
            least, linear, square = self.noisy(scales, rng, block)
            bound = np.maximum(0.0, least - (scales * below)[:, None])
            ridge = np.maximum(0.0, (scales * above)[:, None] - bound)
            w, trimmed = minimise_quadratic(square + ridge[..., None, None] * np.eye(d), -2 * linear)
            released.append((w, trimmed.astype(float)))
        weights, trims = (np.concatenate(column, axis=1) for column in zip(*released, strict=True))
        return Release(weights, {"trimmed": trims})

    def vector(self) -> Array:
        """What is released, as 1 + d + d (d + 1)/2 numbers that all have noise of deviation s."""
        i, j = np.triu_indices(self.problem.d)
        triangle = self.square[i, j] / np.where(i == j, 1.0, self.algorithm.off_diagonal)
        return np.concatenate([[self.least], self.linear, triangle])

    def noisy(
        self, scales: Array, rng: Generator, draws: int, watch: Watch | None = None
    ) -> tuple[Array, Array, Array]:
        """Noisy lambda_min, X'y and X'X: (budgets, draws), (budgets, draws, d), (budgets, draws, d, d).

        `watch` records those of one budget as three messages, which together are laid out as `vector`.
        """
        d, exact = self.problem.d, self.vector()
        seen = exact + scales[:, None, None] * noise.gaussian(rng, (draws, len(exact)))
        if watch is not None:
            for part in (slice(1), slice(1, 1 + d), slice(1 + d, None)):
                watch.sent(seen[0, :, part], partial(_exact, draws, part))
        i, j = np.triu_indices(d)
        square = np.empty((*seen.shape[:2], d, d))
        square[..., i, j] = seen[..., 1 + d :] * np.where(i == j, 1.0, self.algorithm.off_diagonal)
        square[..., j, i] = square[..., i, j]
        return seen[..., 0], seen[..., 1 : 1 + d], square


def _exact(draws: int, part: slice, prepared: PreparedStatistics) -> Array:
    """A message without noise, for every draw: (draws, k)."""
    message = prepared.vector()[part]
    return np.broadcast_to(message, (draws, len(message)))
