"""Algorithms that consist of one secure sum: `ssp` and `capefm`."""

import math
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from dpml.algorithms.cape import CapeFM, PreparedSites
from dpml.algorithms.noisy_coefficients import PreparedQuadratic
from dpml.algorithms.sufficient_statistics import SufficientStatistics
from dpml.arrays import Array
from dpml.federated.sums import Answer, Ask, Own, Remote, Setting, prepared, require_nothing
from dpml.protocols.cape import Cape, Settings, codec_of, site_message
from dpml.protocols.codec import Ring


def statistics_length(d: int) -> int:
    """Entries of X'y and of the upper triangle of X'X."""
    return d + d * (d + 1) // 2


class StatisticsSum:
    """`ssp`: every party's part of (L1, L2), with its share of the noise, in the ring."""

    beside = 0

    def __init__(self, algorithm: SufficientStatistics, setting: Setting) -> None:
        self._algorithm, self._setting = algorithm, setting
        self.lengths: tuple[int, ...] = (statistics_length(setting.problem.d),)

    def party(self, X: Array, y: Array, party: int, rng: Generator) -> Answer:
        own = Own(party)
        mechanism = replace(prepared(self._algorithm, self._setting, party, (X, y)), adder=own)
        scales = mechanism.scales([self._setting.budget])

        def answer(number: int, told: bytes) -> tuple[Ring, Array]:
            require_nothing(told)
            mechanism.noisy(scales, rng, 1)
            return own.ring, np.empty(0)

        return answer

    def model(self, ask: Ask) -> Array:
        remote = Remote(ask, self._setting.units(self._algorithm))
        mechanism = replace(prepared(self._algorithm, self._setting), adder=remote)
        scales = mechanism.scales([self._setting.budget])
        _, b, A = mechanism.noisy(scales, np.random.default_rng(0), 1)  # its noise is not used
        return _minimiser(mechanism, b, A, scales, remote)


class CapeSum:
    """`capefm`: the zero-sum noise in the ring, and the party's coefficients, with its noise, sent openly."""

    def __init__(self, algorithm: CapeFM, setting: Setting) -> None:
        d = setting.problem.d
        self._algorithm, self._setting = algorithm, setting
        self.beside = 1 + d + d * d
        self.lengths: tuple[int, ...] = (self.beside,)
        self._prepared = PreparedSites(
            algorithm, setting.problem, setting.problem.N, 0.0, np.zeros(d), np.zeros((d, d)),
            shares=np.zeros((1, self.beside)),
        )  # fmt: skip
        self._scales = self._prepared.scales([setting.budget])
        self._settings = Settings(spread=algorithm.spread)

    def party(self, X: Array, y: Array, party: int, rng: Generator) -> Answer:
        share = self._algorithm.share_of(X, y, self._prepared.count)
        exact = PreparedSites(**vars(self._prepared) | {"shares": share[None]}).told()[0]
        widths, parties = self._prepared.widths(self._scales), self._setting.problem.M

        def answer(number: int, told: bytes) -> tuple[Ring, Array]:
            require_nothing(told)
            return site_message(exact, widths, rng, party, parties, self._settings)

        return answer

    def model(self, ask: Ask) -> Array:
        remote, widths = Remote(ask, self._setting.sizes), self._prepared.widths(self._scales)
        summed = remote.summed()
        zero_sum = codec_of(self._setting.problem.M, self._settings).decode(summed.total).reshape(1, -1)
        cape = Cape(summed.beside.reshape(-1, 1, 1, self.beside), zero_sum, widths, summed.survivors, None)
        _, b, A = self._prepared.received(cape.total * remote.weight)
        return _minimiser(self._prepared, b, A, self._scales, remote)


def _minimiser(mechanism: PreparedQuadratic, b: Array, A: Array, scales: Array, remote: Remote) -> Array:
    """The model (d,) of L1 (1, 1, d) and L2 (1, 1, d, d) with the survivors' noise, corrected for drop-outs."""
    problem = mechanism.problem
    width = remote.weight * math.sqrt(len(remote.survivors) / problem.M)
    edges = mechanism.algorithm.spectral_edge(problem.d) * scales[:, 2] * width
    return np.asarray(mechanism.algorithm.minimisers(A, b, edges)[0][0, 0])
