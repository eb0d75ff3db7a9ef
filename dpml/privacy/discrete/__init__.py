"""Draw exact discrete noise for sums of integers, without floating-point arithmetic: docs/privacy/discrete_noise.md."""

from dpml.privacy.discrete.rounding import divide, integer_radius, to_integers
from dpml.privacy.discrete.sampler import DiscreteGaussian, DiscreteLaplace

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "divide",
    "integer_radius",
    "to_integers",
]
