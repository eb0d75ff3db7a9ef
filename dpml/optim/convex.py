"""Minimisers of a mean loss: Newton's method for one data set with many linear terms, and the non-private optimum."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from dpml.arrays import Array
from dpml.optim import NotConvergedError
from dpml.optim.losses import Loss, scores
from dpml.optim.quadratic import minimise_quadratic

_ROUNDING = 1e-13  # of a gradient, relative to its largest term
_STEPS = 100
_TINY = np.finfo(float).eps


def minimise_convex(  # many parameters: an objective and its tolerance
    loss: Loss,
    X: Array,
    y: Array,
    lam: float | Array,
    tilt: Array,
    counts: Array | None = None,
    tolerance: float = 1e-9,
) -> Array:
    """Minimise ``(1/n) sum_i loss(x_i'w, y_i) + lam_b/2 ||w||^2 + tilt_b'w`` for each row of `tilt` (B, d): (B, d).

    `lam` is one number or one per problem, (B,). Damped Newton, all problems in step; the loss must be convex with one
    score per model. A problem is solved when its gradient is at most `tolerance` long. If `tilt` is so long that
    rounding does not allow this, the gradient must be at most 1e-13 times as long as `tilt`. If there are `counts`, row
    i stands for ``counts[i]`` rows.

    Raises:
        NotConvergedError: some gradient is still too long after 100 steps.
    """
    n, d = X.shape
    share = np.full(n, 1 / n) if counts is None else counts / counts.sum()
    strength = np.broadcast_to(np.asarray(lam, dtype=float), (len(tilt),))
    width = max(1, (1 << 22) // max(n, d * d))
    blocks = [
        _newton(loss, X, y, share, strength[start : start + width], tilt[start : start + width], tolerance)
        for start in range(0, len(tilt), width)
    ]
    return np.concatenate(blocks)


def mean_hessian(loss: Loss, X: Array, y: Array, weights: Array, counts: Array | None = None) -> Array:
    """``(1/n) sum_i loss''(x_i'w, y_i) x_i x_i'`` of every model in `weights` (B, d), one score each: (B, d, d).

    If there are `counts`, row i stands for ``counts[i]`` rows.
    """
    curvature = loss.curvature(X @ weights.T, y).T
    if counts is None:
        return _weighted_grams(X, curvature) / len(y)
    return _weighted_grams(X, curvature * counts) / counts.sum()


def _weighted_grams(X: Array, weights: Array) -> Array:
    """``X' diag(weights_b) X`` for every row of `weights` (B, n): (B, d, d). In blocks of rows that stay in cache.

    If no weight is negative, a block is multiplied by its own transpose: half the work of a general product.
    """
    n, d = X.shape
    grams = np.zeros((len(weights), d, d))
    roots, convex = np.sqrt(np.abs(weights)), bool(np.all(weights >= 0))
    rows = max(16, (1 << 18) // (len(weights) * d))
    for start in range(0, n, rows):
        block = X[start : start + rows] * roots[:, start : start + rows, None]
        other = block if convex else block * np.sign(weights[:, start : start + rows, None])
        grams += block.transpose(0, 2, 1) @ other
    return grams


@np.errstate(over="ignore", invalid="ignore")  # an unbounded problem overflows before it is refused
def _newton(  # many parameters: as above
    loss: Loss, X: Array, y: Array, share: Array, lam: Array, tilt: Array, tolerance: float
) -> Array:
    """Damped Newton on one block of problems: lam (B,), tilt (B, d); `share` (n,) is each row's weight in the mean."""
    d = X.shape[1]
    enough = np.maximum(tolerance, _ROUNDING * np.linalg.norm(tilt, axis=1))
    w = np.zeros_like(tilt)
    eye = np.eye(d)

    def objective(w: Array, margins: Array) -> Array:
        mean = share @ loss.value(margins, y)
        return mean + lam / 2 * np.sum(w * w, axis=1) + np.sum(tilt * w, axis=1)

    margins = X @ w.T
    value = objective(w, margins)
    for _ in range(_STEPS):
        gradient = (share * loss.slope(margins, y).T) @ X + lam[:, None] * w + tilt
        length = np.linalg.norm(gradient, axis=1)
        if np.all(length <= enough):
            return w
        if not np.abs(w).max() < 1e50:  # unbounded below
            break
        curvature = share * loss.curvature(margins, y).T
        hessian = _weighted_grams(X, curvature) + lam[:, None, None] * eye
        # a tiny regularisation keeps the direction defined where the data are separable or rank deficient
        hessian += 1e-12 * np.einsum("bii->b", hessian)[:, None, None] * eye + 1e-300 * eye
        step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        descent = np.sum(gradient * step, axis=1)
        size = np.where(length > enough, 1.0, 0.0)
        along = X @ step.T  # margins change linearly along it: the line search does not need the rows
        for _ in range(40):
            trial = objective(w + size[:, None] * step, margins + size * along)
            short = trial > value + 1e-4 * size * descent + 4 * _TINY * np.abs(value)
            # so close to the minimum a full step is right, and the value, a difference of large terms, is too coarse
            short &= descent < -1e-12
            if not short.any():
                break
            size = np.where(short, size / 2, size)
        w = w + size[:, None] * step
        margins = X @ w.T
        value = objective(w, margins)
    raise NotConvergedError(
        f"Newton's method left a gradient of norm {length.max():.1e} > {tolerance:g} after at most {_STEPS} steps: "
        f"set a larger algo.lam, or rescale the features."
    )


def optimum(loss: Loss, X: Array, y: Array, lam: float = 0.0, counts: Array | None = None) -> Array:
    """The minimiser of the mean loss + lam/2 ||w||^2 on (X, y), without privacy: a vector of d (softmax: K d) weights.

    Exact for the squared loss (the shortest minimiser when there are many), Newton for logistic, L-BFGS for softmax;
    for the non-convex sigmoid loss the local minimiser that L-BFGS reaches from w = 0. If there are `counts`, row i
    stands for ``counts[i]`` rows.
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
