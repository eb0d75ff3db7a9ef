"""The mu of a sum of integers with discrete Gaussian noise: docs/privacy/discrete_noise.md, Theorem 1.

``honest`` parties each add noise N_Z(0, variance) to their integers; the observer of the sum knows all other noise.
With ``r^2 = smoothing(...)``, a variance of at least 2 r^2 and an integer shift of squared length D2, the view is
mu-GDP with ``mu = sqrt(D2 / (honest * variance - r^2)) + REST``. There is no additive delta, so it composes as GDP.
"""

import math
from fractions import Fraction

REST = 1e-25
"""An upper bound on the excess of mu over that of the continuous Gaussian, 54 d h e^(-2 pi^2 r^2)."""

_RING = 64  # bits of the secure sum's ring


def smoothing(honest: int, coordinates: int) -> Fraction:
    """Return r^2 with ``2 pi^2 r^2 >= 64 + log(honest * coordinates)``: 13/4 and 1/28 for each binary digit."""
    return Fraction(13, 4) + Fraction((honest * coordinates).bit_length(), 28)


def wrap_probability(bound: int, variance: Fraction, parties: int, coordinates: int) -> float:
    """Bound the probability that a coordinate of the noisy sum leaves [-2^63, 2^63) and wraps around modulo 2^64.

    Wrapping costs accuracy, not privacy: it is post-processing of the sum. The bound: docs/privacy/discrete_noise.md,
    "The ring of the secure sum".

    Args:
        bound: on the size of every coordinate of the sum without noise.
        variance: of one party's noise.
        parties: the number of parties that add noise.
        coordinates: of the vector.
    """
    room = (1 << _RING - 1) - bound
    if room <= 0:
        return 1.0
    return min(2 * coordinates * math.exp(-float(Fraction(room**2) / (2 * parties * variance))), 1.0)
