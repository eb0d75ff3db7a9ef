"""The private algorithms and the baselines. `dpml.mechanism.algorithm` defines the interface of algorithms."""

from dpml.mechanism.algorithm import Algorithm, Mechanism, Release, require_domain

__all__ = ["Algorithm", "Mechanism", "Release", "require_domain"]
