"""What the minimisers of perturbed objectives show of two neighbours, for the audit.

Released is the minimiser w of ``sum loss + R/2 ||w||^2 + b'w`` for a random b. Given the rows, w determines b, so that
the density of w is that of b times a Jacobian.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from dpml.arrays import Array
from dpml.audit.exposure import Pair
from dpml.audit.neighbours import mirrored_crowd, one_replaced, turned_label
from dpml.data.partition import Rows
from dpml.optim.convex import mean_hessian, minimise_convex
from dpml.optim.logistic import longest_minimiser
from dpml.optim.losses import Loss, mean_gradient
from dpml.privacy import Problem, gdp

_MODELS = 1 << 12  # whose density is computed at once
_MOST = 12  # distinct rows up to which a pair's mu or loss is computed: a search needs it hundreds of times
_LOST = 1e-7  # a smaller ridge is lost in rounding
_REACH = 8.5  # standard deviations of noise: e^-36 is beyond
_COARSE, _FINE = 69, 2401  # noises for which the loss is computed, and interpolated, along the shift
_ACROSS = np.concatenate([[-_REACH, -4.5], np.linspace(-3.6, 3.6, 19), [4.5, _REACH]])
_AGAINST = (0.0, 0.02, 0.04, 0.06, 0.09, 0.12, 0.16, 0.2, 0.25, 0.3, 0.36, 0.42, 0.5, 0.6, 0.7)

Folded = Sequence[Rows]
"""The rows of either neighbour."""


def held_pair(loss: Loss, problem: Problem, ridge: float, shows: Callable[[Folded], float]) -> Pair:
    """Neighbours whose gradients are long, opposite and hardly vary, for a logistic loss, d >= 2 and R = `ridge`.

    A row's gradient is long where w contradicts it, and rows that are opposite cannot both be contradicted. So a crowd
    holds w = (0, t), and the rows (a, -b) and (-a, -b) are both against it: for large t a small b is enough. The
    longest minimiser is that of rows (p, c) and (-p, c) with ``c t = 1 + lam t^2``, lam = R/N. With p = 0 only the
    ridge resists a move across, and the Jacobian counts; with the largest p, w hardly moves under any noise. Of these
    and of several b, the pair is taken for which ``shows`` is largest. The crowd has two distinct rows. Where R is lost
    in rounding, nothing holds w, and a row changes its label.
    """
    if ridge < _LOST:
        return turned_label(problem)
    lam = ridge / problem.N
    t = longest_minimiser(loss, lam)
    c = min(1.0, (1 + lam * t * t) / t)

    def crowd(p: float) -> Array:
        return mirrored_crowd(problem.N - 1, p, c)

    def replaced(b: float) -> list[list[float]]:
        return [[sign * math.sqrt(1 - b * b), -b] for sign in (1.0, -1.0)]

    candidates = []
    for p in (0.0, math.sqrt(1 - c * c)):
        few, counts = np.unique(crowd(p), axis=0, return_counts=True)
        many = np.append(counts, 1.0).astype(float)

        def shown(b: float, few: Array = few, many: Array = many) -> float:
            return shows([(np.vstack([few, row]), np.ones(len(many)), many) for row in replaced(b)])

        # every third, then those around the best one
        coarse = [(shown(_AGAINST[i]), i) for i in range(0, len(_AGAINST), 3)]
        best = max(coarse)[1]
        near = [i for i in range(max(0, best - 2), min(best + 3, len(_AGAINST))) if i != best]
        candidates += [(value, p, _AGAINST[i]) for value, i in coarse + [(shown(_AGAINST[i]), i) for i in near]]
    _, p, b = max(candidates)
    row, other = replaced(b)
    return one_replaced("binary", problem, row, other, (1.0, 1.0), rest=crowd(p))


def minimiser_score(
    loss: Loss, pair: Folded, ridge: float, log_noise: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """The score of the minimisers for R = `ridge`; ``log_noise`` is the log density of b (n, d)."""

    def log_density(rows: Rows, w: Array) -> Array:
        X, y, counts = rows
        n = _number(rows)
        b = -(n * mean_gradient(loss, X, y, w, counts) + ridge * w)
        jacobian = n * mean_hessian(loss, X, y, w, counts) + ridge * np.eye(w.shape[1])
        density: Array = np.linalg.slogdet(jacobian)[1] + log_noise(b)
        return density

    def score(seen: Array) -> Array:
        blocks = [seen[start : start + _MODELS] for start in range(0, len(seen), _MODELS)]
        return np.concatenate([log_density(pair[1], w) - log_density(pair[0], w) for w in blocks])

    return score


def largest_loss(loss: Loss, pair: Folded, ridge: float, scale: float) -> float:
    """The largest |score| found under noise of density exp(-||b|| / scale).

    NaN: there are too many rows, or the ridge is lost in rounding.

    Any output bounds the eps of the pair, at delta = 0, from below. Where b is along the difference of the gradients,
    it changes by all of that; tried are noises along the difference of the rows, as long as noise is.
    """
    if _different(pair) > _MOST or ridge < _LOST:
        return math.nan
    size = scale * np.concatenate([np.zeros(1), np.geomspace(0.01, 8, 40)])[:, None]
    noises = np.concatenate([size * _turn(pair), -size * _turn(pair)])
    outputs = np.concatenate([_minimisers(loss, rows, ridge, noises) for rows in pair])
    score = minimiser_score(loss, pair, ridge, laplace_log_density(scale))
    return float(np.abs(score(outputs)).max())


def laplace_log_density(scale: float) -> Callable[[Array], Array]:
    """Up to a constant, that of `dpml.privacy.noise.l2_laplace` noise b (n, d)."""
    return lambda b: -np.linalg.norm(b, axis=1) / scale


def gaussian_log_density(sigma: float) -> Callable[[Array], Array]:
    """Up to a constant, that of N(0, sigma^2 I) at b (n, d)."""
    return lambda b: -np.einsum("ij,ij->i", b, b) / (2 * sigma**2)


def gaussian_mu(loss: Loss, pair: Folded, ridge: float, sigma: float, delta: float) -> tuple[float, float]:
    """The mu of the pair under b ~ N(0, sigma^2 I), by two measures (mu, mu'); NaN: not known.

    At `delta` the best test distinguishes the two data sets as well as Gaussians mu apart. Their scores' means are mu'
    standard deviations apart: at most mu where the scores are normal.

    Where all rows lie in a plane, what is released across it does not depend on them, and eps is an integral over two
    coordinates of b: a sum over the cells of a grid, whose probabilities are exact, with the smallest of the scores
    at a cell's corners, and so at most what it stands for.
    """
    plane = _in_plane(pair)
    if plane is None:
        return math.nan, math.nan
    score = minimiser_score(loss, plane, ridge, gaussian_log_density(sigma))
    coarse, fine = np.linspace(-_REACH, _REACH, _COARSE), np.linspace(-_REACH, _REACH, _FINE)
    noises = sigma * np.stack(np.meshgrid(_ACROSS, coarse, indexing="ij")[::-1], axis=-1).reshape(-1, 2)
    probability = np.diff(ndtr(_ACROSS))[:, None] * np.diff(ndtr(fine))
    eps, means, variances = [], [], []
    for rows, sign in zip(plane, (-1, 1), strict=True):
        known = sign * score(_minimisers(loss, rows, ridge, noises)).reshape(len(_ACROSS), len(coarse))
        losses = np.stack([np.interp(fine, coarse, line) for line in known])
        corners = np.stack([losses[i : i + len(_ACROSS) - 1, j : j + _FINE - 1] for i in (0, 1) for j in (0, 1)])
        middle = corners.mean(axis=0)
        means.append(float(np.sum(probability * middle)))
        variances.append(float(np.sum(probability * (middle - means[-1]) ** 2)))
        eps.append(_eps_of(corners.min(axis=0), probability, delta))
    spread = math.sqrt(sum(variances) / 2)
    return gdp.mu_of(max(eps), delta), sum(means) / spread if spread > 0 else 0.0


def _eps_of(losses: Array, probability: Array, delta: float) -> float:
    """The eps at `delta` of privacy losses with these probabilities."""
    counted = losses > 0  # no other counts at any eps >= 0
    losses, probability = losses[counted], probability[counted]

    def excess(eps: float) -> float:
        return float(-probability @ np.expm1(np.minimum(eps - losses, 0.0))) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, float(losses.max()), xtol=1e-12))


def _minimisers(loss: Loss, rows: Rows, ridge: float, noises: Array) -> Array:
    """The models (B, d) that are released for the noises b (B, d)."""
    X, y, counts = rows
    n = _number(rows)
    return minimise_convex(loss, X, y, ridge / n, noises / n, counts, tolerance=min(1e-9, 1e-4 / n))


def _in_plane(pair: Folded) -> Folded | None:
    """The rows in coordinates of a plane that holds them all, along the difference of the two rows and across it.

    None: there is no such plane, or there are too many rows.
    """
    if _different(pair) > _MOST:
        return None
    X = np.concatenate([rows[0] for rows in pair] + [np.zeros((2, pair[0][0].shape[1]))])
    if X.shape[1] == 1:
        X = np.pad(X, ((0, 0), (0, 1)))
    _, lengths, directions = np.linalg.svd(X, full_matrices=False)
    if np.any(lengths[2:] > 1e-12 * lengths[0]):
        return None
    apart = _turn(pair)
    along = directions[:2] @ np.pad(apart, (0, X.shape[1] - len(apart)))
    turned = np.array([along, [-along[1], along[0]]]).T
    flat = X @ directions[:2].T @ turned
    first = len(pair[0][0])
    return (flat[:first], *pair[0][1:]), (flat[first:-2], *pair[1][1:])


def _turn(pair: Folded) -> Array:
    """The unit vector (d,) along ``u - u'``, u = y x of the replaced row and u' of its successor."""
    sums = [(y if counts is None else counts * y) @ X for X, y, counts in pair]
    apart = sums[0] - sums[1]
    length = float(np.linalg.norm(apart))
    return apart / length if length > 0 else np.eye(1, len(apart))[0]


def _number(rows: Rows) -> float:
    return len(rows[1]) if rows[2] is None else float(rows[2].sum())


def _different(pair: Folded) -> int:
    return max(len(rows[1]) for rows in pair)
