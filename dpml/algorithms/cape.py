"""The functional mechanism over M sites with correlated noise (Imtiaz, Mohammadi & Sarwate 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.discrete_statistics import PreparedIntegers
from dpml.algorithms.distributed_noise import CapeNoise, NoiseSharing, SecureSumNoise, cape_spread
from dpml.algorithms.functional_mechanism import FunctionalMechanism
from dpml.algorithms.hyperparameters import SUM_PROTOCOLS, SumProtocol, check_choice
from dpml.algorithms.noisy_coefficients import PreparedQuadratic, flat
from dpml.algorithms.transcript import Watch
from dpml.arrays import Array
from dpml.data.partition import Parties


@dataclass(frozen=True)
class CapeFM(FunctionalMechanism):
    """capeFM (Alg. 4): the central mechanism's noise without a trusted curator.

    Site k adds to its share of the coefficients a zero-sum ``e_k``, agreed on through secure aggregation, and its own
    ``g_k``. Only the latter survive the sum. With H honest sites, spread s of the zero-sum noise and 1/M the variance
    of ``g_k`` (the sum has variance 1), the whole view of the aggregator and the colluders - every site's message, the
    broadcast sum, the colluders' own noise - has ``mu^2 = M/H + (1 - 1/H) / (s^2 + 1/M)``. At the published s = 1 that
    is M/(M+1) (1 + M/H), where the paper's Theorem 1 has about 1: it inverts a covariance with a wrong factor and
    leaves the colluders' noise random. As `tight`, the zero-sum noise is wide enough to leave only M/H.

    `protocol=simulate` adds up the noise that the sites draw. With `secagg` every site's coefficients and noise go
    through the real protocol (`dpml.protocols.cape`), all budgets and a block of draws as one long vector: the same
    release up to rounding, for the price of key agreements, masks and M times the memory.

    With `noise=discrete` messages are integers modulo 2^64. There zero-sum noise can be uniform: given their sum, any
    M - 1 messages are then uniform, and nothing but the sum is seen. That is the secure sum of `ssp`, whose release it
    is, bit for bit (docs/privacy/discrete_noise.md).

    Args:
        protocol: `simulate` draws the sums; with `secagg` every message of the sites and the aggregator is made and
            read.
    """

    name = "capefm"
    claim = "Imtiaz et al. 2019, Thms 1 and 2"

    secure_sums: ClassVar[int] = 1

    protocol: SumProtocol = "simulate"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("algo.protocol", self.protocol, SUM_PROTOCOLS)

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedQuadratic":
        pooled = super().prepare(parties, rng)
        if self.protocol == "simulate" or self.noise == "discrete":
            return pooled
        rows = [parties.of(k) for k in range(parties.problem.M)]
        shares = [self.share_of(parties.X[of], parties.y[of], pooled.count) for of in rows]
        return PreparedSites(**vars(pooled), shares=np.array(shares))

    def on_a_grid(self, pooled: PreparedQuadratic, parties: Parties) -> PreparedIntegers:
        """The rows as integers, to whose sums every site adds its own noise."""
        return PreparedIntegers.of(pooled, parties, self.unit, self.protocol)

    def share_of(self, X: Array, y: Array, count: int) -> Array:
        """What one site has of (L0, L1, L2), means over `count` rows of which these are its own: (1 + d + d^2,)."""
        q = self.quadratic
        coefficients = q.constant(y).sum(), q.linear(y) @ X, q.square * X.T @ X
        return np.concatenate([np.ravel(numbers) for numbers in coefficients]) / count

    @property
    def spread(self) -> float:
        """Standard deviation of the zero-sum noise before centring, when the sum's is 1."""
        return cape_spread(self.calibration)

    @property
    def sharing(self) -> NoiseSharing:
        return CapeNoise(self.spread) if self.noise == "continuous" else SecureSumNoise()


@dataclass(frozen=True)
class PreparedSites(PreparedQuadratic):
    """The coefficients as the sites have them: `shares` (M, 1 + d + d^2), whose sum is (L0, L1, L2)."""

    algorithm: CapeFM
    shares: Array

    def noisy(
        self, scales: Array, rng: Generator, draws: int, watch: Watch | None = None
    ) -> tuple[Array, Array, Array]:
        """What the aggregator of the real protocol has. An L0 that is not released is not sent either.

        `watch` is told the noise in what the sites really send, less the mean of the ehat as in the paper's order, and
        what they put into the secure sum. What is attacked is carried by the real protocol too.
        """
        from dpml.protocols import choose, in_process  # most runs need no cryptography
        from dpml.protocols.cape import Settings, cape_sum

        shares, widths = self.told(), self.widths(scales)
        topology = choose(len(shares), self.problem.colluders)
        secrets: list[Array] = []
        settings = Settings(in_process, draws, self.algorithm.spread, topology=topology)
        cape = cape_sum(shares, widths, rng, settings, None if watch is None else secrets.append)
        noisy = self.received(cape.total)
        if watch is not None:
            noises = cape.messages[:, 0] - shares[:, None]
            np.divide(noises, widths[0], out=noises, where=widths[0] > 0)
            watch.drawn(np.concatenate([noises, *secrets]))
            watch.sent(flat(noisy), PreparedQuadratic.vector)
        return noisy

    def told(self) -> Array:
        """The shares as they are sent: without an L0 that is not released."""
        shares = self.shares.copy()
        if self.algorithm.calibration == "tight":
            shares[:, 0] = 0.0
        return shares

    def widths(self, scales: Array) -> Array:
        """The noise of every number of the sum: (budgets, 1 + d + d^2)."""
        d = self.problem.d
        return np.repeat(scales, (1, d, d * d), axis=1)

    def received(self, total: Array) -> tuple[Array, Array, Array]:
        """L0, L1 and L2 + lam/2 I from the sum (budgets, draws, 1 + d + d^2)."""
        d = self.problem.d
        exact = self.constant if self.algorithm.calibration == "tight" else 0.0
        square = total[..., 1 + d :].reshape(*total.shape[:2], d, d)
        square = (square + square.transpose(0, 1, 3, 2)) / 2
        return exact + total[..., 0], total[..., 1 : 1 + d], square + self.algorithm.lam / 2 * np.eye(d)
