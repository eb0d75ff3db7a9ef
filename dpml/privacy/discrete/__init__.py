"""Exact discrete noise for releases that are sums of integers: no floating point between a row and what is released.

A row, or a model, becomes a vector of integers (`rounding`), integers get noise whose law is exact (`gaussian`,
`laplace`), and what a sum of them with Gaussian noise guarantees is counted as Gaussian differential privacy
(`accounting`). Derivations:
docs/privacy/discrete_noise.md. Our own, because samplers that there are (OpenDP's, for one) draw one number at a time;
this one draws arrays, from the same exact law.
"""

from dpml.privacy.discrete.accounting import wrap_probability
from dpml.privacy.discrete.gaussian import DiscreteGaussian
from dpml.privacy.discrete.laplace import DiscreteLaplace
from dpml.privacy.discrete.rounding import divide, integer_radius, to_integers

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "divide",
    "integer_radius",
    "to_integers",
    "wrap_probability",
]
