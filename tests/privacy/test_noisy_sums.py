"""The rounds of psgd: noise sums against brute force, tails against sampling, views against covariances."""

import math

import numpy as np
import pytest
from scipy import stats

from dpml.privacy import gdp, noise
from dpml.privacy.proofs import noisy_sums as rounds


@pytest.mark.parametrize(("parties", "d"), [(1, 1), (3, 2), (5, 10)])
def test_a_sum_of_l2_laplace_vectors_is_drawn_exactly(parties: int, d: int) -> None:
    n = 20_000
    fast = noise.l2_laplace_total(np.random.default_rng(0), n, parties, d)
    rng = np.random.default_rng(1)
    brute = sum(noise.l2_laplace(rng, n, d) for _ in range(parties))
    # two-sample Kolmogorov-Smirnov at a false-alarm rate of 1e-4 each, seeded
    assert stats.ks_2samp(np.linalg.norm(fast, axis=1), np.linalg.norm(brute, axis=1)).pvalue > 1e-4
    assert stats.ks_2samp(fast[:, 0], brute[:, 0]).pvalue > 1e-4
    if parties == 1:
        assert stats.kstest(np.linalg.norm(fast, axis=1), stats.gamma(d).cdf).pvalue > 1e-4


@pytest.mark.parametrize(("shape", "count"), [(27.5, 200), (5.5, 200), (1.5, 50), (1.0, 3), (15.5, 1)])
@pytest.mark.parametrize("tail", [1e-1, 1e-3])
def test_the_tail_of_a_sum_of_inverse_gammas_is_bounded(shape: float, count: int, tail: float) -> None:
    n = 20_000
    sums = (1 / np.random.default_rng(2).gamma(shape, size=(n, count))).sum(axis=1)
    bound = rounds.inverse_gamma_sum(shape, count, tail)
    assert np.mean(sums > bound) <= tail + 5 * math.sqrt(tail / n)  # five standard errors
    if shape > 5:
        assert bound <= 1.3 * np.quantile(sums, 1 - tail)
    assert rounds.inverse_gamma_sum(shape, count, tail / 10) > bound


def test_no_sequence_of_shifts_exceeds_what_eta_leaves() -> None:
    """v' C^-1 v over random and greedy corners of the parallelogram, against 4 S and S + 1/common^2."""
    rng, reached = np.random.default_rng(3), 0.0
    for _ in range(300):
        T = int(rng.integers(1, 12))
        W = rng.gamma(3.0, size=T) * 10 ** rng.uniform(-1, 2)
        common = 10 ** rng.uniform(-1, 1.5)
        inverse = np.linalg.inv(np.diag(W) + common**2)
        u = rng.standard_normal((2, 2))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        if rng.random() < 0.5:
            u[1] = -u[0]
        corners = np.array([[0, 0], -u[0], u[1], u[1] - u[0]])
        pick = rng.integers(4, size=T)
        for _ in range(3):  # the form is convex in every v_t: best at a corner
            for t in range(T):
                values = [
                    np.einsum("ti,ts,si->", v, inverse, v) for v in (corners[_with(pick, t, k)] for k in range(4))
                ]
                pick[t] = int(np.argmax(values))
        S = np.sum(1 / W)
        bound = min(4 * S, S + 1 / common**2)
        assert max(values) <= bound * (1 + 1e-9)
        reached = max(reached, max(values) / bound)
    assert reached > 0.95


def _with(pick: np.ndarray, t: int, k: int) -> np.ndarray:
    changed = pick.copy()
    changed[t] = k
    return changed


@pytest.mark.parametrize(("parties", "d", "beta"), [(1, 1, 0.5), (2, 3, 0.25), (1, 6, 1.0)])
def test_one_round_against_the_exact_curve(parties: int, d: int, beta: float) -> None:
    """delta of one sum that moves by 2, by sampling its closed-form density: |x|^v K_v(beta |x|)."""
    from scipy.special import kve

    order = (parties * (d + 1) - d) / 2
    x = noise.l2_laplace_total(np.random.default_rng(4), 200_000, parties, d) / beta
    moved = x + 2 * np.eye(d)[0]

    def log_density(z: np.ndarray) -> np.ndarray:
        r = beta * np.linalg.norm(z, axis=1)
        return order * np.log(r) + np.log(kve(order, r)) - r

    loss = log_density(x) - log_density(moved)
    assert np.abs(loss).max() <= 2 * beta * (1 + 1e-9)
    for delta in (0.05, 0.01):
        eps = rounds.eps_of(1, 2 * beta, parties, d, 0.0, delta)
        found = np.maximum(1 - np.exp(eps - loss), 0)
        assert found.mean() <= delta + 5 * found.std() / math.sqrt(len(found))


def test_the_best_of_three_proofs_and_its_limits() -> None:
    T, eps, d, delta = 500, 0.1, 10, 1e-3
    few, many = rounds.eps_of(T, eps, 1, d, 0.0, delta), rounds.eps_of(T, eps, 50, d, 0.0, delta)
    assert many < few < min(T * eps, eps * math.sqrt(2 * T * math.log(1 / delta)) + T * eps * math.tanh(eps / 2))
    # with eta: half of mu in the long run
    with_eta = rounds.eps_of(T, eps, 50, d, 1e6, delta)
    S = eps**2 / 8 * rounds.inverse_gamma_sum(50 * 5.5, T, delta / 100)
    assert with_eta == pytest.approx(gdp.eps_of(math.sqrt(S), 0.99 * delta), rel=1e-6)
    assert rounds.eps_of(1, eps, 1, 1, 0.0, 1e-9) == eps
    assert rounds.eps_of(T, math.inf, 1, d, 1.0, delta) == math.inf
