"""Losses of models that are linear in the features, with the constants that privacy proofs use.

A model is one vector ``w`` and its score on a row ``x`` is ``t = x'w`` (softmax: one score per class). Methods take
scores of shape (n, B), for B models at once, and labels (n,), and work entry by entry. `lipschitz` and `smoothness`
bound the gradient and the Hessian of one row's loss with respect to w when ``||x|| <= 1``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax, wrightomega

from dpml.arrays import Array, blocks
from dpml.data.info import Task
from dpml.errors import UserError, nearest

_HEIGHT, _WIDTH = 1 << 12, 1 << 8  # rows, and scores per row, that are evaluated at once: 8 MiB


@dataclass(frozen=True)
class Quadratic:
    """A loss as a polynomial of degree two in w, exact or expanded at w = 0: ``c0(y) + c1(y) x'w + c2 (x'w)^2``.

    ``c1(y) = -slope y``, or for several classes -slope times the code of y. `linear_bound` is the largest ``||c1(y)||``
    and `constant_range` the largest ``|c0(y) - c0(y')|`` over the labels; c1 has `outputs` entries.
    """

    constant: Callable[[Array], Array]
    linear: Callable[[Array], Array]
    square: float
    linear_bound: float
    constant_range: float
    slope: float
    outputs: int = 1


def codes(y: Array, classes: int) -> Array:
    """Return the centred codes ``e_y - 1/K`` of classes 0..K-1, (n, K); inner products are -1/K or 1 - 1/K (equal)."""
    return np.equal.outer(y, np.arange(classes)) - 1 / classes


def coded(classes: int) -> Quadratic:
    """Return the squared loss with one score per class, ``||code(y) - W x||^2``."""
    return Quadratic(
        constant=lambda y: np.full_like(y, 1 - 1 / classes),
        linear=lambda y: -2 * codes(y, classes),
        square=1.0,
        linear_bound=2 * float(np.sqrt(1 - 1 / classes)),
        constant_range=0.0,
        slope=2.0,
        outputs=classes,
    )


class Loss:
    """The interface of a loss; the docstring of a subclass begins with its formula."""

    name: ClassVar[str]
    labels: ClassVar[str]
    task: ClassVar[Task] = "binary"
    convex: ClassVar[bool] = True
    lipschitz: ClassVar[float | None] = None
    smoothness: ClassVar[float]
    quadratic: ClassVar[Quadratic | None] = None

    def accepts(self, y: Array) -> bool:
        """Return whether every label is in the domain of the formula."""
        raise NotImplementedError

    def outputs(self, classes: int) -> int:
        """Return the number of scores per model for this number of classes."""
        return 1

    def value(self, scores: Array, y: Array) -> Array:
        """Return the loss of every row under every model."""
        raise NotImplementedError

    def slope(self, scores: Array, y: Array) -> Array:
        """Return the derivative of the loss with respect to the score."""
        raise NotImplementedError

    def check_labels(self, y: Array) -> None:
        """Raise UserError if a label is outside the loss's domain; the message names the first one."""
        if not self.accepts(y):
            bad = next(label for label in y if not self.accepts(np.array([label])))
            raise UserError(
                f"loss={self.name} takes {self.labels}, but the data have the label {float(bad):g}: "
                f"choose another loss, or a data set with such labels."
            )


class Squared(Loss):
    """``(y - t)^2`` for y in [-1, 1]. Its gradient is unbounded on R^d, and bounded by 2(1+R) on ||w|| <= R."""

    name = "squared"
    labels = "numbers in [-1, 1]"
    task = "regression"
    smoothness = 2.0
    quadratic = Quadratic(
        constant=np.square, linear=lambda y: -2 * y, square=1.0, linear_bound=2.0, constant_range=1.0, slope=2.0
    )

    def accepts(self, y: Array) -> bool:
        return bool(np.all(np.abs(y) <= 1))

    def value(self, scores: Array, y: Array) -> Array:
        return (scores - y[:, None]) ** 2

    def slope(self, scores: Array, y: Array) -> Array:
        return 2 * (scores - y[:, None])


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(b - y t))`` for y = -1, +1, with a margin b = `shift` >= 0; b = 0 in most algorithms.

    Its slope is -y s and its curvature s (1 - s) with ``s = 1/(1 + exp(y t - b))``, so its constants do not depend on
    b. A margin is demanded from every row, so fewer predictions change when noise rotates the model.
    """

    shift: float = 0.0

    name = "logistic"
    labels = "the labels -1 and +1"
    lipschitz = 1.0
    smoothness = 0.25

    @property
    def quadratic(self) -> Quadratic | None:  # type: ignore[override]
        """The expansion at 0, ``log 2 - y t/2 + t^2/8``; None with a margin."""
        return None if self.shift else _EXPANSION

    def accepts(self, y: Array) -> bool:
        return bool(np.all(np.abs(y) == 1))

    def value(self, scores: Array, y: Array) -> Array:
        loss = self._against(scores, y)
        rest = np.log1p(np.exp(-np.abs(loss)))  # faster than logaddexp
        np.maximum(loss, 0, out=loss)
        loss += rest
        return loss

    def slope(self, scores: Array, y: Array) -> Array:
        return -y[:, None] * expit(self._against(scores, y))

    def curvature(self, scores: Array, y: Array) -> Array:
        """Return the second derivative of the loss with respect to the score."""
        p = expit(self._against(scores, y))
        return p * (1 - p)

    def _against(self, scores: Array, y: Array) -> Array:
        """Return ``b - y t``."""
        against = -y[:, None] * scores
        return against + self.shift if self.shift else against


_EXPANSION = Quadratic(
    constant=lambda y: np.full_like(y, np.log(2.0)),
    linear=lambda y: -y / 2,
    square=1 / 8,
    linear_bound=1 / 2,
    constant_range=0.0,
    slope=1 / 2,
)


class Sigmoid(Loss):
    """``1 / (1 + exp(y t))`` for y = -1, +1: a smooth, bounded and non-convex approximation of the 0-1 loss."""

    name = "sigmoid"
    labels = "the labels -1 and +1"
    convex = False
    lipschitz = 0.25
    smoothness = 1 / (6 * np.sqrt(3.0))  # the largest |sigma''|, at t = log(2 + sqrt 3)

    def accepts(self, y: Array) -> bool:
        return bool(np.all(np.abs(y) == 1))

    def value(self, scores: Array, y: Array) -> Array:
        return expit(-y[:, None] * scores)

    def slope(self, scores: Array, y: Array) -> Array:
        p = expit(scores)
        return -y[:, None] * p * (1 - p)


class Softmax(Loss):
    """``log sum_k exp(t_k) - t_y`` for y in 0..K-1 and scores ``t_k = x'w_k``; w is (w_0, ..., w_K-1) in R^(K d).

    Scores have the shape (n, B, K). The gradient of one row is (p - onehot(y)) (x) x, of norm at most sqrt 2.
    """

    name = "softmax"
    labels = "the whole numbers 0..K-1"
    task = "multiclass"
    lipschitz = np.sqrt(2.0)
    smoothness = 0.5

    def accepts(self, y: Array) -> bool:
        return bool(np.all((y >= 0) & (y == np.round(y))))

    def outputs(self, classes: int) -> int:
        return classes

    def value(self, scores: Array, y: Array) -> Array:
        rows = np.arange(len(y))
        return -log_softmax(scores, axis=-1)[rows, :, y.astype(int)]

    def slope(self, scores: Array, y: Array) -> Array:
        p = softmax(scores, axis=-1)
        p[np.arange(len(y)), :, y.astype(int)] -= 1
        return p


@dataclass(frozen=True)
class Slopes:
    """The slopes of a loss, clipped to [-clip, clip].

    For a convex loss, clipped slopes still increase with the score. They are therefore the slopes of another convex
    loss, which continues along a straight line where its slope is `clip` (for the squared loss: Huber's loss). So all
    proofs for descent on a convex loss hold, with these constants.

    Args:
        loss: A loss with one score; it must be convex if there is a clip.
        clip: The positive bound on slopes; None: no clipping.
    """

    loss: Loss
    clip: float | None = None

    @property
    def cut(self) -> bool:
        """Whether the clip changes any slope."""
        return self.clip is not None and (self.loss.lipschitz is None or self.clip < self.loss.lipschitz)

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant G: the gradient of a row of norm at most 1 is not longer.

        Raises:
            ValueError: The loss has unbounded slopes, and there is no clip.
        """
        bound = self.clip if self.cut else self.loss.lipschitz
        if bound is None:
            raise ValueError(f"loss={self.loss.name} has no Lipschitz constant: set a clip.")
        return bound

    @property
    def smoothness(self) -> float:
        """The smoothness L; with slope s the logistic loss has curvature ``s (1 - s)``, at most 1/4."""
        if self.clip is not None and self.loss.task == "binary" and self.clip < 0.5:
            return self.clip * (1 - self.clip)
        return self.loss.smoothness

    @property
    def bend(self) -> float:
        """The score u'w >= 0, u = y x, up to which a row's slope is clipped; slopes at larger scores are smaller."""
        if self.clip is not None and self.loss.task == "binary" and self.clip < 0.5:
            return math.log((1 - self.clip) / self.clip)
        return 0.0

    def slope(self, scores: Array, y: Array) -> Array:
        """Return the slopes at scores (n, B) of rows with labels (n,)."""
        slopes = self.loss.slope(scores, y)
        return np.clip(slopes, -self.lipschitz, self.lipschitz) if self.cut else slopes


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Squared(), Logistic(), Softmax(), Sigmoid())}


def longest_minimiser(loss: Loss, lam: float, classes: int = 1) -> float:
    """Return a bound on the norm of minimisers of a mean logistic or softmax loss + lam/2 ||w||^2, rows of norm <= 1.

    Proof: docs/privacy/hamm2016.md, Theorem 1. `classes` is K for softmax, or 1 if K is unknown.
    """
    binary = loss.task == "binary"
    if not binary and classes == 1:
        return 1 / lam
    K = 2 if binary else classes
    shift = loss.shift if isinstance(loss, Logistic) else 0.0
    at_zero = float(expit(shift)) if binary else math.sqrt(1 - 1 / K)
    return min(at_zero / lam, math.sqrt(float(wrightomega(math.log(K - 1) - 1 + shift)) / lam))


def hard_targets(y: Array, classes: int) -> Array:
    """Return labels of any shape, -1, +1 (classes = 1) or 0..K-1 (classes = K >= 2), as targets (..., classes)."""
    if classes == 1:
        return (y[..., None] > 0).astype(float)
    return (y[..., None] == np.arange(classes)).astype(float)


def for_task(task: Task, name: str | None = None) -> Loss:
    """Return the loss with this name, or the first loss for the task."""
    name = name or next(loss.name for loss in LOSSES.values() if loss.task == task)
    if name not in LOSSES:
        raise UserError(f"unknown loss={name!r}: {nearest(name, LOSSES)}")
    return LOSSES[name]


def scores(X: Array, weights: Array, classes: int = 1) -> Array:
    """Return scores (n, B) of models (B, d) on rows X (n, d); with K > 1 classes, (n, B, K) of models (B, K d)."""
    if classes == 1:
        return X @ weights.T
    return (X @ weights.reshape(-1, X.shape[1]).T).reshape(len(X), len(weights), classes)


def correct(scores: Array, y: Array) -> NDArray[np.bool_]:
    """Return whether the predicted class is the label y (n,), for scores (n, B) or (n, B, K) of K classes: (n, B)."""
    if scores.ndim == 3:
        return np.argmax(scores, axis=-1) == y[:, None]
    return (scores >= 0) == (y > 0)[:, None]


def mean_over_rows(
    judge: Callable[[Array, Array], Array | NDArray[np.bool_]],
    X: Array,
    y: Array,
    weights: Array,
    counts: Array | None = None,
) -> Array:
    """Return the mean over rows of ``judge(scores, y)``, (n, B) -> (n, B), for each model in `weights` (B, d): (B,).

    If there are `counts`, row i stands for ``counts[i]`` rows; several counts per row, (n, K), give means (K, B). Rows
    and models are processed in blocks, for the CPU cache.
    """
    classes = weights.shape[1] // X.shape[1]
    total = np.zeros((*(() if counts is None else counts.shape[1:]), len(weights)))
    for rows in blocks(len(y), most=_HEIGHT):
        for models in blocks(len(weights), classes, _WIDTH):
            judged = judge(scores(X[rows], weights[models], classes), y[rows])
            total[..., models] += judged.sum(axis=0) if counts is None else counts[rows].T @ judged
    return total / (len(y) if counts is None else np.asarray(counts.sum(axis=0, dtype=float))[..., None])


def mean_loss(loss: Loss, X: Array, y: Array, weights: Array, counts: Array | None = None) -> Array:
    """Return ``(1/n) sum_i loss(x_i'w, y_i)`` for each model in `weights` (B, d): (B,). See `mean_over_rows`."""
    return mean_over_rows(loss.value, X, y, weights, counts)


def mean_gradient(loss: Loss, X: Array, y: Array, weights: Array, counts: Array | None = None) -> Array:
    """Return ``(1/n) sum_i loss'(x_i'w, y_i) x_i`` for each model in `weights` (B, d): (B, d). See `mean_over_rows`."""
    total = np.zeros_like(weights)
    for rows in blocks(len(y), most=_HEIGHT):
        slopes = loss.slope(X[rows] @ weights.T, y[rows]).T
        total += (slopes if counts is None else slopes * counts[rows]) @ X[rows]
    return total / (len(y) if counts is None else counts.sum())
