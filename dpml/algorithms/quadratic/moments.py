"""Compute regression coefficients and their covariances from the noisy sums that `regression` publishes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from dpml.algorithms.quadratic.coefficients import spectral_edge
from dpml.arrays import Array
from dpml.mechanism.message import Sum

_HIDDEN = 0.5  # smaller eigenvalues are raised to this multiple of the noise's largest eigenvalue
_UNLIKELY = 1e-4  # if the p-value of the last gradient is smaller, the rounds have not converged
_FARTHEST = 1.0  # the largest root mean square of x'b - x'w for coefficients b and each of the last two models w
_SEPARATED = 0.15  # the least ratio of last to first curvature along an eigenvector, relative to the traces' ratio
_NO_NOISE = 1e-12  # replaces a noise_std of 0 in the weights of rounds


@dataclass(frozen=True)
class Estimated:
    """Estimated regression coefficients and their covariances.

    Attributes:
        covariances: k estimates of the coefficients' covariance over samples and noise, (k, d, d); see `errors`.
        hidden: Approximately the projection on the directions that the noise hides, (d, d).
        refusal: The reason why there are no intervals, or "".
    """

    coefficients: Array
    covariances: Array
    hidden: Array
    refusal: str = ""

    def errors(self, directions: Array) -> Array:
        """Return the standard errors (m,) of ``directions @ coefficients``, each from the largest of k variances."""
        return np.sqrt(np.einsum("mi,kij,mj->km", directions, self.covariances, directions).max(axis=0))


def least_curvature(d: int, noise: float) -> float:
    """Return the floor for the eigenvalues of a noisy matrix (d, d) with the noise_std `noise` on its diagonal."""
    return _HIDDEN * spectral_edge(d) * noise


@dataclass(frozen=True)
class Curvature:
    """A noisy symmetric matrix whose small eigenvalues are raised to a floor, which depends on the noise."""

    values: Array
    raised: Array
    vectors: Array

    @classmethod
    def of(cls, matrix: Array, noise: float) -> "Curvature":
        """Decompose a noisy symmetric matrix, and raise small eigenvalues; `noise` is the noise_std on the diagonal."""
        d = len(matrix)
        values, vectors = np.linalg.eigh(matrix)
        floor = max(least_curvature(d, noise), d * np.finfo(float).eps * np.abs(values).max())
        return cls(values, np.maximum(values, floor), vectors)

    @property
    def matrix(self) -> Array:
        return (self.vectors * self.raised) @ self.vectors.T

    @property
    def inverse(self) -> Array:
        return (self.vectors / self.raised) @ self.vectors.T

    @property
    def hidden(self) -> Array:
        """The matrix with 1 - max(v, 0)/max(v, floor) for each eigenvalue v: near 1 in directions lost in noise."""
        lost = (self.raised - np.maximum(self.values, 0.0)) / self.raised
        return (self.vectors * lost) @ self.vectors.T


def _longest(d: int) -> float:
    """Return the largest allowed norm of a model with d weights; a Newton round shortens longer models to this norm."""
    return 20.0 * math.sqrt(d)


def noise_in_scores(vector: float, matrix: float, along: Array) -> Array:
    """Return the covariance (d, d) of ``e - E a``, the noise in ``(v + e) - (S + E) a`` for noise e and E; a = `along`.

    The noise_std of e is `vector`. The noise_std of the symmetric E is `matrix`, off the diagonal divided by sqrt(2).
    """
    isotropic = vector**2 + matrix**2 * (along @ along) / 2
    return isotropic * np.eye(len(along)) + matrix**2 / 2 * np.outer(along, along)


@dataclass(frozen=True)
class Moments:
    """The noisy sums of a least squares `regression`, over rows x in the unit ball with labels y in [-1, 1].

    Attributes:
        square: X'X, (d, d).
        linear: X'y, (d,).
        labels: y'y.
        square_noise: The noise_std on the diagonal of X'X; off the diagonal it is divided by sqrt 2.
        linear_noise: The noise_std on X'y.
        scaled_up: The factor by which sums were multiplied because parties dropped out.
    """

    square: Array
    linear: Array
    labels: float
    square_noise: float
    linear_noise: float
    rows: int
    scaled_up: float = 1.0

    @property
    def present(self) -> int:
        """The number of rows of all parties that did not drop out."""
        return round(self.rows / self.scaled_up)

    def has_noise(self, message: Sum, widening: float) -> bool:
        return noise_of(message, widening) == (self.square_noise, self.linear_noise)

    def estimated(self) -> Estimated:
        """Return the coefficients and their covariance over samples and noise: docs/privacy/inference.md, Theorem 2."""
        S, v = Curvature.of(self.square, self.square_noise), self.linear
        b = S.inverse @ v
        noise = noise_in_scores(self.linear_noise, self.square_noise, b)
        squares = self.labels - 2 * b @ v + b @ self.square @ b + np.trace(S.inverse @ noise)
        variance = np.clip(squares / (self.rows - self.scaled_up * len(v)), 0.0, 1.0)
        scores = self.scaled_up * variance * S.matrix + noise
        return Estimated(b, (S.inverse @ scores @ S.inverse)[None], S.hidden)


def noise_of(message: Sum, widening: float) -> tuple[float, float]:
    """Return the noise_std on X'X's diagonal and that on X'y, both times `widening` (1 if no party dropped out)."""
    _, linear, square, _ = message.block_widths()
    return square * widening, linear / 2 * widening


@dataclass(frozen=True)
class Round:
    """The noisy sums of one Newton round of logistic `regression`, over rows x in the unit ball.

    Attributes:
        at: The model w, (d,).
        gradient: The sum of s x, (d,), where s is the derivative of the logistic loss at row x with respect to x'w.
        hessian: The sum of |s| (1 - |s|) xx', (d, d).
        meat: The sum of s^2 xx', (d, d), the middle factor of the sandwich covariance.
        noise: The noise_std t of `gradient`. The noise_std is t/4 on the diagonal of `hessian` and sqrt(2) t on the
            diagonal of `meat`; off the diagonals it is divided by sqrt(2).
        scaled_up: The factor by which sums were multiplied because parties dropped out.
    """

    at: Array
    gradient: Array
    hessian: Array
    meat: Array
    noise: float
    scaled_up: float = 1.0

    def has_noise(self, message: Sum, widening: float) -> bool:
        return message.noise * widening == self.noise

    def next_model(self) -> Array:
        w: Array = self.at - Curvature.of(self.hessian, self.noise / 4).inverse @ self.gradient
        return w / max(1.0, float(np.linalg.norm(w)) / _longest(len(w)))


@dataclass(frozen=True)
class NewtonMoments:
    """The noisy sums that a logistic `regression` publishes for its first, second-to-last and last Newton rounds."""

    first: Round
    before: Round
    last: Round
    rows: int

    @property
    def present(self) -> int:
        """The number of rows in the sums of the last two rounds; if these differ, the smaller number."""
        return round(self.rows / max(each.scaled_up for each in (self.before, self.last)))

    def estimated(self) -> Estimated:
        """Return the coefficients, and their model-based and sandwich covariance (docs/privacy/inference.md, Thm 4)."""
        rounds = (self.before, self.last)
        precisions = np.array([max(each.noise, _NO_NOISE) ** -2 for each in rounds])
        weights, t = precisions / precisions.sum(), precisions.sum() ** -0.5

        def mean(name: str) -> Array:
            return np.asarray(sum(w * getattr(each, name) for w, each in zip(weights, rounds, strict=True)))

        H = Curvature.of(mean("hessian"), t / 4)
        step = H.inverse @ mean("gradient")
        b = mean("at") - step
        scores = max(each.scaled_up for each in rounds) * np.array([H.matrix, mean("meat")])
        covariances = H.inverse @ (scores + noise_in_scores(t, t / 4, step)) @ H.inverse
        return Estimated(b, covariances, H.hidden, self._refusal(b, H))

    def _refusal(self, b: Array, H: Curvature) -> str:
        t, before = self.last.noise, self.before.noise
        step = self.last.at - self.before.at
        left_out = self.before.scaled_up + self.last.scaled_up - 2
        variances = t**2 + before**2 * (1 + step @ step / 32) + left_out * H.values
        known = H.values >= H.raised
        left = (H.vectors.T @ self.last.gradient)[known]
        stopped = max(np.linalg.norm(self.before.at), np.linalg.norm(self.last.at)) > 0.999 * _longest(len(b))
        if stopped or (t and known.any() and chi2.sf(np.sum(left**2 / variances[known]), known.sum()) < _UNLIKELY):
            return "the rounds have not converged"
        away = [b - each.at for each in (self.before, self.last)]
        if max(4 * v @ self.first.hessian @ v for v in away) > _FARTHEST**2 * self.rows:
            return "the last rounds are too far from the best model"
        at_first = np.einsum("ij,ik,kj->j", H.vectors, self.first.hessian, H.vectors)
        fallen = H.values * np.trace(self.first.hessian) < _SEPARATED * at_first * np.trace(H.matrix)
        return "some columns almost separate the classes" if np.any(fallen & known) else ""


def plain(sums: Any) -> Any:
    """Convert noisy sums to lists and numbers, which a model's file can store."""
    if isinstance(sums, Moments | NewtonMoments | Round):
        return {name: plain(of) for name, of in vars(sums).items()}
    return sums.tolist() if isinstance(sums, np.ndarray) else sums


def moments_of(content: Mapping[str, Any]) -> Moments | NewtonMoments:
    """Convert the lists and numbers of a model's file to noisy sums."""

    def arrays(sums: Mapping[str, Any]) -> dict[str, Any]:
        return {name: np.array(of, dtype=float) if isinstance(of, list) else float(of) for name, of in sums.items()}

    rows = int(content["rows"])
    if "first" not in content:
        return Moments(**{**arrays(content), "rows": rows})
    first, before, last = (Round(**arrays(content[name])) for name in ("first", "before", "last"))
    return NewtonMoments(first, before, last, rows)
