"""How the noise of M sites adds up in a sum that they release, and what each view sees of their messages.

Everything is in units of the noise of that sum, whose variance is 1 in every coordinate. A site sends its own part of
the sum plus noise; a mechanism counts the mu of the sum, and every view is a multiple of it.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator

from dpml.algorithms.transcript import PLAIN, Channel, Watch
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

    def channel(self, view: View, problem: Problem) -> Channel:
        """What a view sees of the sites' messages; the last site's, whose row is replaced, comes first."""
        ...

    def total(self, rng: Generator, draws: int, M: int, size: int, watch: Watch | None = None) -> Array:
        """The sum of all sites' noise: (draws, size). A watch is told of every source of it."""
        ...


@dataclass(frozen=True)
class TrustedCurator:
    """The noise is drawn once, where all data are; every one of the `visible` views sees the sum."""

    visible: tuple[View, ...] = ("release",)

    def views(self, problem: Problem) -> dict[View, float]:
        return dict.fromkeys(self.visible, 1.0)

    def channel(self, view: View, problem: Problem) -> Channel:
        return PLAIN

    def total(self, rng: Generator, draws: int, M: int, size: int, watch: Watch | None = None) -> Array:
        total = noise.gaussian(rng, (draws, size))
        if watch is not None:
            watch.drawn(total[None])
        return total


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

    def channel(self, view: View, problem: Problem) -> Channel:
        """The sources are the M messages' noise and the M secrets ``ehat_k``, which the zero-sum noise is made of.

        Who sees all messages also sees the mean secret that was broadcast, and puts it back; with what the colluders
        know of their own, the sum of the honest sites' secrets is left.
        """
        M, s = problem.M, self.spread
        each, total = np.eye(2 * M), np.repeat([1.0, 0.0], M)
        centred = np.eye(M) - 1 / M
        sources = np.block([[s**2 * centred + np.eye(M) / M, s * centred], [s * centred, np.eye(M)]])
        if view in ("release", "aggregate"):
            seen = total[None]
        elif view == "client":
            seen = each[M - 1 : M]
        else:
            honest = M if view == "transcript" else problem.honest
            broadcast = s * np.repeat([0.0, 1 / M], M)
            secrets = s * each[2 * M - honest :].sum(axis=0)
            seen = np.vstack([each[M - honest : M][::-1] + broadcast, secrets])
        return Channel.of(seen, total, sources)

    def total(self, rng: Generator, draws: int, M: int, size: int, watch: Watch | None = None) -> Array:
        own = 1 / math.sqrt(M)
        if watch is None:
            return noise.cape_total(rng, draws, M, size, self.spread, own)
        parts = np.empty((2 * M, draws, size))

        def heard(columns: slice, messages: Array, secrets: Array) -> None:
            parts[:M, :, columns], parts[M:, :, columns] = messages.swapaxes(0, 1), secrets.swapaxes(0, 1)

        total = noise.cape_total(rng, draws, M, size, self.spread, own, heard)
        watch.drawn(parts)
        return total


@dataclass(frozen=True)
class IndependentNoise:
    """Every site's message is protected by noise of its own alone, of 1/M of the sum's variance."""

    def views(self, problem: Problem) -> dict[View, float]:
        alone = math.sqrt(problem.M)
        return {"release": 1.0, "aggregate": 1.0, "client": alone, "transcript": alone, "colluders": alone}

    def channel(self, view: View, problem: Problem) -> Channel:
        """The sum, or the messages of the sites that do not collude."""
        M = problem.M
        each, total = np.eye(M)[::-1], np.ones(M)
        seen = {
            "release": total[None],
            "aggregate": total[None],
            "client": each[:1],
            "transcript": each,
            "colluders": each[: problem.honest],
        }
        return Channel.of(seen[view], total, np.eye(M) / M)

    def total(self, rng: Generator, draws: int, M: int, size: int, watch: Watch | None = None) -> Array:
        if watch is None:
            return noise.gaussian_total(rng, draws, M, size) / math.sqrt(M)
        parts = np.empty((M, draws, size))

        def heard(columns: slice, messages: Array) -> None:
            parts[:, :, columns] = messages.swapaxes(0, 1) / math.sqrt(M)

        total = noise.gaussian_total(rng, draws, M, size, heard) / math.sqrt(M)
        watch.drawn(parts)
        return total


def cape_whole_view(M: int, honest: int, spread: float) -> float:
    """mu of all that the aggregator and M - `honest` colluders see of a CAPE release, over that of the sum alone.

    The square is ``M/H + (1 - 1/H) / (s^2 + 1/M)`` for H honest sites and zero-sum noise of spread s:
    docs/privacy/imtiaz2019.md.
    """
    return math.sqrt(M / honest + (1 - 1 / honest) / (spread**2 + 1 / M))


def cape_spread(calibration: Calibration) -> float:
    """The spread of CAPE's zero-sum noise: 1 as published, `MASK` when tight."""
    return MASK if calibration == "tight" else 1.0
