"""The curve of Gaussian objective perturbation against exact privacy curves, by change of variables and integration."""

import math

import numpy as np
import pytest
from scipy.special import expit

from dpml.privacy import gdp
from dpml.privacy.proofs import objective_perturbation as objective


def log_density(
    w: np.ndarray, rows: np.ndarray, sigma: float, ridge: float, counts: np.ndarray | float = 1.0
) -> np.ndarray:
    """log density of the released minimiser at w (n, d); `rows` (m, d) are labels times features, `counts` of each."""
    s = expit(-w @ rows.T)
    b = (s * counts) @ rows - ridge * w
    d = w.shape[1]
    jacobian = np.einsum("nm,mi,mj->nij", s * (1 - s) * counts, rows, rows) + ridge * np.eye(d)
    return -np.sum(b * b, axis=1) / (2 * sigma**2) + np.linalg.slogdet(jacobian)[1] - d * math.log(sigma * 2.5066282746)


def exact(rows: np.ndarray, other: np.ndarray, sigma: float, ridge: float, eps: np.ndarray, points: int) -> np.ndarray:
    """delta(eps) of one pair of neighbours, by summation over a grid that covers all but 1e-9 of the mass."""
    d = rows.shape[1]
    reach = (6.5 * sigma + len(rows)) / ridge
    axis = np.linspace(-reach, reach, points)
    w = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    p, q = (np.exp(log_density(w, data, sigma, ridge)) for data in (rows, other))
    cell = (axis[1] - axis[0]) ** d
    assert p.sum() * cell == pytest.approx(1, abs=1e-6)
    assert q.sum() * cell == pytest.approx(1, abs=1e-6)
    return np.array([np.maximum(p - math.exp(e) * q, 0).sum() * cell for e in eps])


def neighbours(rng: np.random.Generator, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A few common rows, some of them outside the ball (they stand for many), and a row that is replaced."""
    common = rng.standard_normal((rng.integers(0, 4), d)) * rng.choice([0.3, 3.0 / d])
    pair = rng.standard_normal((2, d))
    pair /= np.maximum(np.linalg.norm(pair, axis=1, keepdims=True), rng.choice([1e-9, 1.0]))
    if rng.random() < 0.4:
        pair[1] = -pair[0]
    return np.vstack([common, pair[:1]]), np.vstack([common, pair[1:]])


@pytest.mark.parametrize(("d", "pairs", "points"), [(1, 150, 8001), (2, 25, 401)])
def test_no_pair_of_neighbours_exceeds_the_bound(d: int, pairs: int, points: int) -> None:
    rng, closest = np.random.default_rng(d), 0.0
    for _ in range(pairs):
        sigma, ridge = 10 ** rng.uniform(-0.3, 1.0), 10 ** rng.uniform(-1 if d == 1 else -0.2, 1.7)
        eps = np.concatenate([[0.0, 1 / sigma**2], rng.uniform(0, 3, 3), [2 / ridge, objective.paid(sigma, ridge)]])
        eps = eps[(eps >= 0) & (eps < 8)]
        found = exact(*neighbours(rng, d), sigma, ridge, eps, points)
        bound = np.array([objective.delta_of(e, sigma, ridge) for e in eps])
        assert np.all(found <= bound + 2e-6)  # the accuracy of the sums
        closest = max(closest, float((found / np.maximum(bound, 1e-3)).max()))
    assert closest > 0.5  # the bound is not idle


@pytest.mark.parametrize(("sigma", "ridge", "eps"), [(4.0, 4.0, 0.5), (9.0, 16.0, 0.1), (1.0, 1.5, 1.5)])
def test_the_bound_is_almost_reached(sigma: float, ridge: float, eps: float) -> None:
    """Many equal rows hold w at (0, 20), where both gradients are long, and almost opposite across the plane."""
    height, angle = 20.0, 0.2
    many = ridge * height * (1 + math.exp(height))
    pair = [np.array([[sign * math.cos(angle), -math.sin(angle)]]) for sign in (1, -1)]
    wide = 8 * sigma / ridge
    across = np.linspace(-wide, wide, 801)
    along = height + np.linspace(-8, 4, 801) * sigma / ridge / 12
    w = np.stack(np.meshgrid(across, along, indexing="ij"), axis=-1).reshape(-1, 2)
    p, q = (np.exp(log_density(w, np.vstack([[[0.0, 1.0]], row]), sigma, ridge, np.array([many, 1.0]))) for row in pair)
    cell = (across[1] - across[0]) * (along[1] - along[0])
    assert p.sum() * cell == pytest.approx(1, abs=1e-4)
    found = np.maximum(p - math.exp(eps) * q, 0).sum() * cell
    assert 0.75 < found / objective.delta_of(eps, sigma, ridge) <= 1


def test_removal_of_a_row_alone_is_the_gaussian_mechanism_of_sensitivity_one() -> None:
    """The lemma: without u against with u, in both directions, where the curvature costs nothing and where it does."""
    rng = np.random.default_rng(5)
    for _ in range(120):
        sigma, ridge = 10 ** rng.uniform(-0.4, 1.2), 10 ** rng.uniform(-1.3, 1.5)
        common = rng.standard_normal((rng.integers(1, 4), 1)) * rng.choice([0.3, 3.0])
        u = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)])
        without, with_ = np.vstack([common, [[0.0]]]), np.vstack([common, [[u]]])
        rho = max(0.0, 1 / ridge - 1 / (2 * sigma**2))
        eps = np.array([0.0, rho / 3, rho, rho + 0.5])
        added, removed = (exact(a, b, sigma, ridge, eps, 8001) for a, b in ((without, with_), (with_, without)))
        plain = np.array([math.exp(gdp.log_delta_of(1 / sigma, e)) for e in eps])
        paying = np.array([objective._gaussian(1 / sigma, objective._effective(e, rho, ridge)) for e in eps])
        assert np.all(added <= plain + 2e-6)
        assert np.all(removed <= paying + 2e-6)
        assert np.all(removed[[0, 2, 3]] <= plain[[0, 2, 3]] + 2e-6)


def test_where_the_curvature_is_paid_it_is_the_gaussian_mechanism_of_sensitivity_two() -> None:
    for sigma, ridge in ((4.0, 4.1), (0.5, 10.0), (30.0, 100.0)):
        for eps in (objective.paid(sigma, ridge), 1.0, 3.0, 1 / sigma**2, 0.0):
            if eps >= 0:
                gaussian = math.exp(gdp.log_delta_of(2 / sigma, eps))
                assert objective.delta_of(max(eps, 0.0), sigma, ridge) == pytest.approx(gaussian, rel=1e-12)


@pytest.mark.parametrize("delta", [0.05, 1e-3, 1e-6])
@pytest.mark.parametrize(("sigma", "ridge"), [(5.0, 0.5), (20.0, 1.0), (3.0, 0.01), (60.0, 10.0)])
def test_eps_is_proven_at_delta_and_never_above_the_price_of_the_whole_jacobian(
    delta: float, sigma: float, ridge: float
) -> None:
    eps = objective.eps_of(sigma, ridge, delta)
    assert objective.delta_of(eps, sigma, ridge) <= delta * (1 + 1e-9)
    assert eps >= gdp.eps_of(2 / sigma, delta)
    assert eps <= max(gdp.eps_of(2 / sigma, delta), objective.paid(sigma, ridge))
    # Jacobian and noise bounded apart, as in the literature: e^kappa times a Gaussian curve
    kappa = math.log1p(0.25 / ridge)
    assert eps <= kappa + gdp.eps_of(2 / sigma, delta * math.exp(-kappa)) + 1e-6
    assert objective.eps_of(0.0, ridge, delta) == math.inf
