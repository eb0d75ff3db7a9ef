"""The self-test of an audit: the same release with half of its noise, which an audit with power must call a bug."""

from fractions import Fraction
from typing import Any, ClassVar

from numpy.random import Generator

from dpml.arrays import Array


class HalfNoise(Generator):
    """A generator whose privacy noise is half as wide as it should be; every sampler of `privacy.noise` draws from it.

    Lengths and coordinates are halved. `standard_gamma` is the variance of a Gaussian, whose coordinates are halved.
    Noise on integers is drawn from bytes: `discrete_noise` multiplies its variance by `variance_kept`. Copies are of
    this class, too.
    """

    kept: ClassVar[float] = 0.5
    variance_kept: ClassVar[Fraction] = Fraction(1, 4)

    def __reduce__(self) -> Any:
        return type(self), (self.bit_generator,)

    def standard_normal(self, *arguments: Any, **keywords: Any) -> Any:
        return self._less(super().standard_normal(*arguments, **keywords))

    def laplace(self, *arguments: Any, **keywords: Any) -> Any:
        return self._less(super().laplace(*arguments, **keywords))

    def gamma(self, *arguments: Any, **keywords: Any) -> Any:
        return self._less(super().gamma(*arguments, **keywords))

    def exponential(self, *arguments: Any, **keywords: Any) -> Any:
        return self._less(super().exponential(*arguments, **keywords))

    def _less(self, drawn: Array) -> Array:
        """So much of the numbers drawn, in their precision."""
        drawn *= self.kept
        return drawn


class Quiet(HalfNoise):
    """A generator whose noise is nothing beside any sum; no real number of it is 0, so that vectors have directions.

    Bytes are zeros: of a discrete law they are the first digits of a uniform number, and give the integer 0.
    """

    kept = 2.0**-100
    variance_kept = Fraction(1)

    def bytes(self, length: int) -> bytes:
        return bytes(length)
