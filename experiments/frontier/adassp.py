"""Least squares from noisy sufficient statistics, with a ridge chosen by a noisy eigenvalue (`adassp`, Wang 2018).

docs/privacy/sufficient_statistics.md, Theorem 3, proves the guarantee for a replaced row.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpml.algorithms.quadratic.coefficients import Scales, joint_sensitivity, quadratic_of
from dpml.arrays import Array, blocks
from dpml.mechanism.algorithm import SIMULATED
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.optim.quadratic import minimise_quadratic
from dpml.privacy import Budget, Problem
from dpml.program import Program, Release, Statistic, Sum, Terms
from dpml.sums import TALL, PairwiseSum, gamma

RHO = 0.05
"""The probability that the noise on X'X is larger than the ridge rule assumes, as in the paper."""


@dataclass(frozen=True)
class StatisticsTerms(Terms["Statistics"]):
    """Compute the statistics at one curator, because lambda_min is not a sum over parties."""

    def total(self, *at: Any) -> Array:
        return self._total

    @cached_property
    def _total(self) -> Array:
        X, y = self.parties.X, self.parties.y
        squares, linears = PairwiseSum(), PairwiseSum()
        for some in blocks(len(y), most=TALL):
            squares.add(X[some].T @ X[some])
            linears.add(y[some] @ X[some])
        square, linear = squares.result(), linears.result()
        square += self.statistic.ridge * np.eye(X.shape[1])
        i, j = np.triu_indices(X.shape[1])
        triangle = square[i, j] / np.where(i == j, 1.0, self.statistic.off_diagonal)
        return np.concatenate([[float(np.linalg.eigvalsh(square)[0])], linear, triangle])


@dataclass(frozen=True)
class Statistics(Statistic):
    """The least eigenvalue (lambda_min) and the upper triangle of X'X + ridge I, and X'y, at one curator.

    Off-diagonal entries are divided by `off_diagonal`, so that all numbers have the same noise.
    """

    terms = StatisticsTerms

    ridge: float
    off_diagonal: float

    def lengths(self, d: int) -> tuple[int, ...]:
        return 1, d, d * (d + 1) // 2

    def imprecision(self, problem: Problem) -> float:
        """Return a bound on the errors of the sums and of LAPACK (10 d^2 roundings of the largest eigenvalue)."""
        return super().imprecision(problem) + 2 * (problem.N + self.ridge) * gamma(10 * problem.d**2)

    def largest(self, problem: Problem) -> float:
        return problem.N * (1 + self.ridge)


@dataclass(frozen=True)
class AdaptiveStatistics(Program, losses=("squared",), calibrations=("published", "tight"), lam=0.0, **SIMULATED):
    """`adassp` (Wang 2018, Alg. 2, AdaSSP), for squared loss at one trusted curator.

    With `tight`, noise_std s is the least that is proven to suffice. Off the diagonal, X'X has noise_std s/sqrt 2.
    There is no distributed version, because lambda_min is not a sum over parties; `ssp` is distributed.

    Args:
        lam: the coefficient of lam/2 ||w||^2 in the objective; N lam/2 is added to the diagonal of X'X, without noise.
    """

    name: ClassVar[str] = "adassp"
    claim: ClassVar[str | None] = "Wang 2018, Alg. 2"
    proof: ClassVar[str] = "Theorem 3, docs/privacy/sufficient_statistics.md"
    matrices: ClassVar[bool] = True

    @property
    def off_diagonal(self) -> float:
        return 1 / math.sqrt(2) if self.tight else 1.0

    def joint(self, d: int) -> Scales:
        """Return the noise on -2 X'y and X'X that has the same mu as noise_std 1 on all three statistics."""
        return Scales(math.inf, 2.0, math.sqrt(1 / 1.5 if d > 1 else 1 / 2))

    def sensitivity(self, d: int) -> float:
        """Return the joint sensitivity of lambda_min, X'X and X'y to a replaced row, after dividing by their noise."""
        return joint_sensitivity(quadratic_of(self.loss), self.joint(d), d)

    def scale(self, budget: Budget, problem: Problem) -> float:
        if math.isinf(budget.eps):
            return 0.0
        delta = budget.require_delta("algo=adassp")
        if self.tight:
            return self.sensitivity(problem.d) / self.target_mu(budget, problem)
        return math.sqrt(math.log(6 / delta)) / (budget.eps / 3)

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        of = Statistics(problem.N * self.lam / 2, self.off_diagonal)
        return (Sum(of, self.sensitivity(problem.d), self.scale(budget, problem), (1.0, 1.0, 1.0)),)

    def run(self, carrier: Carrier) -> Release:
        """Release the models. The metric `trimmed` is 1 if the spectrum of a matrix was trimmed."""
        d = carrier.problem.d
        scales = np.array([messages[0].noise for messages in carrier.messages])
        # bounds on lambda_min's noise and on the norm of X'X's noise, divided by s, that hold with high probability
        below = np.array([math.sqrt(math.log(6 / b.delta)) if b.delta else 0.0 for b in carrier.budgets])
        above = self.off_diagonal * math.sqrt(d * math.log(2 * d * d / RHO))
        noisy = carrier.by_budget(carrier.ask(0))
        i, j = np.triu_indices(d)
        square = np.empty((*noisy.shape[:2], d, d))
        square[..., i, j] = noisy[..., 1 + d :] * np.where(i == j, 1.0, self.off_diagonal)
        square[..., j, i] = square[..., i, j]
        bound = np.maximum(0.0, noisy[..., 0] - (scales * below)[:, None])
        ridge = np.maximum(0.0, (scales * above)[:, None] - bound)
        w, trimmed = minimise_quadratic(square + ridge[..., None, None] * np.eye(d), -2 * noisy[..., 1 : 1 + d])
        return Release(w, {"trimmed": trimmed.astype(float)})
