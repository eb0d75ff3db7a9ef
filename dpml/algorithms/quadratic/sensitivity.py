"""Releasing the coefficients of a quadratic objective: noise scales, their joint sensitivity, and the best split."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from dpml.arrays import Array
from dpml.errors import UserError
from dpml.optim.losses import Quadratic


@dataclass(frozen=True)
class Scales:
    """Noise on N times (L0, L1, L2): standard deviations, or Laplace scales. inf for `constant`: L0 is not released."""

    constant: float
    linear: float
    square: float

    def __post_init__(self) -> None:
        if not (self.constant >= 0 and 0 <= self.linear < math.inf and 0 <= self.square < math.inf):
            raise ValueError(f"not a noise scale: {self}")

    def vector(self, d: int) -> Array:
        """The scale of each of the 1 + d + d^2 numbers."""
        return np.repeat([self.constant, self.linear, self.square], [1, d, d * d])


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

    Replacing (x, y) by (x', y') moves N (L0, L1, L2) by (c0 - c0', c1 x - c1' x', c2 (xx' - x'x'')). With
    ``C, A, B`` the squares of (constant_range, linear_bound, square) over the scales, s = |c1'/c1| <= 1 and c
    the cosine between x and x', the squared distance is

        C (1 - s^2)^2 + A (1 + s^2 + 2 s c) + B (2 - 2 c^2)

    at its largest, where rows of norm 1 and |c1| at its bound are worst (the distance grows with both). Over c it is
    largest at ``s A / 2B`` or, if that is more than 1, at 1; the candidates for s are below. The published scales give
    1.5 (squared) and 1.25 (logistic) times the mu that the paper counts.

    On a line (d = 1) rows have no angle. With the rows 1 and -r it is ``C (1 - s^2)^2 + A (1 + s r)^2 +
    B (1 - r^2)^2``: no inner point is a maximum, for where both derivatives vanish the determinant of the second
    derivatives is negative; so it is largest on an edge. The published scales give 1.323 and 1.
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

    Raises:
        UserError: the radius is larger than `LONGEST`.
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
