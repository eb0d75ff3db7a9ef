"""Linear models from noisy sufficient statistics: X'X and X'y, released once, by one party or as one secure sum.

Sufficient statistics perturbation is old for the squared loss (Vu & Slavkovic 2009; Foulds et al. 2016), and noise on
X'X alone is the mechanism of Dwork et al. 2014. Here both are released jointly (`noisy_coefficients`): the noise is
counted exactly, split between them for the least noise in the gradient, and shared by the parties.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms import require_domain
from dpml.algorithms.adders import IN_PROCESS, Adder
from dpml.algorithms.discrete_noise import NOISES, Noise
from dpml.algorithms.discrete_statistics import OnAGrid, PreparedIntegers
from dpml.algorithms.distributed_noise import SecureSumNoise, secure_sharing
from dpml.algorithms.hyperparameters import SUM_PROTOCOLS, UNITS, SumProtocol, Unit, check_choice
from dpml.algorithms.noisy_coefficients import PreparedQuadratic, flat
from dpml.algorithms.transcript import Watch
from dpml.arrays import Array
from dpml.audit.exposure import Pair
from dpml.audit.neighbours import whole_party
from dpml.data.partition import Parties
from dpml.privacy import Budget, Guarantee, Problem, View

# noise beyond so many standard deviations, which the codec of a secure sum refuses: once in 10^57 numbers
_WIDTHS = 16.0
_ENTRIES = 1 << 26  # of rows that are weighted together: 512 MiB


@dataclass(frozen=True)
class SufficientStatistics(OnAGrid):
    """`ssp`: the least squares solution of noisy X'X and X'y, whose M parties add up both in one secure sum.

    Logistic loss stands for its expansion at 0, ``log 2 - y x'w/2 + (x'w)^2/8``, which is the squared loss of another
    length: its minimiser ``-(X'X/8)^-1 (-X'y/2)/2 = 2 (X'X)^-1 X'y`` is twice the least squares solution (without lam,
    noise and floor), and so has the same classes.

    Party k adds 1/M of the noise's variance to its own part; the sum alone is shown, and colluders know their own
    noise only. One party (M = 1) is a trusted curator. With `unit=party` all rows of a party are protected together,
    and every party sends the mean of its rows' coefficients, over M: parties then count alike, whatever their sizes.
    That mean lies in the convex hull of what single rows can have, (c1 x, c2 xx'), and two points of a convex hull are
    no farther apart than the farthest two of which it is made. So the sum moves by no more, times M, than the sum over
    rows moves, times N, when one row is replaced: the noise is that of `unit=sample` with M in place of N.

    Args:
        loss: squared or logistic.
        calibration: `tight`: the least noise proven to give (eps, delta) in the worst view.
        lam: coefficient of lam/2 ||w||^2, part of the objective.
        radius: the norm of w that the split of the noise between X'y and X'X is best for; None: 2 (squared) or 4
            (logistic), chosen before any data.
        unit: what is protected: one sample, or all rows of one party.
        protocol: `simulate` draws the noise of the sum; with `secagg` every party's d (d + 1)/2 + d numbers go through
            the real secure aggregation (`dpml.protocols.secure_sum`), all budgets and a block of draws in one run.
        noise: `continuous`, or `discrete`: exact integers on a grid (docs/privacy/discrete_noise.md).
    """

    name: ClassVar[str] = "ssp"
    secure_sums: ClassVar[int] = 1

    unit: Unit = "sample"
    protocol: SumProtocol = "simulate"
    noise: Noise = "continuous"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("calibration", self.calibration, ("tight",))
        check_choice("algo.unit", self.unit, UNITS)
        check_choice("algo.protocol", self.protocol, SUM_PROTOCOLS)
        check_choice("algo.noise", self.noise, NOISES)

    @property
    def sharing(self) -> SecureSumNoise:
        return SecureSumNoise()

    def views(self, problem: Problem) -> dict[View, float]:
        return secure_sharing(problem).views(problem)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Proven for every view, and for the `unit` that was chosen."""
        return [replace(guarantee, unit=self.unit) for guarantee in super().guarantees(budget, problem)]

    def prepare(self, parties: Parties, rng: Generator) -> PreparedQuadratic:
        require_domain(parties, self.loss)
        problem = parties.problem
        count = problem.M if self.unit == "party" else problem.N
        weights = np.full(problem.N, 1 / problem.N)
        if self.unit == "party":
            weights = np.repeat(1 / (problem.M * parties.sizes), parties.sizes)
        prepared = PreparedQuadratic(self, problem, count, *self._summed(parties.X, parties.y, weights))
        if self.noise == "discrete":
            return PreparedIntegers.of(prepared, parties, self.unit, self.protocol)
        if self.protocol == "simulate":
            return prepared
        rows = [parties.of(k) for k in range(problem.M)]
        shares = [self.share_of(parties.X[of], parties.y[of], weights[of]) for of in rows]
        return PreparedParties(**vars(prepared), shares=np.array(shares))

    def share_of(self, X: Array, y: Array, weights: Array) -> Array:
        """What one party has of (L1, the upper triangle of L2), from its rows and their weights in the mean."""
        return _packed(*self._summed(X, y, weights)[1:])

    def _summed(self, X: Array, y: Array, weights: Array) -> tuple[float, Array, Array]:
        """The weighted sums of some rows' (c0, c1 x, c2 xx'): a number, (d,) and (d, d)."""
        q = self.quadratic
        square = np.zeros((X.shape[1], X.shape[1]))
        for start in range(0, len(y), height := max(1, _ENTRIES // X.shape[1])):  # a block is copied
            block = slice(start, start + height)
            square += q.square * (weights[block] * X[block].T) @ X[block]
        return float(weights @ q.constant(y)), weights * q.linear(y) @ X, square

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """One row is replaced as the joint sensitivity is about; with `unit=party`, all rows of the last party."""
        first, second = super().worst_case(budget, problem)
        return (whole_party(first), whole_party(second)) if self.unit == "party" else (first, second)


@dataclass(frozen=True)
class PreparedParties(PreparedQuadratic):
    """What the parties have: `shares` (M, d + d (d + 1)/2), whose sum is (L1, the upper triangle of L2)."""

    algorithm: SufficientStatistics
    shares: Array
    adder: Adder = IN_PROCESS

    def noisy(
        self, scales: Array, rng: Generator, draws: int, watch: Watch | None = None
    ) -> tuple[Array, Array, Array]:
        """What the server of the real protocol has. L0 is not released, and is not sent either.

        `watch` is told the noise in what the parties really send.
        """
        d, M = self.problem.d, self.problem.M
        rounding = rng.spawn(1)[0]
        sent = self._sent(scales, rng, draws)
        total = self.adder.reals(sent.reshape(M, -1), self._bound(scales), self.problem, rounding)
        noisy = self._received(total.reshape(sent.shape[1:]))
        if watch is not None:
            noises = sent[:, 0] - self.shares[:, None]
            widths = self._widths(scales)[0]
            np.divide(noises, widths, out=noises, where=widths > 0)
            linear, square = _unpacked(noises, d)
            watch.drawn(np.concatenate([np.zeros((M, draws, 1)), linear, square.reshape(M, draws, -1)], axis=-1))
            watch.sent(flat(noisy), PreparedQuadratic.vector)
        return noisy

    def _sent(self, scales: Array, rng: Generator, draws: int) -> Array:
        """The shares with their noise: (M, budgets, draws, d + d (d + 1)/2)."""
        d, M = self.problem.d, self.problem.M
        unit = self.algorithm.sharing.parts(rng, draws, M, 1 + d + d * d)
        unit = _packed(unit[..., 1 : 1 + d], unit[..., 1 + d :].reshape(-1, draws, d, d))
        return self.shares[:, None, None] + self._widths(scales)[:, None] * unit[:, None]

    def _bound(self, scales: Array) -> float:
        """What no number that is sent exceeds. Public: the weights of a party's rows add up to at most 1."""
        q = self.algorithm.quadratic
        return max(q.linear_bound, q.square) + _WIDTHS * float(self._widths(scales).max())

    def _received(self, total: Array) -> tuple[Array, Array, Array]:
        """L0, L1 and L2 + lam/2 I from the sum (budgets, draws, d + d (d + 1)/2) of what was sent."""
        d = self.problem.d
        linear, square = _unpacked(total, d)
        constant = np.full(linear.shape[:-1], self.constant)
        return constant, linear, square + self.algorithm.lam / 2 * np.eye(d)

    def _widths(self, scales: Array) -> Array:
        d = self.problem.d
        return np.repeat(scales[:, 1:], (d, d * (d + 1) // 2), axis=1)


def _packed(linear: Array, square: Array) -> Array:
    """Vectors (..., d) and the upper triangles of the symmetric parts of matrices (..., d, d), in one row each."""
    i, j = np.triu_indices(square.shape[-1])
    return np.concatenate([linear, (square[..., i, j] + square[..., j, i]) / 2], axis=-1)


def _unpacked(rows: Array, d: int) -> tuple[Array, Array]:
    """Vectors (..., d) and symmetric matrices (..., d, d)."""
    i, j = np.triu_indices(d)
    square = np.empty((*rows.shape[:-1], d, d))
    square[..., i, j] = square[..., j, i] = rows[..., d:]
    return rows[..., :d], square
