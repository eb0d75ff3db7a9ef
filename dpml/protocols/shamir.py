"""Split byte strings by Shamir's secret sharing (1979) over the prime field of 2^31 - 1 elements.

A secret of 32 bytes is nine limbs of 30 bits, each the value at 0 of a random polynomial of degree t - 1. The share of
holder x = 1, 2, ... is the polynomials' values at x.
"""

import os
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import blocks

Field = NDArray[np.uint64]

PRIME = (1 << 31) - 1  # products of two elements fit into 64 bits
SECRET_BYTES = 32
LIMBS = 9
_LIMB_BITS = 30  # below the prime, so that every limb is a field element


def split(secret: bytes) -> Field:
    """Return a secret as field elements (limbs) of 30 bits, the least significant limb first: (LIMBS,)."""
    number = int.from_bytes(secret, "little")
    return np.array([number >> _LIMB_BITS * i & (1 << _LIMB_BITS) - 1 for i in range(LIMBS)], dtype=np.uint64)


def join(limbs: Field) -> bytes:
    """Return the secret whose parts of 30 bits are `limbs`; raise ValueError if no secret has these limbs."""
    number = sum(int(limb) << _LIMB_BITS * i for i, limb in enumerate(limbs))
    if max(limbs) >> np.uint64(_LIMB_BITS) or number >> 8 * SECRET_BYTES:
        raise ValueError("the shares do not belong to one secret.")
    return number.to_bytes(SECRET_BYTES, "little")


def share(secrets: Field, holders: Field, threshold: int) -> Field:
    """Return shares (n, k) of the secrets (k,) for n holders; any `threshold` shares determine the secrets."""
    coefficients = np.concatenate([secrets[None], _uniform((threshold - 1, len(secrets)))])
    return _matmul(_powers(holders, threshold), coefficients)


def reconstruct(holders: Field, shares: Field) -> Field:
    """Return the secrets (k,) from the shares (t, k) of t holders, where t is the threshold."""
    return _matmul(_weights_at_zero(holders.tobytes())[None], shares)[0]


def holders_of(parties: Sequence[int] | NDArray[np.uint32]) -> Field:
    """Return the points, one for each party, at which the polynomials of the secret sharing are evaluated."""
    return np.array(parties, dtype=np.uint64) + np.uint64(1)


def _uniform(shape: tuple[int, int], entropy: Callable[[int], bytes] = os.urandom) -> Field:
    size = shape[0] * shape[1]
    elements = np.frombuffer(entropy(4 * size), dtype="<u4") & PRIME
    while np.any(again := elements == PRIME):
        elements[again] = np.frombuffer(entropy(4 * int(again.sum())), dtype="<u4") & PRIME
    return elements.astype(np.uint64).reshape(shape)


def _powers(x: Field, count: int) -> Field:
    powers = np.ones((len(x), count), dtype=np.uint64)
    for k in range(1, count):
        powers[:, k] = powers[:, k - 1] * x % PRIME
    return powers


def _matmul(A: Field, B: Field) -> Field:
    """Return the matrix product AB modulo 2^31 - 1, computed exactly in floats by splitting B into 11-bit parts."""
    parts = np.concatenate([B >> shift & 0x7FF for shift in (0, 11, 22)], axis=1).astype(np.float64)
    products = (A[:, some].astype(np.float64) @ parts[some] for some in blocks(len(B), most=1 << 11))
    low, middle, high = np.split(sum(part.astype(np.uint64) % PRIME for part in products) % PRIME, 3, axis=1)
    return (low + (middle << 11) + (high << 22)) % PRIME


@lru_cache(maxsize=64)
def _weights_at_zero(holders: bytes) -> Field:
    """Return the weights (t,) of Lagrange interpolation at 0: the products over j != i of x_j / (x_j - x_i)."""
    x = np.frombuffer(holders, dtype=np.uint64)
    differences = (x[None, :] + PRIME - x[:, None]) % PRIME
    np.fill_diagonal(differences, x)  # the factor for j = i cancels x_i in the product of all x_j
    inverses = np.array([pow(int(each), -1, PRIME) for each in _product(differences)], dtype=np.uint64)
    return _product(x[None]) * inverses % PRIME


def _product(factors: Field) -> Field:
    product = np.ones(len(factors), dtype=np.uint64)
    for column in factors.T:
        product = product * column % PRIME
    return product
