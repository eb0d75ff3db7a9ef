"""Draw exact discrete noise for sums of integers; no step between integers and release uses floating-point arithmetic.

`rounding` turns rows into vectors of integers, and `sampler` draws arrays of noise with an exact distribution. Proofs:
docs/privacy/discrete_noise.md.
"""

from dpml.privacy.discrete.rounding import divide, integer_radius, to_integers, wrap_probability
from dpml.privacy.discrete.sampler import DiscreteGaussian, DiscreteLaplace

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "divide",
    "integer_radius",
    "to_integers",
    "wrap_probability",
]
