"""Every sensitivity and view of the functional mechanism family against brute force."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, fm, unit_noise
from scipy.optimize import minimize

from dpml.algorithms.quadratic.coefficients import Scales, joint_sensitivity, tight_scales
from dpml.algorithms.quadratic.laplace_functional_mechanism import LaplaceFunctionalMechanism
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Problem

Point = tuple[np.ndarray, float]


def coefficients(loss: Loss, x: np.ndarray, y: float) -> tuple[float, np.ndarray, np.ndarray]:
    """One sample's (L0, L1, L2), from the loss's values alone: Taylor coefficients at w = 0."""
    value, slope, curvature = taylor(loss, y)
    return value, slope * x, curvature / 2 * np.outer(x, x)


@lru_cache(maxsize=1 << 10)
def taylor(loss: Loss, y: float) -> tuple[float, float, float]:
    """Value, slope and curvature at a score of 0: a search moves one number at a time, and mostly not the label."""
    label = np.array([y])
    zero, h = np.zeros((1, 1)), 1e-3
    value = float(loss.value(zero, label)[0, 0])
    slope = float(loss.slope(zero, label)[0, 0])
    return value, slope, float((loss.slope(zero + h, label) - loss.slope(zero - h, label))[0, 0] / (2 * h))


def search(distance: Callable[[Point, Point], float], loss: Loss, d: int, starts: int, seed: int = 0) -> float:
    """The largest distance between two samples' contributions, over the whole domain, by multi-start ascent."""
    rng = np.random.default_rng(seed)
    labels = [(a, b) for a in (-1.0, 1.0) for b in (-1.0, 1.0)]

    def unpack(v: np.ndarray, pair: tuple[float, float]) -> tuple[Point, Point]:
        x, z = v[:d], v[d : 2 * d]
        x, z = x / max(1, np.linalg.norm(x)), z / max(1, np.linalg.norm(z))
        y = tuple(np.tanh(v[2 * d :])) if loss is SQUARED else pair
        return (x, y[0]), (z, y[1])

    best = 0.0
    for start in range(starts):
        pair = labels[start % 4]
        v = rng.standard_normal(2 * d + 2) * rng.choice([0.5, 2.0])
        found = minimize(lambda v, pair=pair: -distance(*unpack(v, pair)), v, method="L-BFGS-B")
        best = max(best, -float(found.fun))
    return best


def scaled_distance(loss: Loss, scales: Scales) -> Callable[[Point, Point], float]:
    def distance(p: Point, q: Point) -> float:
        moves = [np.subtract(a, b) for a, b in zip(coefficients(loss, *p), coefficients(loss, *q), strict=True)]
        parts = [
            float(np.sum(move**2)) / scale**2 if scale else 0.0
            for move, scale in zip(moves, (scales.constant, scales.linear, scales.square), strict=True)
        ]
        return math.sqrt(sum(parts))

    return distance


@pytest.mark.parametrize(
    ("d", "loss", "scales", "known"),
    [
        (2, SQUARED, Scales(1, 4, math.sqrt(2)), 1.5),  # published: the paper counts 1
        (2, SQUARED, Scales(math.inf, 4, math.sqrt(2)), 1.25),  # without the constant
        (2, LOGISTIC, Scales(0, 1, math.sqrt(2) / 8), 1.25),
        (2, SQUARED, Scales(1, 1, 1), 4.0),  # one scale for all, as in the authors' dpfm
        (2, SQUARED, Scales(0.2, 1, 1), None),
        (2, SQUARED, Scales(0.1, 1.7, 20), None),  # the constant dominates: worst at an inner label
        (2, SQUARED, Scales(math.inf, 1, 30), None),
        (2, LOGISTIC, Scales(0, 30, 1), None),
        (1, SQUARED, Scales(1, 4, math.sqrt(2)), math.sqrt(1.75)),  # published
        (1, LOGISTIC, Scales(0, 1, math.sqrt(2) / 8), 1.0),
        (1, SQUARED, Scales(math.inf, 4, math.sqrt(2)), None),
        (1, SQUARED, Scales(0.1, 1.7, 20), None),  # an inner label is worst
        (1, SQUARED, Scales(math.inf, 1, 0.1), None),  # an inner length
        (1, LOGISTIC, Scales(0, 4, 0.1), None),
    ],
)
def test_joint_sensitivity_is_the_supremum_over_neighbours(
    d: int, loss: Loss, scales: Scales, known: float | None
) -> None:
    claimed = joint_sensitivity(loss.quadratic, scales, d)
    distance = scaled_distance(loss, scales)
    found = search(distance, loss, d, starts=6)
    if d == 1:
        rows = [np.array([x]) for x in np.linspace(-1, 1, 41)]
        labels = np.linspace(-1, 1, 21) if loss is SQUARED else (-1.0, 1.0)
        found = max(found, *(distance((np.ones(1), 1.0), (row, y)) for row in rows for y in labels))
    assert found <= claimed * (1 + 1e-6)
    assert found == pytest.approx(claimed, rel=2e-3)
    assert claimed <= joint_sensitivity(loss.quadratic, scales, d=2)  # where rows have an angle
    if known is not None:
        assert claimed == pytest.approx(known, rel=1e-12)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
def test_without_noise_the_joint_sensitivity_is_infinite(loss: Loss) -> None:
    """Where what has no noise moves: L1 and L2 always, L0 of the squared loss alone."""
    q = loss.quadratic
    assert joint_sensitivity(q, Scales(1.0, 0.0, 1.0), 2) == math.inf
    assert joint_sensitivity(q, Scales(1.0, 1.0, 0.0), 2) == math.inf
    assert math.isinf(joint_sensitivity(q, Scales(0.0, 1.0, 1.0), 2)) == (loss is SQUARED)
    none = tight_scales(q, 5, 1.0, math.inf)
    assert (none.constant, none.linear, none.square) == (0, 0, 0)


def gradient_energy(scales: Scales, d: int, radius: float) -> float:
    """E ||T1 z1 + 2 T2 z2 w||^2 at ||w|| = radius; `test_gradient_noise_energy` checks it on samples."""
    return d * scales.linear**2 + 2 * (d + 1) * radius**2 * scales.square**2


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
@pytest.mark.parametrize("radius", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("d", [1, 2, 30])
def test_tight_split_spends_exactly_mu_and_is_the_best_split(loss: Loss, radius: float, d: int) -> None:
    q, mu = loss.quadratic, 0.37
    scales = tight_scales(q, d, radius, mu)
    assert scales.constant == math.inf
    assert joint_sensitivity(q, scales, d) == pytest.approx(mu, rel=1e-9)

    for stretch in np.geomspace(0.2, 5, 41):  # every other split of the same mu disturbs the gradient more
        other = Scales(math.inf, scales.linear * stretch, scales.square)
        factor = joint_sensitivity(q, other, d) / mu
        other = Scales(math.inf, other.linear * factor, other.square * factor)
        assert gradient_energy(other, d, radius) >= gradient_energy(scales, d, radius) * (1 - 1e-9)


def test_gradient_noise_energy() -> None:
    rng, d = np.random.default_rng(1), 6
    w = rng.standard_normal(d)
    _, z1, z2 = unit_noise(fm(SQUARED), rng, 40_000, Problem(1, 1, d))
    energy = np.mean(np.sum((0.7 * z1 + 2 * 0.4 * z2 @ w) ** 2, axis=1))
    # 40,000 draws: a relative standard error of about 0.4 %
    assert energy == pytest.approx(gradient_energy(Scales(0, 0.7, 0.4), d, float(np.linalg.norm(w))), rel=0.02)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
@pytest.mark.parametrize("calibration", ["published", "tight"])
@pytest.mark.parametrize(("d", "reached"), [(1, 0.79), (2, 0.85), (3, 0.85), (5, 0.9)])
def test_pure_eps_bounds_what_brute_force_finds_for_all_coefficients(
    loss: Loss, calibration: str, d: int, reached: float
) -> None:
    mechanism = LaplaceFunctionalMechanism(loss, calibration=calibration)
    scales = mechanism.scales(Budget(1.0), Problem(1, 50, d))
    *_, proven = mechanism.guarantees(Budget(1.0), Problem(1, 50, d))
    assert (proven.basis, proven.view, proven.unit, proven.delta) == ("proven", "release", "sample", 0)

    def distance(p: Point, q: Point) -> float:
        constant, linear, square = (
            np.subtract(a, b) for a, b in zip(coefficients(loss, *p), coefficients(loss, *q), strict=True)
        )
        square = np.triu(square) if calibration == "tight" else square
        first = abs(float(constant)) / scales.constant if loss is SQUARED and calibration == "published" else 0.0
        return first + float(np.abs(linear).sum()) / scales.linear + float(np.abs(square).sum()) / scales.square

    found = search(distance, loss, d, starts=12)
    assert found <= proven.eps * (1 + 1e-6)
    assert found >= (0.94 if calibration == "tight" else reached) * proven.eps


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
@pytest.mark.parametrize("radius", [1.0, 0.2, 6.0])
def test_pure_tight_split_is_the_best_split_for_the_noise_in_the_gradient(loss: Loss, radius: float) -> None:
    """Of every split of one eps; the energies of the noise in the gradient are measured where they are drawn."""
    d, budget = 12, Budget(0.7)
    mechanism = LaplaceFunctionalMechanism(loss, calibration="tight", radius=radius)
    problem = Problem(2, 50, d)
    scales = mechanism.scales(budget, problem)
    _, z1, z2 = unit_noise(mechanism, np.random.default_rng(2), 20_000, problem)
    w = np.random.default_rng(3).standard_normal(d)
    w *= radius / np.linalg.norm(w)
    linear, square = np.mean(np.sum(z1**2, axis=1)), np.mean(np.sum((2 * z2 @ w) ** 2, axis=1))

    def energy(b1: float, b2: float) -> float:
        return b1**2 * linear + b2**2 * square

    least = energy(scales.linear, scales.square)
    others = []
    for ratio in np.geomspace(1e-3, 1e3, 601):  # each with as much noise as gives the same eps
        stretch = mechanism.pure_eps(Scales(math.inf, 1.0, ratio), d) / budget.eps
        others.append(energy(stretch, stretch * ratio))
    assert least == pytest.approx(min(others), rel=1e-3)
    (proven,) = mechanism.guarantees(budget, problem)
    assert proven.eps == pytest.approx(budget.eps)
