"""Sampled Gaussian sums against integrals of the definition, an independent accountant, and each other."""

import itertools
import math
from functools import lru_cache

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from quick import quick_first
from scipy.optimize import brentq
from scipy.stats import binom, norm

from dpml.privacy import gdp
from dpml.privacy.sampled import SampledGaussian

RELATION = {
    "add_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace": dp_accounting.NeighboringRelation.REPLACE_ONE,
}


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize(
    ("rate", "noise", "rounds", "delta"),
    [
        (0.01, 1.0, 1000, 1e-5), (0.004, 1.1, 3000, 1e-5), (0.1, 2.0, 100, 1e-5), (0.3, 3.0, 50, 1e-5),
        (0.5, 5.0, 200, 1e-8), (0.9, 8.0, 300, 1e-5), (0.01, 4.0, 100000, 1e-5), (0.25, 1.0, 3, 1e-5),
    ],
)  # fmt: skip
def test_an_independent_accountant_agrees(neighbours, rate, noise, rounds, delta) -> None:
    ours = SampledGaussian(noise, rounds, neighbours, "poisson", rate).eps(delta)
    theirs = from_gaussian_mechanism(noise, sampling_prob=rate, neighboring_relation=RELATION[neighbours])
    assert ours == pytest.approx(theirs.self_compose(rounds).get_epsilon_for_delta(delta), rel=0.01)


Z = np.linspace(-40, 40, 400_001)


@lru_cache(maxsize=16)  # mixtures have few different means
def bell(mean: float) -> np.ndarray:
    return norm.pdf(Z, mean)


def divergence(first, second, eps: float) -> float:
    """``int (P - e^eps Q)+`` of two mixtures of (weight, mean)."""
    p, q = (sum(w * bell(a) for w, a in mixture) for mixture in (first, second))
    return float(np.maximum(p - math.exp(eps) * q, 0).sum() * (Z[1] - Z[0]))


PAIRS = {
    ("poisson", "add_remove"): lambda q, m: [([(1 - q, 0), (q, m)], [(1, 0)]), ([(1, 0)], [(1 - q, 0), (q, m)])],
    ("poisson", "replace"): lambda q, m: [([(1 - q, 0), (q, -m)], [(1 - q, 0), (q, m)])],
    ("fixed", "replace"): lambda q, m: [([(1 - q, 0), (q, 2 * m)], [(1, 0)]), ([(1, 0)], [(1 - q, 0), (q, 2 * m)])],
}


@pytest.mark.parametrize(("sampling", "neighbours"), PAIRS)
@pytest.mark.parametrize(("rate", "noise", "delta"), [(0.1, 1.0, 1e-5), (0.5, 0.6, 1e-3), (0.02, 0.8, 1e-7)])
def test_one_round_is_the_integral_of_the_definition(sampling, neighbours, rate, noise, delta) -> None:
    seen = SampledGaussian(noise, 1, neighbours, sampling, rate)
    eps = seen.eps(delta)
    pairs = PAIRS[sampling, neighbours](rate, 1 / noise)
    at = [max(divergence(*pair, eps=each) for pair in pairs) for each in (eps, 0.999 * eps)]
    assert at[0] <= delta * (1 + 1e-6)
    assert at[1] > delta
    reached = seen.reached(delta)
    assert 0.99 * eps < reached <= eps  # one threshold is the best test


def test_fixed_size_is_reached_by_a_data_set_and_by_none_exceeded() -> None:
    """Batches of 2 out of 4 records, all enumerated."""
    noise, size, batch = 1.0, 4, 2

    def mixture(records):
        sums = [sum(each) / noise for each in itertools.combinations(records, batch)]
        return [(1 / len(sums), total) for total in sums]

    def delta(others, x, y, eps):
        return divergence(mixture([*others, x]), mixture([*others, y]), eps)

    seen = SampledGaussian(noise, 1, "replace", "fixed", batch / size)
    eps = seen.eps(1e-3)
    assert delta([-1.0] * 3, 1.0, -1.0, eps) == pytest.approx(1e-3, rel=1e-3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        others, (x, y) = rng.choice([-1.0, 0.0, 0.5, 1.0], 3), rng.choice([-1.0, 0.0, 1.0], 2)
        assert delta(list(others), x, y, eps) <= 1e-3 * (1 + 1e-3)


@pytest.mark.parametrize("neighbours", ["replace", "zero_out"])
def test_all_in_every_round_is_a_gaussian_release(neighbours) -> None:
    plain = SampledGaussian(5.0, 30, neighbours)
    moved = 2 if neighbours == "replace" else 1
    assert plain.eps(1e-5) == pytest.approx(gdp.eps_of(moved * math.sqrt(30) / 5, 1e-5), rel=1e-9)
    assert SampledGaussian(5.0, 30, neighbours, "poisson", 1.0).eps(1e-5) == pytest.approx(plain.eps(1e-5), rel=1e-3)
    if neighbours == "replace":
        assert SampledGaussian(5.0, 30, neighbours, "fixed", 1.0).eps(1e-5) == pytest.approx(plain.eps(1e-5), rel=0.01)
    assert SampledGaussian(5.0, 30, neighbours, present=1 - 1e-12).eps(1e-5) == pytest.approx(plain.eps(1e-5), rel=1e-3)


@pytest.mark.parametrize(
    ("rounds", "steps", "at"), quick_first([(40, 1, 1e-5), (40, 2, 1e-3), (1, 3, 1e-18), (40, 3, 1e-5)], 3)
)
def test_who_takes_part_is_seen_as_a_binomial_number_of_gaussian_rounds(rounds, steps, at) -> None:
    eps = SampledGaussian(3.0, rounds, "replace", present=0.3, steps=steps).eps(at)

    def delta(eps: float) -> float:
        mus = [2 / 3 * math.sqrt(k * steps) for k in range(1, rounds + 1)]
        return sum(binom.pmf(k, rounds, 0.3) * math.exp(gdp.log_delta_of(mu, eps)) for k, mu in enumerate(mus, 1))

    exact = brentq(lambda e: delta(e) / at - 1, 0.1, 100)
    assert exact * (1 - 1e-9) <= eps < exact * 1.001


@pytest.mark.slow_cases("add_remove-0.1-1.0-50")
@pytest.mark.parametrize(
    ("neighbours", "rate", "noise", "rounds"), [("add_remove", 0.1, 1.0, 50), ("replace", 0.3, 2.0, 20)]
)
def test_an_attack_stays_below_what_is_proven(neighbours, rate, noise, rounds) -> None:
    seen = SampledGaussian(noise, rounds, neighbours, "poisson", rate)
    assert 0.5 * seen.eps(1e-5) < seen.reached(1e-5) < seen.eps(1e-5)
    local = SampledGaussian(noise, rounds, neighbours, "poisson", rate, present=0.5, steps=2)
    assert 0 < local.eps(1e-5) <= SampledGaussian(noise, 2 * rounds, neighbours, "poisson", rate).eps(1e-5) * 1.001
