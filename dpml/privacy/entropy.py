"""Noise that nobody can compute again, from a seed, from a state, or from what was drawn before: a release's.

NumPy's generators are made for speed and reproducibility. Who sees enough of what one of them has drawn may find its
state, and with it all else. Here every number of privacy noise is made from bytes of its own of the operating system's
generator, which is made to withstand that.
"""

import os
import secrets
from typing import Any

import numpy as np
from numpy.random import PCG64, BitGenerator, Generator
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from dpml.arrays import Array
from dpml.errors import UserError

LARGEST_NORMAL = 8.292361075813597
"""What `standard_normal` ends at: half of the least uniform number, 2^-53, is the probability of more."""

LEAST_DELTA = 1e-14
"""A neighbour that moves the mean has outcomes beyond that end, which reveal it for certain: the last value at either
side has probability 2^-53. With a smaller delta they would count; with this one, 90 numbers have as many."""

_DIGITS = 52  # binary digits of a uniform number: half a unit more has its place in double precision


class SystemGenerator(Generator):
    """A NumPy generator whose `bytes`, and every distribution that `privacy.noise` draws from, are the system's.

    A number is the inverse distribution function at a uniform number of 52 binary digits, in double precision: its law
    is that of the distribution, but for grains of 2^-52 in probability. What else is drawn, such as the order of
    rows, protects nobody, and comes from NumPy's generator, begun anew with 256 bits of the system's.
    """

    def __init__(self, bit_generator: BitGenerator | None = None) -> None:
        super().__init__(PCG64(secrets.randbits(256)) if bit_generator is None else bit_generator)

    def __reduce__(self) -> Any:
        return SystemGenerator, ()

    def bytes(self, length: int) -> bytes:
        """So many of them."""
        return os.urandom(length)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Uniform in (0, 1); of another type, or in place, no noise is drawn: NumPy's."""
        if dtype is not np.float64 or out is not None:
            return super().random(size, dtype, out)
        return _uniform(_words(size))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """N(0, 1): a magnitude from 52 digits, so that either tail is as fine, and a sign from another."""
        words = _words(size if out is None else out.shape)
        magnitudes = -ndtri(_uniform(words) / 2)
        drawn = np.where(words & np.uint64(1), magnitudes, -magnitudes).astype(dtype)
        if out is None:
            return drawn
        out[...] = drawn
        return out

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Of density ``exp(-|x - loc| / scale) / 2 scale``."""
        words = _words(size)
        magnitudes = -np.log(_uniform(words))
        return loc + scale * np.where(words & np.uint64(1), magnitudes, -magnitudes)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Of density ``exp(-x / scale) / scale``."""
        return scale * -np.log(_uniform(_words(size)))

    def standard_gamma(self, shape: Any, size: Any = None) -> Any:  # type: ignore[override]
        """Of density proportional to ``x^(shape - 1) exp(-x)``."""
        return gammaincinv(shape, _uniform(_words(size)))

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """The same, `scale` times as wide."""
        return scale * gammaincinv(shape, _uniform(_words(size)))


def check_tail(delta: float, exact: bool) -> None:
    """Raise UserError where floating-point noise ends before it can carry `delta`; exact noise has no end."""
    if 0 < delta < LEAST_DELTA and not exact:
        raise UserError(
            f"delta={delta:g} is smaller than the tails of floating-point noise, which end at "
            f"{LARGEST_NORMAL:.3f} standard deviations: choose delta >= {LEAST_DELTA:g}, or algo.noise=discrete where "
            "the algorithm has it."
        )


def _words(size: Any) -> NDArray[np.uint64]:
    """64 bits of the system's for every number of a shape."""
    shape = () if size is None else size
    return np.frombuffer(os.urandom(8 * int(np.prod(shape))), np.uint64).reshape(shape)


def _uniform(words: NDArray[np.uint64]) -> Array:
    """From the first digits of each word; the last bits are left for a sign."""
    uniform: Array = ((words >> np.uint64(64 - _DIGITS)).astype(float) + 0.5) * 2.0**-_DIGITS
    return uniform
