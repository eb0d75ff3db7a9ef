"""Minimisers of many small problems at once: stacks of quadratics, and one data set under many linear terms."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear, minimize

from dpml.arrays import Array
from dpml.errors import UserError
from dpml.optim.losses import Loss, scores

_TINY = np.finfo(float).eps


class NotConvergedError(UserError):
    """A minimiser stopped short of its tolerance, so the result must not be reported; says what would help."""


def minimise_quadratic(A: Array, b: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Minimise ``w'Aw + b'w`` for a stack of symmetric A (..., d, d) and b (..., d).

    Where A is positive definite, that is ``-A^-1 b / 2``. Where it is not, the minimum does not exist: the spectrum is
    trimmed (Zhang et al. 2012, Sec. 6.2), that is, w is kept to the span of the eigenvectors with positive eigenvalue.

    Returns:
        w (..., d) and whether A was trimmed (...).
    """
    try:
        pivots = np.diagonal(np.linalg.cholesky(A), axis1=-2, axis2=-1) ** 2
        scale = np.abs(np.diagonal(A, axis1=-2, axis2=-1)).max(axis=-1)
        if np.all(pivots.min(axis=-1) > A.shape[-1] * _TINY * scale):
            return -np.linalg.solve(A, b[..., None])[..., 0] / 2, np.zeros(A.shape[:-2], dtype=bool)
    except np.linalg.LinAlgError:
        pass  # at least one of the stack is not positive definite
    values, vectors = np.linalg.eigh(A)
    keep = values > A.shape[-1] * _TINY * np.abs(values).max(axis=-1, keepdims=True)
    along = np.einsum("...ji,...j->...i", vectors, b)
    step = np.divide(along, values, out=np.zeros_like(along), where=keep)
    return -np.einsum("...ij,...j->...i", vectors, step) / 2, ~keep.all(axis=-1)


def minimise_quadratic_in_box(A: Array, b: Array, start: Array, bound: float = 1.0, sweeps: int = 20_000) -> Array:
    """A local minimiser of ``w'Aw + b'w`` over ``|w_j| <= bound`` for B problems, A (B, d, d) symmetric, b (B, d).

    Where A is positive definite the minimiser is exact: at once where it lies in the box, else as bounded least
    squares. The indefinite problems advance together by coordinate descent from `start` (d,), exact in each coordinate:
    the value never rises, and the end is a point that no single coordinate improves.

    Raises:
        NotConvergedError: some coordinate still moves by more than 1e-7 of the box after `sweeps` rounds.
    """
    values = np.linalg.eigvalsh(A)
    definite = values[:, 0] > A.shape[-1] * _TINY * values[:, -1]
    w = np.empty_like(b)
    w[definite] = -np.linalg.solve(A[definite], b[definite, :, None])[:, :, 0] / 2
    w[~definite] = _descend_in_box(A[~definite], b[~definite], start, bound, sweeps)
    for i in np.flatnonzero(np.any(np.abs(w) > bound, axis=1)):
        w[i] = minimise_least_squares_in_box(A[i], b[i], bound)
    return w


def _descend_in_box(A: Array, b: Array, start: Array, bound: float, sweeps: int) -> Array:
    w = np.broadcast_to(start, b.shape).copy()
    half_gradient = np.einsum("bij,bj->bi", A, w) + b / 2
    diagonal = np.einsum("bii->bi", A)
    for _ in range(sweeps):
        largest = 0.0
        for j in range(b.shape[1]):
            a, g, now = diagonal[:, j], half_gradient[:, j], w[:, j]
            with np.errstate(divide="ignore", invalid="ignore"):
                inside = np.clip(now - g / a, -bound, bound)
            # concave along this coordinate: the better of the two ends
            slope = g - a * now
            new = np.where(a > 0, inside, np.where(slope > 0, -bound, bound))
            change = new - now
            w[:, j] = new
            half_gradient += A[:, :, j] * change[:, None]
            largest = max(largest, float(np.abs(change).max(initial=0.0)))
        if largest < 1e-7 * bound:
            return w
    raise NotConvergedError(
        f"coordinate descent in the box still moves by {largest:.1e} after {sweeps} sweeps: set a larger algo.lam."
    )


def minimise_least_squares_in_box(A: Array, b: Array, bound: float = 1.0) -> Array:
    """The minimiser of ``w'Aw + b'w`` over ``|w_j| <= bound`` for one A (d, d) >= 0 with b in its range: exact, (d,).

    Written as ``||R w + R^-1 b/2||^2`` with R the square root of A, it is a bounded least squares problem.
    """
    values, vectors = np.linalg.eigh(A)
    root = np.sqrt(np.maximum(values, 0.0))
    target = np.divide(-(vectors.T @ b) / 2, root, out=np.zeros_like(b), where=root > 1e-7 * root.max())
    return lsq_linear(root[:, None] * vectors.T, target, bounds=(-bound, bound), method="bvls").x


def minimise_quadratic_in_ball(A: Array, b: Array, radius: float, shift: Array) -> Array:
    """Minimise ``w'(A + shift_i I)w + b_i'w`` over ``||w|| <= radius`` for B problems: (B, d).

    A (d, d) is positive semidefinite and shared; b (B, d) and shift (B,) >= 0 are each problem's own.

    One eigendecomposition serves all; the multiplier m of the constraint solves the secular equation
    ``||(A + (shift + m) I)^-1 b / 2|| = radius`` by bisection.
    """
    values, vectors = np.linalg.eigh(A)
    values = np.maximum(values, 0.0) + shift[:, None]
    along = b @ vectors / 2

    def norms(multiplier: Array) -> Array:
        shifted = values + multiplier[:, None]
        terms = np.divide(along, shifted, out=np.full_like(along, np.inf), where=shifted > 0)
        terms[along == 0] = 0.0
        return np.linalg.norm(terms, axis=1)

    low = np.zeros(len(b))
    outside = norms(low) > radius
    high = np.linalg.norm(along, axis=1) / radius  # (A + m I)^-1 has norm at most 1/m
    for _ in range(200):
        middle = (low + high) / 2
        too_long = norms(middle) > radius
        low, high = np.where(too_long, middle, low), np.where(too_long, high, middle)
    shifted = values + np.where(outside, high, 0.0)[:, None]
    step = np.divide(along, shifted, out=np.zeros_like(along), where=shifted > 0)
    return -step @ vectors.T


def minimise_convex(
    loss: Loss,
    X: Array,
    y: Array,
    lam: float | Array,
    tilt: Array,
    tolerance: float = 1e-9,
    iterations: int = 100,
    counts: Array | None = None,
) -> Array:
    """Minimise ``(1/n) sum_i loss(x_i'w, y_i) + lam_b/2 ||w||^2 + tilt_b'w`` for each row of `tilt` (B, d): (B, d).

    `lam` is one number or one per problem, (B,). Damped Newton, all problems in step; the loss must be convex with one
    score per model. A problem is solved when its gradient is at most `tolerance` long. Row i stands for ``counts[i]``
    rows where there are `counts`.

    Raises:
        NotConvergedError: some gradient is still longer than that after `iterations` steps.
    """
    n, d = X.shape
    share = np.full(n, 1 / n) if counts is None else counts / counts.sum()
    strength = np.broadcast_to(np.asarray(lam, dtype=float), (len(tilt),))
    width = max(1, (1 << 22) // max(n, d * d))
    blocks = [
        _newton(loss, X, y, share, strength[start : start + width], tilt[start : start + width], tolerance, iterations)
        for start in range(0, len(tilt), width)
    ]
    return np.concatenate(blocks)


def mean_hessian(loss: Loss, X: Array, y: Array, weights: Array) -> Array:
    """``(1/n) sum_i loss''(x_i'w, y_i) x_i x_i'`` of every model in `weights` (B, d), one score each: (B, d, d)."""
    return _weighted_grams(X, loss.curvature(X @ weights.T, y).T) / len(y)


def _weighted_grams(X: Array, weights: Array) -> Array:
    """``X' diag(weights_b) X`` for every row of `weights` (B, n): (B, d, d). In blocks of rows that stay in cache."""
    n, d = X.shape
    grams = np.zeros((len(weights), d, d))
    rows = max(16, (1 << 18) // (len(weights) * d))
    for start in range(0, n, rows):
        block = X[start : start + rows]
        grams += (block.T[None] * weights[:, None, start : start + rows]) @ block
    return grams


@np.errstate(over="ignore", invalid="ignore")  # an unbounded problem runs away before it is refused
def _newton(
    loss: Loss, X: Array, y: Array, share: Array, lam: Array, tilt: Array, tolerance: float, iterations: int
) -> Array:
    d = X.shape[1]
    w = np.zeros_like(tilt)
    eye = np.eye(d)

    def objective(w: Array, margins: Array) -> Array:
        mean = share @ loss.value(margins, y)
        return mean + lam / 2 * np.sum(w * w, axis=1) + np.sum(tilt * w, axis=1)

    margins = X @ w.T
    value = objective(w, margins)
    for _ in range(iterations):
        gradient = (share * loss.slope(margins, y).T) @ X + lam[:, None] * w + tilt
        length = np.linalg.norm(gradient, axis=1)
        if np.all(length <= tolerance):
            return w
        if not np.abs(w).max() < 1e50:  # unbounded below
            break
        curvature = share * loss.curvature(margins, y).T
        hessian = _weighted_grams(X, curvature) + lam[:, None, None] * eye
        # a hair of regularisation keeps the direction defined where the data are separable or rank deficient
        hessian += 1e-12 * np.einsum("bii->b", hessian)[:, None, None] * eye + 1e-300 * eye
        step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        descent = np.sum(gradient * step, axis=1)
        size = np.where(length > tolerance, 1.0, 0.0)
        along = X @ step.T  # margins move along it: the search need not look at the rows again
        for _ in range(40):
            trial = objective(w + size[:, None] * step, margins + size * along)
            short = trial > value + 1e-4 * size * descent + 4 * _TINY * np.abs(value)
            # so close to the minimum a full step is right, and the value, a difference of large terms, too coarse
            short &= descent < -1e-12
            if not short.any():
                break
            size = np.where(short, size / 2, size)
        w = w + size[:, None] * step
        margins = X @ w.T
        value = objective(w, margins)
    raise NotConvergedError(
        f"Newton's method left a gradient of norm {length.max():.1e} > {tolerance:g} after at most {iterations} steps: "
        f"set a larger algo.lam, or rescale the features."
    )


def optimum(loss: Loss, X: Array, y: Array, lam: float = 0.0, counts: Array | None = None) -> Array:
    """The minimiser of the mean loss + lam/2 ||w||^2 on (X, y), without privacy: a vector of d (softmax: K d) weights.

    Exact for the squared loss (the shortest minimiser when there are many), Newton for logistic, L-BFGS for softmax;
    for the non-convex sigmoid loss the local minimiser that L-BFGS reaches from w = 0. Row i stands for ``counts[i]``
    rows where there are `counts`.
    """
    n, d = X.shape
    if loss.name == "squared":
        own = X if counts is None else counts[:, None] * X
        n = n if counts is None else int(counts.sum())
        w, _ = minimise_quadratic(own.T @ X / n + lam / 2 * np.eye(d), -2 * own.T @ y / n)
        return w
    if loss.convex and loss.width(y) == 1:
        return minimise_convex(loss, X, y, lam, np.zeros((1, d)), counts=counts)[0]
    classes = loss.width(y)
    result = minimize(
        _value_and_gradient(loss, X, y, lam, np.full(n, 1 / n) if counts is None else counts / counts.sum()),
        np.zeros(classes * d),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 0.0, "gtol": 1e-9},
    )
    return result.x


def _value_and_gradient(
    loss: Loss, X: Array, y: Array, lam: float, share: Array
) -> Callable[[Array], tuple[float, Array]]:
    n = len(y)
    classes = loss.width(y)

    def evaluate(w: Array) -> tuple[float, Array]:
        t = scores(X, w[None], classes)
        slope = loss.slope(t, y).reshape(n, classes)
        value = float(share @ loss.value(t, y)[:, 0]) + lam / 2 * float(w @ w)
        return value, ((slope.T * share) @ X).ravel() + lam * w

    return evaluate
