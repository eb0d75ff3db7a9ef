"""Release the coefficients of a quadratic objective with noise, and minimise the noisy objective.

With a row's loss ``c0(y) + c1(y) x'w + c2 (x'w)^2``, the empirical risk is ``L0 + L1'w + w'L2 w``: L0 = mean c0(y),
L1 = mean c1(y) x, L2 = mean c2 x x'. The proofs: docs/privacy/imtiaz2019.md, docs/privacy/sufficient_statistics.md.
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
from dpml.mechanism.discrete import BITS, checked, whole_steps
from dpml.optim.losses import Loss, Quadratic, coded
from dpml.optim.quadratic import minimise_floored
from dpml.privacy.discrete import divide, to_integers
from dpml.privacy.discrete.rounding import Integers
from dpml.program import Carrier, Problem, Release, Statistic, Sum, Terms, Unit
from dpml.sums import TALL, PairwiseSum


@dataclass(frozen=True)
class Scales:
    """The noise scales of the constant, linear and square coefficients of a quadratic loss."""

    constant: float  # inf: the constant is not sent
    linear: float
    square: float

    def __post_init__(self) -> None:
        if not (self.constant >= 0 and 0 <= self.linear < math.inf and 0 <= self.square < math.inf):
            raise ValueError(f"not a noise scale: {self}")


LONGEST = 1e6
"""The largest norm for which `tight_scales` computes a split of the noise."""
NO_NOISE = Scales(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Neighbours:
    """Two labelled rows whose quadratic losses' coefficients, divided by the noise_std, have L2 distance `distance`.

    The first row is (1, 0, ...), with the largest label. The second row is `other` followed by zeros; its label is the
    largest label times -`label`.
    """

    distance: float
    label: float
    other: tuple[float, ...]


def joint_sensitivity(quadratic: Quadratic, scales: Scales, d: int) -> float:
    """Return the Gaussian-DP mu of all noisy coefficients together: docs/privacy/imtiaz2019.md, Theorem 1."""
    if scales.linear == 0 or scales.square == 0:
        return math.inf
    return worst_neighbours(quadratic, scales, d).distance


def worst_neighbours(quadratic: Quadratic, scales: Scales, d: int) -> Neighbours:
    """Return the two rows whose loss coefficients, divided by the noise_std, differ most."""
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

    # while c < 1, `distance` is convex in s^2, so largest at an end; for c = 1 its slope is (1+s)(2A - 4C s(1-s))
    s = max([0.0, min(1.0, 2 * B / A), 1.0, *_hump(A, C)], key=distance)
    c = cosine(s)
    return Neighbours(math.sqrt(distance(s)), s, (c, math.sqrt(1 - c * c)))


def _on_a_line(A: float, B: float, C: float) -> Neighbours:
    def distance(point: tuple[float, float]) -> float:
        s, r = point
        return C * (1 - s * s) ** 2 + A * (1 + s * r) ** 2 + B * (1 - r * r) ** 2

    # candidates (s, r): the corners, and `_hump`'s maxima on the edges r = 1 and, with B instead of C, s = 1
    points = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    s, r = max([*points, *((s, 1.0) for s in _hump(A, C)), *((1.0, r) for r in _hump(A, B))], key=distance)
    return Neighbours(math.sqrt(distance((s, r))), s, (r,))


def _hump(A: float, C: float) -> list[float]:
    """Return [t] for the local maximum t of ``(1 + t)^2 (A + C (1 - t)^2)`` in (0, 1), or [] without a maximum."""
    return [(1 - math.sqrt(1 - 2 * A / C)) / 2] if C > 2 * A else []


def _squared_ratio(value: float, scale: float) -> float:
    return math.inf if scale == 0 else (value / scale) ** 2


def tight_scales(quadratic: Quadratic, d: int, radius: float, mu: float) -> Scales:
    """Return the coefficients' `mu`-GDP noise scales that minimise the gradient noise at models of norm `radius`.

    For K outputs and the noise_std T1 of L1 and T2 of L2, the gradient noise has the expected squared norm
    ``K d T1^2 + 2 (d + 1) ||w||^2 T2^2``. With B = (square/T2)^2 and t B = (linear_bound/T1)^2, mu^2 is
    B (2 + 2t + t^2/2), and the best t solves a cubic. For d = 1, mu^2 differs, and the best t is below 1/2.
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
_FINE = 21  # a step is at most 2^-21 / d
_MOST_CLASSES = 1 << 10  # the most classes K for which the coarsest grid can represent 1/K


@dataclass(frozen=True)
class CoefficientTerms(Terms["Coefficients"]):
    """Compute sums of the coefficients of a quadratic loss over the parties' rows."""

    def total(self, *at: Any) -> Array:
        return self._total

    @cached_property
    def _total(self) -> Array:
        return self._packed(*self._rows)

    @cached_property
    def constant(self) -> float:
        """The sum of the constant coefficients c0(y) over all rows, without noise."""
        _, y, weights = self._rows
        constants = self.statistic.quadratic.constant(y)
        return float(constants.sum() if weights is None else weights @ constants)

    @property
    def _rows(self) -> tuple[Array, Array, Array | None]:
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
        """Yield each party's integer loss coefficients if `secure` or unit=party; otherwise yield all rows' sum."""
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
    """The sums over rows of the coefficients of a quadratic loss: constant (L0), linear (L1) and square (L2).

    Only the diagonal and the upper triangle of L2 are sent, but noise is drawn for all d^2 entries. An entry above the
    diagonal gets the mean of its two noise numbers, because ``w'Ew`` depends only on the symmetric part of the noise E.

    Args:
        constant: Whether L0 is released.
        unit: Whether the sum is over rows or over parties.
        last: Whether the sum is over the rows of the last party only.
        mirrored: Whether an entry above the diagonal gets one noise number instead of the mean of two noise numbers.
        linear: Whether the linear coefficients L1 are released; without them, the constant L0 is not released either.
        classes: The number of classes K for softmax, else 1.
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
        """Return the number of fractional bits of rounded rows, at most 20, so that noisy sums fit into 64 bits."""
        if self.classes > _MOST_CLASSES:
            raise UserError(f"algo.noise=discrete takes at most {_MOST_CLASSES:,} classes: set algo.noise=continuous.")
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
        """Return how much rounding parties' mean coefficients to a grid adds to mu; 0 if the privacy unit is a row."""
        if self.unit == "sample":
            return 0.0
        *linear, square, _ = np.abs(self.steps(resolution, problem)) / widths
        d = problem.d
        entries = self.classes * d
        return math.sqrt(entries * sum(each**2 for each in linear) + (d + d * (d - 1)) * square**2)

    def whole_labels(self, y: Array, bits: int) -> Integers:
        """Scale and round labels (n,), or codes (n, K) of K classes, to integers of absolute value at most 2^bits."""
        if self.classes == 1:
            return np.rint(np.ldexp(np.clip(y, -1, 1), bits)).astype(np.int64)
        K = self.classes
        return (K * np.equal.outer(y, np.arange(K)) - 1) * ((1 << bits) // K)


def whole_products(rows: Integers, labels: Integers, bits: int) -> Integers:
    """Return the exact product ``[X y]' [X y]`` for integer `rows` X (n, d) and `labels` y of absolute value <= 2^bits.

    Blocks of rows whose sums cannot exceed 2^53 are multiplied in floating point, which is exact and nine times faster.
    """
    wide = rows.shape[1] + labels[:1].size
    products = np.zeros((wide, wide), np.int64)
    for some in blocks(len(rows), most=1 << 53 - 2 * bits):
        own = np.column_stack([rows[some], labels[some]]).astype(float)
        products += (own.T @ own).astype(np.int64)
    return products


def quadratic_of(loss: Loss, classes: int = 1) -> Quadratic:
    """Return a loss's quadratic approximation; for K classes, the squared distance of scores to codes e_y - 1/K."""
    if loss.task == "multiclass":
        return coded(classes)
    assert loss.quadratic is not None
    return loss.quadratic


def entries(d: int) -> tuple[Index, Index]:
    """Return the row and column indices of the diagonal of a (d, d) matrix, and then of the entries above it."""
    on, (i, j) = np.arange(d), np.triu_indices(d, 1)
    return np.concatenate([on, i]), np.concatenate([on, j])


def polynomial(packed: Array, d: int, count: float, lam: float, classes: int = 1) -> tuple[Array, Array]:
    """Return b (..., K d), d entries per class, and one A (..., d, d), with lam/2 I, of the noisy ``w'Aw + b'w``."""
    square = packed.shape[-1] - d * (d + 1) // 2
    i, j = entries(d)
    place = np.empty((d, d), np.intp)
    place[i, j] = place[j, i] = np.arange(len(i))
    A = np.take(packed[..., square:] / count, place, axis=-1)
    if lam:
        A += lam / 2 * np.eye(d)
    return packed[..., max(0, square - classes * d) : square] / count, A


SOURCE = "Theorems 1 and 2, docs/privacy/imtiaz2019.md"

Minimise = Callable[[Array, Array, Array], tuple[Array, NDArray[np.bool_]]]
"""A function that minimises ``w'Aw + b'w``, given A (budgets, draws, d, d), b (budgets, draws, d), and approximately
the largest eigenvalue of the noise in A, (budgets,). It returns the models, and whether there was no minimum, (budgets,
draws). For K classes, A is (budgets, draws, 1, d, d) and b is (budgets, draws, K, d)."""


def split(of: Coefficients, d: int, mu: float, norm: float | None) -> Scales:
    """Return coefficients' `mu`-GDP noise scales that minimise gradient noise at model norm `norm` (None: default)."""
    return tight_scales(of.quadratic, d, QUADRATIC_NORM[of.loss.name] if norm is None else norm, mu)


def coefficients_sum(of: Coefficients, scales: Scales, d: int) -> Sum:
    """Return the noisy `Sum` of a quadratic loss's coefficients over rows or parties, given the noise scales."""
    constant = (scales.constant,) if of.constant else ()
    units = (*constant, scales.linear, scales.square, scales.square)
    return Sum(of, joint_sensitivity(of.quadratic, scales, d), 1.0, units)


def spectral_edge(d: int, variance: float = 0.5) -> float:
    """Approximate a (d, d) noise matrix's largest eigenvalue by the semicircle law, given the off-diagonal variance."""
    return 2 * math.sqrt(variance * d)


def raised_to_floor(A: Array, b: Array, edges: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Minimise ``w'Aw + b'w`` after raising A's small eigenvalues to a multiple of its noise's largest eigenvalue."""
    return minimise_floored(A, b, SPECTRAL_FLOOR * edges.reshape(-1, *(1,) * (A.ndim - 3)))


def minimised(carrier: Carrier, lam: float, minimise: Minimise = raised_to_floor, variance: float = 0.5) -> Release:
    """Release the models that minimise the noisy quadratic objective + lam/2 ||w||^2.

    The metric `noisy_objective` uses the exact L0 if L0 is not released. The metric `trimmed` is 1 if a direction
    without positive curvature was dropped or raised to a floor. Metrics are not for publication.
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
