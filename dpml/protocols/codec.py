"""Encode real vectors as integers modulo 2^64, because sums of integers are exact and uniform masks can hide them."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.protocols.messages import ProtocolError

Ring = NDArray[np.uint64]


@dataclass(frozen=True)
class FixedPoint:
    """Encode numbers in [-bound, bound] as multiples of 2^-bits, so that sums of `parties` numbers do not overflow.

    Each entry has an error below 2^-bits. Sums of encoded numbers are exact; `decode` rounds sums of more than 53 bits
    to floats.

    >>> codec = FixedPoint.fit(parties=1000, bound=1.0)
    >>> codec.bits, codec.error < 1e-12
    (53, True)
    """

    parties: int
    bound: float
    bits: int

    def __post_init__(self) -> None:
        if self.parties * (math.ceil(math.ldexp(self.bound, self.bits)) + 1) >= 2**63:
            raise ProtocolError(
                f"{self.parties} numbers of size {self.bound:g} in units of 2^-{self.bits} may not fit into 64 bits: "
                f"use fewer bits, or FixedPoint.fit."
            )

    @classmethod
    def fit(cls, parties: int, bound: float) -> "FixedPoint":
        """Return the most precise encoding of numbers in [-bound, bound] for sums of `parties` numbers."""
        # start the search slightly above the largest `bits` with bound * 2^bits <= 2^63 / parties - 2
        bits = min(1000, 64 - math.frexp(bound)[1] - math.frexp(parties)[1] + 1)
        while parties * (math.ceil(math.ldexp(bound, bits)) + 1) >= 2**63:
            bits -= 1
        return cls(parties, bound, bits)

    @property
    def error(self) -> float:
        """A bound on the error that fixed-point encoding causes in every entry of a sum over all parties."""
        return math.ldexp(self.parties, -self.bits)

    def encode(self, values: Array, rng: Generator) -> Ring:
        """Encode values of any shape as integers modulo 2^64, with unbiased random rounding; `rng` may be public."""
        if not np.abs(values).max(initial=0.0) <= self.bound:  # also true for NaN
            raise ProtocolError(
                f"a value is NaN or outside the range of the codec, [-{self.bound:g}, {self.bound:g}]: "
                f"raise the bound, or clip."  # the message must not contain the private value
            )
        scaled = np.ldexp(values, self.bits)  # exact, unless the result is subnormal
        whole = np.floor(scaled)
        whole += rng.random(scaled.shape) < scaled - whole
        return whole.astype(np.int64).view(np.uint64)

    def decode(self, total: Ring) -> Array:
        """Decode integers modulo 2^64, or the sum of at most `parties` such integers, to real numbers."""
        return np.ldexp(total.view(np.int64).astype(np.float64), -self.bits)
