"""Compute the eps of many sums: each sum has new L2-Laplace noise, and all sums may share one Gaussian noise vector.

The four upper bounds on this eps are in docs/privacy/rajkumar2012.md, Theorem 3.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.optimize import brentq

from dpml.arrays import Array
from dpml.privacy import pld
from dpml.privacy.accountant import Accountant
from dpml.privacy.proofs import laplace_sums

PURE, EXACT, SCALES, ETA = "pure rounds", "exact sums", "Gaussians of known scales", "Gaussians of known scales and eta"

_EXACT_SHAPE = 64.0  # for a larger h (d + 1)/2, a sum is nearly Gaussian: revealing its variance costs < 2 % of mu^2
_EXACT_EPS = (1e-7, 100.0)
_TAIL = 1e-4  # the share of delta for unlikely values of the random scale g
_EDGES = 100
_SLACK = 1e-12  # relative error of a density


@lru_cache(maxsize=1 << 12)
def proven(rounds: int, eps: float, parties: int, d: int, common: float, delta: float) -> tuple[float, str]:
    """Return the least eps that is proven at `delta` for all rounds together, and the name of the proof.

    Args:
        rounds: The number of rounds T.
        eps: The eps of one party's noise in one round; inf without noise.
        parties: The number h of parties whose noise is in a sum and unknown to the observer.
        d: The number of features.
        common: The standard deviation of the common Gaussian noise eta; 0 without it.
        delta: The delta, in (0, 1).
    """
    plain = Accountant().spend(eps, times=rounds).eps(delta)
    bounds = [(plain, PURE)]
    shape = parties * (d + 1) / 2
    if plain in (0.0, math.inf) or eps > 16 * shape:  # a Gaussian round's mean loss mu^2/2 exceeds eps
        return bounds[0]
    if shape <= _EXACT_SHAPE and _EXACT_EPS[0] <= eps <= _EXACT_EPS[1]:
        losses = laplace_sums.losses(eps, parties, d)
        bounds.append((_composed([(losses, rounds)], delta), EXACT))
    else:
        bounds.append((_composed([(_scales(2 * eps, shape, rounds, delta, plain), rounds)], delta), SCALES))
    # bound 4 (mu^2 = S + 1/common^2, S = E sum_t 1/W_t) can beat bound 3 (4 S) if 1/common^2 < 3 S; 6 S is tested
    if 6 * (common * eps) ** 2 * rounds > 8 * (shape - 1):
        parts = [(_scales(eps, shape, rounds, delta, plain), rounds), (pld.gaussian(1 / common), 1)]
        bounds.append((_composed(parts, delta), ETA))
    return min(bounds)


def _composed(parts: list[tuple[pld.Losses, int]], delta: float) -> float:
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0].eps(delta)
    return pld.compose(parts, delta=delta).eps(delta)


def _scales(sensitivity: float, shape: float, rounds: int, delta: float, most: float) -> pld.Losses:
    """Return the privacy losses of Gaussian noise whose scale is random but known to the observer.

    With variance 8 g and g ~ Gamma(shape), ``mu = sensitivity / sqrt(8 g)``. Losses above ``most + 60`` (`most`: an eps
    from another proof) and those of the smallest g (total probability ``1e-4 delta / rounds``) count as infinite.
    """
    unlikely = math.log(_TAIL * delta / rounds)
    # Pr[log(g/shape) < u] for u < 0 and Pr[log(g/shape) > u] for u > 0 are at most exp(-shape (e^u - 1 - u))
    least = float(brentq(lambda u: shape * float(_rate(np.array(u))) + unlikely, unlikely / shape - 1, 0.0))
    highest, usual = math.sqrt(80 / shape), 5 / math.sqrt(shape)
    coarse, fine = np.linspace(least, highest, _EDGES), np.linspace(-usual, usual, _EDGES)
    edges = np.unique(np.concatenate([coarse, np.clip(fine, least, highest)]))
    nodes, weights = leggauss(6)
    half = np.diff(edges)[:, None] / 2
    u = edges[:-1, None] + half * (1 + nodes)
    if shape < 1e3:
        log_scale = shape * math.log(shape) - shape - math.lgamma(shape)
    else:  # Stirling's series, an upper bound
        log_scale = math.log(shape / (2 * math.pi)) / 2 - 1 / (12 * shape) + 1 / (360 * shape**3)
    mass = np.exp(log_scale - shape * _rate(u)) * weights * half * (1 + _SLACK)
    mus, mu = (sensitivity / np.sqrt(8 * shape * np.exp(at)) for at in (edges, u))
    high, low = mus[:-1, None], mus[1:, None]
    # 1 - e^(-high mu/4) is more concave in mu than z = erf(mu / sqrt 8), so `share` does not lower the mean of z
    share = np.expm1(-high / 4 * (mu - low)) / np.expm1(-high / 4 * (high - low))
    masses = np.zeros(len(edges))
    masses[:-1] += (mass * share).sum(axis=1)
    masses[1:] += (mass * (1 - share)).sum(axis=1)
    masses[-1] += math.exp(-40.0)
    seen = pld.gaussians(mus, masses)
    kept = seen.at <= most + 60
    lost = math.exp(unlikely) + float(seen.mass[~kept].sum())
    return pld.Losses(seen.at[kept], seen.mass[kept], min(seen.infinite + lost, 1.0))


def _rate(u: Array) -> Array:
    series = u * u / 2 * (1 + u / 3 * (1 + u / 4 * (1 + u / 5 * (1 + u / 6 * (1 + u / 7 * (1 + u / 8))))))
    return np.where(np.abs(u) < 1e-2, series, np.expm1(u) - u)
