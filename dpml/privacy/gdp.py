"""Convert between the mu of Gaussian differential privacy and (eps, delta), rounded to the safe side.

A Gaussian release is mu-GDP with mu = L2 sensitivity / noise_std (Dong, Roth & Su 2019, Thm 2.7).

>>> round(eps_of(mu=1.0, delta=1e-5), 4)
4.3772
>>> round(1 / mu_of(eps=1.0, delta=1e-5), 4)  # the least noise per unit of sensitivity for (1, 1e-5)
3.7306
>>> round(1 / classical_mu(eps=1.0, delta=1e-5), 4)  # the noise of the textbook mechanism
4.8448
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtri_exp

from dpml.privacy.safe import SPARE

_NODES, _WEIGHTS = leggauss(12)  # nodes ascend
_ROOT, _SQRT2 = math.sqrt(math.pi / 2), math.sqrt(2)
_LOG_ROOT = math.log(2 * math.pi) / 2
_ERROR = 2.0**-46
"""A bound on the relative error of Mills' ratio (2^-49, against 40 digits), and of sums and products with it."""


def log_delta_of(mu: float, eps: float) -> float:
    """Return the log of the least delta for which mu-GDP implies (eps, delta)-DP, rounded up, for eps >= 0.

    The curve is Theorem 8 of Balle & Wang 2018, rewritten to avoid cancellation. With ``z1 = eps/mu - mu/2``,
    ``z2 = eps/mu + mu/2`` and the decreasing Mills' ratio ``m(z) = Phi(-z)/phi(z)``, delta satisfies

        delta = phi(z1) (m(z1) - m(z2)),    1 - delta = phi(z1) (m(-z1) + m(z2)).

    For mu < 0.5, ``m(z1) - m(z2) = int_z1^z2 (1 - z m(z)) dz`` is integrated by Gauss's rule, with an error below
    1e-30. Otherwise, the second form is used for z1 < 0, where delta may be close to 1. z1 is rounded down and z2 up,
    because delta decreases in z1 and grows with z2 - z1.
    """
    if mu == 0:
        return -math.inf
    if math.isinf(mu):
        return 0.0
    z1 = math.nextafter(math.nextafter(eps / mu, 0.0) - mu / 2, -math.inf)
    if z1 < -30:
        return 0.0
    if z1 > 1e150:
        return -math.inf
    z2 = math.nextafter(z1 + mu, math.inf)
    log_phi = -z1 * z1 / 2 - _LOG_ROOT
    error = _ERROR * (1 + abs(log_phi))
    if mu < 0.5:
        z = (z1 + z2) / 2 + mu / 2 * _NODES
        # not log(mu / 2), because mu / 2 underflows to 0 for the smallest positive mu
        log_gap = math.log(mu) - math.log(2) + math.log(float(_WEIGHTS @ _mills_slope(z)))
        return log_phi + log_gap + error + _ERROR * abs(log_gap)
    if z1 < 0:
        return math.log1p(-math.exp(log_phi - error) * (_mills(-z1) + _mills(z2)))
    log_gap = math.log(_mills(z1) * (1 + _ERROR) - _mills(z2) * (1 - _ERROR))
    return log_phi + log_gap + error + _ERROR * abs(log_gap)


def _mills(z: float) -> float:
    return _ROOT * float(erfcx(z / _SQRT2))


def _mills_slope(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an upper bound on ``1 - z m(z)`` for ascending z, where m is Mills' ratio."""
    if z[-1] <= 1e3:
        return (1 + _ERROR) - z * _ROOT * erfcx(z / _SQRT2)
    far = z > 1e3
    near = np.where(far, 0.0, z)
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(far, 1 / z**2, (1 + _ERROR) - near * _ROOT * erfcx(near / _SQRT2))


@lru_cache(maxsize=1 << 12)
def eps_of(mu: float, delta: float) -> float:
    """Return the least eps for which mu-GDP implies (eps, delta)-DP, rounded up; inf for mu = inf."""
    _check(mu=mu, delta=delta)
    log_delta = _log_below(delta)
    if log_delta_of(mu, 0.0) <= log_delta:
        return 0.0
    # delta(eps) <= Phi(-eps/mu + mu/2), so the root is at most the eps at which this bound equals delta
    top = mu * max(mu / 2 - float(ndtri_exp(log_delta)), 0.0) * (1 + 1e-12) + 1e-9
    if math.isinf(top):
        return math.inf
    return _safe_root(lambda eps: log_delta_of(mu, eps) - log_delta, 0.0, top, up=True)


@lru_cache(maxsize=1 << 12)
def mu_of(eps: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP implies (eps, delta)-DP, rounded down; inf for eps = inf.

    ``sensitivity / mu`` is the noise_std of the analytic Gaussian mechanism (Balle & Wang 2018, Alg. 1).
    """
    _check(eps=eps, delta=delta)
    if math.isinf(eps):
        return math.inf
    log_delta = _log_below(delta)
    low, high = 0.0, 1.0
    while log_delta_of(high, eps) < log_delta:
        low, high = high, 2 * high
    mu = _safe_root(lambda mu: log_delta_of(mu, eps) - log_delta, low, high, up=False)
    while eps_of(mu * (1 - SPARE / 8), delta) > eps:
        mu *= 1 - SPARE
    return mu * (1 - SPARE)


def classical_mu(eps: float, delta: float) -> float:
    """Return the mu of the textbook's Gaussian mechanism, ``eps / sqrt(2 log(1.25/delta))``.

    The mechanism is (eps, delta)-DP for eps < 1 only (Dwork & Roth 2014, Thm A.1). For larger eps, use `eps_of`.
    """
    _check(eps=eps, delta=delta)
    return eps / math.sqrt(2 * math.log(1.25 / delta))


def correlated(covariance: NDArray[np.float64], shift: NDArray[np.float64]) -> float:
    """Return the mu of a Gaussian release with covariance S (k, k) whose mean shifts by v (k,) between neighbours.

    The mu is ``sqrt(v' S^-1 v)``, or inf if v has a part in a direction without noise.
    """
    variances, directions = np.linalg.eigh(covariance)
    along = directions.T @ shift
    silent = variances <= variances.max(initial=0.0) * len(variances) * np.finfo(float).eps * 8
    if np.any(np.abs(along[silent]) > 1e-9 * np.linalg.norm(shift)):
        return math.inf
    return math.sqrt(float(np.sum(along[~silent] ** 2 / variances[~silent])))


def _safe_root(f: Callable[[float], float], low: float, high: float, up: bool) -> float:
    """Return the root of f in [low, high], rounded to the side where f <= 0, so that privacy is never overstated."""
    root = float(brentq(f, low, high, xtol=1e-300, rtol=1e-14, maxiter=500))
    step = 1e-15
    while f(root) > 0:
        root *= 1 + step if up else 1 - step
        step *= 2
    return root


def _log_below(delta: float) -> float:
    return math.nextafter(math.log(delta), -math.inf)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not (0 < value < 1 if name == "delta" else value >= 0):
            raise ValueError(f"{name} must be {'in (0, 1)' if name == 'delta' else 'non-negative'}, got {value}.")
