"""Sufficient statistics on a grid of integers, with discrete noise: nothing between a row and a sum is rounded.

A row becomes integers z of length at most 2^20, its label an integer, once. The sums of ``y z`` and ``z z'`` are exact,
and each is what the real row z/2^20 in the unit ball has: the sensitivity that is proven for real rows holds as it is
(`coefficients.joint_sensitivity`). With `unit=party` a party's sums are divided by its number of rows and rounded once,
by which two of them move apart by one step more in every coordinate.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.algorithms import discrete_noise
from dpml.algorithms.coefficients import Scales
from dpml.algorithms.discrete_noise import BITS, variance_of
from dpml.algorithms.hyperparameters import Unit
from dpml.algorithms.noisy_coefficients import PreparedQuadratic, flat
from dpml.algorithms.transcript import Watch
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.losses import Quadratic
from dpml.privacy import Problem
from dpml.privacy.discrete import divide, to_integers
from dpml.privacy.discrete.accounting import REST
from dpml.privacy.discrete.rounding import Integers

_ROOM = 1 << 61  # of sums of integers


def rounded_mu(quadratic: Quadratic, scales: Scales, problem: Problem, unit: Unit) -> float:
    """What the mu of the summed statistics is larger by because they are integers with discrete noise.

    A party's mean is rounded once in every coordinate, so that two of them move apart by at most one step more there.
    """
    if unit == "sample":
        return REST
    d, steps = problem.d, steps_of(quadratic)
    first, second = steps[0] / scales.linear, steps[1] / scales.square
    return math.sqrt(d * first**2 + (d + d * (d - 1)) * second**2) + REST


def steps_of(quadratic: Quadratic) -> tuple[float, float]:
    """What a step is of N times L1, and of N times L2."""
    slope = abs(float(quadratic.linear(np.ones(1))[0]))
    return slope / 2.0 ** (2 * BITS), quadratic.square / 2.0 ** (2 * BITS)


@dataclass(frozen=True)
class PreparedIntegers(PreparedQuadratic):
    """The sums (d,) and (d (d + 1)/2,), the upper triangle, in steps of their grid."""

    sums: Integers
    squares: Integers
    unit: Unit

    @classmethod
    def of(cls, prepared: PreparedQuadratic, parties: Parties, unit: Unit) -> "PreparedIntegers":
        """Those of some parties' rows; `linear` and `square` become what they stand for.

        Raises:
            UserError: there are more rows than 64 bits can hold the sums of.
        """
        q, problem = prepared.algorithm.quadratic, parties.problem
        z = to_integers(parties.X, BITS, 1.0)
        y = np.rint(np.ldexp(np.clip(parties.y, -1, 1), BITS)).astype(np.int64)
        if problem.N >= _ROOM >> 2 * BITS:
            raise UserError(f"algo.noise=discrete takes at most {_ROOM >> 2 * BITS:,} rows, got N={problem.N:,}.")
        upper = np.triu_indices(problem.d)
        if unit == "sample":
            sums, squares = y @ z, np.einsum("ij,ik->jk", z, z)[upper]
        else:
            sums, squares = np.zeros(problem.d, np.int64), np.zeros(len(upper[0]), np.int64)
            for k in range(problem.M):
                rows = parties.of(k)
                own, count = z[rows], int(parties.sizes[k])
                sums += divide(y[rows] @ own, count)
                squares += divide(np.einsum("ij,ik->jk", own, own)[upper], count)
        steps = steps_of(q)
        square = np.empty((problem.d, problem.d))
        square[upper] = square.T[upper] = squares * steps[1] / prepared.count
        # both losses have c1(y) = -slope y
        exact = {"linear": -sums * steps[0] / prepared.count, "square": square}
        return cls(**vars(prepared) | exact, sums=sums, squares=squares, unit=unit)

    def noisy(
        self, scales: Array, rng: Generator, draws: int, watch: Watch | None = None
    ) -> tuple[Array, Array, Array]:
        """As of a `PreparedQuadratic`, with at least the noise of `scales`; budgets do not share it."""
        problem, steps, budgets = self.problem, steps_of(self.algorithm.quadratic), len(scales)
        d, upper = problem.d, np.triu_indices(problem.d)
        diagonal = upper[0] == upper[1]
        linear, square = scales[:, 1] / steps[0] * self.count, scales[:, 2] / steps[1] * self.count
        # of an entry beside the diagonal the mean of two noises is meant
        blocks = (
            (self.sums, linear, 1.0),
            (self.squares[diagonal], square, 1.0),
            (self.squares[~diagonal], square, math.sqrt(0.5)),
        )
        released, heard = [], []
        for sums, widths, share in blocks:
            variances = [variance_of(width * share, problem, d + len(diagonal)) for width in widths.tolist()]
            if watch is None:
                noise = discrete_noise.total(variances, problem.M, draws, len(sums), rng)
            else:
                parts = discrete_noise.parts(variances, problem.M, draws, len(sums), rng)
                noise = parts.sum(axis=0)
                heard.append(parts / np.where(widths[0] > 0, widths[0], 1.0))
            released.append((sums + noise).reshape(budgets, draws, len(sums)) / self.count)
        noisy = (
            np.full(released[0].shape[:-1], self.constant),
            -released[0] * steps[0],
            _symmetric(released[1], released[2], diagonal) * steps[1] + self.algorithm.lam / 2 * np.eye(d),
        )
        if watch is not None:
            whole = _symmetric(heard[1], heard[2], diagonal).reshape(*heard[0].shape[:-1], d * d)
            watch.drawn(np.concatenate([np.zeros((*whole.shape[:-1], 1)), -heard[0], whole], axis=-1))
            watch.sent(flat(noisy), PreparedQuadratic.vector)
        return noisy


def _symmetric(on: Array, off: Array, diagonal: NDArray[np.bool_]) -> Array:
    """Matrices (..., d, d) from what is on and off their diagonals, of which `diagonal` says the order."""
    d = on.shape[-1]
    packed = np.empty((*on.shape[:-1], len(diagonal)))
    packed[..., diagonal], packed[..., ~diagonal] = on, off
    matrices = np.empty((*on.shape[:-1], d, d))
    i, j = np.triu_indices(d)
    matrices[..., i, j] = packed
    matrices[..., j, i] = packed
    return matrices
