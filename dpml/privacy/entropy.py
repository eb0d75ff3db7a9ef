"""Draw the noise of published releases from the operating system's random numbers, which nobody can predict."""

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
"""The largest output of `standard_normal`. A true N(0, 1) variable is larger with probability 2^-53."""

LEAST_DELTA = 1e-14
"""The smallest delta for which floating-point noise is allowed. This noise never exceeds `LARGEST_NORMAL`, so a larger
output, which has probability 2^-53 per number, would identify the data set. 1e-14 covers 90 numbers."""

_DIGITS = 52  # random binary digits of a uniform number; a 53rd digit, always 1, keeps it above 0


class SystemGenerator(Generator):
    """A NumPy generator whose bytes and noise come from the operating system's random numbers.

    Random choices that protect nobody, such as the order of rows, come from NumPy's generator with a new 256-bit seed.
    """

    def __init__(self, bit_generator: BitGenerator | None = None) -> None:
        super().__init__(PCG64(secrets.randbits(256)) if bit_generator is None else bit_generator)

    def __reduce__(self) -> Any:
        return SystemGenerator, ()

    def bytes(self, length: int) -> bytes:
        return os.urandom(length)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw uniform float64 numbers in (0, 1); NumPy serves other types and `out`, which noise never uses."""
        if dtype is not np.float64 or out is not None:
            return super().random(size, dtype, out)
        return _uniform(_words(size))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw N(0, 1) numbers from a magnitude and a separate sign, so that both tails are equally precise."""
        words = _words(size if out is None else out.shape)
        magnitudes = -ndtri(_uniform(words) / 2)
        drawn = np.where(words & np.uint64(1), magnitudes, -magnitudes).astype(dtype)
        if out is None:
            return drawn
        out[...] = drawn
        return out

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        words = _words(size)
        magnitudes = -np.log(_uniform(words))
        return loc + scale * np.where(words & np.uint64(1), magnitudes, -magnitudes)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        return scale * -np.log(_uniform(_words(size)))

    def standard_gamma(self, shape: Any, size: Any = None) -> Any:  # type: ignore[override]
        return gammaincinv(shape, _uniform(_words(size)))

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        return scale * gammaincinv(shape, _uniform(_words(size)))


def check_tail(delta: float, exact: bool) -> None:
    """Raise UserError if `delta` is too small for floating-point noise, unless the noise is `exact`."""
    if 0 < delta < LEAST_DELTA and not exact:
        raise UserError(
            f"delta={delta:g} is too small for floating-point noise, which never exceeds "
            f"{LARGEST_NORMAL:.3f} standard deviations: choose delta >= {LEAST_DELTA:g}, or algo.noise=discrete if "
            "the algorithm has this option."
        )


def _words(size: Any) -> NDArray[np.uint64]:
    shape = () if size is None else size
    return np.frombuffer(os.urandom(8 * int(np.prod(shape))), np.uint64).reshape(shape)


def _uniform(words: NDArray[np.uint64]) -> Array:
    """Return numbers in (0, 1) from the first 52 bits of each 64-bit word; the last bits remain free for a sign."""
    uniform: Array = ((words >> np.uint64(64 - _DIGITS)).astype(float) + 0.5) * 2.0**-_DIGITS
    return uniform
