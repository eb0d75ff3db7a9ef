"""How the noise of M sites adds up in a sum that they release, and what each view sees of their messages.

Everything is in units of the noise of that sum, whose variance is 1 in every coordinate. A site sends its own part of
the sum plus noise; a mechanism counts the mu of the sum, and every view is a multiple of it.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator

from dpml.algorithms.exposure import Messages
from dpml.arrays import Array
from dpml.privacy import Calibration, Problem, View, noise

# Zero-sum noise costs nothing: it cancels in the sum. `tight` makes it this much wider than the noise that stays, and
# the colluders' view then loses less than one part in a million against no limit at all.
MASK = 1e3


class NoiseSharing(Protocol):
    """Who draws the noise of a released sum."""

    def views(self, problem: Problem) -> dict[View, float]:
        """mu of every view the adversary may have, as a multiple of the sum's own."""
        ...

    def messages(self, view: View, problem: Problem) -> Messages | None:
        """What a view sees of the sites' messages; None where it sees only their sum."""
        ...

    def total(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        """The sum of all sites' noise: (draws, size)."""
        ...


@dataclass(frozen=True)
class TrustedCurator:
    """The noise is drawn once, where all data are; every one of the `visible` views sees the sum."""

    visible: tuple[View, ...] = ("release",)

    def views(self, problem: Problem) -> dict[View, float]:
        return dict.fromkeys(self.visible, 1.0)

    def messages(self, view: View, problem: Problem) -> Messages | None:
        return None

    def total(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        return noise.gaussian(rng, (draws, size))


@dataclass(frozen=True)
class CapeNoise:
    """CAPE (Imtiaz, Mohammadi & Sarwate 2019, Alg. 1): zero-sum noise ``e_k`` and every site's own ``g_k``.

    Only the ``g_k``, of variance 1/M, survive the sum. `spread` is the standard deviation of the zero-sum noise before
    it is centred.
    """

    spread: float

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

    def messages(self, view: View, problem: Problem) -> Messages | None:
        M, spread = problem.M, self.spread
        if view in ("release", "aggregate"):
            return None

        def one(rng: Generator, draws: int, size: int) -> Array:
            return noise.cape_messages(rng, draws, M, size, spread, 1 / math.sqrt(M))[0][:, -1:]

        if view == "client":
            return Messages(one, np.array([[spread**2 * (1 - 1 / M) + 1 / M]]), target=0)
        honest = M if view == "transcript" else problem.honest

        def all_honest(rng: Generator, draws: int, size: int) -> Array:
            """The honest sites' messages, with the broadcast mean put back, and the sum of their secrets."""
            sent, secret = noise.cape_messages(rng, draws, M, size, spread, 1 / math.sqrt(M))
            secret *= spread
            sent += secret.mean(axis=1, keepdims=True)
            return np.concatenate([sent[:, -honest:], secret[:, -honest:].sum(axis=1, keepdims=True)], axis=1)

        covariance = np.eye(honest + 1) * (spread**2 + 1 / M)
        covariance[-1] = covariance[:, -1] = spread**2
        covariance[-1, -1] = spread**2 * honest
        return Messages(all_honest, covariance, target=honest - 1)

    def total(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        return noise.cape_total(rng, draws, M, size, shared=self.spread, own=1 / math.sqrt(M))


@dataclass(frozen=True)
class IndependentNoise:
    """Every site's message is protected by noise of its own alone, of 1/M of the sum's variance."""

    def views(self, problem: Problem) -> dict[View, float]:
        alone = math.sqrt(problem.M)
        return {"release": 1.0, "aggregate": 1.0, "client": alone, "transcript": alone, "colluders": alone}

    def messages(self, view: View, problem: Problem) -> Messages | None:
        """The messages of the sites that do not collude."""
        if view in ("release", "aggregate"):
            return None
        M = problem.M
        honest = {"client": 1, "transcript": M, "colluders": problem.honest}[view]

        def sent(rng: Generator, draws: int, size: int) -> Array:
            return noise.gaussian_messages(rng, draws, M, size)[:, -honest:] / math.sqrt(M)

        return Messages(sent, np.eye(honest) / M, target=honest - 1)

    def total(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        return noise.gaussian_total(rng, draws, M, size) / math.sqrt(M)


def cape_whole_view(M: int, honest: int, spread: float) -> float:
    """mu of all that the aggregator and M - `honest` colluders see of a CAPE release, over that of the sum alone.

    The square is ``M/H + (1 - 1/H) / (s^2 + 1/M)`` for H honest sites and zero-sum noise of spread s:
    docs/privacy/imtiaz2019.md.
    """
    return math.sqrt(M / honest + (1 - 1 / honest) / (spread**2 + 1 / M))


def cape_spread(calibration: Calibration) -> float:
    """The spread of CAPE's zero-sum noise: 1 as published, `MASK` when tight."""
    return MASK if calibration == "tight" else 1.0
