"""Random numbers of the operating system for the noise of releases: no seed or earlier output predicts them.

NumPy's generators are reproducible; an observer of enough output may find their state, and with it all other noise.
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
"""The largest output of `standard_normal`: larger numbers have probability 2^-53, half of the least uniform number."""

LEAST_DELTA = 1e-14
"""The least delta of floating-point noise. Outcomes beyond the largest output reveal a neighbour for certain; each has
probability 2^-53, and those of 90 numbers add up to this delta."""

_DIGITS = 52  # binary digits of a uniform number: a double also holds the half unit that is added


class SystemGenerator(Generator):
    """A NumPy generator whose `bytes`, and every distribution that `privacy.noise` draws from, are the system's.

    A number is the inverse distribution function at a uniform number of 52 binary digits, in double precision. Other
    random choices, such as the order of rows, protect nobody: they come from NumPy's generator with a new 256-bit seed.
    """

    def __init__(self, bit_generator: BitGenerator | None = None) -> None:
        super().__init__(PCG64(secrets.randbits(256)) if bit_generator is None else bit_generator)

    def __reduce__(self) -> Any:
        return SystemGenerator, ()

    def bytes(self, length: int) -> bytes:
        """Return random bytes of the operating system."""
        return os.urandom(length)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw uniform numbers in (0, 1). Other types, and output in place, are not used for noise: NumPy's."""
        if dtype is not np.float64 or out is not None:
            return super().random(size, dtype, out)
        return _uniform(_words(size))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw N(0, 1): a magnitude from 52 digits, so that both tails are equally fine, and a sign from another."""
        words = _words(size if out is None else out.shape)
        magnitudes = -ndtri(_uniform(words) / 2)
        drawn = np.where(words & np.uint64(1), magnitudes, -magnitudes).astype(dtype)
        if out is None:
            return drawn
        out[...] = drawn
        return out

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from the density ``exp(-|x - loc| / scale) / 2 scale``."""
        words = _words(size)
        magnitudes = -np.log(_uniform(words))
        return loc + scale * np.where(words & np.uint64(1), magnitudes, -magnitudes)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from the density ``exp(-x / scale) / scale``."""
        return scale * -np.log(_uniform(_words(size)))

    def standard_gamma(self, shape: Any, size: Any = None) -> Any:  # type: ignore[override]
        """Draw from the density proportional to ``x^(shape - 1) exp(-x)``."""
        return gammaincinv(shape, _uniform(_words(size)))

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from the same density, multiplied by `scale`."""
        return scale * gammaincinv(shape, _uniform(_words(size)))


def check_tail(delta: float, exact: bool) -> None:
    """Raise UserError if the tails of floating-point noise end before `delta`; exact noise has no end."""
    if 0 < delta < LEAST_DELTA and not exact:
        raise UserError(
            f"delta={delta:g} is smaller than the tails of floating-point noise, which end at "
            f"{LARGEST_NORMAL:.3f} standard deviations: choose delta >= {LEAST_DELTA:g}, or algo.noise=discrete where "
            "the algorithm has it."
        )


def _words(size: Any) -> NDArray[np.uint64]:
    shape = () if size is None else size
    return np.frombuffer(os.urandom(8 * int(np.prod(shape))), np.uint64).reshape(shape)


def _uniform(words: NDArray[np.uint64]) -> Array:
    """Return numbers in (0, 1) from the first digits of each word; the last bits are left for a sign."""
    uniform: Array = ((words >> np.uint64(64 - _DIGITS)).astype(float) + 0.5) * 2.0**-_DIGITS
    return uniform
