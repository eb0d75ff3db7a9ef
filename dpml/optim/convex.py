"""Minimise regularised logistic and softmax losses by damped Newton steps, for many problems at once.

A problem has rows x_i with weights r_i and targets a_i, and minimises over the model w

    sum_i r_i (A(t_i) - a_i't_i) + lam/2 ||w||^2 + tilt'w,    t_i = x_i'w.

The target a_i is the probability of the label +1 or, for softmax, of every class. A(t) is ``log(1 + e^t)`` or, for
softmax, ``log sum_k e^{t_k}``. No library solves problems that differ in `tilt` together (results/benchmarks.md).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import expit

from dpml.arrays import Array, Index, blocks
from dpml.data.partition import Parties, remembered
from dpml.optim import NotConvergedError, alike
from dpml.optim.losses import Logistic, Loss, hard_targets, mean_loss, scores
from dpml.optim.quadratic import minimise_quadratic
from dpml.sums import TALL

TOLERANCE = 1e-9
"""The largest gradient norm of a computed minimiser, which is then within TOLERANCE / lam of the exact one."""
LOCAL_TOLERANCE = 1e-8
"""The largest gradient norm for the parties' models."""
LOW = 16  # the least number of rows that are multiplied in one block
_ROUNDING = 1e-13  # rounding error of a gradient, relative to its largest term
_STEPS = 100
_TINY = np.finfo(float).eps
_BLOCK = 1 << 22  # the most scores (or weights) of problems that `minimise_convex` solves together: 32 MiB
_CACHE = 1 << 17  # the most entries of the Newton systems of parties that are solved together: 1 MiB


def minimise_convex(  # noqa: PLR0913 - an objective and its tolerance
    loss: Loss,
    X: Array,
    y: Array,
    lam: float | Array,
    tilt: Array,
    counts: Array | None = None,
    tolerance: float = TOLERANCE,
) -> Array:
    """Return the minimisers (B, d) of B objectives ``(1/n) sum_i loss(x_i'w, y_i) + lam_b/2 ||w||^2 + tilt_b'w``.

    The loss is logistic; `lam` is one number or (B,). Row i stands for ``counts[i]`` rows. The norm of the gradient is
    at most the larger of `tolerance` and 1e-13 times the norm of tilt_b.

    Raises:
        NotConvergedError: A gradient is still too long after 100 steps.
    """
    assert isinstance(loss, Logistic)
    n, d = X.shape
    share = np.full(n, 1 / n) if counts is None else counts / counts.sum()
    strength = np.broadcast_to(np.asarray(lam, dtype=float), (len(tilt),))
    linear = tilt - (share * (y > 0)) @ X
    enough = np.maximum(tolerance, _ROUNDING * np.linalg.norm(tilt, axis=1))
    found = []
    for some in blocks(len(tilt), max(n, d), _BLOCK):
        problems = _Problems(X[None], share[None], linear[some].T[None], strength[None, some], _offset(loss, y))
        found.append(_newton(problems, enough[None, some])[0].T)
    return np.concatenate(found)


def fit(
    X: Array,
    targets: Array,
    lam: float,
    row_weights: Array | None = None,
    tolerance: float = TOLERANCE,
    offset: Array | None = None,
) -> Array:
    """Return the minimisers (B, K d) of B regularised logistic or softmax losses, with rows X (B, n, d).

    Rows with `row_weights` 0 pad smaller problems. The `offset` (n, 1) is added to the scores.
    """
    B, n, d = X.shape
    r = np.full((B, n), 1 / n) if row_weights is None else row_weights
    span, linear = n < d, -r[:, :, None] * targets
    base = X @ X.transpose(0, 2, 1) if span else X
    linear = linear if span else X.transpose(0, 2, 1) @ linear
    problems = _Problems(base, r, linear, np.full((B, 1), lam), offset, softmax=targets.shape[2] > 1, span=span)
    c = _newton(problems, np.full((B, 1), tolerance)).transpose(0, 2, 1)
    return (c @ X if span else c).reshape(B, -1)


@dataclass(frozen=True)
class _Problems:
    """Minimisation problems on B sets of rows: for each set, K logistic problems or one softmax problem of K classes.

    The unknowns c (B, m, K) are the models (m = d) or, with `span`, their coefficients in the span of n rows (m = n).
    `base` has the rows (B, n, d) or, with `span`, their inner products (B, n, n), so the scores are ``base @ c``.
    `r` (B, n) has the rows' weights, `linear` (B, m, K) the linear terms, and `lam` (B, K) or (B, 1) the ridges.
    """

    base: Array
    r: Array
    linear: Array
    lam: Array
    offset: Array | None = None
    softmax: bool = False
    span: bool = False

    def inner(self, a: Array, b: Array) -> Array:
        products = np.einsum("bmk,bmk->bk", a, b)
        return products.sum(axis=1, keepdims=True) if self.softmax else products

    def at(self, c: Array) -> tuple[Array, Array, Array]:
        """Return the objectives (B, K or 1 for softmax), gradients (B, m, K) and class probabilities (B, n, K) at c."""
        pull, image = self.lam[:, None] * c, c
        value: Array = np.zeros(1)
        gradient, p = self.linear + pull, np.empty((*self.r.shape, c.shape[2]))
        for rows in self._blocks(c):
            base, r = self.base[:, rows], self.r[:, rows]
            t = base @ c
            if self.span:
                image = t
            if self.offset is not None:
                t = t + self.offset[rows]
            partition, p[:, rows] = _softmax(t) if self.softmax else _sigmoid(t)
            value = value + np.einsum("bn,bnk->bk", r, partition)
            weighted = r[:, :, None] * p[:, rows]
            gradient += weighted if self.span else base.transpose(0, 2, 1) @ weighted
        value = value + self.inner(self.linear + pull / 2, image)
        return value, gradient, p

    def _blocks(self, c: Array) -> Iterable[slice]:
        if self.span or len(c) > 1:
            return [slice(None)]
        return blocks(self.base.shape[1], c.shape[1] + c.shape[2])  # fits into the CPU cache

    def steps(self, p: Array, gradient: Array, length: Array, enough: Array) -> Array:
        """Return the Newton steps (B, m, K), which are the inverse Hessians times the gradients.

        If K problems share rows, conjugate gradients use one preconditioner, the mean of the K Hessians. A tiny
        ridge keeps steps defined if the data are separable or rank deficient.
        """
        B, m, K = gradient.shape
        matrix = self._hessians(p)
        ridge = self.lam + (1e-12 * np.trace(matrix, axis1=1, axis2=2)[:, None] + 1e-300)
        np.einsum("bii->bi", matrix)[...] += ridge.mean(axis=1, keepdims=True)
        if self.softmax or K == 1:
            step = np.linalg.solve(matrix, gradient.reshape(B, m * K, 1)).astype(np.float64, copy=False)
            return step.reshape(gradient.shape)
        (base,), factor = self.base, cho_factor(matrix[0], overwrite_a=True)
        curvature = self.r[0][:, None] * p[0] * (1 - p[0])

        def times(vectors: Array) -> Array:
            product = ridge[0][:, None] * vectors
            for rows in self._blocks(gradient):
                along = base[rows] @ vectors.T
                along *= curvature[rows]
                product += along.T @ base[rows]
            return product

        part = length * np.minimum(0.1, 0.01 * length)  # makes the last steps converge quadratically
        near = np.where(length <= enough, np.inf, np.where(part > enough, part, enough / 1e4))[0]
        return conjugate_gradients(times, lambda v: cho_solve(factor, v.T).T, gradient[0].T, near).T[None]

    def _hessians(self, p: Array) -> Array:
        """Return a Hessian for each of B sets of rows; for K logistic problems on a set, the mean of their Hessians."""
        if not self.softmax:
            return self._weighted(np.mean(p * (1 - p), axis=2))
        B, _, m = self.base.shape
        K = p.shape[2]
        matrix = np.empty((B, m, K, m, K))
        for k in range(K):
            matrix[:, :, k, :, k] = self._weighted(p[..., k] * (1 - p[..., k]))
            for j in range(k):
                matrix[:, :, k, :, j] = matrix[:, :, j, :, k] = -self._weighted(p[..., k] * p[..., j])
        return matrix.reshape(B, m * K, m * K)

    def _weighted(self, curvature: Array) -> Array:
        curvature *= self.r
        return curvature[:, :, None] * self.base if self.span else _weighted_grams(self.base, curvature)


def _softmax(t: Array) -> tuple[Array, Array]:
    top = t.max(axis=2, keepdims=True)
    e = np.exp(t - top)
    total = e.sum(axis=2, keepdims=True)
    return top + np.log(total), e / total


def _sigmoid(t: Array) -> tuple[Array, Array]:
    return np.maximum(t, 0) + np.log1p(np.exp(-np.abs(t))), expit(t)


def _weighted_grams(X: Array, weights: Array) -> Array:
    (B, n), d = weights.shape, X.shape[2]
    grams, roots = np.zeros((B, d, d)), np.sqrt(weights)
    for rows in blocks(n, most=min(TALL, max(LOW, (1 << 19) // (B * d)))):  # fits into the CPU cache
        block = X[:, rows] * roots[:, rows, None]
        grams += block.transpose(0, 2, 1) @ block  # BLAS needs half the work for a product with its own transpose
    return grams


def mean_hessian(loss: Loss, X: Array, y: Array, weights: Array, counts: Array | None = None) -> Array:
    """Return the Hessians (B, d, d) of the mean logistic loss at models `weights` (B, d)."""
    assert isinstance(loss, Logistic)
    counts = np.ones(len(y)) if counts is None else counts
    return _weighted_grams(X[None], loss.curvature(X @ weights.T, y).T * counts) / counts.sum()


@np.errstate(over="ignore", invalid="ignore")  # an unbounded problem overflows before it is refused
def _newton(problems: _Problems, enough: Array) -> Array:
    c = np.zeros_like(problems.linear)
    value, gradient, p = problems.at(c)
    for _ in range(_STEPS):
        image = problems.base @ gradient if problems.span else gradient  # for the norm of X'gradient
        length = np.sqrt(np.maximum(problems.inner(gradient, image), 0))
        open_ = length > enough
        if not open_.any():
            return c
        if not np.abs(c).max() < 1e50:  # unbounded below
            break
        step = -problems.steps(p, gradient, length, enough)
        descent = problems.inner(image, step)
        size = open_.astype(float)
        for _ in range(40):
            tried = c + size[:, None] * step
            trial, gradient, p = problems.at(tried)
            short = trial > value + 1e-4 * size * descent + 8 * _TINY * np.abs(value)
            # close to the minimum, full steps are right, and rounding hides the small decrease of the objective
            short &= descent < -1e-12
            if not short.any():
                break
            size[short] /= 2
        c, value = tried, trial
    raise NotConvergedError(
        f"Newton's method stopped at a gradient of norm {length.max():.1e} > {enough.max():.3g} after at most {_STEPS} "
        f"steps: set a larger algo.lam, or rescale the features."
    )


def conjugate_gradients(
    times: Callable[[Array], Array], precondition: Callable[[Array], Array], right: Array, enough: Array
) -> Array:
    """Solve B positive definite systems ``A_b s_b = right_b`` by preconditioned conjugate gradients, (B, d).

    `times` multiplies A_b, and `precondition` an approximation of its inverse, by one vector for each b, (B, d) -> (B,
    d). The iteration stops when each residual has a norm of at most ``enough[b]``.
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


@remembered
def fit_all(parties: Parties, lam: float) -> Array:
    """Train one regularised model (K d,) on all private rows."""
    X, y, counts = parties.folded
    weights = None if counts is None else counts[None] / counts.sum()
    return fit(X[None], hard_targets(y, parties.problem.classes)[None], lam, weights)[0]


def fit_parties(
    X: Array, y: Array, offsets: Index, lam: float, classes: int, sums: bool = False
) -> Iterator[tuple[Index, Array]]:
    """Train a model on each party's rows. Yield batches of b parties: their indices (b,) and models (b, K d).

    Party k has the rows ``offsets[k]:offsets[k + 1]`` of X (N, d), which may be a memory map, and y (N,). With `sums`,
    a party minimises the sum of its losses instead of their mean.
    """
    d = X.shape[1]

    def most(n: int) -> int:
        return max(1, min(_CACHE // (min(n, d) * classes) ** 2, 8 * _CACHE // (n * d)))

    for parties, places, inside in alike(offsets, most):
        weights = inside / (1 if sums else inside.sum(axis=1, keepdims=True))
        first, last = places[0, 0], places[-1, -1]
        together = inside.all() and last - first == places.size - 1  # nothing to copy
        rows = X[first : last + 1].reshape(*places.shape, d) if together else X[places]
        yield parties, fit(rows, hard_targets(y[places], classes), lam, weights, LOCAL_TOLERANCE)


def optimum(loss: Loss, X: Array, y: Array, lam: float = 0.0, counts: Array | None = None) -> Array:
    """Return the non-private minimiser of the mean loss + lam/2 ||w||^2 on rows X with labels y, (d,) or (K d,).

    For the squared loss, the minimiser is exact, and the shortest one if there are several. For the sigmoid loss, which
    is not convex, it is a local minimiser. If there is no minimiser, as for separable rows with lam = 0, the norm of
    the gradient is at most `TOLERANCE`. Row i stands for ``counts[i]`` rows.
    """
    n, d = X.shape
    if n < d:  # a minimiser is in the span of the rows
        _, sizes, vectors = np.linalg.svd(X, full_matrices=False)
        basis = vectors[sizes > 1e-12 * sizes.max()]
        return (optimum(loss, X @ basis.T, y, lam, counts).reshape(-1, len(basis)) @ basis).ravel()
    if loss.task == "regression":
        rows, N = (X, n) if counts is None else (counts[:, None] * X, counts.sum())
        return minimise_quadratic(rows.T @ X / N + lam / 2 * np.eye(d), -2 * rows.T @ y / N)[0]
    share = np.full(n, 1 / n) if counts is None else counts / counts.sum()
    if isinstance(loss, Logistic):
        return fit(X[None], hard_targets(y, 1)[None], lam, share[None], offset=_offset(loss, y))[0]
    classes = loss.outputs(int(y.max()) + 1)

    def evaluate(w: Array) -> tuple[float, Array]:
        t = scores(X, w[None], classes)
        slope = loss.slope(t, y).reshape(n, classes)
        value = float(share @ loss.value(t, y)[:, 0]) + lam / 2 * float(w @ w)
        return value, ((slope.T * share) @ X).ravel() + lam * w

    return minimize(
        evaluate,
        np.zeros(classes * d),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 0.0, "gtol": 1e-9},
    ).x


def _offset(loss: Logistic, y: Array) -> Array | None:
    return -loss.shift * y[:, None] if loss.shift else None


@remembered
def least(parties: Parties, loss: Loss, lam: float) -> float:
    """Return the infimum of the mean loss + lam/2 ||w||^2 on the private rows."""
    X, y, counts = parties.folded
    regularised = loss.task != "regression" and loss.convex and lam > 0
    best = (fit_all(parties, lam) if regularised else optimum(loss, X, y, lam, counts))[None]
    return float(mean_loss(loss, X, y, best, counts)[0] + lam / 2 * np.sum(best * best))
