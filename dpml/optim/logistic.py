"""Regularised logistic and softmax regression on hard, soft or weighted labels, for many small problems at once.

A problem has rows X (n, d), targets a (n, K) and row weights r (n,), and minimises over the model w (K, d)

    sum_i r_i (A(t_i) - a_i't_i) + lam/2 ||w||^2,    t_i = w x_i,

For the logistic loss, K = 1, ``A(t) = log(1 + e^t)`` and a is the probability of the label +1. For softmax, K >= 2,
``A(t) = log sum_k e^{t_k}`` and a has the probabilities of the classes. With a in {0, 1} and r = 1/n this is the mean
loss of `losses`; with shares of votes a it is the weighted risk of Hamm et al. 2016, eqs. (12) and (55).
"""

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import expit, wrightomega

from dpml.arrays import Array, Index, blocks
from dpml.data.partition import Parties, remembered
from dpml.errors import UserError
from dpml.optim.losses import Loss, ShiftedLogistic

_BLOCK = 1 << 17  # entries of the Newton systems that are solved together: 1 MiB, for the CPU cache
TOLERANCE = 1e-9
"""The largest gradient norm of a computed minimiser, which is then within TOLERANCE / lam of the exact one."""
LOCAL_TOLERANCE = 1e-8
"""The largest gradient norm for the parties' models."""
_TINY = np.finfo(float).eps


def longest_minimiser(loss: Loss, lam: float, classes: int = 1) -> float:
    """Return a bound on the norm of minimisers of a mean logistic or softmax loss + lam/2 ||w||^2, rows of norm <= 1.

    Proof: docs/privacy/hamm2016.md, Theorem 1. `classes` is K for softmax, or 1 if K is unknown.
    """
    binary = loss.task == "binary"
    if not binary and classes == 1:
        return 1 / lam
    K = 2 if binary else classes
    shift = loss.shift if isinstance(loss, ShiftedLogistic) else 0.0
    at_zero = float(expit(shift)) if binary else math.sqrt(1 - 1 / K)
    return min(at_zero / lam, math.sqrt(float(wrightomega(math.log(K - 1) - 1 + shift)) / lam))


def hard_targets(y: Array, classes: int) -> Array:
    """Return labels of any shape, -1, +1 (classes = 1) or 0..K-1 (classes = K >= 2), as targets (..., classes)."""
    if classes == 1:
        return (y[..., None] > 0).astype(float)
    return (y[..., None] == np.arange(classes)).astype(float)


def fit(X: Array, targets: Array, lam: float, row_weights: Array | None = None, tolerance: float = TOLERANCE) -> Array:
    """Minimise B problems: X (B, n, d), targets (B, n, K), row_weights (B, n) (None: 1/n) -> w (B, K d).

    Damped Newton steps optimise the d K weights or, if n < d, the n K coefficients of w in the span of the rows. Rows
    of weight 0 pad smaller problems. A problem is solved when the norm of its gradient is at most `tolerance`.
    """
    if not 0 < lam < np.inf:
        raise UserError(f"algo.lam must be positive for this algorithm, got {lam}.")
    B, n, d = X.shape
    if row_weights is None:
        row_weights = np.full((B, n), 1 / n)
    span = n < d
    # scores are base @ c: c has the weights, or the coefficients of the rows (then base is their Gram matrix)
    base = X @ X.transpose(0, 2, 1) if span else X
    c = _coordinates(base, targets, row_weights, lam, span, tolerance)
    w = c.transpose(0, 2, 1) @ X if span else c.transpose(0, 2, 1)
    return w.reshape(B, -1)


def _coordinates(base: Array, targets: Array, r: Array, lam: float, span: bool, tolerance: float) -> Array:
    """Return the coordinates c (B, m, K) of the minimisers; solved problems leave the batch."""
    B, _, m = base.shape
    K = targets.shape[-1]
    solved = np.empty((B, m, K))
    here = np.arange(B)  # the problems that are still in the batch
    c = np.zeros((B, m, K))
    t = np.zeros(targets.shape)
    p = _probabilities(t)
    value = _objectives(c, t, targets, r, lam, span)
    for _ in range(100):
        residual = r[:, :, None] * (p - targets)
        gradient = (residual if span else base.transpose(0, 2, 1) @ residual) + lam * c
        image = base @ gradient if span else gradient  # for coefficients, the inner product <a, b> is a'Gb
        length = np.sqrt(np.maximum(np.einsum("bmk,bmk->b", gradient, image), 0))
        open_ = length > tolerance
        if not open_.all():
            solved[here[~open_]] = c[~open_]
            if not open_.any():
                return solved
            here, base, targets, r, c, t, p, value, gradient, image = (
                array[open_] for array in (here, base, targets, r, c, t, p, value, gradient, image)
            )
        system = _span_system(base, p, r) if span else _primal_system(base, p, r)
        diagonal = np.arange(m * K)
        system[:, diagonal, diagonal] += lam
        step = -np.linalg.solve(system, gradient.reshape(len(here), m * K, 1)).reshape(c.shape)
        along = base @ step
        descent = np.einsum("bmk,bmk->b", image, step)
        size = np.ones(len(here))
        for _ in range(40):
            c_new, t_new = c + size[:, None, None] * step, t + size[:, None, None] * along
            trial = _objectives(c_new, t_new, targets, r, lam, span)
            short = trial > value + 1e-4 * size * descent + 8 * _TINY * np.abs(value)
            if not short.any():
                break
            size[short] /= 2
        c, t, value = c_new, t_new, trial
        p = _probabilities(t)
    raise UserError(
        f"Newton's method did not converge for {np.sum(open_)} of {B} local or global models: gradients of up to "
        f"{length.max():.1e} > {tolerance:g} after 100 steps. Set a larger algo.lam, or rescale the features."
    )


def _probabilities(t: Array) -> Array:
    if t.shape[-1] == 1:
        return expit(t)
    e = np.exp(t - t.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _objectives(c: Array, t: Array, targets: Array, r: Array, lam: float, span: bool) -> Array:
    if t.shape[-1] == 1:
        log_partition = (np.maximum(t, 0) + np.log1p(np.exp(-np.abs(t))))[..., 0]
    else:
        top = t.max(axis=-1)
        log_partition = top + np.log(np.exp(t - top[..., None]).sum(axis=-1))
    losses = log_partition - np.einsum("bnk,bnk->bn", targets, t)
    energy = np.einsum("bmk,bmk->b", c, t if span else c)
    return np.einsum("bn,bn->b", r, losses) + lam / 2 * energy


def _curvature(p: Array, r: Array, k: int, j: int) -> Array:
    """Return r_i d^2 A / dt_k dt_j for every row: (B, n)."""
    if p.shape[-1] == 1:
        return r * p[..., 0] * (1 - p[..., 0])
    return r * p[..., k] * ((k == j) - p[..., j])


def _span_system(gram: Array, p: Array, r: Array) -> Array:
    """Return the Newton matrix without lam, for coefficients of the rows: block (k, j) is diag(curvature) G."""
    B, n, K = p.shape
    system = np.empty((B, n, K, n, K))
    for k in range(K):
        for j in range(K):
            np.multiply(_curvature(p, r, k, j)[:, :, None], gram, out=system[:, :, k, :, j])
    return system.reshape(B, n * K, n * K)


def _primal_system(X: Array, p: Array, r: Array) -> Array:
    """Return the Newton matrix without lam, for the weights: block (k, j) is X' diag(curvature) X.

    Models are batched, and the rows of a large model are blocked, for the CPU cache.
    """
    B, n, d = X.shape
    K = p.shape[-1]
    system = np.zeros((B, d, K, d, K))
    for models in blocks(B, n * d, _BLOCK):
        for rows in blocks(n, d, _BLOCK):
            _add_curvature(system[models], X[models, rows], p[models, rows], r[models, rows])
    return system.reshape(B, d * K, d * K)


def _add_curvature(system: Array, X: Array, p: Array, r: Array) -> None:
    """Add ``X' diag(curvature) X`` for some models and rows to the blocks of `system` (b, d, K, d, K)."""
    for k in range(p.shape[-1]):
        # a matrix times its own transpose is half the work of another product
        rooted = X * np.sqrt(_curvature(p, r, k, k))[:, :, None]
        system[:, :, k, :, k] += rooted.transpose(0, 2, 1) @ rooted
        for j in range(k):
            block = (X * _curvature(p, r, k, j)[:, :, None]).transpose(0, 2, 1) @ X
            system[:, :, k, :, j] += block
            system[:, :, j, :, k] += block


@remembered
def fit_all(parties: Parties, lam: float) -> Array:
    """Train one model on all private rows: (K d,)."""
    X, y, counts = parties.folded
    weights = None if counts is None else counts[None] / counts.sum()
    return fit(X[None], hard_targets(y, parties.problem.classes)[None], lam, weights)[0]


def fit_parties(
    X: Array, y: Array, offsets: Index, lam: float, classes: int, sums: bool = False
) -> Iterator[tuple[Index, Array]]:
    """Train each party's model on its own rows, and yield blocks: parties' numbers (b,) and their models (b, K d).

    Party k has the rows ``offsets[k]:offsets[k + 1]`` of X (N, d) and y (N,). K is `classes` as in `hard_targets`. A
    block has parties of similar size. Only one block is in memory, so memory does not grow with M, and X may be a
    memory map. With `sums`, the objective is the sum of a party's losses instead of their mean.
    """
    sizes = np.diff(offsets)
    order = np.argsort(sizes, kind="stable")
    d = X.shape[1]
    start = 0
    while start < len(order):
        n = int(sizes[order[start]])
        similar = int(np.searchsorted(sizes, 1.25 * n, side="right", sorter=order))
        width = max(1, min(_BLOCK // (min(n, d) * classes) ** 2, 8 * _BLOCK // (n * d)))
        parties = order[start : min(start + width, similar)]
        start += len(parties)
        lengths = sizes[parties][:, None]
        inside = np.arange(lengths.max()) < lengths
        if n == lengths.max() and parties[-1] - parties[0] == len(parties) - 1:  # contiguous: nothing to copy
            lie = slice(int(offsets[parties[0]]), int(offsets[parties[-1] + 1]))
            rows, labels = X[lie].reshape(len(parties), n, d), y[lie].reshape(len(parties), n)
        else:
            first = offsets[parties][:, None]
            places = np.where(inside, first + np.arange(lengths.max()), first)
            rows, labels = X[places], y[places]
        weights = inside / (1 if sums else lengths)
        yield parties, fit(rows, hard_targets(labels, classes), lam, weights, LOCAL_TOLERANCE)
