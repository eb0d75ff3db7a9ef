"""Exact discrete noise for releases that are sums of integers: no floating point between the integers and the release.

A row becomes a vector of integers (`rounding`) and gets noise with an exact law (`gaussian`, `laplace`). Proofs:
docs/privacy/discrete_noise.md. Other samplers, such as OpenDP's, draw one number at a time; this one draws arrays, from
the same law.
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
