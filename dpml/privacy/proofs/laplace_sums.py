"""Compute the privacy loss if only a sum of L2 sensitivity 2 is seen, to which h parties added L2-Laplace vectors.

The sum of h vectors of density proportional to ``exp(-beta ||x||)`` in R^d, beta = eps/2, has the density

    f(x) = 2 beta^d (4 pi)^(-d/2) / Gamma(h (d + 1)/2) (r/2)^v K_v(r),   r = beta ||x||,   v = h (d + 1)/2 - d/2,

where K_v is a Bessel function (docs/privacy/rajkumar2012.md, Theorem 3, bound 2).
"""

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import gammainccinv, gammaincinv, gammaln, k0e, k1e

from dpml.arrays import Array
from dpml.privacy.pld import FADED, Losses

_RATIO = 1.06  # ratio of two neighbouring grid points' distances from the centre of P (t = -eps/2)
_BELTS = 120  # number of grid points of rho > 0, the distance from the axis
_SLACK = 1e-12  # relative error of a density; times v + 1 (v: the order of K_v), it bounds the error of a loss
_FAR = 45.0  # the mass beyond the farthest grid point t is at most e^-45
_BLOCK = 1 << 13  # numbers that are processed at once, which fit into the CPU cache


@lru_cache(maxsize=16)
def losses(eps: float, parties: int, d: int) -> Losses:
    """Return privacy losses of a sum in R^d of `parties` L2-Laplace vectors; one gives eps-DP (1e-7 <= eps <= 100)."""
    t, rho = _edges(eps, parties, d)
    shape = parties * (d + 1) / 2
    v = shape - d / 2

    def loss(t: Array, rho: Array) -> tuple[Array, Array]:
        """Return log p (up to a constant) and log(p/q) at (t, rho); the neighbours' sums have densities p and q."""
        to_p, to_q = np.hypot(t + eps / 2, rho), np.hypot(t - eps / 2, rho)
        log_p, log_q = _log_profile(v, to_p), _log_profile(v, to_q)
        # the difference of the distances, computed without cancellation
        return log_p - to_p, log_p - log_q - 2 * t * eps / (to_p + to_q)

    log_scale = (1 - v) * math.log(2) - d / 2 * math.log(4 * math.pi) - gammaln(shape)
    if d > 1:  # times the surface of the unit sphere in R^(d - 1), around the axis
        log_scale += math.log(2) + (d - 1) / 2 * math.log(math.pi) - gammaln((d - 1) / 2)
    corners = loss(t[:, None], rho)[1][..., None, None]
    error = _SLACK * (v + 1) * min(eps, 1.0) + 1e-15 * (v + 1)
    belts = max(len(rho) - 1, 1)
    high, low = corners[:-1, :belts] + error, np.maximum(corners[1:, -belts:] - error, 0.0)
    gap = high - low
    flat = gap < 1e3 * error  # the gap may be a rounding error, so all mass goes to the larger loss

    masses = []
    for order in (3, 4):
        at_t, weight_t = _nodes(t, order)
        at_rho, weight_rho = _nodes(rho, order) if d > 1 else (rho[:, None], np.ones((1, 1)))
        log_p, at = loss(at_t[:, None, :, None], at_rho[None, :, None, :])
        with np.errstate(divide="ignore", under="ignore"):
            log_p = log_p + log_scale + ((d - 2) * np.log(at_rho[None, :, None, :]) if d > 1 else 0.0)
            density = np.exp(np.maximum(log_p, FADED)) * (1 + _SLACK)
            p = density * weight_t[:, None, :, None] * weight_rho[None, :, None, :]
            q = p * np.exp(-at)
        up = np.where(flat, 1.0, np.clip(np.expm1(low - at) / np.expm1(-gap), 0.0, 1.0))
        down = np.where(flat, 1.0, np.clip(np.expm1(at - high) / np.expm1(-gap), 0.0, 1.0))
        masses.append([np.sum(part, axis=(2, 3)) for part in (p * up, p * (1 - up), q * down, q * (1 - down))])
    rough, fine = masses
    parts = [a + np.abs(a - b) for a, b in zip(fine, rough, strict=True)]
    missing = max(1.0 - float(sum(part.sum() for part in fine)), 0.0)
    at = np.concatenate([x.ravel() for x in (high, low, -low, -high)] + [np.array([eps])])
    mass = np.concatenate([x.ravel() for x in parts] + [np.array([missing + 1e-15])])
    ascending = np.argsort(at)
    return Losses(np.minimum(at[ascending], eps), mass[ascending])


def _edges(eps: float, parties: int, d: int) -> tuple[Array, Array]:
    """Return the edges of a grid in cylinder coordinates t and rho, with t along the difference of neighbours' sums."""
    shape = parties * (d + 1) / 2
    theta = np.linspace(0.01, 0.99, 99)
    far = float(np.min((_FAR - shape * np.log1p(-(theta**2))) / theta))  # Chernoff
    near = 1e-3 * min(eps, 1.0)
    outward = np.geomspace(near, far, math.ceil(math.log(far / near) / math.log(_RATIO)))
    inward = outward[outward < eps / 2 * 0.99]
    t = np.concatenate([-eps / 2 - outward[::-1], [-eps / 2], -eps / 2 + inward, [0.0]])
    if d == 1:
        return t, np.zeros(1)
    # rho^2 ~ 2 Gamma(shape) chi^2, with d - 1 degrees of freedom; the bound is valid for any choice of edges
    freedom = (d - 1) / 2
    highest = 2 * math.sqrt(gammainccinv(shape, 1e-17) * gammainccinv(freedom, 1e-17))
    lowest = 2 * math.sqrt(gammaincinv(shape, 1e-6) * gammaincinv(freedom, 1e-6))
    return t, np.concatenate([[0.0], np.geomspace(lowest, highest, _BELTS)])


def _nodes(edges: Array, order: int) -> tuple[Array, Array]:
    nodes, weights = leggauss(order)
    half = np.diff(edges)[:, None] / 2
    return edges[:-1, None] + half * (1 + nodes), half * weights


def _log_profile(v: float, r: Array) -> Array:
    """Return ``log(r^v K_v(r)) + r`` without overflow, for Bessel functions K_v with v = 1/2, 1, 3/2, ..."""
    blocks = np.array_split(r.ravel(), math.ceil(r.size / _BLOCK))
    return np.concatenate([_log_profile_of(v, block) for block in blocks]).reshape(r.shape)


def _log_profile_of(v: float, r: Array) -> Array:
    """Return ``log(r^v K_v(r)) + r``, K_v Bessel, for a short array r; the recursion adds only positive terms."""
    if v % 1:
        total, ratio, order = np.full_like(r, math.log(math.pi / 2) / 2), r + 1, 0.5
    else:
        tiny = np.maximum(r, 1e-150)
        first = tiny * k1e(tiny)
        total, order = np.log(first), 1.0
        ratio = 2 + tiny**2 * k0e(tiny) / first
    product, square = np.ones_like(r), r**2
    while order < v:
        product *= ratio
        order += 1
        if order % 8 < 1:
            total, product = total + np.log(product), np.ones_like(r)
        np.divide(square, ratio, out=ratio)
        ratio += 2 * order
    return np.asarray(total + np.log(product))
