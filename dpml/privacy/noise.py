"""Draw all floating-point noise of dpml, with scale 1 except in `cape_messages`; callers multiply it by their scales.

Experiments use NumPy's reproducible generators; releases use the operating system's (`dpml.privacy.entropy`). All this
noise is open to floating-point attacks (Mironov 2012); exact noise is in `dpml.privacy.discrete`.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.arrays import Array, blocks


def gaussian(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Draw an array of independent N(0, 1) numbers."""
    return rng.standard_normal(shape)


def single_gaussian(rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Draw an array of independent N(0, 1) numbers in single precision, which takes half the time."""
    return rng.standard_normal(shape, dtype=np.float32)


def laplace(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Draw an array of independent Laplace numbers with density exp(-|x|)/2."""
    return rng.laplace(size=shape)


def l2_laplace(rng: Generator, draws: int, d: int) -> Array:
    """Draw `draws` vectors in R^d with density proportional to exp(-||x||_2)."""
    vectors, lengths = _normals(rng, draws, d)
    vectors *= rng.gamma(d, size=(draws, 1)) / lengths
    return vectors


def radial(rng: Generator, draws: int, d: int) -> Array:
    """Draw `draws` vectors in R^d with an Exponential(1) length and a uniform direction: as noise, not eps-DP if d > 1.

    Unlike `l2_laplace`, the density is infinite at 0: it is proportional to exp(-||x||) / ||x||^(d - 1).
    """
    vectors, lengths = _normals(rng, draws, d)
    vectors *= rng.exponential(size=(draws, 1)) / lengths
    return vectors


def _normals(rng: Generator, draws: int, d: int) -> tuple[Array, Array]:
    vectors, lengths = np.empty((draws, d)), np.empty((draws, 1))
    for rows in blocks(draws, d):
        part = vectors[rows]
        rng.standard_normal(out=part)
        lengths[rows, 0] = np.sqrt(np.einsum("ij,ij->i", part, part))  # in blocks that stay in the CPU cache
    return vectors, lengths


def l2_laplace_total(rng: Generator, draws: int, parties: int, d: int) -> Array:
    """Draw sums of `parties` independent `l2_laplace` vectors, (draws, d), as quickly as single vectors.

    The distribution is exact: an `l2_laplace` vector is a Gaussian with a random variance of distribution Gamma((d +
    1)/2, scale 2), so the sum is a Gaussian whose variance is a sum of Gamma variables.
    """
    noise_std = np.sqrt(2 * rng.standard_gamma(parties * (d + 1) / 2, size=(draws, 1)))
    total = np.empty((draws, d))
    for rows in blocks(draws, d):
        part = total[rows]
        rng.standard_normal(out=part)
        part *= noise_std[rows]
    return total


def cape_parties(rng: Generator, draws: int, parties: int, size: int) -> tuple[Array, Array]:
    """Draw two standard Gaussian vectors for each party in the protocol CAPE: two arrays (draws, parties, size)."""
    shape = draws, parties, size
    return rng.standard_normal(shape), rng.standard_normal(shape)


def cape_messages(
    rng: Generator, draws: int, parties: int, size: int, shared: float, own: float
) -> tuple[Array, Array]:
    """Draw the noise in the parties' messages of the protocol CAPE, and every party k's secret vector ``ehat_k``.

    Party k draws ``ehat_k, g_k ~ N(0, I)``. The noise in party k's message is ``shared * e_k + own * g_k``, where the
    ``e_k = ehat_k - (1/M) sum ehat`` sum to zero (Imtiaz et al. 2019, Alg. 1). Shapes are (draws, parties, size).
    """
    ehat, g = cape_parties(rng, draws, parties, size)
    for some in blocks(draws, parties * size):
        part = ehat[some] - ehat[some].mean(axis=1, keepdims=True)
        part *= shared
        g[some] *= own
        g[some] += part
    return g, ehat


def gaussian_messages(rng: Generator, draws: int, parties: int, size: int) -> Array:
    """Draw N(0, 1) noise for every party: (draws, parties, size)."""
    return gaussian(rng, (draws, parties, size))
