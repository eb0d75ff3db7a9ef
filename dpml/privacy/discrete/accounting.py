"""What a sum of integers with discrete Gaussian noise guarantees, as Gaussian differential privacy (GDP).

``honest`` parties each add noise N_Z(0, variance) to their integers. An observer of the sum who knows all other noise
sees integers plus the noise of the honest ones. *Theorem.* With ``r^2 = smoothing(...)``, a variance of at least 2 r^2
and an integer shift of squared length D2, that view is mu-GDP with

    mu = sqrt(D2 / (honest * variance - r^2)) + 1e-25.

The view is nearly a continuous Gaussian of variance ``honest * variance - r^2`` whose numbers are rounded at random
with N_Z-weights of variance r^2; the 1e-25 bounds the difference. The proof, with all constants:
docs/privacy/discrete_noise.md. There is no additive delta and no condition on eps, so it composes as all GDP does.
"""

import math
from fractions import Fraction

REST = 1e-25
"""Above the 54 d h e^(-2 pi^2 r^2) by which mu exceeds that of the continuous Gaussian."""

_RING = 64  # bits of the secure sum's ring


def smoothing(honest: int, coordinates: int) -> Fraction:
    """r^2 such that ``2 pi^2 r^2 >= 64 + log(honest * coordinates)``: as 13/4 and 1/28 a binary digit are enough."""
    return Fraction(13, 4) + Fraction((honest * coordinates).bit_length(), 28)


def wrap_probability(bound: int, variance: Fraction, parties: int, coordinates: int) -> float:
    """A bound on the probability that a coordinate of the noisy sum leaves [-2^63, 2^63) and wraps round modulo 2^64.

    That costs accuracy, not privacy: the remainder is post-processing of the sum. N_Z(0, s^2) is sub-Gaussian, ``E
    e^(tx) <= e^(t^2 s^2/2)``, because ``sum_k e^(-(k - c)^2/2 s^2)`` is largest at c = 0. So are sums.

    Args:
        bound: on the size of every coordinate of the sum without noise.
        variance: of one party's noise.
        parties: all that add noise.
        coordinates: of the vector.
    """
    room = (1 << _RING - 1) - bound
    if room <= 0:
        return 1.0
    return min(2 * coordinates * math.exp(-float(Fraction(room**2) / (2 * parties * variance))), 1.0)
