"""Where descents start: a public point, which knows no budget and no data."""

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array


def initial_model(rng: Generator, d: int) -> Array:
    """A random model (d,), about as long as a row."""
    return rng.standard_normal((d,)) / np.sqrt(d)
