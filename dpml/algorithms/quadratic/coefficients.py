"""The coefficients of a quadratic objective: their noise scales and joint sensitivity, their sums, and the model.

The empirical risk is ``f(w) = L0 + L1'w + w'L2 w`` with L0 = mean c0(y), L1 = mean c1(y) x and L2 = mean c2 x x', exact
(squared loss), to second order at 0 (logistic), or ``mean ||code(y) - W x||^2`` (softmax), where L1 has K rows. Summed
are N times L0 (if it is released), L1, and the diagonal and upper triangle of L2, for N rows or parties. Sensitivity:
docs/privacy/imtiaz2019.md, Theorem 1. The grid: docs/privacy/discrete_noise.md. The model: sufficient_statistics.md.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from dpml.algorithms.defaults import QUADRATIC_NORM, SPECTRAL_FLOOR
from dpml.arrays import Array, Index, blocks
from dpml.errors import UserError
from dpml.mechanism.algorithm import Release, Unit
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.discrete import BITS, checked, whole_steps
from dpml.mechanism.message import Statistic, Sum, Terms
from dpml.optim.losses import Loss, Quadratic, coded
from dpml.optim.quadratic import minimise_floored
from dpml.privacy import Problem
from dpml.privacy.discrete import divide, to_integers
from dpml.privacy.discrete.rounding import Integers
from dpml.sums import TALL, PairwiseSum


@dataclass(frozen=True)
class Scales:
    """Noise on N times (L0, L1, L2): standard deviations, or Laplace scales. inf for `constant`: L0 is not released."""

    constant: float
    linear: float
    square: float

    def __post_init__(self) -> None:
        if not (self.constant >= 0 and 0 <= self.linear < math.inf and 0 <= self.square < math.inf):
            raise ValueError(f"not a noise scale: {self}")


LONGEST = 1e6
"""The largest norm for which a split of noise is computed."""
NO_NOISE = Scales(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Neighbours:
    """Two samples that are `distance` apart, in units of the noise: a unit row, and another one.

    The first is (1, 0, ...) with the largest label; `other` has the first entries of the second row, whose label is
    -`label`, in units of the largest.
    """

    distance: float
    label: float
    other: tuple[float, ...]


def joint_sensitivity(quadratic: Quadratic, scales: Scales, d: int) -> float:
    """The mu of releasing (L0, L1, L2) together: their joint L2 sensitivity in units of their noise, exactly.

    With ``C, A, B`` the squares of (constant_range, linear_bound, square) over the scales, its square is the largest
    ``C (1 - s^2)^2 + A (1 + s^2 + 2 s c) + B (2 - 2 c^2)``, or on a line (d = 1) the largest ``C (1 - s^2)^2 +
    A (1 + s r)^2 + B (1 - r^2)^2``: docs/privacy/imtiaz2019.md, Theorem 1.
    """
    if scales.linear == 0 or scales.square == 0:
        return math.inf
    return worst_neighbours(quadratic, scales, d).distance


def worst_neighbours(quadratic: Quadratic, scales: Scales, d: int) -> Neighbours:
    """The samples that `joint_sensitivity` finds farthest apart."""
    C = 0.0 if quadratic.constant_range == 0 else _squared_ratio(quadratic.constant_range, scales.constant)
    A = _squared_ratio(quadratic.linear_bound, scales.linear)
    B = _squared_ratio(quadratic.square, scales.square)
    return _on_a_line(A, B, C) if d == 1 else _in_a_plane(A, B, C)


def _in_a_plane(A: float, B: float, C: float) -> Neighbours:
    def cosine(s: float) -> float:
        return min(1.0, s * A / (2 * B))

    def distance(s: float) -> float:
        c = cosine(s)
        return C * (1 - s * s) ** 2 + A * (1 + s * s + 2 * s * c) + B * (2 - 2 * c * c)

    # With c inside, convex in s^2: the ends. With c = 1, the derivative (1+s)(2A - 4C s(1-s)) has its root at:
    s = max([0.0, min(1.0, 2 * B / A), 1.0, *_hump(A, C)], key=distance)
    c = cosine(s)
    return Neighbours(math.sqrt(distance(s)), s, (c, math.sqrt(1 - c * c)))


def _on_a_line(A: float, B: float, C: float) -> Neighbours:
    def distance(point: tuple[float, float]) -> float:
        s, r = point
        return C * (1 - s * s) ** 2 + A * (1 + s * r) ** 2 + B * (1 - r * r) ** 2

    # the corners, and on the edges r = 1 and s = 1 the humps of (1 + t)^2 (A + C (1 - t)^2), the second with B for C
    points = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    s, r = max([*points, *((s, 1.0) for s in _hump(A, C)), *((1.0, r) for r in _hump(A, B))], key=distance)
    return Neighbours(math.sqrt(distance((s, r))), s, (r,))


def _hump(A: float, C: float) -> list[float]:
    """Where ``(1 + t)^2 (A + C (1 - t)^2)`` has a maximum inside [0, 1], if it has one."""
    return [(1 - math.sqrt(1 - 2 * A / C)) / 2] if C > 2 * A else []


def _squared_ratio(value: float, scale: float) -> float:
    return math.inf if scale == 0 else (value / scale) ** 2


def tight_scales(quadratic: Quadratic, d: int, radius: float, mu: float) -> Scales:
    """The split of a mu between L1 and L2 that perturbs the gradient least at a model of norm `radius`; no L0.

    The noise in the gradient, ``z1 + 2 z2 w``, has the energy ``K d T1^2 + 2 (d + 1) ||w||^2 T2^2``, K the number of
    outputs; with t = A/B (see
    `joint_sensitivity`) and mu^2 = B (2 + 2t + t^2/2) its stationary point solves the cubic below, and lies at t < 2.
    On a line mu^2 / B is another function of t, which grows like 4t from t = 1/2 on: the best t is below.
    """
    if radius > LONGEST:
        raise UserError(f"algo.radius must be at most {LONGEST:g}, got {radius:g}.")
    if math.isinf(mu):
        return NO_NOISE
    P = d * quadratic.outputs * quadratic.linear_bound**2
    K = 2 * (d + 1) * (radius * quadratic.square) ** 2
    if d == 1:

        def energy(t: float) -> float:
            return (P / t + K) * _on_a_line(t, 1.0, 0.0).distance ** 2

        best = minimize_scalar(energy, bounds=(1e-9, 0.5), method="bounded", options={"xatol": 1e-9})
        t = float(best.x)
    else:
        t = float(brentq(lambda t: K * t**3 + (2 * K + P / 2) * t**2 - 2 * P, 0.0, 2.0, xtol=1e-12))
    root_B = mu / (_on_a_line if d == 1 else _in_a_plane)(t, 1.0, 0.0).distance
    return Scales(math.inf, quadratic.linear_bound / (root_B * math.sqrt(t)), quadratic.square / root_B)


_SUMS = 1 << 61  # the largest sum of integers
_FINE = 21  # bits by which a step is finer than 1/d
_MOST_CLASSES = 1 << 10  # so that 1/K has steps on the coarsest grid


@dataclass(frozen=True)
class CoefficientTerms(Terms["Coefficients"]):
    """The coefficients of some parties' rows."""

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
            constant = [products[d:, d:].ravel()] * self.statistic.constant
            sums = np.concatenate([*constant, *[products[d:, :d].ravel()] * self.statistic.linear, products[where]])
            yield divide(sums, len(z[rows])) if party else sums


@dataclass(frozen=True)
class Coefficients(Statistic):
    """The sums over rows of the terms of a quadratic loss: constant (L0), linear (L1) and square (L2).

    Blocks are L0 (if `constant`), L1 (if `linear`), the diagonal of L2, and its entries above the diagonal. Noise is
    drawn for all 1 + d + d^2 numbers (d^2 without L1), and of an entry beside the diagonal the mean of two noises is
    kept: as ``w'Ew`` sees the symmetric part of E only, this is the same release. With `mirrored`, one of the two is
    kept.

    Args:
        loss: squared, logistic, or softmax.
        constant: whether L0 is released.
        unit: what is summed over: rows, or parties.
        last: only the rows of the last party.
        mirrored: how the noise beside the diagonal is made.
        linear: whether L1 is released; without it, no L0 either.
        classes: K of softmax, else 1.
    """

    terms = CoefficientTerms

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
        """The fractional bits of rows: 20 where the sums of N rows and the noise fit into 64 bits."""
        if self.classes > _MOST_CLASSES:
            raise UserError(f"algo.noise=discrete takes at most {_MOST_CLASSES:,} classes, not {self.classes:,}.")
        q = self.quadratic
        units = (*(1.0,) * self.constant, *(q.slope,) * self.linear, q.square, q.square)
        width = max(width / unit for width, unit in zip(widths, units, strict=True))
        finest = min(1 << 2 * BITS, _SUMS // problem.N)
        coarsest = 4 ** (((problem.d << _FINE).bit_length() + 1) // 2)
        return ((whole_steps(finest // coarsest, width * coarsest) * coarsest).bit_length() - 1) // 2

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        q, one = self.quadratic, 4.0**resolution
        label = 2.0**resolution if self.classes == 1 else float(self.classes * ((1 << resolution) // self.classes))
        linear = (-q.slope / (label * 2.0**resolution),) * self.linear
        return (*(1 / one,) * self.constant, *linear, q.square / one, q.square / one)

    def rounding(self, widths: Sequence[float], resolution: int, problem: Problem) -> float:
        """A party's mean is rounded once in every coordinate, so that two of them move apart by one step more there.

        That is at most ``d 2^(-2 bits)`` of mu, less than half of what `Program.target_mu` leaves.
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
    if loss.task == "multiclass":
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
    place = np.empty((d, d), np.intp)
    place[i, j] = place[j, i] = np.arange(len(i))
    A = np.take(packed[..., square:] / count, place, axis=-1)
    if lam:
        A += lam / 2 * np.eye(d)
    return packed[..., max(0, square - classes * d) : square] / count, A


# Matrix entries per budget in a block of draws. A constant, so that the noise does not depend on the list of budgets.
_BLOCK = 1 << 18

SOURCE = "Theorems 1 and 2, docs/privacy/imtiaz2019.md"

Minimise = Callable[[Array, Array, Array], tuple[Array, NDArray[np.bool_]]]
"""The models of polynomials ``w'Aw + b'w``, (budgets, draws, d, d) and (budgets, draws, d), given the edges (budgets,)
of the noise in A, and whether A had no minimum (budgets, draws). Of several classes (budgets, draws, 1, d, d) and
(budgets, draws, K, d)."""


def draws_together(d: int) -> int:
    """How many matrices (d, d) per budget are drawn at once."""
    return max(1, _BLOCK // d**2)


def split(of: Coefficients, d: int, mu: float, norm: float | None) -> Scales:
    """The noise on L1 and L2 that spends `mu` best for models of length `norm`; None: a typical length."""
    if math.isinf(mu):
        return NO_NOISE
    return tight_scales(of.quadratic, d, QUADRATIC_NORM[of.loss.name] if norm is None else norm, mu)


def coefficients_sum(of: Coefficients, scales: Scales, d: int) -> Sum:
    """The message: the sums of all coefficients with noise of these scales, in one vector."""
    constant = (scales.constant,) if of.constant else ()
    units = (*constant, scales.linear, scales.square, scales.square)
    return Sum(of, joint_sensitivity(of.quadratic, scales, d), 1.0, units)


def spectral_edge(d: int, variance: float = 0.5) -> float:
    """About the largest eigenvalue of noise on L2 with this variance beside the diagonal (the semicircle law's
    edge)."""
    return 2 * math.sqrt(variance * d)


def raised_to_floor(A: Array, b: Array, edges: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The minimisers with the eigenvalues of A raised to the floor."""
    return minimise_floored(A, b, SPECTRAL_FLOOR * edges.reshape(-1, *(1,) * (A.ndim - 3)))


def minimised(carrier: Carrier, lam: float, minimise: Minimise = raised_to_floor, variance: float = 0.5) -> Release:
    """Ask for the coefficients, and minimise the noisy polynomial + lam/2 ||w||^2.

    `noisy_objective` is its value at the model. Where L0 is not released the exact one stands in: it moves no
    minimiser, and metrics are for the experimenter, not for publication. `trimmed` is 1 where there was a direction
    without positive curvature, which had to be cut off or raised to the floor.
    """
    of = carrier.statistic(0)
    assert isinstance(of, Coefficients)
    d = carrier.problem.d
    count = int(carrier.mechanism.parties.sizes[-1]) if of.last else carrier.problem.units(of.unit)
    noisy = carrier.by_budget(carrier.ask(0))
    b, A = polynomial(noisy, d, count, lam, of.classes)
    if of.classes > 1:
        b, A = b.reshape(*b.shape[:2], of.classes, d), A[:, :, None]
    squares = np.array([messages[0].units[-1] for messages in carrier.messages])
    w, trimmed = minimise(A, b, spectral_edge(d, variance) * squares / count * carrier.widening)
    value = np.sum(w * ((A @ w[..., None])[..., 0] + b), axis=tuple(range(2, b.ndim)))
    models, trimmed = w.reshape(*value.shape, -1), trimmed.reshape(value.shape)
    terms = carrier.mechanism.terms(of)
    assert isinstance(terms, CoefficientTerms)
    constant = (noisy[..., 0] if of.constant else terms.constant) / count
    return Release(models, {"noisy_objective": constant + value, "trimmed": trimmed.astype(float)})
