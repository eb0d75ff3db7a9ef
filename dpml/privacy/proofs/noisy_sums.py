"""Privacy of many rounds of noisy sums, each with fresh L2-Laplace noise, with or without a Gaussian that stays.

In every round each of h parties adds a vector of density proportional to exp(-beta ||rho||), beta = eps/2, to a sum
that moves by at most 2 when a row is replaced; eta ~ N(0, common^2 I) is drawn once and is in every round's sum. What
is known about T such rounds, the models of which may depend on the rounds before:

- one party's rho alone makes a round eps-DP, so that all are T eps-DP; and by Azuma's inequality on a loss within +-eps
  of mean at most ``eps tanh(eps/2)`` they are ``(T eps tanh(eps/2) + eps sqrt(2 T log(1/delta)), delta)``-DP
  (Dwork, Rothblum & Vadhan 2010, with the mean of Kairouz, Oh & Viswanath 2015);
- h such vectors sum to a Gaussian of variance ``W = (2/beta^2) Gamma(h (d + 1)/2)`` (`noise.l2_laplace_total`). W has
  nothing to do with the data, so it may as well be shown: given the W_t, the rounds are mu-GDP with
  ``mu^2 <= 4 S, S = sum 1/W_t``, and S is above a number that we compute with a small probability only.

*What eta adds.* Given the W_t the noise of all rounds has the covariance ``C = diag(W) + common^2 11'`` in every
coordinate. The shifts are ``v_t = s_t' u' - s_t u`` for the rows u = y x and u', with slopes s in (0, 1) that the
round's model decides. With weights 1/W_t of sum S, ``r = common^2 S / (1 + common^2 S)``, and E the weighted mean,

    v' C^-1 v = S (E ||v||^2 - r ||E v||^2) <= S / r = S + 1/common^2,

for with c = (u' - u)/2, ``E ||v||^2 - r ||Ev||^2 <= max ||v - c||^2 - ||c||^2 + ||c||^2 / r``, where the maximum over
the parallelogram is ``||c||^2``, which leaves at most 1/r, or ``||u + u'||^2 / 4`` when that is more, which leaves at
most ``x + (1 - x)/2r <= 1/r`` with x = <u, u'> in [0, 1]. So eta halves mu in the long run, and no more is proven: rows
whose slopes alternate would cancel it. As v_t depends on the past only, so do the whitened shifts, and where their
squares sum to mu^2 the whitened loss is exactly Gaussian (exponential martingale; a sum that stays below is filled up
by one more round): mu-GDP.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import gammainccinv, gammaincinv, gammaln

from dpml.privacy import gdp

_TAIL = 0.01  # the share of delta that goes to an unlikely S
_NODES, _WEIGHTS = leggauss(400)


@lru_cache(maxsize=1 << 12)
def eps_of(rounds: int, eps: float, parties: int, d: int, common: float, delta: float) -> float:
    """The least eps that is proven at `delta` for all `rounds` together, each with noise of `parties` in R^d."""
    if math.isinf(eps):
        return math.inf
    azuma = rounds * eps * math.tanh(eps / 2) + eps * math.sqrt(2 * rounds * math.log(1 / delta))
    S = eps**2 / 8 * inverse_gamma_sum(parties * (d + 1) / 2, rounds, _TAIL * delta)
    squared = min(4 * S, S + 1 / common**2) if common else 4 * S
    return min(rounds * eps, azuma, gdp.eps_of(math.sqrt(squared), (1 - _TAIL) * delta))


def inverse_gamma_sum(shape: float, count: int, tail: float) -> float:
    """A number that the sum of `count` independent 1/Gamma(shape) variables exceeds with probability at most `tail`.

    Half of `tail` is for one of them to lie above its own quantile m; for the others Chernoff's bound on the sum of
    ``min(1/g, m)``, whose moments are finite, at the best of many exponents: each of them is a proof.
    """
    least = float(gammaincinv(shape, tail / (2 * count)))
    if least == 0:
        return math.inf
    most = float(gammainccinv(shape, 1e-18))
    # in log g, where the density is smooth
    low, high = math.log(least), math.log(max(most, 2 * least))
    log_g = low + (high - low) / 2 * (1 + _NODES)
    mass = np.exp(shape * log_g - np.exp(log_g) - gammaln(shape)) * _WEIGHTS * (high - low) / 2
    # what lies outside, and what quadrature misses, counts at its worst
    outside = 2e-18 + tail / (2 * count)
    typical = float(mass @ np.exp(-log_g))
    largest = 600 * least  # e^600 is a number
    exponents = np.geomspace(min(1e-3 / (typical * math.sqrt(count)), 1e-3 * largest), largest, 400)
    log_moment = np.log(np.exp(np.outer(exponents, np.exp(-log_g))) @ mass + outside * np.exp(exponents / least))
    return float(np.min((count * log_moment + math.log(2 / tail)) / exponents))
