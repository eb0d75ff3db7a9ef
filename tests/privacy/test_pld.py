"""Privacy loss distributions: never below the truth, and close to it, for curves that are known otherwise."""

import math
from functools import reduce

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant

from dpml.privacy import gdp, pld

COMPOSED = [
    (1.0, 1, 1e-5),
    (0.1, 100, 1e-5),
    (3.0, 20, 1e-6),
    (1e-3, 10**6, 1e-12),
    (1e-5, 10**6, 0.01),
    (50, 3, 1e-9),
    (0.05, 100, 1e-24),
]


@pytest.mark.slow_cases("0.001-1000000-1e-12")
@pytest.mark.parametrize(("mu", "times", "delta"), COMPOSED)
def test_gaussians_compose_to_a_gaussian(mu: float, times: int, delta: float) -> None:
    exact = gdp.eps_of(mu * math.sqrt(times), delta)
    found = pld.compose([(pld.gaussian(mu), times)], delta=delta).eps(delta)
    assert exact <= found <= exact * (1 + 2e-4)
    log_delta = gdp.log_delta_of(mu * math.sqrt(times), exact)
    again = math.log(pld.compose([(pld.gaussian(mu), times)], eps=exact).delta(exact))
    assert log_delta <= again <= log_delta + 0.01


def exact_pure(eps: float, times: int, at: float) -> float:
    """delta of randomised responses, by 60-digit sums over the number of lies (Kairouz, Oh & Viswanath 2015)."""
    with mpmath.workdps(60):
        e, total = mpmath.mpf(eps), mpmath.mpf(0)
        for lies in range(times + 1):
            gap = mpmath.exp((times - lies) * e) - mpmath.exp(mpmath.mpf(at) + lies * e)
            total += mpmath.binomial(times, lies) * max(gap, 0)
        return float(total / (1 + mpmath.exp(e)) ** times)


@pytest.mark.slow_cases("0.1-1000-0.05")
@pytest.mark.parametrize(
    ("eps", "times", "delta"), [(0.1, 1000, 0.05), (0.7, 77, 1e-6), (1.0, 1, 1e-5), (3.0, 9, 1e-3)]
)
def test_pure_releases_compose_in_closed_form(eps: float, times: int, delta: float) -> None:
    exact, found = pld.pure(eps, times), pld.compose([(pld.pure(eps), times)], delta=delta)
    at = exact.eps(delta)
    assert delta * (1 - 1e-4) <= exact_pure(eps, times, at) <= delta
    assert at * (1 - 1e-9) <= found.eps(delta) <= at * (1 + 1e-4) + 1e-6


@pytest.mark.parametrize(("eps", "times"), [(0.01, 30), (0.1, 3), (0.1, 7), (1 / 3, 3), (0.7, 77)])
def test_a_product_that_floating_point_rounds_down_is_not_below_the_truth(eps: float, times: int) -> None:
    """30 times 0.01 is a little more than 0.3, and written as 0.3: not (0.3, 0)-DP together."""
    at = times * eps
    assert pld.pure(eps, times).delta(at) >= exact_pure(eps, times, at)


def random_pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two distributions on four values, of which one is impossible under the second."""
    p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
    p[3], q[3] = 1e-3, 0.0
    return p / p.sum(), q / q.sum()


@pytest.mark.slow
def test_pairs_whose_directions_differ_against_every_outcome() -> None:
    """Two pairs, three and two times: all 4^5 outcomes, in both directions."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        first, second = random_pair(rng), random_pair(rng)
        for forward in (True, False):
            pairs = [pair if forward else pair[::-1] for pair in (first, second)]
            parts = [(losses_of(*pairs[0]), 3), (losses_of(*pairs[1]), 2)]
            for eps in (-1.0, 0.0, 1.0, 4.0):
                which = [pairs[0]] * 3 + [pairs[1]] * 2
                p, q = (reduce(np.multiply.outer, [pair[side] for pair in which]) for side in (0, 1))
                exact = float(np.maximum(p - math.exp(eps) * q, 0.0).sum())
                found = pld.compose(parts, eps=eps).delta(eps)
                assert exact * (1 - 1e-12) <= found <= exact + 1e-4


def losses_of(p: np.ndarray, q: np.ndarray) -> pld.Losses:
    finite = (p > 0) & (q > 0)
    loss = np.log(p[finite] / q[finite])
    order = np.argsort(loss)
    return pld.Losses(loss[order], p[finite][order], float(p[q == 0].sum()))


def test_a_curve_at_some_points_is_met_there_and_bounded_between() -> None:
    eps = np.linspace(-6, 6, 121)
    heights = np.exp([gdp.log_delta_of(1.0, abs(e)) for e in eps])
    heights[eps < 0] = (1 - np.exp(eps) + np.exp(eps) * heights)[eps < 0]
    part = pld.from_curve(eps, heights)
    assert [part.delta(e) for e in eps] == pytest.approx(heights, rel=1e-9)
    for e in (0.05, 1.23, 3.33):
        exact = math.exp(gdp.log_delta_of(1.0, e))
        assert exact < part.delta(e) < exact * 1.02
    bumpy = heights.copy()
    bumpy[60] *= 1.5  # a bound that is worse than its neighbours' line counts for nothing
    assert heights[60] < pld.from_curve(eps, bumpy).delta(0.0) < heights[60] * 1.01
    composed = pld.compose([(part, 4)], delta=1e-3).eps(1e-3)
    assert gdp.eps_of(2.0, 1e-3) <= composed <= gdp.eps_of(2.0, 1e-3) * 1.02


def test_a_gaussian_of_random_scale_that_is_seen() -> None:
    mus, weights = np.array([0.0, 1e-9, 0.3, 1.0, 20.0]), np.array([0.2, 0.2, 0.3, 0.2, 0.1])
    part = pld.gaussians(mus, weights)
    for eps in (0.0, 0.5, 3.0, 200.0):
        exact = sum(w * math.exp(gdp.log_delta_of(m, eps)) for m, w in zip(mus, weights, strict=True))
        assert exact <= part.delta(eps) <= exact * 1.01


def test_an_infinite_loss_is_counted_once_a_release() -> None:
    part = pld.Losses(np.array([-0.1, 0.1]), np.array([0.4, 0.5]), 0.1)
    composed = pld.compose([(part, 2)], delta=0.5)
    assert composed.infinite == pytest.approx(0.19)
    assert composed.eps(0.18) == math.inf
    assert pld.compose([(part, 2)], delta=0.1).eps(0.1) == math.inf


def test_limits() -> None:
    assert pld.gaussian(0.0).eps(1e-9) == 0.0
    assert pld.pure(0.0, 5).eps(1e-9) == 0.0
    assert pld.pure(1e6, 10**6).eps(1e-6) == pytest.approx(1e12, rel=1e-9)
    assert pld.compose([(pld.pure(1.0), 1)], delta=1e-12).eps(1e-12) == pytest.approx(1.0, rel=1e-4)


def test_laplace_noise_against_dp_accounting() -> None:
    """Noise of scale 2 and sensitivity 1, 30 times: a constant loss with a smooth part between."""
    eps = np.linspace(-0.5, 0.5, 1001)
    # delta(eps) of Laplace noise, for e in [-1/b, 1/b]: 1 - exp((e - 1/b)/2)
    part = pld.from_curve(eps, 1 - np.exp((eps - 0.5) / 2))
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp_event.LaplaceDpEvent(2.0), 30)
    for delta in (1e-2, 1e-6):
        theirs = accountant.get_epsilon(delta)
        assert pld.compose([(part, 30)], delta=delta).eps(delta) == pytest.approx(theirs, rel=2e-3)
