"""The algorithms, by family; what every one of them is, is in `dpml.mechanism.algorithm`."""

from dpml.mechanism.algorithm import Algorithm, Mechanism, Release, require_domain

__all__ = ["Algorithm", "Mechanism", "Release", "require_domain"]
