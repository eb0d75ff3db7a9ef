"""Privacy of many rounds of noisy sums, each with fresh L2-Laplace noise, with or without a Gaussian that stays.

In every round each of h parties adds a vector of density proportional to exp(-beta ||rho||), beta = eps/2, to a sum
that moves by at most 2 when a row is replaced; eta ~ N(0, common^2 I) is drawn once and is in every round's sum. Four
proofs about T such rounds, the models of which may depend on the rounds before. The best one counts:

- *pure*: one party's rho alone makes a round eps-DP (optimal composition, `pld.pure`);
- *exact*: the privacy loss of one round's sum, composed T times (`laplace_sums`); for few parties and features;
- *scales*: h such vectors sum to a Gaussian of variance ``W = (2/beta^2) Gamma(h (d + 1)/2)``
  (`noise.l2_laplace_total`). W is independent of the data, so the proof may reveal it: a round is then a Gaussian
  release with ``mu^2 = 4/W`` of a random W that is seen. Revealing it costs a relative 1/shape of mu^2, which is
  negligible for the shapes beyond *exact*;
- *eta*: given all W_t and with eta, the rounds are mu-GDP with ``mu^2 = sum 1/W_t + 1/common^2``: as T rounds that move
  by 1 only and one Gaussian release of mu = 1/common.

delta is averaged over the W_t in the last two, because a mixture that is seen is composed like any release.

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

*Scales on a grid.* ``delta(eps; mu)`` is convex in ``y(mu) = erf(mu/sqrt(8))`` for every eps, because ``d delta/d mu =
phi(z)``, z = eps/mu - mu/2, has the logarithmic derivative ``z (eps/mu^2 + 1/2) >= -mu/4``, that of y'. So a mu between
two others may become both, with shares that keep y, and with shares as if y' fell at the rate of the upper end, which
gives that end more.
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

_EXACT_SHAPE = 64.0  # beyond, a sum is so nearly Gaussian that revealing its scale costs less than 1 % of mu^2
_EXACT_EPS = (1e-7, 100.0)
_TAIL = 1e-4  # the share of delta that goes to unlikely scales
_EDGES = 100
_SLACK = 1e-12  # relative error of a density


@lru_cache(maxsize=1 << 12)
def proven(rounds: int, eps: float, parties: int, d: int, common: float, delta: float) -> tuple[float, str]:
    """The least eps that is proven at `delta` for all `rounds` together, and the name of the proof.

    Args:
        rounds: T.
        eps: of one party's noise in one round; inf for none.
        parties: h, whose noise is in a sum.
        d: features.
        common: the standard deviation of eta, 0 for none.
        delta: in (0, 1).
    """
    plain = Accountant().spend(eps, times=rounds).eps(delta)
    bounds = [(plain, PURE)]
    shape = parties * (d + 1) / 2
    if plain in (0.0, math.inf) or eps > 16 * shape:  # so little noise that mu^2/2 of a round is above its eps
        return bounds[0]
    if shape <= _EXACT_SHAPE and _EXACT_EPS[0] <= eps <= _EXACT_EPS[1]:
        one = laplace_sums.losses(eps, parties, d)
        bounds.append((_composed([(one, rounds)], delta), EXACT))
    else:
        bounds.append((_composed([(_scales(2 * eps, shape, rounds, delta, plain), rounds)], delta), SCALES))
    # eta helps where 1/common^2 is below 3 S, give or take a factor
    if 6 * (common * eps) ** 2 * rounds > 8 * (shape - 1):
        parts = [(_scales(eps, shape, rounds, delta, plain), rounds), (pld.gaussian(1 / common), 1)]
        bounds.append((_composed(parts, delta), ETA))
    return min(bounds)


def _composed(parts: list[tuple[pld.Losses, int]], delta: float) -> float:
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0].eps(delta)
    return pld.compose(parts, delta=delta).eps(delta)


def _scales(moved: float, shape: float, rounds: int, delta: float, most: float) -> pld.Losses:
    """The loss of a round, a Gaussian release of ``mu = moved / sqrt(8 g)`` whose g ~ Gamma(shape) is seen.

    A loss above `most`, which is proven otherwise, and a g below one that has a probability of ``1e-4 delta / rounds``
    (Chernoff) count as an infinite loss.
    """
    unlikely = math.log(_TAIL * delta / rounds)
    # with u = log(g/shape), Pr[u below] and Pr[u above] are at most exp(-shape (e^u - 1 - u))
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
    mus, mu = (moved / np.sqrt(8 * shape * np.exp(at)) for at in (edges, u))
    high, low = mus[:-1, None], mus[1:, None]
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
    """``e^u - 1 - u`` without cancellation."""
    series = u * u / 2 * (1 + u / 3 * (1 + u / 4 * (1 + u / 5 * (1 + u / 6 * (1 + u / 7 * (1 + u / 8))))))
    return np.where(np.abs(u) < 1e-2, series, np.expm1(u) - u)
