"""Lower bounds on eps: closed forms, the false-alarm rate on distributions whose privacy is known, and power."""

import numpy as np
import pytest
from scipy import stats

from dpml.audit.attacks import eps_by_gdp, eps_by_rates, eps_from_rates, rate_interval
from dpml.privacy import gdp

REPETITIONS, DRAWS = 400, 2_000
# a rate of at most 5 % gives more alarms than this in 1 of 1000 seeds
ALARMS = int(stats.binom.ppf(0.999, REPETITIONS, 0.05))


@pytest.mark.parametrize("hits", [0, 1, 17, 99, 100])
def test_interval_is_clopper_pearsons(hits: int) -> None:
    low, high = rate_interval(np.array([hits]), 100, 0.025)
    exact = stats.binomtest(hits, 100).proportion_ci(0.95, "exact")
    assert (low[0], high[0]) == pytest.approx((exact.low, exact.high))


def test_rates_of_randomised_response_give_its_eps() -> None:
    p = np.exp(1.3) / (1 + np.exp(1.3))
    assert eps_from_rates(np.array([1 - p]), np.array([p]), 0.0)[0] == pytest.approx(1.3)
    # revealing everything with probability delta costs no eps
    assert eps_from_rates(np.array([(1 - p) * 0.9]), np.array([0.1 + p * 0.9]), 0.1)[0] == pytest.approx(1.3)
    assert eps_from_rates(np.array([0.4]), np.array([0.4]), 0.0)[0] == 0.0
    assert eps_from_rates(np.array([0.0]), np.array([1.0]), 0.0)[0] == np.inf


def test_a_threshold_is_not_judged_on_the_scores_that_chose_it() -> None:
    """The scores that choose it are told apart perfectly, and all others are the same."""
    first, second = np.zeros(4000), np.zeros(4000)
    second[:1000] = 1.0
    assert eps_by_rates(first, second, 0.0, 0.05) == 0.0


@pytest.mark.parametrize("eps", [1.0, 0.1, 4.0])
def test_laplace_noise_is_not_accused_of_more_than_it_leaks(eps: float) -> None:
    rng = np.random.default_rng(1)
    noise = rng.laplace(size=(REPETITIONS, 2, DRAWS)) / eps
    found = np.array([eps_by_rates(first, second + 1, 0.0, 0.05) for first, second in noise])
    assert np.sum(found > eps) <= ALARMS


@pytest.mark.parametrize(("mu", "delta"), [(1.0, 1e-5), (0.1, 0.05), (3.0, 0.05)])
def test_gaussian_noise_is_not_accused_of_more_than_it_leaks(mu: float, delta: float) -> None:
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((REPETITIONS, 2, DRAWS))
    eps = gdp.eps_of(mu, delta)
    pairs = [(first - mu / 2, second + mu / 2) for first, second in noise]
    assert sum(eps_by_gdp(*pair, delta, 0.05) > eps for pair in pairs) <= ALARMS
    assert sum(eps_by_rates(*pair, delta, 0.05) > eps for pair in pairs) <= ALARMS


def test_a_leak_is_seen() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.standard_normal((2, 100_000))
    assert eps_by_gdp(first - 0.5, second + 0.5, 1e-5, 0.05) > 0.95 * gdp.eps_of(1.0, 1e-5)
    assert eps_by_rates(rng.laplace(size=100_000), rng.laplace(size=100_000) + 1, 0.0, 0.05) > 0.9
    assert eps_by_rates(np.zeros(1000), np.ones(1000), 0.0, 0.05) > 4  # no noise at all
