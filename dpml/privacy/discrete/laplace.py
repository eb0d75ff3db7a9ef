"""The discrete Laplace law, ``Pr[x] ~ e^(-|x|/scale)`` on the integers, sampled exactly: pure eps-DP on a grid.

It is the two-sided geometric law (Ghosh, Roughgarden & Sundararajan 2009): a vector of integers with L1 sensitivity D
and such noise in every entry is (D/scale)-DP exactly. This sampler is made for arrays (`sampler`): blocks are ``t =
2^b`` integers with ``scale/t`` in [32, 64) (or b = 0), so that v is geometric, and ``gamma = u/scale``.
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

_LARGEST = 56  # log2 of the scale: beyond, samples might not fit into 64 bits

_geometric = lru_cache(maxsize=64)(bounds.geometric)


@dataclass(frozen=True)
class DiscreteLaplace(BlockSampler):
    """Noise of the law ``Pr[x] ~ e^(-|x|/scale)`` for integers x; its variance is below ``2 scale^2``.

    Args:
        scale: in steps of the grid, a positive rational number below 2^56.

    >>> DiscreteLaplace(Fraction(137, 10)).sample((2, 3), np.random.default_rng(1).bytes).shape
    (2, 3)
    """

    scale: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.scale < 1 << _LARGEST:
            raise UserError(
                f"discrete noise needs a scale above 0 and below 2^{_LARGEST}, in steps of the grid, got "
                f"{float(self.scale):g}: choose other fractional bits."
            )
        object.__setattr__(self, "scale", Fraction(self.scale))  # an int, divided, would become a float

    @property
    def block_bits(self) -> int:
        """b: the largest whole number >= 0 with ``32 * 2^b <= scale``."""
        return max((int(self.scale) >> 5).bit_length() - 1, 0)

    def _cumulative(self, bits: int) -> bounds.Bounds:
        return _geometric((1 << self.block_bits) / self.scale, bits)

    def _gamma(self, v: int, u: int) -> Fraction:
        return u / self.scale

    def _near_gamma(self, v: Integers, u: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Bound gamma as `BlockSampler` requires.

        With f = u/t and k = t/scale <= 2^-5, ``gamma = k f``. All steps round down: f by 2^-24, which lowers gamma by
        2^-29; k by 2^-40; gamma by 2^-30. No product exceeds 2^59, and gamma is below 2^-5.
        """
        b = self.block_bits
        f = u >> b - FRACTION if b > FRACTION else u << FRACTION - b
        k = (1 << b + 40) * self.scale.denominator // self.scale.numerator
        return f * k >> FRACTION + 40 - UNIT, np.ones(len(u), dtype=bool)
