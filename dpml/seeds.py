"""Random number generators, one independent stream per purpose."""

import zlib

import numpy as np


def generator(seed: int, purpose: str, *who: str) -> np.random.Generator:
    """Return the random number generator for one purpose: `data`, `partition`, `start` or `noise`.

    Streams of different purposes are independent, so another algorithm or budget gets the same rows and partition.
    `who` separates streams that must not share numbers, such as the noise of two algorithms.
    """
    keys = tuple(zlib.crc32(part.encode()) for part in (purpose, *who))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=keys))
