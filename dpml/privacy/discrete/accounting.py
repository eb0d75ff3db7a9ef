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

from dpml.errors import UserError

REST = 1e-25
"""Above the 54 d h e^(-2 pi^2 r^2) by which mu exceeds that of the continuous Gaussian."""

_RING = 64  # bits of the secure sum's ring


def smoothing(honest: int, coordinates: int) -> Fraction:
    """r^2 such that ``2 pi^2 r^2 >= 64 + log(honest * coordinates)``: as 13/4 and 1/28 a binary digit are enough."""
    return Fraction(13, 4) + Fraction((honest * coordinates).bit_length(), 28)


def continuous_variance(variance: Fraction, honest: int, coordinates: int) -> Fraction:
    """The variance of a continuous Gaussian release with at most this guarantee, up to `REST` in mu.

    For releases whose coordinates have noise of different variances: mu of the continuous release with these in their
    place, plus `REST` once. `coordinates` is the number of all of them.

    Args:
        variance: of one party's noise in every coordinate, in squared steps of the grid.
        honest: parties whose noise the observer does not know.
        coordinates: d, of the vector that is summed.
    """
    rough = smoothing(honest, coordinates)
    if variance < 2 * rough:
        raise UserError(
            f"discrete noise needs a standard deviation of at least {math.sqrt(2 * rough):.2f} steps of the grid for "
            f"each party, got {math.sqrt(variance):.3g}: use more fractional bits."
        )
    return honest * Fraction(variance) - rough


def mu_of(squared_shift: int | Fraction, variance: Fraction, honest: int, coordinates: int) -> float:
    """The mu of a sum whose integers move by at most sqrt(`squared_shift`) between neighbours, rounded up.

    Other arguments and errors: `continuous_variance`.
    """
    ratio = Fraction(squared_shift) / continuous_variance(variance, honest, coordinates)
    # a root, a sum and the conversion: less than four units of rounding
    return math.sqrt(ratio) * (1 + 2**-50) + REST


def least_variance(mu: float, squared_shift: int | Fraction, honest: int, coordinates: int) -> Fraction:
    """The least whole variance of each party's noise for which `mu_of` is at most `mu`, to a few parts in 2^50.

    For a large `mu` that is the least with which `continuous_variance` can do.
    """
    if not 1e-20 < mu < math.inf:
        raise UserError(f"discrete noise needs a mu above 1e-20 and below infinity, got mu={mu}.")
    rough = smoothing(honest, coordinates)
    needed = Fraction(squared_shift) / Fraction((mu - REST) * (1 - 2**-49)) ** 2 + rough
    return Fraction(math.ceil(max(needed / honest, 2 * rough)))


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
