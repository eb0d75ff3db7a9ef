"""Who observes the messages of a release, and what a view sees of one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array

Numbers = NDArray[Any]
"""Numbers in any precision."""


class Observer(Protocol):
    """An observer of the messages of a release under one budget, whose noise is then drawn source by source."""

    def drawn(self, parts: Numbers) -> None:
        """The noise in the next message, source by source: (sources, B, k), in units of the message's scale."""
        ...

    def sent(self, message: Numbers, exact: Callable[[Any], Array]) -> None:
        """A message of B runs (B, k), and what a prepared mechanism would have sent in its place without noise."""
        ...


@dataclass(frozen=True)
class Channel:
    """What a view sees of a message, in every coordinate alike: m numbers, which hold the noise of several sources.

    Attributes:
        noise: how much of each source is in each number, (m, sources). The data are in the first number only.
        total: how much of each source is in the message that is released, (sources,).
        covariance: what the numbers' covariance is meant to be, (m, m), in units of the message's scale.
    """

    noise: Array
    total: Array
    covariance: Array

    @classmethod
    def of(cls, noise: Array, total: Array, sources: Array | None = None) -> "Channel":
        """With sources of this covariance; None: independent ones of variance 1."""
        return cls(noise, total, noise @ (noise.T if sources is None else sources @ noise.T))

    @cached_property
    def filter(self) -> Array:
        """The weights (m,) of the numbers with which their noise is least and the data's weight is 1."""
        weights = np.linalg.solve(self.covariance, np.eye(len(self.covariance))[0])
        return weights / weights[0]

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the noise that is left by `filter`."""
        return float(np.sqrt(self.filter @ self.covariance @ self.filter))


PLAIN = Channel.of(np.ones((1, 1)), np.ones(1))
"""The message itself, with noise of one source."""
