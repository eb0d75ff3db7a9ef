"""How the noise of M sites adds up in a released sum, and what each view sees of their messages.

Everything is in units of the noise of that sum, whose variance is 1 in every coordinate. A site sends its own part of
the sum plus noise; a mechanism counts the mu of the sum, and every view is a multiple of it.
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
"""Numbers in any precision."""


Observer = Callable[[Numbers, Numbers, Callable[[Any], Array]], None]
"""``observer(message, parts, exact)`` gets every message of a release under one budget, for B runs: (B, k), its noise
source by source, (sources, B, k), and what a prepared mechanism would have sent without noise. All are in units of the
message's noise."""


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


# Zero-sum noise costs no accuracy, as it cancels in the sum. `tight` makes it this much wider than the noise that
# stays: the mu of the colluders is then within one part in a million of its limit.
MASK = 1e3

REACH = 16.0
"""Noise beyond so many standard deviations is refused by the codec of a secure sum: once in 10^57 numbers."""


Sampler = Law | Literal["single_gaussian"]
"""What draws noise: Gaussian noise also in single precision, in half the time."""


class Sharing(ABC):
    """How the noise of a released sum is shared among the parties that draw it; as it stands, by M parties, openly."""

    secure: ClassVar[bool] = False
    """Whether secure aggregation hides the parties' messages, or a part of them."""
    zero_sum: float | None = None
    """The spread of zero-sum noise beside which sites send their messages openly; None: there is none."""

    @abstractmethod
    def views(self, problem: Problem) -> dict[View, float]:
        """mu of every view the adversary may have, as a multiple of the sum's own."""

    def variance(self, M: int) -> float:
        """Of the noise in one party's message."""
        return 1 / M

    def channel(self, view: View, problem: Problem) -> Channel:
        """What a view sees of the sites' messages, in terms of the sources of `observed`.

        The sum; the last site's message; or the sum and what colluders, who are the first parties, know of its noise.
        """
        M = problem.M
        each, total = np.eye(M), np.ones(M)
        known = problem.colluders if view == "colluders" else 0
        seen = each[-1:] if view == "client" else np.vstack([total, each[:known]])
        return Channel.of(seen, total, self.variance(M) * each)

    def total(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> Array:
        """Draw the sum of all sites' noise at once, (draws, size), at a cost that does not depend on M.

        Independent shares N(0, v_k I) with sum v_k = 1 add up to N(0, I), and zero-sum noise cancels.
        """
        return unit(law, rng, draws, size)

    def observed(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> tuple[Array, Array]:
        """The same from the same distribution, and the noise of every source in it: (sources, draws, size)."""
        parts = self.parts(rng, draws, M, size)
        total: Array = parts.sum(axis=0)
        return total, parts

    def parts(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        """Every party's share: (M, draws, size)."""
        return noise.gaussian(rng, (M, draws, size)) / math.sqrt(M)

    def reach(self, d: int) -> float:
        """How many scales no number of a party's noise exceeds, but once in 10^40 to 10^57 numbers."""
        return REACH


def unit(law: Sampler, rng: Generator, draws: int, size: int) -> Array:
    """Noise of scale 1: (draws, size)."""
    if law == "single_gaussian":
        return noise.single_gaussian(rng, (draws, size))  # type: ignore[return-value]
    if law == "gaussian":
        return noise.gaussian(rng, (draws, size))
    if law == "laplace":
        return noise.laplace(rng, (draws, size))
    return (noise.radial if law == "radial" else noise.l2_laplace)(rng, draws, size)


@dataclass(frozen=True)
class TrustedCurator(Sharing):
    """One trusted curator has all data and draws the noise once; every one of the `visible` views sees the sum."""

    visible: tuple[View, ...] = ("release",)

    def views(self, problem: Problem) -> dict[View, float]:
        return dict.fromkeys(self.visible, 1.0)

    def channel(self, view: View, problem: Problem) -> Channel:
        return PLAIN

    def observed(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> tuple[Array, Array]:
        total = self.total(rng, draws, M, size, law)
        return total, total[None]


@dataclass(frozen=True)
class CapeNoise(Sharing):
    """CAPE (Imtiaz, Mohammadi & Sarwate 2019, Alg. 1): zero-sum noise ``e_k`` and every site's own ``g_k``.

    Only the ``g_k``, of variance 1/M, survive the sum. `spread` is the standard deviation of the zero-sum noise before
    it is centred. The observed sources are the noise ``e_k + g_k`` in the M messages, and the M secrets ``ehat_k`` of
    which the ``e_k`` are made.
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

    def channel(self, view: View, problem: Problem) -> Channel:
        """The sum; the last site's message; or all messages, the broadcast mean, and the colluders' secrets.

        The colluders are the first sites. Of the honest ones' messages, all but the last are taken as they are with the
        mean put back; the last stands in their sum less that of their secrets, which the others know: of the wide
        zero-sum noise nothing is left there, so that no large numbers have to cancel.
        """
        M = problem.M
        messages, secrets = np.split(np.eye(2 * M), 2)
        total = messages.sum(axis=0)
        if view in ("release", "aggregate"):
            seen = total[None]
        elif view == "client":
            seen = messages[-1:]
        else:
            known = problem.colluders if view == "colluders" else 0
            sent = messages + secrets.mean(axis=0)
            left = (sent - secrets)[known:].sum(axis=0)
            seen = np.vstack([left, sent[:-1], secrets[known:].sum(axis=0), secrets[:known]])
        zero_sum, own = self.spread * np.eye(M), np.eye(M) / math.sqrt(M)
        drawn = np.block([[zero_sum - self.spread / M, own], [zero_sum, 0 * own]])
        deviations = seen @ drawn
        return Channel(seen, total, deviations @ deviations.T)

    def observed(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> tuple[Array, Array]:
        messages, ehat = noise.cape_messages(rng, draws, M, size, self.spread, 1 / math.sqrt(M))
        parts = np.concatenate([messages, self.spread * ehat], axis=1).transpose(1, 0, 2)
        return messages.sum(axis=1), parts


@dataclass(frozen=True)
class IndependentNoise(Sharing):
    """Every site's message is protected by noise of its own alone, of 1/M of the sum's variance."""

    def views(self, problem: Problem) -> dict[View, float]:
        alone = math.sqrt(problem.M)
        return {"release": 1.0, "aggregate": 1.0, "client": alone, "transcript": alone, "colluders": alone}

    def channel(self, view: View, problem: Problem) -> Channel:
        """All messages are open: colluders know the noise in theirs."""
        if view not in ("transcript", "colluders"):
            return super().channel(view, problem)
        each = np.eye(problem.M)
        return Channel.of(each[::-1], np.ones(problem.M), each / problem.M)

    def observed(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> tuple[Array, Array]:
        messages = noise.gaussian_messages(rng, draws, M, size) / math.sqrt(M)
        return messages.sum(axis=1), messages.transpose(1, 0, 2)


@dataclass(frozen=True)
class SecureSumNoise(Sharing):
    """Every party adds an equal share of the noise to its own term, and secure aggregation reveals the sum alone.

    The colluders know their own shares, so that H/M of the variance protects the H honest parties.
    """

    secure: ClassVar[bool] = True

    def views(self, problem: Problem) -> dict[View, float]:
        return {"release": 1.0, "aggregate": 1.0, "colluders": math.sqrt(problem.M / problem.honest)}


def secure_sharing(problem: Problem) -> Sharing:
    """The noise of a sum whose terms are hidden: drawn by a trusted curator (M = 1) or by M parties in equal shares."""
    return TrustedCurator() if problem.M == 1 else SecureSumNoise()


def cape_whole_view(M: int, honest: int, spread: float) -> float:
    """mu of all that the aggregator and M - `honest` colluders see of a CAPE release, over that of the sum alone.

    The square is ``M/H + (1 - 1/H) / (s^2 + 1/M)`` for H honest sites and zero-sum noise of spread s:
    docs/privacy/imtiaz2019.md.
    """
    return math.sqrt(M / honest + (1 - 1 / honest) / (spread**2 + 1 / M))


def cape_spread(calibration: Calibration) -> float:
    """The spread of CAPE's zero-sum noise: 1 as published, `MASK` when tight."""
    return MASK if calibration == "tight" else 1.0
