r"""Privacy of approximate minima perturbation, replacing one row of norm at most 1: a release of what a solver returns.

Released is ``v + z`` with z ~ N(0, s^2 I), where v is any point at which the gradient of the perturbed objective
``sum_i loss_i(w) + R/2 ||w||^2 + b'w``, b ~ N(0, sigma^2 I), is at most g long. Which point that is may depend on the
rows, on b, and on whatever else a solver looks at.

*Two releases.* Let w be the exact minimiser. The objective is R-strongly convex, so that ``||v - w|| <= g/R``. To
release v + z alone is post-processing of releasing w and v + z. Given w, v + z is a Gaussian release whose mean lies in
the ball of radius g/R around w with either of two neighbours: it is mu-GDP with ``mu = 2 g/(R s)``. The curve of w is
that of `objective_perturbation`. (v itself is the exact minimiser for the linear term b - r, r the gradient that is
left. That is no proof: r depends on the rows.)

*Composition.* With the densities p, p' of w, and f_w, f'_w of v + z given w, the hockey-stick divergence of both is the
mean over p of that of f_w and f'_w at ``t - log(p/p')``. None is larger than that of N(mu, 1) and N(0, 1), as an
independent release of which it may be written, the other way round, as

    H_t <= E H_(t - L)(w, w'),    L ~ N(mu^2/2, mu^2) the loss of N(mu, 1) against N(0, 1).

(At u < 0, ``H_u(P, Q) = 1 - e^u + e^u H_-u(Q, P)``.) Two bounds, of which `eps_of` takes the better one, with m =
2/sigma, d_m the curve of m-GDP, and a share `REST` of delta for what is beside the first term of each:

1. *As one Gaussian.* H_u is at most d_m(u) but for ``1/sigma^2 < |u| < paid`` (`objective_perturbation.paid`), and
   there at most d_m(1/sigma^2) more, for it falls with u. The mean of d_m(t - L) is that of two Gaussian releases. So
   ``H_t <= d_M(t) + d_m(1/sigma^2) Pr[1/sigma^2 < |t - L| < paid]``, ``M^2 = m^2 + mu^2``.
2. *Apart.* ``H_t <= H_(t - c)(w, w') + d_mu(c)`` for every c <= t, the composition of two (eps, delta).

Iyengar et al. 2019 compose the two as (eps, delta), and count g/R where a row may move v - w by twice that.
"""

import math

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpml.privacy import gdp
from dpml.privacy.proofs import objective_perturbation as objective
from dpml.privacy.safe import down, up

REST = 1e-3  # of delta
_ROUNDING = 1e-9  # of the logarithm of the excess, which is below 1000


def eps_of(sigma: float, ridge: float, mu: float, delta: float) -> float:
    """The least eps that is proven at `delta`; inf without noise or without a ridge.

    Args:
        sigma: the standard deviation of b.
        ridge: R.
        mu: 2 g/(R s), of the release of v beside w.
        delta: in (0, 1).
    """
    if sigma == 0 or ridge == 0 or math.isinf(mu):
        return math.inf
    most, rest = down((1 - REST) * delta), down(REST * delta)
    apart = up(objective.eps_of(sigma, ridge, most) + gdp.eps_of(mu, rest))
    whole = gdp.eps_of(up(math.hypot(2 / sigma, mu)), most)
    return min(apart, whole) if _log_excess(whole, sigma, ridge, mu) + _ROUNDING <= math.log(rest) else apart


def free_ridge(eps: float, sigma: float, mu: float, delta: float) -> float:
    """An R with which the release is as private as one Gaussian release at this eps, close to the least one."""
    precision = 1 / sigma / sigma
    # where the curvature is paid: so far below eps that L hardly ever reaches it, or everywhere
    reach = mu * mu / 2 - mu * float(ndtri_exp(math.log(REST * delta)))  # L is above it with probability REST delta
    paid = max(eps * (1 - 1e-6) - reach, precision)
    return 2 / (paid + 2 * precision) * (1 + 1e-12)


def _log_excess(eps: float, sigma: float, ridge: float, mu: float) -> float:
    """log of an upper bound on the first bound's second term, that beside d_M(eps)."""
    precision, paid = 1 / sigma / sigma, objective.paid(sigma, ridge)
    if paid <= precision:
        return -math.inf
    middle = eps - mu * mu / 2  # of eps - L, a normal variable of standard deviation mu
    low = float(log_ndtr((paid - middle) / mu))
    high = float(np.logaddexp(log_ndtr((middle - precision) / mu), log_ndtr(-(middle + precision) / mu)))
    return gdp.log_delta_of(2 / sigma, precision) + min(low, high)
