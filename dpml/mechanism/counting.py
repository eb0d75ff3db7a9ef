"""Count the errors of a trained model on the training rows by an additional noisy sum with its own budget."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism import discrete
from dpml.mechanism.algorithm import UNITS, Release
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import Sharing
from dpml.mechanism.statistics import ClippedRows
from dpml.optim.losses import LOSSES, correct, scores
from dpml.privacy import Budget, Problem

LARGEST = 4.0
"""Squared errors are clipped to this value. Targets lie in [-1, 1]."""


@dataclass(frozen=True)
class Errors:
    """Compute B models' errors on n labelled rows; the errors are shifted and scaled to [-1/2, 1/2]: (B, n, 1)."""

    regression: bool
    classes: int

    def __call__(self, X: Array, y: Array, w: Array) -> Array:
        found = scores(X, w, self.classes)
        if self.regression:
            error = np.minimum(LOSSES["squared"].value(found, y) / LARGEST, 1.0) - 0.5
        else:
            error = np.where(correct(found, y), -0.5, 0.5)
        return error.T[..., None]


@dataclass(frozen=True, kw_only=True)
class Counting(Program, lam=0.0, units=UNITS):
    """An algorithm that runs another algorithm, `of`, and then counts the model's errors under the budget `eps`.

    The metric `error` is the noisy share of misclassified rows, or the noisy mean of squared errors clipped to
    `LARGEST`; with `unit=party` it is the mean of the parties' means. `error_deviation` is the noise_std of `error`.
    """

    of: Program
    eps: float
    regression: bool

    def __post_init__(self) -> None:
        if not 0 < self.eps < math.inf:
            raise UserError(f"count_errors, the eps for error counts, must be positive and finite, got {self.eps:g}.")
        if self.of.noise != "discrete" or type(self.of).proven is not Program.proven:
            raise UserError(
                f"count_errors with algo={self.of.name} works only with exact integer noise: leave out --floating and "
                "algo.noise=continuous, or set algo=ssp."
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.of.name

    @property
    def proof(self) -> str:  # type: ignore[override]
        return f"{self.of.proof}, and of the count of errors"

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        count = ClippedRows(
            Errors(self.regression, problem.classes), 0.5, self.unit, 1, about=(problem.d * problem.classes,)
        )
        own = math.inf if math.isinf(budget.eps) else self.eps
        noise = 2.0 / self.target_mu(Budget(own, budget.delta), problem, count)
        return (*self.of.messages(budget, problem), Sum(count, 2.0, noise))

    def run(self, carrier: Carrier) -> Release:
        release, last = self.of.run(carrier), len(carrier.messages[0]) - 1
        weights = release.weights
        assert weights is not None
        summed = carrier.by_budget(carrier.ask(last, weights.reshape(-1, weights.shape[-1])))[..., 0]
        units = carrier.problem.units(self.unit)
        deviations = [[self.deviation(messages[last], carrier.problem)] for messages in carrier.messages]
        scale = LARGEST if self.regression else 1.0
        found = {"error": scale * (summed / units + 1) / 2, "error_deviation": np.ones(summed.shape) * deviations}
        return replace(release, metrics={**release.metrics, **found})

    def deviation(self, message: Sum, problem: Problem) -> float:
        """Return the noise_std of the released training error, assuming that no party drops out."""
        scale = LARGEST if self.regression else 1.0
        drawn = discrete.grid(message, problem)
        return scale / (2 * problem.units(self.unit)) * (math.sqrt(problem.M * drawn.variances[0]) * drawn.steps[0])

    def begin(self, parties: Parties, rng: Generator) -> Any:
        return self.of.begin(parties, rng)

    def together(self, problem: Problem) -> int | None:
        return self.of.together(problem)

    def sharing(self, problem: Problem) -> Sharing:
        return self.of.sharing(problem)


def counting(of: Program, eps: float, regression: bool) -> Counting:
    """Return an algorithm that runs another algorithm, `of`, and then counts the errors of the trained model."""
    return Counting(
        of.loss, of.calibration, unit=of.unit, lam=of.lam, noise=of.noise, of=of, eps=eps, regression=regression
    )
