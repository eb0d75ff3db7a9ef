"""How far apart the gradients of two rows can be at one model: all of them lie in one ball, of known radius.

The model w has the length L, rows have norm at most 1. What follows is about a row's part along w and its length across
w, in any dimension.

*Logistic loss*, gradients ``-s u`` with u = y x, s = sigma(-u'w). Write ``u = (a, -b)``, b against w, so that s =
sigma(t) with t = b L. Let b* be where ``sqrt(1 - b^2) sigma(b L)`` is largest, h the value there, s* and t* those of
b*, and k = b* s*. Then ``|s u - (0, -k)|^2 <= f(b) + k^2`` with ``f = s^2 - 2 k b s``, as a^2 + b^2 <= 1, and b* is
where f is largest, with the value h^2 - k^2:

    f' = 2 s g,    g = (1 - s)(L s - k t) - k,    and    b*/(1 - b*^2) = L (1 - s*)    makes g zero at b*.

That condition also says ``b*^2/(1 - b*^2) = t* (1 - sigma(t*)) <= W(1/e) = 0.2785`` (W is Lambert's), hence b* < 0.467,
and ``k = L (1 - b*^2) s* (1 - s*) <= L/4``. For t > 0, g falls: ``g' = (1 - s)(k (s t - 1) - L s (2s - 1))``, where
either s t <= 1, or t > 1.27 and ``k s t <= 0.467 L s < L s tanh(t/2)``. For t <= 0, g >= 0: with x = -t, k <= L/4 and
``tanh(x/2)^2 <= x/2 <= x sigma(x)``, that is ``4 s (1 - s) >= 1 - x sigma(x)``. So f rises up to b* and falls from
there: every ``s u`` lies within h of (0, -k), and two of them at most 2h apart. The rows (a, -b*) and (-a, -b*), a^2 +
b*^2 = 1, are 2h apart: for d >= 2 no bound is better. h rises with L, from 1/2 at w = 0 to 1.

*Squared loss*, gradients ``2 r x`` with x = (a, b), r = b L - y, |y| <= 1. ``|r x - (0, k)|^2 <= r^2 - 2 k r b + k^2``
is convex in r, so largest at an end; the two ends are the same points, as (x, y) and (-x, -y) have one gradient: r =
1 + b L. With b* where ``sqrt(1 - b^2) (1 + b L)`` is largest, k = b* (1 + b* L) makes ``r^2 - 2 k r b`` a quadratic in
b with its top at b*, because ``L (1 - 2 b*^2) = b*``. The radius for gradients is twice that largest value.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from dpml.arrays import Array

_HALVINGS = 36  # of [0, 1/2], which has b*; what is returned is an upper bound after any number
_UP = 1 + 1e-12  # so that rounding cannot make a radius too small


def logistic_radius(length: ArrayLike) -> Array:
    """The radius of a ball with the logistic gradients of all rows at models of these lengths (...,): (...,).

    Two gradients are at most twice that apart. From 1/2 to 1, and never less at a longer model.
    """
    length = np.asarray(length, dtype=float)
    low, high = np.zeros(length.shape), np.full(length.shape, 0.5)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rising = length * expit(-middle * length) > middle / (1 - middle**2)
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.minimum(np.sqrt(1 - low**2) * expit(high * length) * _UP, 1.0)


def squared_radius(length: ArrayLike) -> Array:
    """The same for the squared loss ``(x'w - y)^2``, labels in [-1, 1]: 2 at w = 0, about L + sqrt 2 far out."""
    length = np.asarray(length, dtype=float)
    b = 2 * length / (1 + np.sqrt(1 + 8 * length**2))
    radius: Array = 2 * np.sqrt(1 - b**2) * (1 + b * length) * _UP
    return radius
