"""Every random number that protects somebody is drawn here, in units of its own scale, and nowhere else.

The generators are NumPy's: right for research and reproducible, not hardened against floating-point attacks
(Mironov 2012). Do not deploy them.
"""

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array

_BLOCK = 1 << 22  # numbers held at once while many parties' noise is summed: 32 MiB


def gaussian(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Independent N(0, 1) entries."""
    return rng.standard_normal(shape)


def laplace(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Independent Laplace entries of density exp(-|x|)/2 (scale 1, variance 2)."""
    return rng.laplace(size=shape)


def l2_laplace(rng: Generator, draws: int, d: int) -> Array:
    """`draws` vectors in R^d of density proportional to exp(-||x||_2): a Gamma(d, 1) length, a uniform direction."""
    direction = rng.standard_normal((draws, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return direction * rng.gamma(d, size=(draws, 1))


def cape_messages(
    rng: Generator, draws: int, parties: int, size: int, shared: float, own: float
) -> tuple[Array, Array]:
    """CAPE's noise ``shared * e_k + own * g_k`` in every message (Imtiaz et al. 2019, Alg. 1), and the ``ehat_k``.

    Party k draws ``ehat_k ~ N(0, I)``, the parties learn the sum of all by secure aggregation, and
    ``e_k = ehat_k - (1/M) sum ehat`` is left, of variance ``1 - 1/M``: the ``e_k`` sum to zero. ``g_k ~ N(0, I)`` is
    each party's own. Both results are (draws, parties, size).
    """
    secret = rng.standard_normal((draws, parties, size))
    messages = secret - secret.mean(axis=1, keepdims=True)
    messages *= shared
    messages += own * rng.standard_normal(messages.shape)
    return messages, secret


def cape_total(rng: Generator, draws: int, parties: int, size: int, shared: float, own: float) -> Array:
    """The sum over the parties of CAPE's noise, message by message: (draws, size).

    Coordinates are independent, so they are blocked: the memory stays bounded for any number of parties.
    """
    total = np.empty((draws, size))
    width = max(1, _BLOCK // (draws * parties))
    for start in range(0, size, width):
        part = total[:, start : start + width]
        messages, _ = cape_messages(rng, draws, parties, part.shape[1], shared, own)
        messages.sum(axis=1, out=part)
    return total


def gaussian_messages(rng: Generator, draws: int, parties: int, size: int) -> Array:
    """Every party's own N(0, I) noise: (draws, parties, size)."""
    return gaussian(rng, (draws, parties, size))


def gaussian_total(rng: Generator, draws: int, parties: int, size: int) -> Array:
    """The sum over the parties of independent N(0, I) noise, party by party: (draws, size)."""
    total = np.empty((draws, size))
    width = max(1, _BLOCK // (draws * parties))
    for start in range(0, size, width):
        part = total[:, start : start + width]
        gaussian_messages(rng, draws, parties, part.shape[1]).sum(axis=1, out=part)
    return total
