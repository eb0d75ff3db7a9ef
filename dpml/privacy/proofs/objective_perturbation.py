"""Privacy of Gaussian objective perturbation for logistic regression, replacing one row: the whole (eps, delta) curve.

Released is the minimiser of ``sum_i log(1 + exp(-y_i x_i'w)) + R/2 ||w||^2 + b'w``, b ~ N(0, sigma^2 I), rows of norm
at most 1, any number of them in any dimension, R > 0. Write u = y x and s = 1/(1 + exp(u'w)), so that the row's
gradient is -s u and its curvature s (1 - s); mu = 1/sigma; ``d_mu`` is the curve of mu-GDP.

*Removing a row.* Change of variables w -> b gives the privacy loss of "with u" against "without u" at w as

    L = (s A + s^2 ||u||^2 / 2) / sigma^2 + log(1 + s (1 - s) q),  A = -u'b ~ N(0, sigma^2 ||u||^2), q <= ||u||^2 / R.

With ||u|| = 1 (the worst; a shorter row is one of norm 1 with a smaller s), ``log(1 + x) <= x``, e = (A + 1/2)/sigma^2
and ``rho = max(0, 1/R - 1/(2 sigma^2))`` that is at most ``e + (1 - s)(s rho - e)``: curvature counts only where s < 1,
where the gradient is smaller. Over s in [0, 1] this is e where e >= rho, and ``(rho + e)^2 / (4 rho)`` for -rho < e <
rho. So ``L > t`` needs e > t when t >= rho, and else ``e > 2 sqrt(rho t) - rho``, above which L exceeds e by at most
the difference. The loss e is that of a Gaussian mechanism with sensitivity 1: the curve is at most ``d_mu(m(t))``,
`_effective`.

*Adding a row* has no curvature to pay for: the curve is at most d_mu(t) for t >= 0. For any two laws, and so for the
two Gaussians, ``H_t(P, Q) = 1 - e^t + e^t H_-t(Q, P)``: the curve of removing a row is at most d_mu(t) for t <= 0, and
that for t > 0 never above its value at 0.

*Replacing* = adding u', then removing u, and H_(s+t)(P, Q) <= H_s(P, O) + e^s H_t(O, Q) for every O. With s, t =
(eps -+ mu^2)/2 and both curves Gaussian that is exactly ``d_2mu(eps)``: the Gaussian mechanism of sensitivity 2, whose
direction is fixed and whose Jacobian is one. It holds for ``eps <= 1/sigma^2``, where s <= 0 and the row is removed
first, and for ``eps >= 2/R - 2/sigma^2``; between the two, `delta_of` takes the best s. Chaudhuri et al. 2011 and
Rajkumar & Agarwal 2012 pay a factor ``1 + 1/(4R)`` (or its square) for the Jacobian and bound ||b|| in d dimensions.
"""

import math
from functools import lru_cache

import numpy as np

from dpml.privacy import gdp

SMOOTHNESS = 0.25
_SPLITS = 33


def paid(sigma: float, ridge: float) -> float:
    """The eps from which on the curvature of the loss costs nothing: ``2/R - 2/sigma^2``, R = `ridge`."""
    return 2 / ridge - 2 / sigma**2


def delta_of(eps: float, sigma: float, ridge: float) -> float:
    """An upper bound on delta at eps >= 0. `ridge` is R, N times the coefficient of ||w||^2 / 2 beside a mean loss."""
    mu = 1 / sigma
    if eps <= mu**2 or eps >= paid(sigma, ridge):
        return math.exp(gdp.log_delta_of(2 * mu, eps))
    # delta never rises with eps, and any split of eps is a proof
    least = math.exp(gdp.log_delta_of(2 * mu, mu**2))
    rho = 1 / ridge - mu**2 / 2
    best = eps / 2 + mu**2 / 2
    for t in (*np.linspace(best, eps, _SPLITS), min(eps, rho)):
        added, removed = _gaussian(mu, eps - t), _gaussian(mu, _effective(float(t), rho, ridge))
        least = min(least, added + math.exp(eps - t) * removed)
    return least


def _effective(t: float, rho: float, ridge: float) -> float:
    """m(t) <= t: removing a row has the curve d_mu(m(t)) at most. The second bound is the whole Jacobian's price."""
    without = t if t >= rho else 2 * math.sqrt(rho * t) - rho
    return max(0.0, without, t - math.log1p(SMOOTHNESS / ridge))


def _gaussian(mu: float, eps: float) -> float:
    return math.exp(gdp.log_delta_of(mu, max(eps, 0.0)))


@lru_cache(maxsize=1 << 12)
def eps_of(sigma: float, ridge: float, delta: float) -> float:
    """The least eps that is proven at `delta`; inf without noise or without a ridge."""
    if sigma == 0 or ridge == 0:
        return math.inf
    low = gdp.eps_of(2 / sigma, delta)
    high = paid(sigma, ridge)
    if low <= 1 / sigma**2 or low >= high:
        return low
    for _ in range(50):  # delta_of(high) <= delta all the way
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle, sigma, ridge) <= delta else (middle, high)
    return high
