"""Compute how well an attacker who sees the minimiser of a perturbed objective distinguishes two data sets."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from dpml.arrays import Array
from dpml.audit.exposure import Pair
from dpml.audit.neighbours import mirrored_crowd, one_replaced, turned_label
from dpml.data.partition import Rows
from dpml.mechanism.message import Law
from dpml.mechanism.objectives import PerturbedObjective
from dpml.optim.convex import mean_hessian, minimise_convex
from dpml.optim.losses import Loss, longest_minimiser, mean_gradient
from dpml.privacy import Problem, gdp

_MODELS = 1 << 12  # models whose density is computed at once
_MOST = 12  # the mu or loss of a pair is computed for at most so many distinct rows, as searches need it often
_LOST = 1e-7  # a smaller ridge is lost in rounding
_REACH = 8.5  # noise is cut at so many standard deviations, which loses a probability below e^-36
_COARSE, _FINE = 69, 2401  # points along the shift: the loss is computed at the first, and interpolated at the second
_ACROSS = np.concatenate([[-_REACH, -4.5], np.linspace(-3.6, 3.6, 19), [4.5, _REACH]])
_AGAINST = (0.0, 0.02, 0.04, 0.06, 0.09, 0.12, 0.16, 0.2, 0.25, 0.3, 0.36, 0.42, 0.5, 0.6, 0.7)

NEARLY = 0.01
"""Scores count as normal if their mu' exceeds the mu of the pair by at most this relative amount. Then the Gaussian
curve of the scores does not exceed the pair's distance."""

Folded = Sequence[Rows]
"""The merged rows of both neighbours."""


def held_pair(loss: Loss, problem: Problem, ridge: float, shows: Callable[[Folded], float]) -> Pair:
    """Return two data sets with one different row; both rows have large gradients, with opposite first entries.

    The other rows, (p, c) and (-p, c), keep the minimiser near (0, t), which misclassifies the different rows (a, -b)
    and (-a, -b). The norm t is largest if ``c t = 1 + lam t^2``, lam = ridge/N. If p = 0, only the ridge limits shifts
    along axis 0, and the Jacobian matters; with the largest p, no noise shifts the minimiser much. Of these p and some
    b, choose those with the largest value of `shows`. If rounding loses a tiny ridge, the pair differs in one label.
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
        for b in _AGAINST:
            pair = [(np.vstack([few, row]), np.ones(len(many)), many) for row in replaced(b)]
            candidates.append((shows(pair), p, b))
    _, p, b = max(candidates)
    row, other = replaced(b)
    return one_replaced("binary", problem, row, other, (1.0, 1.0), rest=crowd(p))


def minimiser_score(
    loss: Loss, pair: Folded, ridge: float, log_noise: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Return a function that maps released minimisers to log likelihood ratios of two data sets."""

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
    """Search for the largest privacy loss of two data sets under L2-Laplace noise; return NaN if the search fails."""
    if _different(pair) > _MOST or ridge < _LOST:
        return math.nan
    size = scale * np.concatenate([np.zeros(1), np.geomspace(0.01, 8, 40)])[:, None]
    noises = np.concatenate([size * _turn(pair), -size * _turn(pair)])
    outputs = np.concatenate([_minimisers(loss, rows, ridge, noises) for rows in pair])
    score = minimiser_score(loss, pair, ridge, log_density("l2_laplace", scale))
    return float(np.abs(score(outputs)).max())


def log_density(law: Law, scale: float) -> Callable[[Array], Array]:
    """Return the log density of Gaussian or L2-Laplace noise vectors (n, d), up to a constant."""
    if law == "gaussian":
        return lambda b: -np.einsum("ij,ij->i", b, b) / (2 * scale**2)
    return lambda b: -np.linalg.norm(b, axis=1) / scale


def distance(loss: Loss, pair: Folded, sent: PerturbedObjective, delta: float | None) -> tuple[float, float, bool]:
    """Return lower bounds on a pair's pure eps and mu (NaN: unknown), and whether attack scores are near normal."""
    if sent.law != "gaussian":
        return largest_loss(loss, pair, sent.ridge, sent.scale), math.nan, False
    mu, apart = gaussian_mu(loss, pair, sent.ridge, sent.scale, delta or 0.0)
    return math.nan, mu, apart <= mu * (1 + NEARLY)


def gaussian_mu(loss: Loss, pair: Folded, ridge: float, sigma: float, delta: float) -> tuple[float, float]:
    """Return two measures of how well an attacker distinguishes two data sets: mu, from eps, and mu', from mean scores.

    The eps of the data sets at `delta` is that of N(0, 1) and N(mu, 1). The mean scores of the data sets differ by mu'
    standard deviations. If there are few distinct rows, all in a plane, only two coordinates of the noise b matter.
    Then delta, as a function of eps, is an integral over these, here a lower sum on a grid. Otherwise, return NaN.
    """
    plane = _in_plane(pair)
    if plane is None:
        return math.nan, math.nan
    score = minimiser_score(loss, plane, ridge, log_density("gaussian", sigma))
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
    counted = losses > 0  # other losses do not matter for eps >= 0
    losses, probability = losses[counted], probability[counted]

    def excess(eps: float) -> float:
        return float(-probability @ np.expm1(np.minimum(eps - losses, 0.0))) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, float(losses.max()), xtol=1e-12))


def _minimisers(loss: Loss, rows: Rows, ridge: float, noises: Array) -> Array:
    X, y, counts = rows
    n = _number(rows)
    return minimise_convex(loss, X, y, ridge / n, noises / n, counts, tolerance=min(1e-9, 1e-4 / n))


def _in_plane(pair: Folded) -> Folded | None:
    """Rotate two data sets (on axes 0 and 1) until their sums of label * row differ only on axis 0, or return None."""
    if _different(pair) > _MOST or any(X[:, 2:].any() for X, _, _ in pair):  # too many rows, or not in the plane
        return None
    flat = [(np.pad(X, ((0, 0), (0, 1)))[:, :2], y, counts) for X, y, counts in pair]
    a, b = _turn(flat)
    return [(X @ np.array([[a, -b], [b, a]]), y, counts) for X, y, counts in flat]


def _turn(pair: Folded) -> Array:
    sums = [(y if counts is None else counts * y) @ X for X, y, counts in pair]
    apart = sums[0] - sums[1]
    length = float(np.linalg.norm(apart))
    return apart / length if length > 0 else np.eye(1, len(apart))[0]


def _number(rows: Rows) -> float:
    return len(rows[1]) if rows[2] is None else float(rows[2].sum())


def _different(pair: Folded) -> int:
    return max(len(rows[1]) for rows in pair)
