"""Compute the eps and delta of objective perturbation with Gaussian or L2-Laplace noise.

The release is the minimiser of ``sum_i log(1 + exp(shift - y_i x_i'w)) + R/2 ||w||^2 + b'w`` with a random b and R > 0.
The proof for Gaussian b is in docs/privacy/rajkumar2012.md, Theorems 1 and 2, and docs/privacy/perturbed_minima.md,
Theorem 1; for L2-Laplace b, in docs/privacy/imtiaz2019.md, Theorem 5.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
from scipy.optimize import brentq

from dpml.arrays import Array
from dpml.privacy import gdp, pld
from dpml.privacy.safe import ROUNDING, round_down, round_up, with_slack

SMOOTHNESS = 0.25  # the largest second derivative s (1 - s) of the logistic loss
_CELLS = 256  # intervals of s in `_log_price`, whose upper sum is 1 % above the integral for delta >= 1e-8
_SPLITS = 13  # splits of eps that each round of the search compares
_ROUNDS = 5
_POINTS = 1 << 10  # points of a curve; chords bound the curve between them
_PAID_POINTS = 32  # points from 1/sigma^2 to `paid`, where the loss's curvature raises delta
_NEGLIGIBLE = 40.0  # the integral over s omits at most e^-40 of the noise's own delta


def paid(sigma: float, ridge: float) -> float:
    """Return ``2/ridge - 2/sigma^2``, rounded up; from this eps on, delta is that of the noise alone (2/sigma-GDP)."""
    return round_up(2 / ridge) - round_down(2 / sigma / sigma)


def _paid_removal(sigma: float, ridge: float) -> float:
    """Return ``1/ridge - 1/(2 sigma^2)``, rounded up; for larger eps, removing a row has the delta of 1/sigma-GDP."""
    return round_up(1 / ridge) - round_down(1 / sigma / sigma) / 2


def free_ridge(eps: float, sigma: float) -> float:
    """Return the least ridge >= 0 at which the proven delta at `eps` is that of the noise alone (2/sigma-GDP)."""
    precision = 1 / sigma / sigma
    return 0.0 if eps <= precision else 2 / (eps + 2 * precision) * (1 + 1e-9)  # so `paid` <= eps, despite rounding


def delta_of(eps: float, sigma: float, ridge: float) -> float:
    """Return an upper bound on the delta of Gaussian objective perturbation at eps >= 0."""
    return math.exp(log_delta_of(eps, sigma, ridge))


def log_delta_of(eps: float, sigma: float, ridge: float) -> float:
    """Return the log of an upper bound on the delta of Gaussian objective perturbation at eps >= 0."""
    mu, precision = round_up(1 / sigma), round_down(1 / sigma / sigma)
    if eps <= precision or eps >= paid(sigma, ridge):
        return gdp.log_delta_of(2 * mu, eps)
    # delta decreases in eps; a replaced row is removed and added, and every split of eps between both gives a bound
    least = gdp.log_delta_of(2 * mu, precision)
    rho = _paid_removal(sigma, ridge)
    low, high = 0.0, eps
    for _ in range(_ROUNDS):
        t = np.append(np.linspace(low, high, _SPLITS), min(eps, max(rho, 0.0)))  # the parts of eps for removing a row
        removed = log_removal(t, sigma, ridge)
        added = np.array([gdp.log_delta_of(mu, max(eps - part, 0.0)) for part in t])
        totals = np.minimum(np.logaddexp(removed, t + added), np.logaddexp(added, eps - t + removed))
        totals += ROUNDING * (eps + np.abs(totals))
        best = int(np.argmin(totals))
        least = min(least, float(totals[best]))
        step = (high - low) / (_SPLITS - 1)
        low, high = max(0.0, float(t[best]) - step), min(eps, float(t[best]) + step)
    return least


def log_removal(t: Array, sigma: float, ridge: float) -> Array:
    """Return log bounds on hockey-stick divergences H_t(P || Q), t = eps; outputs have law P with a row, Q without."""
    mu = round_up(1 / sigma)
    plain = np.array([gdp.log_delta_of(mu, part) for part in t])
    paying = (t > 0) & (t < _paid_removal(sigma, ridge))
    if paying.any():
        total = np.logaddexp(plain[paying], _log_price(t[paying], plain[paying], sigma, ridge))
        plain[paying] = np.minimum(total, gdp.log_delta_of(mu, 0.0))  # never above its value at 0
    return plain


@np.errstate(divide="ignore", over="ignore", invalid="raise")
def _log_price(t: Array, plain: Array, sigma: float, ridge: float) -> Array:
    """Return the log of a bound on how much the loss's curvature raises the delta, at eps t, of removing a row.

    The increase is ``int (M_s - phi(a_s)) ds`` in docs/privacy/rajkumar2012.md, Theorem 1; `plain` is log int phi(a_s)
    ds. The bound is a sum over intervals of s. In each, M_s is at most its value at the right end with the interval's
    largest k_s, and phi(a_s) at least its value at the left end. log M_s is the maximum of a concave function of v =
    log((1 + k_s) p/q) in (0, log(1 + k_s)], which lies below its tangents. Lengths are in units of sigma.
    """
    # for s < low, M_s is below e^(plain - 40); for s > high, (1 - s) a_s <= R, so M_s = phi(a_s)
    reach = np.sqrt(2 * (_NEGLIGIBLE - plain))
    high = np.minimum(1 / (1 + ridge / t / sigma / sigma), sigma * np.sqrt(2 * t))
    low = np.minimum(t * sigma / (reach + sigma / ridge + np.sqrt(t / 2)), high)
    edges = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, _CELLS + 1)
    left, right = edges[:, :-1] / sigma, np.maximum(edges[:, 1:], np.finfo(float).tiny) / sigma
    middle = np.clip(0.5, edges[:, :-1], edges[:, 1:])
    k = middle * (1 - middle) / ridge
    most = np.log1p(k)
    base = (t[:, None] - most) / right - right / 2

    start = np.maximum(-base * right, 0.0)  # A = base + v / right is >= 0 for v >= start, and at most 1 larger at `end`
    end = np.minimum(start + right, most)
    following = end
    for _ in range(20):
        v = following
        grown, steep = np.expm1(v), (base + v / right) / right
        level = 1 - grown * steep  # concave in v, with the sign of `slope`: Newton's method lowers v to the root
        slope = level / grown
        rest = np.maximum(slope * (end - v), slope * (start - v))  # the tangent's largest increase on [start, end]
        if rest.max() < 1e-4:
            break
        step = level / (steep + grown * steep + grown / right / right)
        following = np.clip(v + step, np.maximum(start, v / 1024), end)  # a larger decrease is rounding error
    log_most = -((base + v / right) ** 2) / 2 + np.log(-np.expm1(-v)) + np.log1p(1 / k) + rest
    least = -(np.maximum(t[:, None] / left - left / 2, 0.0) ** 2) / 2
    ratio = np.minimum(least - log_most, 0.0)
    cells = log_most + np.log(-np.expm1(ratio)) + np.log((right - left) / math.sqrt(2 * math.pi))
    return np.logaddexp(np.logaddexp.reduce(cells, axis=1), plain - _NEGLIGIBLE)


@lru_cache(maxsize=1 << 8)
def losses(sigma: float, ridge: float) -> pld.Losses:
    """Return the privacy losses of objective perturbation with Gaussian noise, for composition."""
    low, high = 1 / sigma / sigma, max(paid(sigma, ridge), 1 / sigma / sigma)
    top = max(high, 2 / sigma * (1 / sigma + 12)) * 1.01  # 2/sigma-GDP loss: mean + 12 standard deviations
    plain = np.linspace(0.0, top, _POINTS)
    plain = plain[(plain <= low) | (plain >= high)]
    eps = np.unique(np.concatenate([plain, np.linspace(low, high, _PAID_POINTS)]))
    delta = np.exp([log_delta_of(float(each), sigma, ridge) for each in eps]) * (1 + 1e-9)
    # delta(-eps) = 1 - e^-eps + e^-eps delta(eps), because neighbours can be exchanged
    below = -eps[:0:-1]
    return pld.from_curve(
        np.concatenate([below, eps]), np.concatenate([-np.expm1(below) + np.exp(below) * delta[:0:-1], delta])
    )


@lru_cache(maxsize=1 << 12)
def eps_of(sigma: float, ridge: float, delta: float) -> float:
    """Return the least eps, rounded up, that is proven for Gaussian objective perturbation at `delta`, or inf."""
    if sigma == 0 or ridge == 0:
        return math.inf
    mu, precision = round_up(2 / sigma), round_down(1 / sigma / sigma)
    plain, log_delta = gdp.eps_of(mu, delta), math.log(delta) * (1 + ROUNDING)
    low, high = max(plain, precision), paid(sigma, ridge)
    if plain <= precision or plain >= high:
        return plain
    excess = cache(lambda eps: log_delta_of(eps, sigma, ridge) - log_delta)
    jacobian = math.log1p(SMOOTHNESS / ridge)
    if math.exp(-jacobian) * delta > 0:  # `near` is close to the root, which shortens the search
        near = round_up(jacobian + gdp.eps_of(mu, round_down(math.exp(-jacobian) * delta)))
        high = near if near < high and excess(near) <= 0 else high
    return min(high, _crossing(excess, low, high) * (1 + 1e-9))


@lru_cache(maxsize=1 << 12)
def sigma_of(eps: float, ridge: float, delta: float) -> float:
    """Return the least noise_std, rounded up, at which Gaussian objective perturbation is (eps, delta)-DP."""
    log_delta = math.log(delta) * (1 + ROUNDING)
    low = 2 / gdp.mu_of(eps, delta)  # the sigma of the Gaussian mechanism
    if ridge >= free_ridge(eps, low):
        return low
    growth = 1.01
    high = low * growth
    excess = cache(lambda sigma: log_delta_of(eps, sigma, ridge) - log_delta)
    while excess(high) > 0:
        growth *= growth
        low, high = high, high * growth
    return _crossing(excess, low, high) * (1 + 1e-7)


def _crossing(excess: Callable[[float], float], low: float, high: float) -> float:
    excess = cache(excess)
    if excess(low) <= 0:
        return low
    if excess(high) > 0:  # only by rounding errors
        return high
    bottom, top = math.log(low), math.log(high)
    ends = {bottom: low, top: high}
    root = math.exp(brentq(lambda x: excess(ends.get(x) or math.exp(x)), bottom, top, xtol=1e-9))
    step = 1e-10
    while root < high and excess(root) > 0:
        root *= 1 + step
        step *= 2
    return min(root, high)


def pure_eps_of(beta: float, ridge: float) -> float:
    """Return the eps (delta = 0) of objective perturbation with L2-Laplace noise, for the logistic loss."""
    if ridge == 0 or math.isinf(beta):
        return math.inf
    if round_down(beta * ridge) >= 1:
        return 2 * beta
    # the maximum of beta s + log(1 + s (1 - s)/R), a concave function of s
    root = math.hypot(2 - beta, 2 * math.sqrt(beta) * math.sqrt(1 + beta * ridge))
    s = 2 * (1 + beta * ridge) / (2 - beta + root) if beta < 2 else (beta - 2 + root) / (2 * beta)
    s = min(s, 1.0)
    return (beta + beta * s + math.log1p(s * (1 - s) / ridge)) * (1 + 1e-12)


def jacobian_eps_of(slope: float, curvature: float) -> float:
    """Return the eps (delta = 0) of objective perturbation with L2-Laplace noise, for the squared loss.

    `slope` is the noise's inverse scale beta times a bound on a row's gradient, and `curvature` is a bound c on a row's
    curvature divided by the ridge R: docs/privacy/imtiaz2019.md, Theorem 5.
    """
    return round_up(2 * slope + math.log1p(curvature))


def beta_of(eps: float, ridge: float) -> float:
    """Return the largest inverse noise scale beta for which pure `eps`-DP is proven; 0 if nothing is proven."""
    eps /= with_slack(with_slack(1.0))
    if ridge * eps >= 2:
        return eps / with_slack(2.0)
    if pure_eps_of(0.0, ridge) >= eps:
        return 0.0
    low, high = 0.0, eps / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if pure_eps_of(middle, ridge) <= eps else (low, middle)
    return low / with_slack(1.0)
