"""Define the private algorithms and the baselines."""

from dpml.mechanism.algorithm import Algorithm, Mechanism, Release, require_domain

__all__ = ["Algorithm", "Mechanism", "Release", "require_domain"]
