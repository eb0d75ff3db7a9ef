"""Objective perturbation of several classes against the definition: densities by change of variables, and searches."""

import math

import numpy as np
import pytest
from quick import quick_first
from scipy.special import softmax

from dpml.privacy import gdp
from dpml.privacy.proofs import softmax_perturbation as proof


def derivatives(W: np.ndarray, rows, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """The gradients (n, K d) and Hessians at W (n, K, d) without noise; `rows` are (x, label, how many of them)."""
    n, K, d = W.shape
    g, H = (ridge * W).reshape(n, -1), np.tile(ridge * np.eye(K * d), (n, 1, 1))
    for x, label, count in rows:
        p = softmax(W @ x, axis=1)
        g += count * ((p - np.eye(K)[label])[:, :, None] * x).reshape(n, -1)
        C = p[:, :, None] * np.eye(K) - p[:, :, None] * p[:, None, :]
        H += count * (C[:, :, None, :, None] * np.outer(x, x)[:, None, :]).reshape(n, K * d, K * d)
    return g, H


def log_density(W: np.ndarray, rows, sigma: float, ridge: float) -> np.ndarray:
    """Of the released minimiser at W (n, K, d), up to a constant."""
    g, H = derivatives(W, rows, ridge)
    return -np.sum(g**2, axis=1) / (2 * sigma**2) + np.linalg.slogdet(H)[1]


def minimisers(b: np.ndarray, rows, ridge: float) -> np.ndarray:
    """For noises b (n, K, d), by Newton's method with short steps first."""
    W = np.zeros_like(b)
    for _ in range(300):
        g, H = derivatives(W, rows, ridge)
        g += b.reshape(g.shape)
        if np.linalg.norm(g, axis=1).max() < 1e-8:
            return W
        step = np.linalg.solve(H, g[..., None])[..., 0]
        W = W - (step / np.maximum(1, np.linalg.norm(step, axis=1, keepdims=True) / 2)).reshape(W.shape)
    raise AssertionError("not solved")


def shown(pair, sigma: float, ridge: float, K: int, eps: float, draws: int, rng) -> tuple[float, float]:
    """delta of a pair of data sets at eps, the mean over releases, and its standard error."""
    first, second = pair
    W = minimisers(sigma * rng.standard_normal((draws, K, len(first[0][0]))), first, ridge)
    loss = log_density(W, first, sigma, ridge) - log_density(W, second, sigma, ridge)
    lost = -np.expm1(np.minimum(eps - loss, 0))
    return float(lost.mean()), float(lost.std() / math.sqrt(draws))


def bound(eps: float, sigma: float, ridge: float, K: int) -> float:
    """The theorem's delta, written out."""
    left = eps - (K - 1) * math.log1p(1 / (K * ridge))
    if left < 2 / sigma**2:
        return 1.0
    return (K - 1) * math.exp(gdp.log_delta_of(2 * math.sqrt(2) / sigma, left))


def crowd(b: float, n: int):
    """Neighbours: beside n rows a row that goes b against them, or its mirror image, all of one label."""
    ahead, a = np.array([0.0, 1.0]), math.sqrt(1 - b * b)
    return tuple([(ahead, 0, n), (np.array([side, -b]), 0, 1)] for side in (a, -a))


@pytest.mark.parametrize(("K", "ridge"), quick_first([(2, 4.0), (3, 4.0), (5, 1.0)], 2))
def test_opposite_rows_show_less_than_is_proven_and_more_than_half_of_the_sensitivity_would_allow(K, ridge) -> None:
    """False alarm: below 1e-6, five standard errors to either side."""
    rng, sigma = np.random.default_rng(K), 3.0
    for eps in (1.5, 0.7):
        found, error = shown(crowd(0.35, 3000), sigma, ridge, K, eps, 4_000, rng)
        assert found <= bound(eps, sigma, ridge, K) + 5 * error
    assert found - 5 * error > (K - 1) * math.exp(gdp.log_delta_of(math.sqrt(2) / sigma, eps))


def test_the_bound_holds_for_rows_labels_and_others_at_random() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        K, d, n = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 6))
        X, y = rng.standard_normal((n + 2, d)), rng.integers(K, size=n + 2)
        X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
        X[-2:] /= np.linalg.norm(X[-2:], axis=1, keepdims=True)
        pair = tuple([(X[i], y[i], 1) for i in (*range(n), last)] for last in (n, n + 1))
        sigma, ridge = float(rng.uniform(2, 4)), float(rng.uniform(1.5, 6))
        eps = 2 / sigma**2 + proof.price(ridge, K) + float(rng.uniform(0.01, 0.6))
        found, error = shown(pair, sigma, ridge, K, eps, 1_000, rng)
        assert found <= bound(eps, sigma, ridge, K) + 5 * error


@pytest.mark.parametrize("K", [2, 3, 10])
def test_the_jacobian_costs_no_more_than_its_price_and_at_uniform_p_all_of_it(K: int) -> None:
    rng = np.random.default_rng(K)
    for ridge in (0.1, 1.0, 30.0):
        for p in (np.full(K, 1 / K), *rng.dirichlet(np.full(K, 0.5), 200)):
            factor = np.linalg.slogdet(np.eye(K) + (np.diag(p) - np.outer(p, p)) / ridge)[1]
            assert factor <= proof.price(ridge, K)
            if np.ptp(p) == 0:
                assert factor == pytest.approx(proof.price(ridge, K), rel=1e-9)
        assert proof.price(ridge, K) < 1 / ridge


@pytest.mark.parametrize("K", [2, 3, 10])
def test_the_noise_has_the_budget(K: int) -> None:
    for eps in (0.01, 0.1, 1.0, 10.0):
        for delta in (1e-2, 1e-5, 1e-9):
            ridge = 3 / eps
            sigma = proof.sigma_of(eps, ridge, K, delta)
            assert eps * (1 - 1e-6) < proof.eps_of(sigma, ridge, K, delta) <= eps
            assert bound(eps, sigma, ridge, K) <= delta * (1 + 1e-9)
    assert proof.sigma_of(1.0, 0.01, K, 1e-5) == math.inf  # the curvature alone costs more
    assert proof.eps_of(1.0, 1.0, 1, 1e-5) == proof.eps_of(0.0, 1.0, K, 1e-5) == math.inf
