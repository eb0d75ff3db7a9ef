"""Create independent random number generators for different purposes, such as data and noise."""

import zlib

import numpy as np


def generator(seed: int, purpose: str, *who: str) -> np.random.Generator:
    """Return the random number generator of a seed for one purpose, such as `data`, `partition`, `start` or `noise`.

    Streams of different purposes are independent. `who` separates streams that must not share numbers.
    """
    keys = tuple(zlib.crc32(part.encode()) for part in (purpose, *who))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=keys))
