"""The last of many noisy rounds: against exact chains, a general-purpose minimiser, and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from dpml.privacy.proofs.last_iterate import last_iterate_mu

SIZES = st.floats(0.01, 3.0)
ROUNDS = st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=1, max_size=8).map(lambda rows: np.array(rows).T)


def chain(c, m, s) -> float:
    """mu of the last of T affine rounds w <- c w + m + s z, from the mean and the variance round by round."""
    apart, variance = 0.0, 0.0
    for contraction, move, noise in zip(c, m, s, strict=True):
        apart, variance = contraction * apart + move, contraction**2 * variance + noise**2
    return apart / math.sqrt(variance)


def least_by_minimisation(c, m, s) -> float:
    """The least sum of (a/s)^2 over all shifts a that keep every distance non-negative and end at zero."""
    T = len(c)
    keep = np.array([[np.prod(c[t + 1 : k + 1]) if t <= k else 0.0 for t in range(T)] for k in range(T)])
    distance = keep @ m
    found = minimize(  # over a/s, in which the objective is round
        lambda x: np.sum(x**2), m / s, jac=lambda x: 2 * x, method="SLSQP",
        bounds=[(0, None)] * T,
        constraints=[
            LinearConstraint(keep[:-1] * s, -np.inf, distance[:-1]),
            LinearConstraint(keep[-1:] * s, distance[-1], distance[-1]),
        ],
        options={"maxiter": 500, "ftol": 1e-13},
    )  # fmt: skip
    assert found.success
    return math.sqrt(found.fun)


@pytest.mark.slow
@settings(max_examples=300, derandomize=True, deadline=None)
@given(ROUNDS)
def test_no_affine_chain_says_more_and_no_bound_is_above_composition(rounds):
    mu = last_iterate_mu(*rounds)
    assert chain(*rounds) <= mu <= np.linalg.norm(rounds[1] / rounds[2]) * (1 + 1e-12)


@pytest.mark.slow
def test_affine_chains_reach_it():
    """Wherever the ratios of moves to noise fall from round to round; 1,000 chains at random."""
    rng = np.random.default_rng(0)
    for _ in range(1000):
        T = rng.integers(1, 12)
        c, m = rng.uniform(0.1, 1.2, T), rng.uniform(0, 2, T)
        later = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
        s = np.sqrt(m / later * np.sort(rng.uniform(0.1, 3, T)))
        assert last_iterate_mu(c, m, s) == pytest.approx(chain(c, m, s), rel=1e-12)


def test_the_optimum_is_that_of_a_general_minimiser():
    rng = np.random.default_rng(1)
    for _ in range(60):
        T = rng.integers(2, 7)
        rounds = rng.uniform(0.3, 1.6, T), rng.uniform(0.2, 2, T), rng.uniform(0.3, 2, T)
        assert last_iterate_mu(*rounds) == pytest.approx(least_by_minimisation(*rounds), rel=1e-6)


def test_rounds_without_noise_or_memory():
    assert last_iterate_mu([], [], []) == 0
    assert last_iterate_mu([1.0, 0.5], [1.0, 0.0], [1.0, 0.0]) == pytest.approx(1.0)
    assert last_iterate_mu([1.0, 0.5], [1.0, 0.0], [1.0, 1.0]) == pytest.approx(math.sqrt(0.2))
    assert last_iterate_mu([1.0], [1.0], [0.0]) == math.inf
    assert last_iterate_mu([1.0, 1.0], [1.0, 1.0], [1.0, 0.0]) == math.inf
    assert last_iterate_mu([1.0, 0.5], [1.0, 1.0], [0.0, 1.0]) == pytest.approx(1.5)  # the second hides both
    assert last_iterate_mu([1.0, 0.0], [1.0, 1.0], [0.0, 1.0]) == pytest.approx(1.0)  # the first is forgotten
    assert last_iterate_mu([1.0, 0.0], [7.0, 0.0], [0.0, 0.0]) == 0
    assert last_iterate_mu([1.0, 0.0, 1.0, 0.0], np.ones(4), [1.0, math.inf, math.inf, 2.0]) == pytest.approx(0.5)
    assert last_iterate_mu([1.0, 1.0], [0.0, 1.0], [0.0, math.inf]) == 0
    assert last_iterate_mu(np.ones(5), np.zeros(5), np.zeros(5)) == 0


def test_what_is_no_round_is_refused():
    for rounds in (([1.0], [1.0], [-1.0]), ([1.0], [math.nan], [1.0]), ([math.inf], [1.0], [1.0]), ([1.0], [1.0], [])):
        with pytest.raises(ValueError, match="must"):
            last_iterate_mu(*rounds)


@pytest.mark.slow
def test_expanding_rounds_are_composed_and_many_rounds_neither_overflow_nor_vanish():
    T = 250_000
    ones = np.ones(T)
    assert last_iterate_mu(1.5 * ones, ones, ones) == pytest.approx(500, rel=1e-8)
    assert last_iterate_mu(1e6 * ones, ones, ones) == pytest.approx(500, rel=1e-8)
    last = np.append(ones[1:], 1e9)  # a last round that hides what all others leave
    assert last_iterate_mu(1.5 * ones, ones, last) == pytest.approx(500, rel=1e-3)
    assert last_iterate_mu(1e-6 * ones, ones, ones) == pytest.approx(1, rel=1e-5)
    few = ones[:100_000]  # are pooled one by one
    mixed = last_iterate_mu(np.exp(np.random.default_rng(0).normal(0, 3, len(few))), few, few)
    assert 1 < mixed < 316
