"""Compute lower bounds on eps from an attacker's scores, and learn score functions from samples of releases.

An attacker guesses the second data set if a score exceeds a threshold, and measured error rates give a lower bound on
eps (Nasr et al. 2021). For normal scores, a lower bound on mu gives a much larger bound on eps (Nasr et al. 2023).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from dpml.arrays import Array
from dpml.privacy import gdp

# the quantiles of the scores that are tried as thresholds, also close to the ends, where pure eps-DP is tightest
_ENDS = 10.0 ** np.linspace(-6, -2, 60)
_EVERYWHERE = np.concatenate([np.linspace(0, 1, 400), _ENDS, 1 - _ENDS])
# for Gaussian scores, middle quantiles estimate mu best; among more thresholds, sampling errors would select one
_MIDDLE = np.linspace(0.05, 0.95, 19)
_CAUTION = 1e-4  # error probability of the intervals that select a threshold; few hits give wide intervals


@np.errstate(invalid="ignore")
def rate_interval(hits: NDArray[np.int_], trials: int, error: float) -> tuple[Array, Array]:
    """Compute Clopper-Pearson bounds on a rate; each bound is wrong with probability at most `error`."""
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), trials - hits + 1, error), 0.0)
    high = np.where(hits < trials, betaincinv(hits + 1, np.maximum(trials - hits, 1), 1 - error), 1.0)
    return low, high


def eps_from_rates(fpr: Array, tpr: Array, delta: float) -> Array:
    """Return the least eps >= 0 for which (eps, delta)-DP allows the false and true positive rates `fpr` and `tpr`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.log((tpr - delta) / fpr)
        second = np.log((1 - fpr - delta) / (1 - tpr))
    return np.maximum(np.nan_to_num(np.fmax(first, second), nan=0.0, posinf=math.inf), 0.0)


def mu_from_rates(fpr: Array, tpr: Array) -> Array:
    """Return the least mu >= 0 for which mu-GDP allows the false and true positive rates `fpr` and `tpr`."""
    return np.maximum(np.nan_to_num(ndtri(tpr) - ndtri(fpr), nan=0.0), 0.0)


def eps_by_rates(first: Array, second: Array, delta: float, error: float) -> float:
    """Return a lower bound on eps for scores of any distribution; the bound fails with probability at most `error`."""
    return _by_rates(lambda fpr, tpr: eps_from_rates(fpr, tpr, delta), first, second, error, _EVERYWHERE, 1 / 4)


def mu_by_rates(first: Array, second: Array, error: float) -> float:
    """Return a lower bound on mu for scores of any distribution; the bound fails with probability at most `error`."""
    return _by_rates(mu_from_rates, first, second, error, _MIDDLE, 1 / 5)


def _by_rates(
    bound: Callable[[Array, Array], Array], first: Array, second: Array, error: float, levels: Array, share: float
) -> float:
    cut = int(len(first) * share), int(len(second) * share)
    pooled = np.sort(np.concatenate([first[: cut[0]], second[: cut[1]]]))
    # quantiles by sorting, which is faster than NumPy's partition at hundreds of levels
    thresholds = np.unique(np.interp(levels * (len(pooled) - 1), np.arange(len(pooled)), pooled))
    bounds = bound(*_rates(thresholds, first[: cut[0]], second[: cut[1]], _CAUTION))
    best = thresholds[np.argmax(bounds)]
    return float(bound(*_rates(np.array([best]), first[cut[0] :], second[cut[1] :], error))[0])


def _rates(thresholds: Array, first: Array, second: Array, error: float) -> tuple[Array, Array]:
    fpr = rate_interval(_above(first, thresholds), len(first), error / 2)[1]
    tpr = rate_interval(_above(second, thresholds), len(second), error / 2)[0]
    return fpr, tpr


def _above(scores: Array, thresholds: Array) -> NDArray[np.int_]:
    if len(thresholds) < 50:  # counting is faster than sorting
        return len(scores) - np.array([np.count_nonzero(scores <= each) for each in thresholds], dtype=int)
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, side="right")


class Rates(NamedTuple):
    """An attack's false and true positive rates at k thresholds, and their bounds (2, k): first lower, then upper."""

    fpr: Array
    tpr: Array
    fpr_bounds: Array
    tpr_bounds: Array


def trade_off(first: Array, second: Array, error: float) -> Rates:
    """Measure an attack's error rates at many thresholds; a rate's interval fails with probability at most `error`."""
    levels = np.unique(np.round(10.0 ** np.linspace(-4, 0, 33) * len(first))[:-1])
    thresholds = np.unique(np.sort(first)[::-1][levels.astype(int)])
    false, true = _above(first, thresholds), _above(second, thresholds)
    bounds = [np.stack(rate_interval(hits, n, error / 2)) for hits, n in ((false, len(first)), (true, len(second)))]
    return Rates(false / len(first), true / len(second), *bounds)


def mu_of_scores(first: Array, second: Array, error: float) -> float:
    """Return a lower bound on the standardised difference of two normal samples' means (Hedges & Olkin 1985)."""
    n, m = len(first), len(second)
    apart, spread = second.mean() - first.mean(), math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    if spread == 0:
        return math.inf if apart > 0 else 0.0
    d = apart / spread
    return max(d - float(ndtri(1 - error)) * math.sqrt(1 / n + 1 / m + d * d / (2 * (n + m))), 0.0)


def eps_by_gdp(first: Array, second: Array, delta: float, error: float) -> float:
    """From >= 100 normal scores, bound eps at `delta` > 0 from below; the bound fails with probability <= `error`."""
    return gdp.eps_of(mu_of_scores(first, second, error), delta)


def learn_direction(first: Array, second: Array) -> Callable[[Array], Array]:
    """Learn the linear projection, (n, k) -> (n,), that separates two samples best (Fisher's discriminant)."""
    both = np.concatenate([first, second])
    both[np.isnan(both)] = 0.0
    low, centre, high = np.quantile(both, [0.25, 0.5, 0.75], axis=0)
    spread = np.where(high > low, high - low, np.where(both.std(axis=0) > 0, both.std(axis=0), 1.0))

    def standard(seen: Array) -> Array:
        scaled = np.clip((seen - centre) / spread, -4, 4)
        scaled[np.isnan(scaled)] = 4.0  # otherwise a single NaN would make all results NaN
        return scaled

    a, b = standard(first), standard(second)
    within = np.cov(a, rowvar=False) + np.cov(b, rowvar=False)
    k = first.shape[1]
    within = np.reshape(within, (k, k)) + 1e-9 * np.eye(k)
    direction = np.linalg.solve(within, b.mean(axis=0) - a.mean(axis=0))

    def project(seen: Array) -> Array:
        projected: Array = standard(seen) @ direction
        return projected

    return project


def learn_medians(first: Array, second: Array) -> Callable[[Array], Array]:
    """Learn a log likelihood ratio of two data sets from samples (n, k), as if all numbers were Laplace distributed."""
    centres = [np.median(each, axis=0) for each in (first, second)]
    wide = sum(np.mean(np.abs(each - at), axis=0) for each, at in zip((first, second), centres, strict=True)) / 2
    wide = np.where(wide > 0, wide, 1.0)

    def score(seen: Array) -> Array:
        closer: Array = np.sum((np.abs(seen - centres[0]) - np.abs(seen - centres[1])) / wide, axis=1)
        return np.round(closer, 9)  # beyond both medians, the score is constant up to rounding errors

    return score


def learn_normals(first: Array, second: Array) -> Callable[[Array], Array]:
    """Learn a log likelihood ratio of two data sets from samples (n, k), which are treated as normally distributed."""
    k = first.shape[1]
    unit = np.where((spread := first.std(axis=0) + second.std(axis=0)) > 0, spread, 1.0)

    def log_density(sample: Array) -> Callable[[Array], Array]:
        centre = sample.mean(axis=0)
        covariance = np.reshape(np.cov((sample - centre) / unit, rowvar=False), (k, k)) + 1e-9 * np.eye(k)
        inverse, (_, log_volume) = np.linalg.inv(covariance), np.linalg.slogdet(covariance)

        def at(seen: Array) -> Array:
            apart = (seen - centre) / unit
            found: Array = -(np.einsum("ni,ij,nj->n", apart, inverse, apart) + log_volume) / 2
            return found

        return at

    before, after = log_density(first), log_density(second)
    return lambda seen: after(seen) - before(seen)
