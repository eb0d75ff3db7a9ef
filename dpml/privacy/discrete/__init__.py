"""Exact discrete noise for releases that are sums of integers: no floating point between the integers and the release.

A row or a model becomes a vector of integers (`rounding`), gets noise with an exact law (`gaussian`, `laplace`), and
`accounting` gives the mu of sums with Gaussian noise. Proofs: docs/privacy/discrete_noise.md. Other samplers, such as
OpenDP's, draw one number at a time; this one draws arrays, from the same law.
"""

from dpml.privacy.discrete.accounting import continuous_variance, least_variance, mu_of, wrap_probability
from dpml.privacy.discrete.gaussian import DiscreteGaussian
from dpml.privacy.discrete.laplace import DiscreteLaplace
from dpml.privacy.discrete.rounding import divide, integer_radius, rounded_sensitivity, to_grid, to_integers

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "continuous_variance",
    "divide",
    "integer_radius",
    "least_variance",
    "mu_of",
    "rounded_sensitivity",
    "to_grid",
    "to_integers",
    "wrap_probability",
]
