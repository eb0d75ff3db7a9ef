"""Describe which parties draw the noise of a released sum, and what every observer (`View`) sees.

The noise of the released sum has variance 1 in every coordinate, and all other noise is relative to it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.mechanism.message import Law
from dpml.privacy import Calibration, Problem, View, noise

Numbers = NDArray[Any]
"""Numbers in single or double precision."""


Observer = Callable[[Numbers, Numbers, Callable[[Any], Array]], None]
"""``observer(message, parts, exact)`` receives every noisy sum of a release under one budget, for B runs: the sum (B,
k), the noise of each source, (sources, B, k), and a function that returns the sum without noise for other rows (a
`Prepared`). All are divided by the standard deviation of the noise."""


@dataclass(frozen=True)
class Channel:
    """The m noisy numbers, such as messages, that an observer sees per coordinate of a sum, and their noise sources.

    Attributes:
        noise: The coefficient of each source in each number, (m, sources). The last party's data affect only the first.
        total: The coefficient of each source in the released sum, (sources,).
        sources: The coefficients with which each source combines n independent N(0, 1) numbers, (sources, n).
    """

    noise: Array
    total: Array
    sources: Array

    @cached_property
    def covariance(self) -> Array:
        deviations = self.noise @ self.sources
        return deviations @ deviations.T

    @cached_property
    def filter(self) -> Array:
        """The m weights with which the weighted sum of the observer's m numbers has the least noise; the first is 1."""
        weights = np.linalg.solve(self.covariance, np.eye(len(self.covariance))[0])
        return weights / weights[0]

    @cached_property
    def spread(self) -> float:
        """The noise_std of the weighted sum of the m numbers that an observer sees; the weights are `filter`."""
        return float(np.sqrt(self.filter @ self.covariance @ self.filter))


# The noise_std of `tight` zero-sum noise, relative to the released sum's noise. Zero-sum noise costs no accuracy: it
# cancels in the sum. With this factor, the colluders' mu is within 1e-6 of its limit for ever larger factors.
MASK = 1e3

REACH = 16.0
"""A secure sum refuses noise beyond so many standard deviations, which occurs once in 10^57 numbers."""


Sampler = Law | Literal["single_gaussian"]
"""A distribution of noise, or `single_gaussian`: Gaussian noise in single precision, which takes half the time."""


class Sharing(ABC):
    """Who draws the noise of a sum. By default, all M parties draw equal shares, and nothing is securely aggregated."""

    secure: ClassVar[bool] = False
    """Whether secure aggregation hides the parties' messages or a part of them."""
    zero_sum: float | None = None
    """The standard deviation of zero-sum noise in openly sent messages; None: there is no such noise."""

    @abstractmethod
    def views(self, problem: Problem) -> dict[View, float]:
        """Return the Gaussian-DP mu against each observer, divided by the mu of the released sum."""

    def sources(self, M: int) -> Array:
        """Return the coefficients (sources, n) with which each noise source combines n independent N(0, 1) draws.

        The noise of the released sum is the sum of the first M sources, or of all sources if there are fewer.
        """
        return np.eye(M) / math.sqrt(M)

    def seen(self, view: View, problem: Problem) -> Array:
        """Return the coefficient of every noise source in each of the m numbers that an observer sees, (m, sources).

        `client` sees the last party's message, `colluders` (the first parties) see their own noise and the sum, and all
        other observers see the sum.
        """
        each = np.eye(problem.M)
        known = problem.colluders if view == "colluders" else 0
        return each[-1:] if view == "client" else np.vstack([np.ones(problem.M), each[:known]])

    def channel(self, view: View, problem: Problem) -> Channel:
        sources = self.sources(problem.M)
        total = (np.arange(len(sources)) < problem.M).astype(float)
        return Channel(self.seen(view, problem), total, sources)

    def total(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> Array:
        """Draw the sum of all parties' noise at once, (draws, size), in time that does not depend on M."""
        return unit(law, rng, draws, size)

    def parts(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> Array:
        """Draw every source's (by default, party's) noise, `draws` times `size` numbers: (sources, draws, size)."""
        return noise.gaussian(rng, (M, draws, size)) / math.sqrt(M)

    def reach(self, d: int) -> float:
        """Return r: an entry of a party's noise exceeds r times the noise scale with probability at most 10^-40."""
        return REACH


def unit(law: Sampler, rng: Generator, draws: int, size: int) -> Array:
    """Draw noise of scale 1 from the distribution `law`: (draws, size)."""
    if law == "single_gaussian":
        return noise.single_gaussian(rng, (draws, size))  # type: ignore[return-value]
    if law == "gaussian":
        return noise.gaussian(rng, (draws, size))
    if law == "laplace":
        return noise.laplace(rng, (draws, size))
    return (noise.radial if law == "radial" else noise.l2_laplace)(rng, draws, size)


@dataclass(frozen=True)
class TrustedCurator(Sharing):
    """A trusted curator has all rows and draws the noise; the observers `visible` see the noisy sum."""

    visible: tuple[View, ...] = ("release",)

    def views(self, problem: Problem) -> dict[View, float]:
        return dict.fromkeys(self.visible, 1.0)

    def sources(self, M: int) -> Array:
        return np.ones((1, 1))

    def seen(self, view: View, problem: Problem) -> Array:
        return np.ones((1, 1))

    def parts(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> Array:
        return self.total(rng, draws, M, size, law)[None]


@dataclass(frozen=True)
class CapeNoise(Sharing):
    """CAPE's noise (Imtiaz et al. 2019, Alg. 1): party k adds zero-sum noise ``e_k`` and independent noise ``g_k``.

    `spread` is the standard deviation of the secrets ``ehat_k``, from which the ``e_k`` are computed by subtracting
    their mean. The 2 M noise sources are the noise ``e_k + g_k`` in each of the M messages, and the M secrets.
    """

    spread: float
    secure: ClassVar[bool] = True

    @property
    def zero_sum(self) -> float:  # type: ignore[override]
        return self.spread

    def views(self, problem: Problem) -> dict[View, float]:
        M = problem.M
        one_message = self.spread**2 * (1 - 1 / M) + 1 / M
        return {
            "release": 1.0,
            "aggregate": 1.0,
            "client": 1 / math.sqrt(one_message),
            "transcript": cape_whole_view(M, M, self.spread),
            "colluders": cape_whole_view(M, problem.honest, self.spread),
        }

    def sources(self, M: int) -> Array:
        zero_sum, own = self.spread * np.eye(M), np.eye(M) / math.sqrt(M)
        return np.block([[zero_sum - self.spread / M, own], [zero_sum, 0 * own]])

    def seen(self, view: View, problem: Problem) -> Array:
        """Return the coefficients (m, 2 M) of the 2 M noise sources in the m numbers that an observer of CAPE sees.

        Colluders see all messages, the mean of the secrets and their own secrets. These rows are equivalent, and avoid
        cancellation: the sum of the honest messages without zero-sum noise; all messages but the last, with the mean of
        the secrets added back; the sum of the honest secrets; and the colluders' secrets.
        """
        messages, secrets = np.split(np.eye(2 * problem.M), 2)
        if view in ("release", "aggregate"):
            return messages.sum(axis=0)[None]
        if view == "client":
            return messages[-1:]
        known = problem.colluders if view == "colluders" else 0
        sent = messages + secrets.mean(axis=0)
        left = (sent - secrets)[known:].sum(axis=0)
        return np.vstack([left, sent[:-1], secrets[known:].sum(axis=0), secrets[:known]])

    def parts(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> Array:
        messages, ehat = noise.cape_messages(rng, draws, M, size, self.spread, 1 / math.sqrt(M))
        return np.concatenate([messages, self.spread * ehat], axis=1).transpose(1, 0, 2)


@dataclass(frozen=True)
class IndependentNoise(Sharing):
    """Each party adds independent noise with 1/M of the total variance, and sends its message openly."""

    def views(self, problem: Problem) -> dict[View, float]:
        alone = math.sqrt(problem.M)
        return {"release": 1.0, "aggregate": 1.0, "client": alone, "transcript": alone, "colluders": alone}

    def seen(self, view: View, problem: Problem) -> Array:
        return np.eye(problem.M)[::-1] if view in ("transcript", "colluders") else super().seen(view, problem)


@dataclass(frozen=True)
class SecureSumNoise(Sharing):
    """Each party adds an equal share of the noise, and secure aggregation reveals only the sum."""

    secure: ClassVar[bool] = True

    def views(self, problem: Problem) -> dict[View, float]:
        return {"release": 1.0, "aggregate": 1.0, "colluders": math.sqrt(problem.M / problem.honest)}


def secure_sharing(problem: Problem) -> Sharing:
    """Return who draws the noise of a secure sum: M parties in equal shares, or a curator if M = 1."""
    return TrustedCurator() if problem.M == 1 else SecureSumNoise()


def cape_whole_view(M: int, honest: int, spread: float) -> float:
    """Return the mu against CAPE's aggregator and all but `honest` of M parties, as a multiple of the sum's mu."""
    return math.sqrt(M / honest + (1 - 1 / honest) / (spread**2 + 1 / M))


def cape_spread(calibration: Calibration) -> float:
    """Return the noise_std of CAPE's secrets ``ehat_k``, as a multiple of the noise_std of the released sum."""
    return MASK if calibration == "tight" else 1.0
