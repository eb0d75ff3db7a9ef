"""Releasing the coefficients of a quadratic objective: noise scales, their joint sensitivity, and the best split."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpml.arrays import Array
from dpml.optim.losses import Quadratic


@dataclass(frozen=True)
class Scales:
    """Noise on N times (L0, L1, L2): standard deviations, or Laplace scales. `constant` = inf: L0 is not released."""

    constant: float
    linear: float
    square: float

    def __post_init__(self) -> None:
        if not (self.constant >= 0 and 0 <= self.linear < math.inf and 0 <= self.square < math.inf):
            raise ValueError(f"not a noise scale: {self}")

    def vector(self, d: int) -> Array:
        """The scale of each of the 1 + d + d^2 numbers."""
        return np.repeat([self.constant, self.linear, self.square], [1, d, d * d])


NO_NOISE = Scales(0.0, 0.0, 0.0)


def joint_sensitivity(quadratic: Quadratic, scales: Scales) -> float:
    """The mu of releasing (L0, L1, L2) together: their joint L2 sensitivity in units of their noise, exactly.

    Replacing (x, y) by (x', y') moves N (L0, L1, L2) by (c0 - c0', c1 x - c1' x', c2 (xx' - x'x'')). With
    ``C, A, B`` the squares of (constant_range, linear_bound, square) over the scales, s = |c1'/c1| <= 1 and c
    the cosine between x and x', the squared distance is

        C (1 - s^2)^2 + A (1 + s^2 + 2 s c) + B (2 - 2 c^2)

    at its largest, where rows of norm 1 and |c1| at its bound are worst (the distance grows with both). Over c it is
    largest at ``s A / 2B`` or, if that is more than 1, at 1; the candidates for s are below. The published scales give
    1.5 (squared) and 1.25 (logistic) times the mu that the paper counts.
    """
    if scales.linear == 0 or scales.square == 0:
        return math.inf
    return worst_neighbours(quadratic, scales)[0]


def worst_neighbours(quadratic: Quadratic, scales: Scales) -> tuple[float, float, float]:
    """The largest distance of `joint_sensitivity` and the (s, c) that have it."""
    C = 0.0 if quadratic.constant_range == 0 else _squared_ratio(quadratic.constant_range, scales.constant)
    A = _squared_ratio(quadratic.linear_bound, scales.linear)
    B = _squared_ratio(quadratic.square, scales.square)

    def cosine(s: float) -> float:
        return min(1.0, s * A / (2 * B))

    def distance(s: float) -> float:
        c = cosine(s)
        return C * (1 - s * s) ** 2 + A * (1 + s * s + 2 * s * c) + B * (2 - 2 * c * c)

    # With c inside, convex in s^2: the ends. With c = 1, the derivative (1+s)(2A - 4C s(1-s)) has its root at:
    candidates = [0.0, min(1.0, 2 * B / A), 1.0]
    if C > 2 * A:
        candidates.append((1 - math.sqrt(1 - 2 * A / C)) / 2)
    s = max(candidates, key=distance)
    return math.sqrt(distance(s)), s, cosine(s)


def _squared_ratio(value: float, scale: float) -> float:
    return math.inf if scale == 0 else (value / scale) ** 2


def tight_scales(quadratic: Quadratic, d: int, radius: float, mu: float) -> Scales:
    """The split of a mu between L1 and L2 that perturbs the gradient least at a model of norm `radius`; no L0.

    The noise in the gradient, ``z1 + 2 z2 w``, has the energy ``d T1^2 + 2 (d + 1) ||w||^2 T2^2``; with t = A/B (see
    `joint_sensitivity`) and mu^2 = B (2 + 2t + t^2/2) its stationary point solves the cubic below, and lies at t < 2.
    """
    if math.isinf(mu):
        return NO_NOISE
    P = d * quadratic.linear_bound**2
    K = 2 * (d + 1) * (radius * quadratic.square) ** 2
    t = float(brentq(lambda t: K * t**3 + (2 * K + P / 2) * t**2 - 2 * P, 0.0, 2.0, xtol=1e-12))
    root_B = mu / math.sqrt(2 + 2 * t + t * t / 2)
    return Scales(math.inf, quadratic.linear_bound / (root_B * math.sqrt(t)), quadratic.square / root_B)
