"""Round rows to integer vectors of bounded norm (docs/privacy/discrete_noise.md, Theorem 2)."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array, blocks
from dpml.errors import UserError

Integers = NDArray[np.int64]


def integer_radius(clip: float, bits: int) -> int:
    """Return the largest integer R with ``R 2^-bits <= clip``."""
    return math.floor(Fraction(clip) * 2**bits)


def to_integers(values: Array, bits: int, clip: float) -> Integers:
    """Round vectors (..., k) to integer vectors in units of 2^-bits, with norms of at most `clip`."""
    radius = integer_radius(clip, bits)
    if radius < 1 or values.shape[-1] * (radius + 1) ** 2 >= 1 << 62:
        raise UserError(
            f"vectors with {values.shape[-1]} entries and a norm of up to {clip:g} cannot be rounded to 64-bit "
            f"integers in steps of 2^-{bits}: choose another number of fractional bits."
        )
    if not np.isfinite(values).all():
        raise UserError("a value to be rounded is not a finite number.")  # the message must not reveal which row
    whole = np.empty(values.shape, np.int64)
    from_, to = values.reshape(-1, values.shape[-1]), whole.reshape(-1, values.shape[-1])
    for some in blocks(len(from_), values.shape[-1]):
        to[some] = _rounded(from_[some], bits, clip, radius)
    return whole


def _rounded(values: Array, bits: int, clip: float, radius: int) -> Integers:
    with np.errstate(over="ignore"):  # a vector of infinite length becomes 0
        length = np.linalg.norm(values, axis=-1, keepdims=True)
    inside = values * (clip / np.maximum(length, clip))
    whole = np.rint(np.clip(np.ldexp(inside, bits), -radius, radius)).astype(np.int64)
    squares = np.einsum("...j,...j->...", whole, whole)
    long = squares > radius * radius
    divisor = _root_above(squares[long])[:, None]
    whole[long] = np.sign(whole[long]) * (np.abs(whole[long]) * radius // divisor)
    return whole


def divide(total: Integers, count: int) -> Integers:
    """Return the exact ``total / count`` rounded to the nearest integer; entries of `total` must be below 2^61."""
    return (2 * total + count) // (2 * count)


def _root_above(squares: Integers) -> Integers:
    """Return the least integers whose squares are at least `squares`, which must be below 2^62."""
    root = np.maximum(np.sqrt(squares).astype(np.int64) - 1, 0)  # start below, as the float may be off by one
    for _ in range(3):
        root += root * root < squares
    return root


REST = 1e-25
"""A bound on the term that discrete noise adds to mu: docs/privacy/discrete_noise.md, Theorem 1."""


def smoothing(honest: int, coordinates: int) -> Fraction:
    """Return r^2, subtracted from honest parties' total noise variance (docs/privacy/discrete_noise.md, Theorem 1)."""
    return Fraction(13, 4) + Fraction((honest * coordinates).bit_length(), 28)
