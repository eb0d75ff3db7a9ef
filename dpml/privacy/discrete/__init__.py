"""Exact discrete noise for sums of integers, without floating-point operations between the integers and the release.

`rounding` turns rows into vectors of integers, and `sampler` draws noise with an exact distribution. Proofs:
docs/privacy/discrete_noise.md. Other samplers, such as OpenDP's, draw one number at a time; this one draws arrays from
the same distribution.
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
