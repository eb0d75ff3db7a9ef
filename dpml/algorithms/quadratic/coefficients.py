"""The sums of the coefficients of a quadratic objective, of reals and of integers.

The empirical risk is written as a polynomial in w, exactly (squared loss) or to second order at 0 (logistic),

    f(w) = L0 + L1'w + w'L2 w,    L0 = mean c0(y),  L1 = mean c1(y) x,  L2 = mean c2 x x'.

Of K classes (softmax) it is ``mean ||code(y) - W x||^2`` instead, the codes ``e_y - 1/K``: L1 then has K rows.

Summed are N times L0 (if it is released), L1, and L2: its diagonal, and the entries above it. N is the number of units:
rows, or parties, each of which then contributes the mean of its rows' coefficients.

*On a grid.* A row becomes integers z of length at most 2^20, its label an integer, once. The sums of ``y z`` and
``z z'`` are exact, and each is what the real row z/2^20 in the unit ball has: the sensitivity that is proven for real
rows holds as it is. A party's means are rounded once, by which two of them move apart by one step more in every
coordinate. Very many rows and very wide noise have fewer bits than 20 (`Coefficients.resolution`). Codes are multiples
of 1/K, and become whole ones.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from dpml.arrays import Array, Index, blocks
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.discrete import BITS, checked, whole_steps
from dpml.mechanism.message import Statistic, Terms
from dpml.mechanism.options import Unit
from dpml.optim.losses import Loss, Quadratic, coded
from dpml.privacy import Problem
from dpml.privacy.discrete import divide, to_integers
from dpml.privacy.discrete.rounding import Integers
from dpml.sums import TALL, PairwiseSum

_SUMS = 1 << 61  # the largest sum of integers
_FINE = 21  # bits by which a step is finer than 1/d
_MOST_CLASSES = 1 << 10  # so that 1/K has steps on the coarsest grid


@dataclass(frozen=True)
class Coefficients(Statistic):
    """The blocks L0 (if `constant`), L1 (if `linear`), the diagonal of L2, and its entries above the diagonal.

    Noise is drawn for all 1 + d + d^2 numbers (d^2 without L1), and of an entry beside the diagonal the mean of two
    noises is kept: as ``w'Ew`` sees the symmetric part of E only, this is the same release. With `mirrored`, one of the
    two is kept.

    Args:
        loss: squared, logistic, or softmax.
        constant: whether L0 is released.
        unit: what is summed over: rows, or parties.
        last: only the rows of the last party.
        mirrored: how the noise beside the diagonal is made.
        linear: whether L1 is released; without it, no L0 either.
        classes: K of softmax, else 1.
    """

    loss: Loss
    constant: bool = False
    unit: Unit = "sample"
    last: bool = False
    mirrored: bool = False
    linear: bool = True
    classes: int = 1

    @property
    def quadratic(self) -> Quadratic:
        """The polynomial of a row."""
        return quadratic_of(self.loss, self.classes)

    def lengths(self, d: int) -> tuple[int, ...]:
        return (*(1,) * self.constant, *(self.classes * d,) * self.linear, d, d * (d - 1) // 2)

    def on(self, parties: Parties) -> "CoefficientTerms":
        return CoefficientTerms(self, parties)

    def largest(self, problem: Problem) -> float:
        q = self.quadratic
        count = problem.N if self.unit == "sample" else 1
        constant = np.abs(q.constant(np.array([-1.0, 0.0, 1.0]))).max() if self.constant else 0.0
        return count * max(q.linear_bound, q.square, float(constant))

    def drawn(self, d: int) -> tuple[int, ...]:
        return (self._before(d) + d * d,)

    def _before(self, d: int) -> int:
        """How many numbers are drawn before those of L2."""
        return 1 + self.classes * d if self.linear else 0

    def project(self, noise: Array, d: int) -> Array:
        first, square = np.split(noise, [self._before(d)], axis=-1)
        on, (i, j) = np.arange(d), np.triu_indices(d, 1)
        beside = square[..., i * d + j]
        if not self.mirrored:
            beside = (beside + square[..., j * d + i]) / 2
        return np.concatenate([first[..., 1 - self.constant :], square[..., on * d + on], beside], axis=-1)

    def deviations(self, d: int) -> tuple[float, ...]:
        return (*(1.0,) * (self.constant + self.linear + 1), 1.0 if self.mirrored else math.sqrt(0.5))

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """The fractional bits of rows: 20 where the sums of N rows and the noise fit into 64 bits.

        Raises:
            UserError: there are too many classes, or so much noise does not fit into 64 bits on a grid that is fine
                enough (`rounding`).
        """
        if self.classes > _MOST_CLASSES:
            raise UserError(f"algo.noise=discrete takes at most {_MOST_CLASSES:,} classes, not {self.classes:,}.")
        q = self.quadratic
        units = (*(q.slope,) * self.linear, q.square, q.square)
        width = max(width / unit for width, unit in zip(widths, units, strict=True))
        finest = min(1 << 2 * BITS, _SUMS // problem.N)
        coarsest = 4 ** (((problem.d << _FINE).bit_length() + 1) // 2)
        return ((whole_steps(finest // coarsest, width * coarsest) * coarsest).bit_length() - 1) // 2

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        q, one = self.quadratic, 4.0**resolution
        label = 2.0**resolution if self.classes == 1 else float(self.classes * ((1 << resolution) // self.classes))
        return (*(-q.slope / (label * 2.0**resolution),) * self.linear, q.square / one, q.square / one)

    def rounding(self, widths: Sequence[float], resolution: int, problem: Problem) -> float:
        """A party's mean is rounded once in every coordinate, so that two of them move apart by one step more there.

        That is at most ``d 2^(-2 bits)`` of mu, less than half of what `discrete.target_mu` leaves.
        """
        if self.unit == "sample":
            return 0.0
        *linear, square, _ = np.abs(self.steps(resolution, problem)) / widths
        d = problem.d
        entries = self.classes * d
        return math.sqrt(entries * sum(each**2 for each in linear) + (d + d * (d - 1)) * square**2)

    def whole_labels(self, y: Array, bits: int) -> Integers:
        """Labels (n,), or their codes (n, K), as integers of at most 2^bits."""
        if self.classes == 1:
            return np.rint(np.ldexp(np.clip(y, -1, 1), bits)).astype(np.int64)
        K = self.classes
        return (K * np.equal.outer(y, np.arange(K)) - 1) * ((1 << bits) // K)


@dataclass(frozen=True)
class CoefficientTerms(Terms):
    """The coefficients of some parties' rows."""

    statistic: Coefficients
    parties: Parties

    def total(self, *at: Any) -> Array:
        return self._total

    @cached_property
    def _total(self) -> Array:
        return self._packed(*self._rows)

    @cached_property
    def constant(self) -> float:
        """The exact sum of L0, also where it is not released."""
        _, y, weights = self._rows
        constants = self.statistic.quadratic.constant(y)
        return float(constants.sum() if weights is None else weights @ constants)

    @property
    def _rows(self) -> tuple[Array, Array, Array | None]:
        """The rows that are summed, their labels, and their weights; None: 1."""
        parties = self.parties
        own = parties.of(len(parties.sizes) - 1) if self.statistic.last else slice(None)
        here = np.diff(parties.offsets)
        weights = np.repeat(1 / here, here) if self.statistic.unit == "party" else None
        return parties.X[own], parties.y[own], weights

    def each(self, *at: Any) -> Array:
        parties = self.parties
        party = self.statistic.unit == "party"
        rows = [parties.of(k) for k in range(parties.problem.M)]
        parts = [self._packed(parties.X[own], parties.y[own]) / (own.stop - own.start if party else 1) for own in rows]
        return np.array(parts)

    def _packed(self, X: Array, y: Array, weights: Array | None = None) -> Array:
        """The weighted sums of some rows' coefficients, (k,)."""
        q = self.statistic.quadratic
        slopes, constants = q.linear(y), q.constant(y)
        total = PairwiseSum()
        for some in blocks(len(y), most=TALL):
            own = X[some]
            weighted = own if weights is None else weights[some, None] * own
            square = q.square * (weighted.T @ own)[entries(X.shape[1])]
            constant = constants[some] if weights is None else weights[some] * constants[some]
            first = [constant.sum()] if self.statistic.constant else []
            linear = [(slopes[some].T @ weighted).ravel()] if self.statistic.linear else []
            total.add(np.concatenate([first, *linear, square]))
        return total.result()

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        known: dict[int, Integers] = {}
        for bits in dict.fromkeys(resolutions.tolist()):
            each = self._parts(bits, secure)
            known[bits] = np.stack(list(each)) if secure else reduce(np.add, each)[None]
        return np.stack([known[bits] for bits in resolutions.tolist()], axis=1)

    def _parts(self, bits: int, secure: bool) -> Iterator[Integers]:
        """One party's after the other; at record level they may be one, where nobody looks."""
        parties, party = self.parties, self.statistic.unit == "party"
        z = checked(to_integers(parties.X, bits, 1.0), 1 << bits)
        y = self.statistic.whole_labels(parties.y, bits)
        d, where = z.shape[1], entries(z.shape[1])
        for rows in map(parties.of, range(parties.problem.M)) if party or secure else [slice(None)]:
            products = whole_products(z[rows], y[rows], bits)
            sums = np.concatenate([*[products[d:, :d].ravel()] * self.statistic.linear, products[where]])
            yield divide(sums, len(z[rows])) if party else sums


def whole_products(rows: Integers, labels: Integers, bits: int) -> Integers:
    """``[rows labels]' [rows labels]`` of integers (n, d) and (n,) or (n, K) of at most 2^bits, exactly.

    Floating-point products are exact, in any order, while no sum of them exceeds 2^53: so many rows are multiplied at
    once, which takes a ninth of the time of integers.
    """
    wide = rows.shape[1] + labels[:1].size
    products = np.zeros((wide, wide), np.int64)
    for some in blocks(len(rows), most=1 << 53 - 2 * bits):
        own = np.column_stack([rows[some], labels[some]]).astype(float)
        products += (own.T @ own).astype(np.int64)
    return products


def quadratic_of(loss: Loss, classes: int = 1) -> Quadratic:
    """The loss's polynomial form, of losses that have one; of several classes, the squared loss of their codes."""
    if loss.name == "softmax":
        return coded(classes)
    assert loss.quadratic is not None
    return loss.quadratic


def entries(d: int) -> tuple[Index, Index]:
    """The rows and columns of the entries on the diagonal of a matrix (d, d), and then of those above it."""
    on, (i, j) = np.arange(d), np.triu_indices(d, 1)
    return np.concatenate([on, i]), np.concatenate([on, j])


def polynomial(packed: Array, d: int, count: float, lam: float, classes: int = 1) -> tuple[Array, Array]:
    """L1 (..., K d) and L2 + lam/2 I (..., d, d) from noisy sums (..., k) over `count` units; L0 may come before."""
    square = packed.shape[-1] - d * (d + 1) // 2
    i, j = entries(d)
    A = np.empty((*packed.shape[:-1], d, d))
    A[..., i, j] = A[..., j, i] = packed[..., square:] / count
    if lam:
        A += lam / 2 * np.eye(d)
    return packed[..., max(0, square - classes * d) : square] / count, A
