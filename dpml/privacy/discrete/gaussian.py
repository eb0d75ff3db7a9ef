"""The discrete Gaussian N_Z(0, variance), ``Pr[x] ~ e^(-x^2/2 variance)`` on the integers, sampled exactly.

The law is that of Canonne, Kamath & Steinke 2020. The algorithm is our own, for arrays (`sampler`): blocks are ``t =
2^b`` integers with ``sqrt(variance)/t`` in [32, 64) (or b = 0), and ``gamma = (x^2 - (t v)^2)/2 variance``.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpml.errors import UserError
from dpml.privacy.discrete import bounds
from dpml.privacy.discrete.rounding import Integers
from dpml.privacy.discrete.sampler import FRACTION, UNIT, BlockSampler

_LARGEST = 112  # log2 of the variance: beyond, samples might not fit into 64 bits
_FAR = 1 << 12  # the least v that `_near_gamma` does not cover

_cumulative = lru_cache(maxsize=64)(bounds.cumulative)


@dataclass(frozen=True)
class DiscreteGaussian(BlockSampler):
    """Noise of the law ``Pr[x] ~ e^(-x^2/2 variance)`` for integers x; its variance is at most `variance`.

    Args:
        variance: sigma^2, a positive rational number below 2^112.

    >>> DiscreteGaussian(Fraction(137, 10)).sample((2, 3), np.random.default_rng(1).bytes).shape
    (2, 3)
    """

    variance: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.variance < 1 << _LARGEST:
            raise UserError(
                f"discrete noise needs a variance above 0 and below 2^{_LARGEST}, in squared steps of the grid, got "
                f"{float(self.variance):g}: choose other fractional bits."
            )
        object.__setattr__(self, "variance", Fraction(self.variance))  # an int, divided, would become a float

    @property
    def block_bits(self) -> int:
        """b: the largest whole number >= 0 with ``32 * 2^b <= sqrt(variance)``."""
        return max((int(self.variance) >> 10).bit_length() - 1, 0) // 2

    def _cumulative(self, bits: int) -> bounds.Bounds:
        return _cumulative(self.variance / 4**self.block_bits, bits)

    def _gamma(self, v: int, u: int) -> Fraction:
        return u * ((v << self.block_bits + 1) + u) / (2 * self.variance)

    def _near_gamma(self, v: Integers, u: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Bound gamma as `BlockSampler` requires.

        With f = u/t and k = t^2/2 variance <= 2^-11, ``gamma = k f (2v + f)``. All steps round down: f by 2^-24, which
        lowers gamma by ``2^-24 k (2v + 2)`` < 2^-21.9 for v < 2^12; f (2v + f) by 2^-20, which lowers gamma by 2^-31;
        k by 2^-40, by ``2^-40 * 2^13``; gamma by 2^-30. No product exceeds 2^63. For v in the table gamma is below 1/3.
        """
        b = self.block_bits
        f = u >> b - FRACTION if b > FRACTION else u << FRACTION - b
        near = np.minimum(v, _FAR - 1)
        k = (4**b << 40) * self.variance.denominator // (2 * self.variance.numerator)
        product = f * ((near << FRACTION + 1) + f) >> 2 * FRACTION - 20
        gamma = product * k >> 60 - UNIT
        return gamma, (v < _FAR) & (gamma < 1 << UNIT - 1)
