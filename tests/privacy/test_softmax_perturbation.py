"""Objective perturbation of several classes against the definition: densities by change of variables, and searches."""

import math

import numpy as np
import pytest
from scipy.special import softmax

from dpml.privacy import gdp
from dpml.privacy.proofs import softmax_perturbation as proof


def log_density(W: np.ndarray, X: np.ndarray, y: np.ndarray, sigma: float, ridge: float) -> np.ndarray:
    """Of the released minimiser at W (n, K, d), up to a constant, from the gradient and the Hessian written out."""
    n, K, d = W.shape
    b, H = -ridge * W, np.tile(ridge * np.eye(K * d), (n, 1, 1))
    for x, label in zip(X, y, strict=True):
        p = softmax(W @ x, axis=1)
        b -= (p - np.eye(K)[label])[:, :, None] * x
        C = p[:, :, None] * np.eye(K) - p[:, :, None] * p[:, None, :]
        H += np.einsum("nkl,i,j->nkilj", C, x, x).reshape(n, K * d, K * d)
    return -np.sum(b**2, axis=(1, 2)) / (2 * sigma**2) + np.linalg.slogdet(H)[1]


def minimisers(b: np.ndarray, X: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """For noises b (n, K, d), by Newton's method with halved steps."""
    n, K, d = b.shape
    W = -b / ridge
    for _ in range(200):
        g, H = ridge * W + b, np.tile(ridge * np.eye(K * d), (n, 1, 1))
        for x, label in zip(X, y, strict=True):
            p = softmax(W @ x, axis=1)
            g = g + (p - np.eye(K)[label])[:, :, None] * x
            C = p[:, :, None] * np.eye(K) - p[:, :, None] * p[:, None, :]
            H += np.einsum("nkl,i,j->nkilj", C, x, x).reshape(n, K * d, K * d)
        length = np.linalg.norm(g.reshape(n, -1), axis=1)
        if length.max() < 1e-9:
            return W
        step = np.linalg.solve(H, g.reshape(n, -1, 1)).reshape(g.shape)
        W = W - step / np.maximum(1, np.linalg.norm(step.reshape(n, -1), axis=1) / 2)[:, None, None]
    raise AssertionError("not solved")


def shown(pair, sigma: float, ridge: float, K: int, eps: float, draws: int, rng) -> tuple[float, float]:
    """delta of a pair of data sets at eps, the mean over releases, and its standard error."""
    first, second = pair
    b = sigma * rng.standard_normal((draws, K, first[0].shape[1]))
    W = minimisers(b, *first, ridge)
    loss = log_density(W, *first, sigma, ridge) - log_density(W, *second, sigma, ridge)
    lost = -np.expm1(np.minimum(eps - loss, 0))
    return float(lost.mean()), float(lost.std() / math.sqrt(draws))


def bound(eps: float, sigma: float, ridge: float, K: int) -> float:
    """The theorem's delta, written out."""
    left = eps - (K - 1) * math.log1p(1 / (K * ridge))
    assert left >= 2 / sigma**2
    return (K - 1) * math.exp(gdp.log_delta_of(2 * math.sqrt(2) / sigma, left))


def crowd(x, labels: tuple[int, int], others, n: int):
    """Neighbours: a row of label 0 at x or at its mirror image, beside n rows that hold the model."""
    rest, mirrored = np.tile(others, (n, 1)), np.array(x) * [-1, 1]
    y = np.array([labels[0]] * n + [labels[1]])
    return tuple((np.vstack([rest, row]), y) for row in (x, mirrored))


@pytest.mark.parametrize("K", [2, 3, 5])
def test_no_pair_shows_more_than_is_proven_and_some_show_most_of_it(K: int) -> None:
    """False alarm: below 1e-6 for a pair, five standard errors. With half of the sensitivity the bound is broken."""
    rng, sigma, ridge, most = np.random.default_rng(K), 3.0, 4.0, 0.0
    for b in (0.1, 0.3):
        pair = crowd([math.sqrt(1 - b * b), -b], (0, 0), [0.0, 1.0], 300)
        for eps in (0.7, 1.5):
            found, error = shown(pair, sigma, ridge, K, eps, 4_000, rng)
            assert found <= bound(eps, sigma, ridge, K) + 5 * error
            one = math.exp(gdp.log_delta_of(2 * math.sqrt(2) / sigma, eps))
            most = max(most, (found - 5 * error) / one)
            assert found > 1.2 * (K - 1) * math.exp(gdp.log_delta_of(math.sqrt(2) / sigma, eps)) or K > 3
    assert most > {2: 0.6, 3: 0.4, 5: 0.2}[K]  # opposite rows have gradients of length sqrt(K/(K - 1)), the bound sqrt 2


def test_the_bound_holds_for_rows_labels_and_others_at_random() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        K, d, n = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 6))
        X, y = rng.standard_normal((n + 2, d)), rng.integers(K, size=n + 2)
        X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
        X[-2:] /= np.linalg.norm(X[-2:], axis=1, keepdims=True)
        pair = tuple((X[keep], y[keep]) for keep in (np.arange(n + 1), np.append(np.arange(n), n + 1)))
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
            if p is not None and np.ptp(p) == 0:
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
