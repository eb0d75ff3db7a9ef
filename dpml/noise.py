"""Every random number that protects somebody is drawn here, in units of its own scale, and nowhere else.

The generators are NumPy's: right for research and reproducible, not hardened against floating-point attacks
(Mironov 2012). Do not deploy them.
"""

from collections.abc import Iterator

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


def zero_sum(rng: Generator, draws: int, parties: int, size: int) -> Array:
    """CAPE's correlated noise (Imtiaz et al. 2019, Alg. 1) for every party: (draws, parties, size), summing to zero.

    Party k draws ``ehat_k ~ N(0, I)``, the parties learn the sum of all by secure aggregation, and
    ``e_k = ehat_k - (1/M) sum ehat`` is left, of variance ``1 - 1/M``.
    """
    own = rng.standard_normal((draws, parties, size))
    own -= own.mean(axis=1, keepdims=True)
    return own


def cape_total(rng: Generator, draws: int, parties: int, size: int, shared: float, own: float) -> Array:
    """The sum over the parties of CAPE's noise ``shared * e_k + own * g_k``, party by party: (draws, size).

    `zero_sum` gives ``e_k``; ``g_k ~ N(0, I)`` is each party's own. Coordinates are independent, so they are blocked:
    the memory stays bounded for any number of parties.
    """
    total = np.empty((draws, size))
    for columns in _blocks(draws * parties, size):
        part = total[:, columns]
        messages = shared * zero_sum(rng, draws, parties, part.shape[1])
        messages += own * rng.standard_normal(messages.shape)
        messages.sum(axis=1, out=part)
    return total


def cape_parties(rng: Generator, draws: int, parties: int, size: int) -> tuple[Array, Array]:
    """What the parties draw for `cape_total`, the same numbers: ``ehat_k`` and ``g_k``, each (draws, parties, size)."""
    ehat, g = (np.empty((draws, parties, size)) for _ in range(2))
    for columns in _blocks(draws * parties, size):
        for part in (ehat[..., columns], g[..., columns]):
            part[...] = rng.standard_normal(part.shape)
    return ehat, g


def gaussian_total(rng: Generator, draws: int, parties: int, size: int) -> Array:
    """The sum over the parties of independent N(0, I) noise, party by party: (draws, size)."""
    total = np.empty((draws, size))
    for columns in _blocks(draws * parties, size):
        part = total[:, columns]
        rng.standard_normal((draws, parties, part.shape[1])).sum(axis=1, out=part)
    return total


def _blocks(rows: int, size: int) -> Iterator[slice]:
    """The columns of (rows, size), in blocks of bounded memory."""
    width = max(1, _BLOCK // rows)
    for start in range(0, size, width):
        yield slice(start, start + width)
