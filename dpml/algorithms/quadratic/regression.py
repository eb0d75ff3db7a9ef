"""Least squares with confidence intervals for the coefficients (`regression`): noisy X'X, X'y and y'y in one sum.

Releasing y'y in addition to X'X and X'y costs no privacy, and the distribution of the noise is public. So intervals are
post-processing of the published sums. Sensitivity and variance of the coefficients: docs/privacy/inference.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from dpml.algorithms.quadratic.coefficients import (
    Coefficients,
    Scales,
    draws_together,
    joint_sensitivity,
    polynomial,
    raised_to_floor,
    spectral_edge,
    split,
)
from dpml.arrays import Array
from dpml.mechanism.algorithm import Release
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
from dpml.options import POSITIVE
from dpml.privacy import Budget, Problem

_HIDDEN = 0.5  # the least curvature that is inverted, in units of the noise's spectral edge


@dataclass(frozen=True)
class Estimated:
    """Coefficients (d,), their covariance (d, d), and the projection on directions that the noise hides (d, d)."""

    coefficients: Array
    covariance: Array
    hidden: Array


@dataclass(frozen=True)
class Moments:
    """The noisy sums of a release over rows x in the unit ball with labels y in [-1, 1].

    Attributes:
        square: X'X, (d, d).
        linear: X'y, (d,).
        labels: y'y.
        square_noise: The noise_std on the diagonal of X'X; off the diagonal it is divided by sqrt 2.
        linear_noise: The noise_std on X'y.
        rows: The number of rows.
        scaled_up: The factor that rescaled the sums of the present rows to all rows.
    """

    square: Array
    linear: Array
    labels: float
    square_noise: float
    linear_noise: float
    rows: int
    scaled_up: float = 1.0

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Moments":
        """Return the sums in a model's file."""
        return cls(**{**content, **{key: np.array(content[key], dtype=float) for key in ("square", "linear")}})

    @property
    def present(self) -> int:
        """Return how many rows were there."""
        return round(self.rows / self.scaled_up)

    def plain(self) -> dict[str, Any]:
        """Return the sums as plain values for a model's file."""
        return vars(self) | {"square": self.square.tolist(), "linear": self.linear.tolist()}

    def estimated(self) -> Estimated:
        """Return the least squares coefficients and their covariance over samples and noise (Theorem 2)."""
        d, S, v = len(self.linear), self.square, self.linear
        values, vectors = np.linalg.eigh(S)
        floor = max(least_curvature(d, self.square_noise), d * np.finfo(float).eps * np.abs(values).max())
        raised = np.maximum(values, floor)
        inverse = (vectors / raised) @ vectors.T
        b = inverse @ v
        noise = self.linear_noise**2 + self.square_noise**2 * (b @ b) / 2
        along = self.square_noise**2 / 2
        squares = self.labels - 2 * b @ v + b @ S @ b
        squares += noise * np.trace(inverse) + along * b @ inverse @ b
        variance = np.clip(squares / (self.rows - self.scaled_up * d), 0.0, 1.0)
        scores = self.scaled_up * variance * (vectors * raised) @ vectors.T + noise * np.eye(d) + along * np.outer(b, b)
        lost = (raised - np.maximum(values, 0.0)) / raised
        return Estimated(b, inverse @ scores @ inverse, (vectors * lost) @ vectors.T)


@dataclass(frozen=True)
class Regression(Program, losses=("squared",), calibrations=("tight",)):
    """`regression`: private least squares with confidence intervals, from one secure sum of X'X, X'y and y'y.

    The coefficients are those of ordinary linear regression if dataset.steps=[impute,treatment,symmetric,constant,
    max_norm]: an intercept, categories without a reference level, and one common scale of all rows. `dpml table` prints
    the intervals.

    Args:
        radius: The norm of w for which the split of the noise between X'y and X'X is best; None: a typical norm.
    """

    name: ClassVar[str] = "regression"
    proof: ClassVar[str] = "Theorem 1, docs/privacy/inference.md"

    radius: Annotated[float | None, POSITIVE] = None

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        of = Coefficients(self.loss, constant=True)
        scales = split(of, problem.d, mu := self.target_mu(budget, problem, of), self.radius)
        if math.isinf(mu):
            return (Sum(of, math.inf, 1.0, (0.0,) * 4),)
        A, B = (of.quadratic.linear_bound / scales.linear) ** 2, (of.quadratic.square / scales.square) ** 2
        free = of.quadratic.constant_range / math.sqrt(A + A * A / (2 * B))
        joint = joint_sensitivity(of.quadratic, Scales(free, scales.linear, scales.square), problem.d)
        wider = max(1.0, joint / mu)  # with a single feature, y'y is less hidden and needs more noise
        units = tuple(wider * unit for unit in (free, scales.linear, scales.square, scales.square))
        return (Sum(of, joint / wider, 1.0, units),)

    def together(self, problem: Problem) -> int:
        return draws_together(problem.d)

    def run(self, carrier: Carrier) -> Release:
        d, noisy = carrier.problem.d, carrier.ask(0)
        b, A = polynomial(carrier.by_budget(noisy), d, 1, 0.0)
        noise = np.array([noise_of(messages[0], carrier.widening) for messages in carrier.messages])
        weights, trimmed = raised_to_floor(A, b, spectral_edge(d) * noise[:, 0])
        moments = None
        if len(noisy) == 1:
            moments = Moments(
                A[0, 0], b[0, 0] / -2, float(noisy[0, 0]), float(noise[0, 0]), float(noise[0, 1]),
                carrier.problem.N, carrier.scaled_up,
            )  # fmt: skip
        return Release(weights, {"trimmed": trimmed.astype(float)}, moments)


def least_curvature(d: int, square_noise: float) -> float:
    """Return the smallest eigenvalue of X'X that is used; noise hides directions below it."""
    return _HIDDEN * spectral_edge(d) * square_noise


def noise_of(message: Sum, widening: float) -> tuple[float, float]:
    """Return the standard deviations of the noise on X'X (on its diagonal) and on X'y."""
    _, linear, square, _ = message.block_widths()
    return square * widening, linear / 2 * widening
