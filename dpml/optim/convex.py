"""Minimise mean losses: Newton's method for many linear terms on one data set, and the non-private optimum.

An experiment minimises hundreds of objectives that differ only in a linear term. No library solves them together and
shares the products of the rows (results/benchmarks.md).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from dpml.arrays import Array, blocks
from dpml.data.partition import Parties, remembered
from dpml.optim import NotConvergedError
from dpml.optim.logistic import fit_all
from dpml.optim.losses import Loss, ShiftedLogistic, mean_loss, scores
from dpml.optim.quadratic import minimise_quadratic
from dpml.sums import TALL

_ROUNDING = 1e-13  # rounding error of a gradient, relative to its largest term
_STEPS = 100
_TINY = np.finfo(float).eps
LOW = 16  # the least number of rows in a block of products
_MARGIN = 21.0  # with this margin for all rows, the logistic loss is at most log(1 + e^-21) = 7.6e-10
_BLOCK = 1 << 22  # numbers (margins or weights) of the problems that are solved together: 32 MiB


def minimise_convex(  # noqa: PLR0913 - an objective and its tolerance
    loss: Loss,
    X: Array,
    y: Array,
    lam: float | Array,
    tilt: Array,
    counts: Array | None = None,
    tolerance: float = 1e-9,
) -> Array:
    """Minimise ``(1/n) sum_i loss(x_i'w, y_i) + lam_b/2 ||w||^2 + tilt_b'w`` for each row of `tilt` (B, d): (B, d).

    `lam` is one number or one per problem, (B,). All problems take damped Newton steps together; the loss must be
    convex with one score per model. A problem is solved when the norm of its gradient is at most `tolerance`. If
    rounding does not allow this for a long `tilt`, the norm must be at most 1e-13 times the norm of `tilt`. If there
    are `counts`, row i stands for ``counts[i]`` rows.

    Raises:
        NotConvergedError: A gradient is still too long after 100 steps.
    """
    n, d = X.shape
    share = np.full(n, 1 / n) if counts is None else counts / counts.sum()
    strength = np.broadcast_to(np.asarray(lam, dtype=float), (len(tilt),))
    problems = (_Problems(loss, X, y, share, strength[b], tilt[b]) for b in blocks(len(tilt), max(n, d), _BLOCK))
    return np.concatenate([_newton(each, tolerance) for each in problems])


def mean_hessian(loss: Loss, X: Array, y: Array, weights: Array, counts: Array | None = None) -> Array:
    """Return ``(1/n) sum_i loss''(x_i'w, y_i) x_i x_i'`` at models `weights` (B, d), one score each: (B, d, d).

    If there are `counts`, row i stands for ``counts[i]`` rows.
    """
    curvature = loss.curvature(X @ weights.T, y).T
    if counts is None:
        return _weighted_grams(X, curvature) / len(y)
    return _weighted_grams(X, curvature * counts) / counts.sum()


def _weighted_grams(X: Array, weights: Array) -> Array:
    """Return ``X' diag(weights_b) X`` for every row of `weights` (B, n): (B, d, d), in blocks for the CPU cache.

    If no weight is negative, a block is multiplied by its own transpose, which is half the work of a general product.
    """
    n, d = X.shape
    grams = np.zeros((len(weights), d, d))
    roots, convex = np.sqrt(np.abs(weights)), bool(np.all(weights >= 0))
    for rows in blocks(n, most=min(TALL, max(LOW, (1 << 18) // (len(weights) * d)))):
        block = X[rows] * roots[:, rows, None]
        other = block if convex else block * np.sign(weights[:, rows, None])
        grams += block.transpose(0, 2, 1) @ other
    return grams


@dataclass(frozen=True)
class _Problems:
    """B objectives on the same rows: ``sum_i share_i loss(x_i'w, y_i) + lam_b/2 ||w||^2 + tilt_b'w``."""

    loss: Loss
    X: Array
    y: Array
    share: Array  # (n,): each row's weight in the mean
    lam: Array  # (B,)
    tilt: Array  # (B, d)

    def at(self, w: Array) -> tuple[Array, Array, Array]:
        """Return values (B,), gradients (B, d), and `share` times the loss's second derivative (n, B), at w (B, d)."""
        value = self.lam / 2 * np.sum(w * w, axis=1) + np.sum(self.tilt * w, axis=1)
        gradient = self.lam[:, None] * w + self.tilt
        curvature = np.empty((len(self.X), len(w)))
        for rows in blocks(len(self.X), sum(w.shape)):
            X, y, share = self.X[rows], self.y[rows], self.share[rows]
            margins = X @ w.T
            value += share @ self.loss.value(margins, y)
            gradient += (share * self.loss.slope(margins, y).T) @ X
            np.multiply(share[:, None], self.loss.curvature(margins, y), out=curvature[rows])
        return value, gradient, curvature

    def newton_steps(self, curvature: Array, gradient: Array, enough: Array) -> Array:
        """Return the inverse Hessians times the gradients, (B, d), up to residuals that are small relative to these.

        The preconditioner is the Hessian at the mean curvature of all problems: one d x d matrix instead of B. A tiny
        regularisation keeps steps defined if the data are separable or rank deficient.
        """
        d = gradient.shape[1]
        traces = np.einsum("ij,ij->i", self.X, self.X) @ curvature + d * self.lam
        ridge = self.lam + 1e-12 * traces + 1e-300
        of_mean = _weighted_grams(self.X, curvature.mean(axis=1)[None])[0] + ridge.mean() * np.eye(d)
        factor = cho_factor(of_mean)
        length = np.linalg.norm(gradient, axis=1)
        part = length * np.minimum(0.1, 0.01 * length)  # makes the last steps converge quadratically
        return conjugate_gradients(
            lambda v: self._hessian_times(curvature, v) + ridge[:, None] * v,
            lambda v: cho_solve(factor, v.T).T,
            gradient,
            np.where(length <= enough, np.inf, np.where(part > enough, part, enough / 1e4)),
        )

    def _hessian_times(self, curvature: Array, vectors: Array) -> Array:
        product = np.zeros_like(vectors)
        for rows in blocks(len(self.X), sum(vectors.shape)):
            along = self.X[rows] @ vectors.T
            along *= curvature[rows]
            product += along.T @ self.X[rows]
        return product


@np.errstate(over="ignore", invalid="ignore")  # an unbounded problem overflows before it is refused
def _newton(problems: _Problems, tolerance: float) -> Array:
    enough = np.maximum(tolerance, _ROUNDING * np.linalg.norm(problems.tilt, axis=1))
    w = np.zeros_like(problems.tilt)
    value, gradient, curvature = problems.at(w)
    for _ in range(_STEPS):
        length = np.linalg.norm(gradient, axis=1)
        if np.all(length <= enough):
            return w
        if not np.abs(w).max() < 1e50:  # unbounded below
            break
        step = -problems.newton_steps(curvature, gradient, enough)
        descent = np.sum(gradient * step, axis=1)
        size = np.where(length > enough, 1.0, 0.0)
        for _ in range(40):
            tried = w + size[:, None] * step
            trial, gradient, curvature = problems.at(tried)
            short = trial > value + 1e-4 * size * descent + 4 * _TINY * np.abs(value)
            # close to the minimum full steps are right, and values, as differences of large terms, are too coarse
            short &= descent < -1e-12
            if not short.any():
                break
            size = np.where(short, size / 2, size)
        w, value = tried, trial
    raise NotConvergedError(
        f"Newton's method stopped at a gradient of norm {length.max():.1e} > {tolerance:g} after at most {_STEPS} "
        f"steps: set a larger algo.lam, or rescale the features."
    )


def conjugate_gradients(
    times: Callable[[Array], Array], precondition: Callable[[Array], Array], right: Array, enough: Array
) -> Array:
    """Solve ``A_b s_b = right_b`` for B positive definite systems together, until each residual is short: (B, d).

    This is the method of Hestenes & Stiefel 1952, preconditioned as by Concus, Golub & O'Leary 1976.

    Args:
        times: Multiplies each A_b by one vector, (B, d) -> (B, d).
        precondition: Multiplies positive definite approximations of the inverses by vectors, (B, d) -> (B, d).
        right: The right-hand sides, (B, d).
        enough: The sufficient norms of the residuals, (B,). At most d steps are taken, even if these are not reached.
    """
    solution, residual = np.zeros_like(right), right.copy()
    direction = preconditioned = precondition(residual)
    energy = np.sum(residual * preconditioned, axis=1)
    for _ in range(right.shape[1]):
        open_ = np.linalg.norm(residual, axis=1) > enough
        if not open_.any():
            break
        image = times(direction)
        bent = np.sum(direction * image, axis=1)
        open_ &= bent > 0  # rounding may give 0
        size = np.divide(energy, bent, out=np.zeros_like(energy), where=open_)[:, None]
        solution += size * direction
        residual -= size * image
        preconditioned = precondition(residual)
        before, energy = energy, np.sum(residual * preconditioned, axis=1)
        turn = np.divide(energy, before, out=np.zeros_like(energy), where=open_)[:, None]
        direction = preconditioned + turn * direction
    return solution


def optimum(loss: Loss, X: Array, y: Array, lam: float = 0.0, counts: Array | None = None) -> Array:
    """Return the minimiser of the mean loss + lam/2 ||w||^2 on (X, y), without privacy: d (softmax: K d) weights.

    The squared loss is solved exactly (the shortest of several minimisers), logistic by Newton's method and softmax by
    L-BFGS. For the non-convex sigmoid loss, L-BFGS from w = 0 gives a local minimiser. For logistic with lam = 0 and
    fewer rows than features, a minimiser rarely exists; the result is a model with mean loss below 1e-9. If there are
    `counts`, row i stands for ``counts[i]`` rows.
    """
    n, d = X.shape
    if loss.task == "regression":
        if n < d:
            return _least_squares_of_few_rows(X, y, lam, np.ones(n) if counts is None else counts)
        weighted = X if counts is None else counts[:, None] * X
        n = n if counts is None else int(counts.sum())
        w, _ = minimise_quadratic(weighted.T @ X / n + lam / 2 * np.eye(d), -2 * weighted.T @ y / n)
        return w
    if loss.task == "binary" and loss.convex and lam == 0 and n < d:
        separating = _separating(X, y)
        if separating is not None:
            return separating * (_MARGIN + (loss.shift if isinstance(loss, ShiftedLogistic) else 0.0))
    classes = loss.outputs(int(y.max()) + 1)
    if loss.convex and classes == 1:
        return minimise_convex(loss, X, y, lam, np.zeros((1, d)), counts=counts)[0]
    result = minimize(
        _value_and_gradient(loss, X, y, lam, np.full(n, 1 / n) if counts is None else counts / counts.sum(), classes),
        np.zeros(classes * d),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 0.0, "gtol": 1e-9},
    )
    return result.x


def _separating(X: Array, y: Array) -> Array | None:
    """Return a model whose margins ``y_i x_i'w`` are at least 1, or None if X'(XX')^-1 y is not such a model.

    With linearly independent rows, w = X'(XX')^-1 y has the scores y. The margins are checked because of rounding.
    """
    gram = X @ X.T
    try:
        w = cho_solve(cho_factor(gram, overwrite_a=True), y) @ X
    except np.linalg.LinAlgError:
        return None
    least = float(np.min(y * (X @ w)))
    return w / least if least > 0 else None


def _least_squares_of_few_rows(X: Array, y: Array, lam: float, counts: Array) -> Array:
    """Return X'a with ``(XX'/n + lam/2 I) a = y/n``, for fewer rows than features."""
    roots, n = np.sqrt(counts), counts.sum()
    weighted = roots[:, None] * X
    a, _ = minimise_quadratic(weighted @ weighted.T / n + lam / 2 * np.eye(len(X)), -2 * roots * y / n)
    return a @ weighted


def _value_and_gradient(
    loss: Loss, X: Array, y: Array, lam: float, share: Array, classes: int
) -> Callable[[Array], tuple[float, Array]]:
    def evaluate(w: Array) -> tuple[float, Array]:
        t = scores(X, w[None], classes)
        slope = loss.slope(t, y).reshape(len(y), classes)
        value = float(share @ loss.value(t, y)[:, 0]) + lam / 2 * float(w @ w)
        return value, ((slope.T * share) @ X).ravel() + lam * w

    return evaluate


@remembered
def least(parties: Parties, loss: Loss, lam: float) -> float:
    """Return the minimum of the mean loss + lam/2 ||w||^2 on the private rows, or its infimum without a minimum."""
    X, y, counts = parties.folded
    regularised = loss.task != "regression" and loss.convex and lam > 0
    best = (fit_all(parties, lam) if regularised else optimum(loss, X, y, lam, counts))[None]
    return float(mean_loss(loss, X, y, best, counts)[0] + lam / 2 * np.sum(best * best))
