"""Define losses of models that are linear in the features, with the constants that privacy proofs use.

A model is one vector w, and its score on a row x is ``t = x'w`` (softmax: one score per class). Methods take scores of
shape (n, B), for B models at once, and labels (n,). `lipschitz` and `smoothness` bound the gradient and the Hessian of
one row's loss with respect to w if ``||x|| <= 1``.
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

    Attributes:
        constant: The function c0.
        slope: The factor in ``c1(y) = -slope y``, or ``-slope codes(y)`` for several classes.
        square: The number c2.
        constant_range: The largest ``|c0(y) - c0(y')|`` over two labels.
        outputs: The number of entries of c1(y): the number of classes K if there are several, else 1.
    """

    constant: Callable[[Array], Array]
    slope: float
    square: float
    constant_range: float = 0.0
    outputs: int = 1

    def linear(self, y: Array) -> Array:
        """Return c1(y), the factor of x'w in the quadratic loss, for n labels y: (n,) or, for K classes, (n, K)."""
        return -self.slope * (y if self.outputs == 1 else codes(y, self.outputs))

    @property
    def linear_bound(self) -> float:
        """The largest norm of c1(y) over all labels y; c1(y) is the factor of x'w in the quadratic loss."""
        return self.slope * (1.0 if self.outputs == 1 else math.sqrt(1 - 1 / self.outputs))


def codes(y: Array, classes: int) -> Array:
    """Return the centred codes ``e_y - 1/K`` of labels y in 0..K-1, (n, K)."""
    return np.equal.outer(y, np.arange(classes)) - 1 / classes


def coded(classes: int) -> Quadratic:
    """Return the squared loss with one score per class, ``||code(y) - W x||^2``."""
    return Quadratic(lambda y: np.full_like(y, 1 - 1 / classes), slope=2.0, square=1.0, outputs=classes)


class Loss:
    """A loss as a function of the score t and the label y.

    The docstring of a subclass begins with the formula of the loss.
    """

    name: ClassVar[str]
    labels: ClassVar[str]
    task: ClassVar[Task] = "binary"
    convex: ClassVar[bool] = True
    lipschitz: ClassVar[float | None] = None
    smoothness: ClassVar[float]
    quadratic: ClassVar[Quadratic | None] = None

    def accepts(self, y: Array) -> bool:
        """Return whether the loss is defined for all labels `y`."""
        raise NotImplementedError

    def outputs(self, classes: int) -> int:
        """Return how many scores a model has for the given number of classes."""
        return 1

    def value(self, scores: Array, y: Array) -> Array:
        """Return the loss of every row under every model, (n, B)."""
        raise NotImplementedError

    def slope(self, scores: Array, y: Array) -> Array:
        """Return the derivative of the loss with respect to the score, in the shape of the scores."""
        raise NotImplementedError

    def check_labels(self, y: Array) -> None:
        """Raise UserError if the loss is not defined for one of the labels."""
        if not self.accepts(y):
            bad = next(label for label in y if not self.accepts(np.array([label])))
            raise UserError(
                f"loss={self.name} takes {self.labels}, but the data have the label {float(bad):g}: "
                f"choose another loss, or a data set with such labels."
            )


class Squared(Loss):
    """``(y - t)^2`` for a target y in [-1, 1]; gradients have norm <= 2 (1 + R) if ||x|| <= 1 and ||w|| <= R."""

    name = "squared"
    labels = "numbers in [-1, 1]"
    task = "regression"
    smoothness = 2.0
    quadratic = Quadratic(np.square, slope=2.0, square=1.0, constant_range=1.0)

    def accepts(self, y: Array) -> bool:
        return bool(np.all(np.abs(y) <= 1))

    def value(self, scores: Array, y: Array) -> Array:
        return (scores - y[:, None]) ** 2

    def slope(self, scores: Array, y: Array) -> Array:
        return 2 * (scores - y[:, None])


class _Signed(Loss):
    labels = "the labels -1 and +1"

    def accepts(self, y: Array) -> bool:
        return bool(np.all(np.abs(y) == 1))


@dataclass(frozen=True)
class Logistic(_Signed):
    """``log(1 + exp(b - y t))`` for labels y = -1 and +1, with a margin b = `shift` >= 0, which is usually 0.

    The Lipschitz constant and the smoothness do not depend on b. With a larger margin, fewer predictions change when
    noise rotates the model.
    """

    shift: float = 0.0

    name = "logistic"
    lipschitz = 1.0
    smoothness = 0.25

    @property
    def quadratic(self) -> Quadratic | None:  # type: ignore[override]
        """The second-order expansion of the logistic loss at w = 0, or None if the loss has a margin (`shift` > 0)."""
        if self.shift:
            return None
        return Quadratic(lambda y: np.full_like(y, math.log(2.0)), slope=1 / 2, square=1 / 8)

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
        against = -y[:, None] * scores
        return against + self.shift if self.shift else against


class Sigmoid(_Signed):
    """``1 / (1 + exp(y t))`` for labels y = -1 and +1, a smooth and bounded loss that is not convex."""

    name = "sigmoid"
    convex = False
    lipschitz = 0.25
    smoothness = 1 / (6 * np.sqrt(3.0))  # the largest |sigma''|, at t = log(2 + sqrt 3)

    def value(self, scores: Array, y: Array) -> Array:
        return expit(-y[:, None] * scores)

    def slope(self, scores: Array, y: Array) -> Array:
        p = expit(scores)
        return -y[:, None] * p * (1 - p)


class Softmax(Loss):
    """``log sum_k exp(t_k) - t_y`` for a label y in 0..K-1 and scores ``t_k = x'w_k``, with w = (w_0, ..., w_K-1).

    Scores of B models on n rows are (n, B, K). The gradient of a row in the unit ball has norm at most sqrt 2.
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
    """A loss's derivatives (slopes) with respect to the score; the derivatives are clipped to [-clip, clip].

    The clipped slopes of a convex loss are the slopes of another convex loss, such as Huber's loss for the squared
    loss. So all proofs for descent on a convex loss hold with the constants of the clipped loss.

    Args:
        loss: A loss with one score. A loss with a clip must be convex.
        clip: The positive bound on slopes; None: no clipping.
    """

    loss: Loss
    clip: float | None = None

    @property
    def cut(self) -> bool:
        """Whether clipping changes any derivative of the loss."""
        return self.clip is not None and (self.loss.lipschitz is None or self.clip < self.loss.lipschitz)

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant G of the clipped loss, which bounds the gradients of rows of norm at most 1."""
        bound = self.clip if self.cut else self.loss.lipschitz
        if bound is None:
            raise ValueError(f"loss={self.loss.name} has no Lipschitz constant: set a clip.")
        return bound

    @property
    def smoothness(self) -> float:
        """The largest second derivative L of the clipped loss with respect to the score."""
        if self.clip is None or not self.bend:
            return self.loss.smoothness
        return self.clip * (1 - self.clip)  # the logistic loss has the second derivative s (1 - s) at slope s

    @property
    def bend(self) -> float:
        """The positive y x'w below which logistic slopes are clipped; 0 if there is no clip, or a clip >= 1/2."""
        if self.clip is not None and self.loss.task == "binary" and self.clip < 0.5:
            return math.log((1 - self.clip) / self.clip)
        return 0.0

    def slope(self, scores: Array, y: Array) -> Array:
        """Return the clipped derivatives of the loss at scores (n, B) of rows with labels (n,)."""
        slopes = self.loss.slope(scores, y)
        return np.clip(slopes, -self.lipschitz, self.lipschitz) if self.cut else slopes


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Squared(), Logistic(), Softmax(), Sigmoid())}


def longest_minimiser(loss: Loss, lam: float, classes: int = 1) -> float:
    """Return a bound on the norm of any minimiser of a mean logistic or softmax loss + lam/2 ||w||^2.

    `classes` is the number of classes K, or 1 if K is unknown. The proof: docs/privacy/hamm2016.md, Theorem 1.
    """
    binary = loss.task == "binary"
    if not binary and classes == 1:
        return 1 / lam
    K = 2 if binary else classes
    shift = loss.shift if isinstance(loss, Logistic) else 0.0
    at_zero = float(expit(shift)) if binary else math.sqrt(1 - 1 / K)
    return min(at_zero / lam, math.sqrt(float(wrightomega(math.log(K - 1) - 1 + shift)) / lam))


def hard_targets(y: Array, classes: int) -> Array:
    """Return labels -1 and +1 as probabilities of +1, (..., 1), or labels 0..K-1 as one-hot vectors (..., K)."""
    return (y[..., None] > 0 if classes == 1 else y[..., None] == np.arange(classes)).astype(float)


def for_task(task: Task, name: str | None = None) -> Loss:
    """Return the loss called `name`, or the default loss of the task if there is no name."""
    name = name or next(loss.name for loss in LOSSES.values() if loss.task == task)
    if name not in LOSSES:
        raise UserError(f"unknown loss={name!r}: {nearest(name, LOSSES)}")
    return LOSSES[name]


def scores(X: Array, weights: Array, classes: int = 1) -> Array:
    """Return the scores (n, B) of models (B, d) on rows X (n, d), or (n, B, K) of models (B, K d) for K classes."""
    if classes == 1:
        return X @ weights.T
    return (X @ weights.reshape(-1, X.shape[1]).T).reshape(len(X), len(weights), classes)


def correct(scores: Array, y: Array) -> NDArray[np.bool_]:
    """For B models, return which predictions are correct, (n, B); scores are (n, B), or (n, B, K) for K classes."""
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
    """Return the mean over rows of ``judge(scores, y)`` for each model in `weights` (B, d).

    `judge` returns a number for every row and model, (n, B). Row i stands for ``counts[i]`` rows. Counts (n, K) give K
    weighted means of each model, (K, B).
    """
    classes = weights.shape[1] // X.shape[1]
    total = np.zeros((*(() if counts is None else counts.shape[1:]), len(weights)))
    for rows in blocks(len(y), most=_HEIGHT):
        for models in blocks(len(weights), classes, _WIDTH):
            judged = judge(scores(X[rows], weights[models], classes), y[rows])
            total[..., models] += judged.sum(axis=0) if counts is None else counts[rows].T @ judged
    return total / (len(y) if counts is None else np.asarray(counts.sum(axis=0, dtype=float))[..., None])


def mean_loss(loss: Loss, X: Array, y: Array, weights: Array, counts: Array | None = None) -> Array:
    """Return the mean loss ``(1/n) sum_i loss(x_i'w, y_i)`` of each model in `weights` (B, d)."""
    return mean_over_rows(loss.value, X, y, weights, counts)


def mean_gradient(loss: Loss, X: Array, y: Array, weights: Array, counts: Array | None = None) -> Array:
    """Return the mean loss's gradient ``(1/n) sum_i loss'(x_i'w, y_i) x_i`` at each model w in `weights` (B, d)."""
    total = np.zeros_like(weights)
    for rows in blocks(len(y), most=_HEIGHT):
        slopes = loss.slope(X[rows] @ weights.T, y[rows]).T
        total += (slopes if counts is None else slopes * counts[rows]) @ X[rows]
    return total / (len(y) if counts is None else counts.sum())
