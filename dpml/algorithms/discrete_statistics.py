"""Sufficient statistics on a grid of integers, with discrete noise: nothing between a row and a sum is rounded.

A row becomes integers z of length at most 2^20, its label an integer, once. The sums of ``y z`` and ``z z'`` are exact,
and each is what the real row z/2^20 in the unit ball has: the sensitivity that is proven for real rows holds as it is
(`coefficients.joint_sensitivity`). With `unit=party` a party's sums are divided by its number of rows and rounded once,
by which two of them move apart by one step more in every coordinate. Very many rows and very wide noise have fewer bits
than 20 (`bits_of`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.random import Generator

from dpml.algorithms.coefficients import Scales
from dpml.algorithms.discrete_noise import BITS, Columns, DiscreteSharing, variance_of, whole_steps
from dpml.algorithms.hyperparameters import SumProtocol, Unit
from dpml.algorithms.noisy_coefficients import PreparedQuadratic, flat
from dpml.algorithms.transcript import Watch
from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.optim.losses import Quadratic
from dpml.privacy import Problem
from dpml.privacy.discrete import divide, to_integers
from dpml.privacy.discrete.accounting import REST
from dpml.privacy.discrete.rounding import Integers

_ROOM = 1 << 61  # of sums of integers
_FINE = 21  # bits by which a step is finer than 1/d


def rounded_mu(quadratic: Quadratic, scales: Scales, problem: Problem, unit: Unit) -> float:
    """How much integers with discrete noise add to the mu of the summed statistics.

    A party's mean is rounded once in every coordinate, so that two of them move apart by at most one step more there:
    by at most ``d 2^(-2 bits)`` of mu, less than half of what `discrete_noise.asked` leaves.

    Raises:
        UserError: so much noise does not fit into 64 bits.
    """
    d, count = problem.d, problem.M if unit == "party" else problem.N
    bits = bits_of(quadratic, scales.linear / count, scales.square / count, count, problem)
    if unit == "sample":
        return REST
    steps = steps_of(quadratic, bits)
    first, second = steps[0] / scales.linear, steps[1] / scales.square
    return math.sqrt(d * first**2 + (d + d * (d - 1)) * second**2) + REST


# many parameters: the scales are two
def bits_of(quadratic: Quadratic, linear: float, square: float, count: int, problem: Problem) -> int:
    """The fractional bits of rows where L1 and L2, means over `count` units, have noise of these scales.

    20 where the sums of N rows and the noise fit into 64 bits. All arguments are public.

    Raises:
        UserError: so much noise does not fit into 64 bits on a grid that is fine enough (`rounded_mu`).
    """
    steps = steps_of(quadratic, 0)
    width = max(linear * count / steps[0], square * count / steps[1])
    finest = min(1 << 2 * BITS, _ROOM // problem.N)
    coarsest = 4 ** (((problem.d << _FINE).bit_length() + 1) // 2)
    return ((whole_steps(finest // coarsest, width * coarsest) * coarsest).bit_length() - 1) // 2


def steps_of(quadratic: Quadratic, bits: int) -> tuple[float, float]:
    """What a step is of N times L1, and of N times L2."""
    slope = abs(float(quadratic.linear(np.ones(1))[0]))  # both losses have c1(y) = -slope y
    return slope / 4.0**bits, quadratic.square / 4.0**bits


@dataclass(frozen=True)
class PreparedIntegers(PreparedQuadratic):
    """The rows, of which sums of integers are made; `linear` and `square` are what these stand for."""

    parties: Parties
    unit: Unit
    protocol: SumProtocol
    _sums: dict[int, Integers] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, prepared: PreparedQuadratic, parties: Parties, unit: Unit, protocol: SumProtocol) -> "PreparedIntegers":
        """Those of the parties' rows."""
        q, count, d = prepared.algorithm.quadratic, prepared.count, parties.problem.d
        made = cls(**vars(prepared), parties=parties, unit=unit, protocol=protocol)
        bits = bits_of(q, 0.0, 0.0, count, parties.problem)
        steps, sums = steps_of(q, bits), made.sums(bits).sum(axis=0)
        exact = {"linear": -sums[:d] * steps[0] / count, "square": _symmetric(sums[d:] * steps[1] / count, d)}
        return cls(**vars(made) | exact)

    def sums(self, bits: int) -> Integers:
        """In steps of the grid, (P, d + d (d + 1)/2): of yz, of the squares of z, and of products of two entries of it.

        Of every party for the real protocol, else of all together, P = 1.
        """
        if bits not in self._sums:
            each = self._parts(bits)
            secure = self.protocol == "secagg"
            self._sums[bits] = np.stack(list(each)) if secure else reduce(np.add, each)[None]
        return self._sums[bits]

    def _parts(self, bits: int) -> Iterator[Integers]:
        """One party's after the other; at record level they may be one, where nobody looks."""
        parties = self.parties
        z = to_integers(parties.X, bits, 1.0)
        y = np.rint(np.ldexp(np.clip(parties.y, -1, 1), bits)).astype(np.int64)
        i, j = _entries(self.problem.d)
        together = self.unit == "sample" and self.protocol == "simulate"
        for rows in [slice(None)] if together else map(parties.of, range(self.problem.M)):
            own = z[rows]
            sums = np.concatenate([y[rows] @ own, np.einsum("ij,ik->jk", own, own)[i, j]])
            yield divide(sums, len(own)) if self.unit == "party" else sums

    def noisy(
        self, scales: Array, rng: Generator, draws: int, watch: Watch | None = None
    ) -> tuple[Array, Array, Array]:
        """As of a `PreparedQuadratic`, with at least the noise of `scales`; budgets do not share it."""
        problem, q, budgets = self.problem, self.algorithm.quadratic, len(scales)
        d = problem.d
        bits = [bits_of(q, linear, square, self.count, problem) for _, linear, square in scales.tolist()]
        steps = np.array([steps_of(q, b) for b in bits])  # (budgets, 2)
        widths = scales[:, 1:] * self.count / steps
        k = d * (d - 1) // 2
        # of an entry beside the diagonal the mean of two noises is meant
        columns = [
            Columns(size, [variance_of(width, problem, 2 * d + k) for width in some.tolist()])
            for size, some in ((d, widths[:, 0]), (d, widths[:, 1]), (k, widths[:, 1] * math.sqrt(0.5)))
        ]
        answers = np.repeat(np.stack([self.sums(b) for b in bits], axis=1), draws, axis=1)
        sharing = DiscreteSharing(problem, self.protocol)
        summed, parts = sharing.noisy(answers, columns, draws, rng, watch is not None)
        found = summed.reshape(budgets, draws, -1) * (np.repeat(steps, [d, d + k], axis=1) / self.count)[:, None]
        noisy = (
            np.full((budgets, draws), self.constant),
            -found[..., :d],
            _symmetric(found[..., d:], d) + self.algorithm.lam / 2 * np.eye(d),
        )
        if watch is not None and parts is not None:
            heard = parts / np.repeat(np.where(widths[0] > 0, widths[0], 1.0), [d, d + k])
            whole = _symmetric(heard[..., d:], d).reshape(*heard.shape[:-1], d * d)
            watch.drawn(np.concatenate([np.zeros((*whole.shape[:-1], 1)), -heard[..., :d], whole], axis=-1))
            watch.sent(flat(noisy), PreparedQuadratic.vector)
        return noisy


def _entries(d: int) -> tuple[Index, Index]:
    """The rows and columns of the entries on the diagonal, and then of those above it."""
    on, (i, j) = np.arange(d), np.triu_indices(d, 1)
    return np.concatenate([on, i]), np.concatenate([on, j])


def _symmetric(packed: Array, d: int) -> Array:
    """Matrices (..., d, d) from `_entries` (..., d (d + 1)/2)."""
    i, j = _entries(d)
    matrices = np.empty((*packed.shape[:-1], d, d))
    matrices[..., i, j] = matrices[..., j, i] = packed
    return matrices
