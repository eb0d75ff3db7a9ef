"""What the minimiser of a perturbed objective of several classes shows of two neighbours, for the audit of `gop`."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq

from dpml.arrays import Array
from dpml.audit.exposure import Pair
from dpml.audit.neighbours import synthetic_parties
from dpml.data.partition import Equal, Rows
from dpml.optim.losses import LOSSES, scores
from dpml.privacy import Problem

_AGAINST = np.linspace(0, 0.95, 96)
_MODELS = 1 << 9  # whose density is computed at once


def softmax_pair(problem: Problem, ridge: float) -> Pair:
    """Neighbours whose gradients are long and opposite: a crowd (0, 1) of class 0 holds w, and rows (a, -b) and (-a,
    -b) of that class are both against it. On a line, or where that is farther apart, a row changes its class.

    Without noise the crowd is at a score of t above those of all other classes, with ``n (1 - p_0) = R t (K - 1)/K``; a
    row against it by b has a gradient of length ``sqrt(K/(K - 1)) (1 - p_0)``.
    """
    K, n = max(problem.classes, 2), problem.N - 1

    def doubt(t: Array | float) -> Array:  # 1 - p_0
        return (K - 1) / (K - 1 + np.exp(t))

    t = brentq(lambda t: n * float(doubt(t)) - ridge * t * (K - 1) / K, 0.0, 700.0) if n and ridge else 0.0
    apart = 2 * np.sqrt(1 - _AGAINST**2) * math.sqrt(K / (K - 1)) * doubt(-_AGAINST * t)
    b = _AGAINST[np.argmax(apart)]
    held = problem.d > 1 and apart.max() > math.sqrt(2)
    X, y = np.zeros((2, problem.N, problem.d)), np.zeros((2, problem.N))
    if held:
        X[:, :, 1] = 1 - 1e-15
        X[:, -1, :2] = [[math.sqrt(1 - b * b), -b], [-math.sqrt(1 - b * b), -b]]
        X[:, -1] *= 1 - 1e-15
    else:
        X[:, :, 0], y[1, -1] = 1 - 1e-15, 1.0
    sizes = Equal().sizes(problem.N, problem.M, np.random.default_rng(0))
    first, second = (synthetic_parties("multiclass", X[i], y[i], sizes, classes=K) for i in (0, 1))
    return first, second


def softmax_score(pair: Sequence[Rows], K: int, ridge: float, sigma: float) -> Callable[[Array], Array]:
    """The score of the minimisers, (draws, K d) -> (draws,): the density of w is that of b times a Jacobian."""
    loss = LOSSES["softmax"]

    def log_density(rows: Rows, w: Array) -> Array:
        X, y, known = rows
        d, counts = X.shape[1], np.ones(len(X)) if known is None else known
        slopes = loss.slope(scores(X, w, K), y)  # p - e_y
        gradient = np.einsum("nbk,n,ni->bki", slopes, counts, X).reshape(len(w), -1) + ridge * w
        p = slopes + (y[:, None] == np.arange(K))[:, None]
        own = np.einsum("nbk,n,ni,nj->bkij", p, counts, X, X, optimize=True)
        both = np.einsum("nbk,nbl,n,ni,nj->bkilj", p, p, counts, X, X, optimize=True)
        hessian = np.einsum("bkij,kl->bkilj", own, np.eye(K)) - both
        hessian = hessian.reshape(len(w), K * d, K * d) + ridge * np.eye(K * d)
        density: Array = np.linalg.slogdet(hessian)[1] - np.sum(gradient**2, axis=1) / (2 * sigma**2)
        return density

    def score(seen: Array) -> Array:
        blocks = [seen[start : start + _MODELS] for start in range(0, len(seen), _MODELS)]
        return np.concatenate([log_density(pair[1], w) - log_density(pair[0], w) for w in blocks])

    return score
