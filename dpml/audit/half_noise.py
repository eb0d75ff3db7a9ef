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

    variance_kept: ClassVar[Fraction] = Fraction(1, 4)

    def __reduce__(self) -> Any:
        return HalfNoise, (self.bit_generator,)

    def standard_normal(self, *arguments: Any, **keywords: Any) -> Any:
        return _half(super().standard_normal(*arguments, **keywords))

    def laplace(self, *arguments: Any, **keywords: Any) -> Any:
        return _half(super().laplace(*arguments, **keywords))

    def gamma(self, *arguments: Any, **keywords: Any) -> Any:
        return _half(super().gamma(*arguments, **keywords))

    def exponential(self, *arguments: Any, **keywords: Any) -> Any:
        return _half(super().exponential(*arguments, **keywords))


def _half(drawn: Array) -> Array:
    """Half of the numbers drawn, in their precision."""
    drawn /= 2
    return drawn
