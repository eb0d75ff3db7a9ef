"""What is proven of discrete noise, against the definition: sums over all outcomes, and mpmath. Nothing is drawn."""

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st
from mpmath import cos, exp, inf, log, mp, mpf, nsum, pi, sqrt
from scipy.special import ndtri

from dpml.privacy import gdp
from dpml.privacy.discrete.rounding import REST, smoothing


def mu_of(squared: int, variance: Fraction, honest: int, coordinates: int) -> float:
    """The mu of the theorem."""
    return math.sqrt(squared / (honest * variance - smoothing(honest, coordinates))) + REST


def law(variance: float, parties: int = 1) -> np.ndarray:
    """Masses of the sum of the parties' noise at -n .. n, n = 12 standard deviations of it."""
    n = int(12 * math.sqrt(variance * parties)) + 2
    x = np.arange(-n, n + 1)
    one = np.exp(-(x**2) / (2 * variance))
    one /= one.sum()
    total = one
    for _ in range(parties - 1):
        total = np.convolve(total, one, "same")
    return total


def delta(masses: np.ndarray, shift: tuple[int, ...], eps: float) -> float:
    """Hockey-stick divergence of independent noise of these masses (n,) in every coordinate, moved by `shift`."""
    here, there = np.ones(1), np.ones(1)
    for move in shift:
        moved = np.zeros_like(masses)
        moved[move:] = masses[: len(masses) - move]
        here, there = np.outer(here, masses).ravel(), np.outer(there, moved).ravel()
    return float(np.maximum(here - math.exp(eps) * there, 0).sum())


CASES = [
    (7, 1, (1,)),
    (7, 1, (8,)),
    (25, 1, (5,)),
    (400, 1, (7,)),
    (400, 1, (20,)),
    (10**6, 1, (1000,)),
    (8, 4, (6,)),
    (100, 4, (20,)),
    (8, 20, (1,)),
    (9, 1, (1, 1)),
    (9, 1, (4, 3)),
    (30, 1, (5, 1)),
    (9, 3, (3, 2)),
    (8, 1, (1, 2, 2)),
]


@pytest.mark.parametrize(("variance", "parties", "shift"), CASES, ids=str)
def test_no_delta_is_larger_than_what_is_proven(variance: int, parties: int, shift: tuple[int, ...]) -> None:
    """In one, two and three dimensions, of one party's noise and of sums. Below 1e-10 rounding decides."""
    squared = sum(move * move for move in shift)
    mu = mu_of(squared, Fraction(variance), parties, len(shift))
    masses = law(variance, parties)
    checked = 0
    for eps in np.linspace(0, 7 * mu, 29):
        exact, proven = delta(masses, shift, eps), math.exp(gdp.log_delta_of(mu, eps))
        if proven > 1e-10:
            checked += 1
            assert exact <= proven * (1 + 1e-9)
            # the other direction is the same, as the noise is symmetric
            assert math.isclose(exact, delta(masses[::-1], shift, eps), rel_tol=1e-9, abs_tol=1e-14)
    assert checked > 15


@pytest.mark.parametrize(("honest", "shift"), [(1, (4, 3)), (2, (2, 9)), (3, (1, 5))])
def test_coordinates_may_have_noise_of_different_variance(honest: int, shift: tuple[int, int]) -> None:
    variances = (8, 30)
    smooth = [honest * variance - smoothing(honest, 2) for variance in variances]
    mu = math.sqrt(sum(move**2 / float(v) for move, v in zip(shift, smooth, strict=True))) + REST
    (here, there), (here_too, there_too) = (
        (law(variance, honest), np.roll(law(variance, honest), move))
        for variance, move in zip(variances, shift, strict=True)
    )
    for eps in np.linspace(0, 6 * mu, 25):
        exact = np.maximum(np.outer(here, here_too) - math.exp(eps) * np.outer(there, there_too), 0).sum()
        proven = math.exp(gdp.log_delta_of(mu, eps))
        assert exact <= proven * (1 + 1e-9) or proven < 1e-10


def test_without_the_correction_it_would_be_wrong() -> None:
    """mu = shift/sigma of the continuous Gaussian is too small, by 0.2 % of delta at sigma = 20 and 14 % at 2.6."""
    for variance, shift, excess in ((400, 7, 0.002), (6.8, 8, 0.14)):
        masses, mu = law(variance), shift / math.sqrt(variance)
        ratios = [
            delta(masses, (shift,), eps) / math.exp(gdp.log_delta_of(mu, eps)) for eps in np.linspace(0, 5, 101) * mu
        ]
        assert max(ratios) > 1 + excess


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "shift"), [(3.0, 2), (20.0, 20)])
def test_dp_accounting_has_no_larger_eps(sigma: float, shift: int) -> None:
    theirs = privacy_loss_distribution.from_discrete_gaussian_mechanism(sigma, sensitivity=shift)
    mu = mu_of(shift**2, Fraction(sigma) ** 2, 1, 1)
    for at in (1e-3, 1e-6):
        assert theirs.get_epsilon_for_delta(at) <= gdp.eps_of(mu, at) + 1e-4
    many = theirs.self_compose(8)
    assert many.get_epsilon_for_delta(1e-5) <= gdp.eps_of(math.sqrt(8) * mu, 1e-5) + 1e-3


# ---- the steps of the proof


def theta(variance: mpf, centre: mpf) -> mpf:
    """``sum_k e^(-(k - centre)^2 / 2 variance)``."""
    reach = int(30 * sqrt(variance)) + 5
    return sum((exp(-((k - centre) ** 2) / (2 * variance)) for k in range(-reach, reach + 1)), mpf(0))


@pytest.mark.slow_cases("3.25", "4.3")
@pytest.mark.parametrize("variance", ["0.25", "0.5", "1", "3.25", "4.3"])
def test_sums_over_shifted_integers_are_nearly_equal(variance: str) -> None:
    """Poisson summation: ``sigma sqrt(2 pi)`` up to a relative 3 e^(-2 pi^2 variance), for any centre; most at 0."""
    mp.dps = 120
    v = mpf(variance)
    scale, bound = sqrt(2 * pi * v), 3 * exp(-2 * pi**2 * v)
    for step in range(11):
        c = mpf(step) / 10
        series = 1 + 2 * nsum(lambda j: exp(-2 * pi**2 * v * j**2) * cos(2 * pi * j * c), [1, inf])  # noqa: B023
        ratio = theta(v, c) / scale
        assert abs(ratio - series) < mpf(10) ** -60
        assert abs(ratio - 1) < bound
        assert ratio <= theta(v, mpf(0)) / scale


@pytest.mark.parametrize("honest", [1, 2, 3, 6])
def test_the_sum_is_a_randomly_rounded_gaussian_up_to_the_stated_factor(honest: int) -> None:
    """With r^2 = 1/2, where the factor is visible: both laws at all integers within 8 standard deviations.

    The rounded law is integrated over the continuous number on a grid, whose error is far below the factor's.
    """
    rough, variance = 0.5, 1.0
    e = 3 * math.exp(-2 * math.pi**2 * rough)
    eta = honest * math.log((1 + e) / (1 - e))
    smooth = honest * variance - rough
    masses = law(variance, honest)
    z = np.arange(len(masses)) - len(masses) // 2
    x = np.linspace(z[0], z[-1], 400 * len(z))
    density = np.exp(-(x**2) / (2 * smooth)) / math.sqrt(2 * math.pi * smooth)
    weights = np.exp(-((z[:, None] - x) ** 2) / (2 * rough))
    rounded = (weights / weights.sum(axis=0)) @ density * (x[1] - x[0])
    near = np.abs(z) < 8 * math.sqrt(honest)
    ratio = np.log(masses[near] / rounded[near])
    assert np.abs(ratio).max() <= eta
    assert np.abs(ratio).max() > 1e-7  # the comparison sees something


@given(st.floats(1e-6, 1 - 1e-6), st.floats(1e-9, 2.0), st.floats(0, 1))
def test_probabilities_within_a_factor_have_near_quantiles(p: float, eta: float, share: float) -> None:
    """The lemma: p'/p and (1 - p')/(1 - p) within e^-eta .. e^eta leave Phi^-1 within 2 sqrt(pi/2) eta."""
    top = min(p * math.exp(eta), 1 - (1 - p) * math.exp(-eta))
    other = p + share * (top - p)
    if other < 1:
        assert ndtri(other) - ndtri(p) <= 2 * math.sqrt(math.pi / 2) * eta + 1e-9


@pytest.mark.parametrize(("variance", "shift", "honest"), [(2, 1, 1), (2, 3, 1), (3, 4, 1), (2, 2, 2), (2, 3, 5)])
def test_the_theorem_where_its_rest_is_visible(variance: int, shift: int, honest: int) -> None:
    """With r^2 = 1 in place of `smoothing`, so that 54 d h e^(-2 pi^2 r^2) is 1e-7 and more."""
    rest = 54 * honest * math.exp(-2 * math.pi**2)
    mu = shift / math.sqrt(honest * variance - 1) + rest
    masses = law(variance, honest)
    for eps in np.linspace(0, 5 * mu, 41):
        assert delta(masses, (shift,), eps) <= math.exp(gdp.log_delta_of(mu, eps)) * (1 + 1e-9)


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_what_is_left_is_below_the_rest(honest: int, coordinates: int) -> None:
    mp.dps = 60
    rough = smoothing(honest, coordinates)
    exponent = 2 * pi**2 * mpf(rough.numerator) / rough.denominator
    assert exponent >= 64 + log(mpf(honest) * coordinates)
    assert 54 * mpf(honest) * coordinates * exp(-exponent) < mpf(REST) / 10
    assert rough < 6.2


@pytest.mark.parametrize(("variance", "room"), [(100, 40), (100, 60), (3, 9)])
def test_large_noise_is_no_more_likely_than_chernoffs_bound(variance: int, room: int) -> None:
    masses = law(variance, 3)
    x = np.abs(np.arange(len(masses)) - len(masses) // 2)
    exact = float(masses[x >= room].sum())
    assert exact <= 2 * math.exp(-room * room / (6 * variance)) < 60 * exact
