"""The Gaussian-DP arithmetic at its limits, and correlated views by brute force; test_safe_side.py has 60 digits."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.mechanism_calibration import calibrate_dp_mechanism
from dp_accounting.pld import PLDAccountant
from quick import quick_first
from scipy import stats

from dpml.privacy import gdp


@pytest.mark.slow_cases("1.0-1e-05")
@pytest.mark.parametrize(("eps", "delta"), quick_first([(0.1, 1e-5), (1.0, 1e-5), (3.0, 1e-3)], 2))
def test_calibration_matches_dp_accounting(eps: float, delta: float) -> None:
    theirs = calibrate_dp_mechanism(
        lambda: PLDAccountant(value_discretization_interval=5e-4), dp_event.GaussianDpEvent, eps, delta, tol=1e-6
    )
    # their grid errs by up to one step of the privacy loss, on the safe side
    assert 1 / gdp.mu_of(eps, delta) <= theirs * (1 + 1e-6)
    assert 1 / gdp.mu_of(eps, delta) == pytest.approx(theirs, rel=3e-3)


def test_the_classical_formula_is_safe_below_one_and_not_above() -> None:
    for delta in (1e-3, 1e-5, 1e-9):
        for eps in (0.01, 0.1, 0.5, 0.99):
            assert gdp.eps_of(gdp.classical_mu(eps, delta), delta) <= eps
    assert gdp.eps_of(gdp.classical_mu(10, 1e-5), 1e-5) > 10


def test_edges() -> None:
    assert gdp.eps_of(0.0, 1e-5) == 0
    assert gdp.eps_of(1e-9, 1e-5) == 0  # delta(0) is already below
    assert gdp.eps_of(math.inf, 1e-5) == math.inf
    assert gdp.mu_of(math.inf, 1e-5) == math.inf
    assert gdp.log_delta_of(0.0, 1.0) == -math.inf
    for bad in (-1.0, math.nan):
        with pytest.raises(ValueError, match="mu must be non-negative"):
            gdp.eps_of(bad, 1e-5)
    for bad in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta must be in"):
            gdp.mu_of(1.0, bad)


@pytest.mark.parametrize("mu", [5e-324, 1e-310, 1e-160])
def test_the_smallest_mu_have_a_curve(mu: float) -> None:
    curve = [gdp.log_delta_of(mu, eps) for eps in (0.0, 1e-320, 1e-10, 1.0, 1e300)]
    assert curve == sorted(curve, reverse=True)
    assert curve[0] == pytest.approx(math.log(mu) - math.log(2 * math.pi) / 2)  # 2 Phi(mu/2) - 1
    assert curve[-1] == -math.inf


@pytest.mark.parametrize("mu", [1e6, 2e6, 1e10, 1e30])
def test_a_huge_mu_is_never_rounded_in_our_favour(mu: float) -> None:
    """eps is mu^2/2 + mu z with Phi(-z) = delta, but for less than mu 1e-6."""
    exact = mu**2 / 2 + mu * 4.264890793922825
    assert exact * (1 - 1e-14) <= gdp.eps_of(mu, 1e-5) + 1e-6 * mu <= exact * (1 + 1e-12) + 2e-6 * mu
    assert gdp.eps_of(mu * 1e-200 * 1e-40, 1e-5) == 0


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_correlated_view_through_the_noise_that_makes_it(unit: float, k: int) -> None:
    """A view ``B z`` of r independent N(0, 1): mu is the length of the shortest z that B takes to the shift.

    For r < k it is singular, and a shift outside of B's range is told apart for certain.
    """
    rng = np.random.default_rng(k)
    for r in {max(1, k - 2), k, k + 3}:
        B, u = rng.standard_normal((k, r)), rng.standard_normal(r)
        shortest = np.linalg.norm(np.linalg.lstsq(B, B @ u, rcond=None)[0])
        assert gdp.correlated(unit**2 * B @ B.T, unit * B @ u) == pytest.approx(shortest, rel=1e-6)
        if r < k:
            outside = np.linalg.svd(B)[0][:, -1]
            assert gdp.correlated(unit**2 * B @ B.T, unit * (B @ u + 1e-3 * outside)) == math.inf
    assert gdp.correlated(unit**2 * np.eye(k), np.zeros(k)) == 0


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.5])
def test_extremes_are_monotone_and_no_error(delta: float) -> None:
    """mu and eps from 1e-30 to 1e30, warnings being errors: eps grows with mu, mu with eps, and both are finite."""
    grid = [float(x) for x in np.geomspace(1e-30, 1e30, 241)]
    eps = [gdp.eps_of(mu, delta) for mu in grid]
    mus = [gdp.mu_of(e, delta) for e in (0.0, *grid)]
    assert np.all(np.diff(eps) >= 0)
    assert np.all(np.diff(mus) >= -1e-12 * np.array(mus[1:]))
    assert np.all(np.isfinite(eps) & np.isfinite(mus[1:]))
    assert eps[-1] == pytest.approx(grid[-1] ** 2 / 2, rel=1e-6)
    assert mus[-1] == pytest.approx(math.sqrt(2 * grid[-1]), rel=1e-6)
    # without any eps, delta = 2 Phi(mu/2) - 1
    assert mus[0] == pytest.approx(2 * stats.norm.ppf((1 + delta) / 2), rel=1e-3 if delta < 1e-9 else 1e-9)
