"""The mu of a sum of integers with discrete Gaussian noise: docs/privacy/discrete_noise.md, Theorem 1.

``honest`` parties each add noise N_Z(0, variance) to their integers; the observer of the sum knows all other noise.
With ``r^2 = smoothing(...)``, a variance of at least 2 r^2 and an integer shift of squared length D2, the view is
mu-GDP with ``mu = sqrt(D2 / (honest * variance - r^2)) + 1e-25``. There is no additive delta, so it composes as GDP.
"""

import math
from fractions import Fraction

from dpml.errors import UserError

REST = 1e-25
"""An upper bound on the excess of mu over that of the continuous Gaussian, 54 d h e^(-2 pi^2 r^2)."""

_RING = 64  # bits of the secure sum's ring


def smoothing(honest: int, coordinates: int) -> Fraction:
    """Return r^2 with ``2 pi^2 r^2 >= 64 + log(honest * coordinates)``: 13/4 and 1/28 for each binary digit."""
    return Fraction(13, 4) + Fraction((honest * coordinates).bit_length(), 28)


def continuous_variance(variance: Fraction, honest: int, coordinates: int) -> Fraction:
    """Return the variance of a continuous Gaussian release with at most this guarantee, up to `REST` in mu.

    If coordinates have noise of different variances, mu is that of the continuous release with these variances, plus
    `REST` once. `coordinates` is the number of all of them.

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
    """Return the mu of a sum with an integer shift of at most sqrt(`squared_shift`) between neighbours, rounded up.

    Other arguments and errors: `continuous_variance`.
    """
    ratio = Fraction(squared_shift) / continuous_variance(variance, honest, coordinates)
    # a root, a sum and the conversion: less than four units of rounding
    return math.sqrt(ratio) * (1 + 2**-50) + REST


def least_variance(mu: float, squared_shift: int | Fraction, honest: int, coordinates: int) -> Fraction:
    """Return the least whole variance of each party's noise with a `mu_of` of at most `mu`, to a few parts in 2^50.

    For a large `mu` it is the least variance that `continuous_variance` accepts.
    """
    if not 1e-20 < mu < math.inf:
        raise UserError(f"discrete noise needs a mu above 1e-20 and below infinity, got mu={mu}.")
    rough = smoothing(honest, coordinates)
    needed = Fraction(squared_shift) / Fraction((mu - REST) * (1 - 2**-49)) ** 2 + rough
    return Fraction(math.ceil(max(needed / honest, 2 * rough)))


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
