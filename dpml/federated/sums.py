"""Algorithms that are one secure sum: what a party sends, alone on its machine, and the model that the sum gives."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Algorithm
from dpml.algorithms.cape import CapeFM, PreparedSites
from dpml.algorithms.sufficient_statistics import PreparedParties, SufficientStatistics
from dpml.arrays import Array, Index
from dpml.errors import UserError
from dpml.privacy import Budget, Problem
from dpml.protocols import FixedPoint
from dpml.protocols.cape import Cape, Settings, codec_of, site_message
from dpml.protocols.codec import Ring


@dataclass(frozen=True)
class Setting:
    """What is public of a release: the budget, the problem, and the rows of every party, `sizes` (M,)."""

    budget: Budget
    problem: Problem
    sizes: Index


class OneSum(Protocol):
    """An algorithm whose release is one secure sum, under one setting."""

    length: int
    """Entries of a party's vector."""
    beside: int
    """Numbers that a party sends in the open with it."""

    def part(self, X: Array, y: Array, party: int, rng: Generator) -> tuple[Ring, Array]:
        """What a party sends, with its noise: its vector (length,), and the numbers beside (beside,).

        With the same `rng` it is what one process that plays all parties has this one send. For that the noise of all
        is drawn, and only its own used.
        """
        ...

    def model(self, total: Ring, beside: Array, survivors: Index) -> Array:
        """The model (d,) from the sum (length,) and what the n survivors sent beside, (n, beside).

        It is that of the survivors' rows alone.
        """
        ...


def one_sum(algorithm: Algorithm, setting: Setting) -> OneSum:
    """The secure sum that an algorithm is.

    Raises:
        UserError: it is none.
    """
    if isinstance(algorithm, SufficientStatistics) and algorithm.name == "ssp" and algorithm.noise == "continuous":
        return StatisticsSum(algorithm, setting)
    if isinstance(algorithm, CapeFM) and algorithm.noise == "continuous":
        return CapeSum(algorithm, setting)
    raise UserError(
        f"algo={algorithm.name} cannot run between parties on machines of their own: choose algo=ssp or algo=capefm, "
        "with algo.noise=continuous."
    )


class StatisticsSum:
    """`ssp`: every party's part of (L1, L2), with its share of the noise, in the ring."""

    beside = 0

    def __init__(self, algorithm: SufficientStatistics, setting: Setting) -> None:
        problem = setting.problem
        self._algorithm, self._setting = algorithm, setting
        self._count = problem.M if algorithm.unit == "party" else problem.N
        self.length = problem.d + problem.d * (problem.d + 1) // 2
        self._prepared = PreparedParties(
            algorithm, problem, self._count, 0.0, *_zeros(problem.d), shares=np.zeros((1, self.length))
        )
        self._scales = self._prepared.scales([setting.budget])
        self._codec = FixedPoint.fit(problem.M, self._prepared.bound(self._scales))

    def part(self, X: Array, y: Array, party: int, rng: Generator) -> tuple[Ring, Array]:
        M, N = self._setting.problem.M, self._setting.problem.N
        weights = np.full(len(y), 1 / (M * len(y)) if self._algorithm.unit == "party" else 1 / N)
        share = self._algorithm.share_of(X, y, weights)
        own = PreparedParties(**vars(self._prepared) | {"shares": share[None], "alone": party})
        rounding = rng.spawn(1)[0]
        sent = own.sent(self._scales, rng, 1).reshape(1, -1)
        rounding.random((party, self.length))  # that of the parties before it
        return self._codec.encode(sent, rounding)[0], np.empty(0)

    def model(self, total: Ring, beside: Array, survivors: Index) -> Array:
        # the parts are of means over all units; this makes it the mean over those of the survivors
        n = len(survivors)
        units = n if self._algorithm.unit == "party" else int(self._setting.sizes[survivors].sum())
        received = self._codec.decode(total).reshape(1, 1, -1) * (self._count / units)
        return _minimiser(self._prepared, received, self._scales, n, units)


class CapeSum:
    """`capefm`: the zero-sum noise in the ring, and the site's coefficients, with its noise, in the open."""

    def __init__(self, algorithm: CapeFM, setting: Setting) -> None:
        d = setting.problem.d
        self._algorithm, self._setting = algorithm, setting
        self.length = self.beside = 1 + d + d * d
        self._prepared = PreparedSites(
            algorithm, setting.problem, setting.problem.N, 0.0, *_zeros(d), shares=np.zeros((1, self.length))
        )
        self._scales = self._prepared.scales([setting.budget])
        self._settings = Settings(spread=algorithm.spread)

    def part(self, X: Array, y: Array, party: int, rng: Generator) -> tuple[Ring, Array]:
        share = self._algorithm.share_of(X, y, self._prepared.count)
        told = PreparedSites(**vars(self._prepared) | {"shares": share[None]}).told()[0]
        widths = self._prepared.widths(self._scales)
        return site_message(told, widths, rng, party, self._setting.problem.M, self._settings)

    def model(self, total: Ring, beside: Array, survivors: Index) -> Array:
        units = int(self._setting.sizes[survivors].sum())
        widths = self._prepared.widths(self._scales)
        zero_sum = codec_of(self._setting.problem.M, self._settings).decode(total).reshape(1, -1)
        cape = Cape(beside.reshape(-1, 1, 1, self.beside), zero_sum, widths, survivors, None)
        received = cape.total * (self._prepared.count / units)
        return _minimiser(self._prepared, received, self._scales, len(survivors), units)


def _minimiser(
    prepared: PreparedParties | PreparedSites, received: Array, scales: Array, survivors: int, units: int
) -> Array:
    """The model (d,) of a sum (1, 1, ...) of the mean over `units`, in which is the noise of so many parties."""
    algorithm, problem = prepared.algorithm, prepared.problem
    _, b, A = prepared.received(received)
    width = prepared.count / units * math.sqrt(survivors / problem.M)
    edges = algorithm.spectral_edge(problem.d) * scales[:, 2] * width
    return np.asarray(algorithm.minimisers(A, b, edges)[0][0, 0])


def _zeros(d: int) -> tuple[Array, Array]:
    return np.zeros(d), np.zeros((d, d))
