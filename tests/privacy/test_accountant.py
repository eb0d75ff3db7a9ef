"""The accountant of several releases, against dp-accounting, closed forms, and the order of things."""

import itertools
import math
from dataclasses import replace
from functools import cache

import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as oracle
from quick import quick_first

from dpml.errors import UserError
from dpml.privacy import Guarantee, gdp
from dpml.privacy.accountant import Accountant


@cache
def normal(sigma: float, step: float):
    return oracle.from_gaussian_mechanism(sigma, value_discretization_interval=step)


def theirs(sigmas: list[float], spent: list[tuple[float, float, int]], step: float = 1e-4):
    """dp-accounting's distribution of the same releases, pessimistic on a grid of its own."""
    parts = [normal(sigma, step) for sigma in sigmas]
    for eps, delta, times in spent:
        one = oracle.from_privacy_parameters(common.DifferentialPrivacyParameters(eps, delta), step)
        parts.append(one.self_compose(times))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total


MIXTURES = [
    ([1.0], [(0.5, 0.0, 1)]),
    ([2.0, 5.0], [(0.1, 0.0, 20), (0.3, 1e-6, 3)]),
    ([], [(0.2, 1e-8, 10), (0.05, 0.0, 50)]),
    ([30.0], [(1.0, 0.0, 4)]),
]


@pytest.mark.parametrize(("sigmas", "spent"), MIXTURES)
def test_mixtures_match_dp_accounting(sigmas: list[float], spent: list[tuple[float, float, int]]) -> None:
    mine, their = Accountant(), theirs(sigmas, spent)
    for sigma in sigmas:
        mine = mine.gaussian(1 / sigma)
    for release in spent:
        mine = mine.spend(*release)
    for delta in (1e-2, 1e-5):
        # their grid rounds up: at most a step a release
        assert mine.eps(delta) <= their.get_epsilon_for_delta(delta) * (1 + 2e-4)
        assert mine.eps(delta) == pytest.approx(their.get_epsilon_for_delta(delta), rel=5e-3)
    for eps in (0.5, 2.0):
        assert mine.delta(eps) == pytest.approx(their.get_delta_for_epsilon(eps), rel=0.03, abs=1e-12)


def test_gaussian_releases_are_exact() -> None:
    accountant = Accountant().gaussian(0.3, times=4).gaussian(0.8)
    assert accountant.mu == pytest.approx(1.0)
    assert accountant.eps(1e-5) == gdp.eps_of(accountant.mu, 1e-5)
    assert accountant.delta(1.0) == pytest.approx(math.exp(gdp.log_delta_of(1.0, 1.0)))


def test_a_release_has_its_own_eps_at_its_own_delta_and_none_below() -> None:
    guarantee = Guarantee("release", "sample", 0.4, 1e-6, "proven", "somebody")
    one, many = Accountant().add(guarantee), Accountant().add(guarantee, times=3).add(guarantee)
    assert many.eps(1e-4) == Accountant().spend(0.4, 1e-6, 4).eps(1e-4)
    assert one.eps(1e-6) == 0.4
    assert one.eps(1.1e-6) == pytest.approx(0.4, rel=1e-5)
    assert one.delta(0.4) == pytest.approx(1e-6)
    perturbed = replace(guarantee, curve=(3.0, 3.0, 0.6))
    assert Accountant().add(perturbed).eps(1e-4) == Accountant().objective(3.0, 3.0).gaussian(0.6).eps(1e-4)
    for accountant, delta in ((one, 0.99e-6), (many, 3e-6), (one.spend(0.1), 1e-6)):
        assert accountant.eps(delta) == math.inf


KINDS = {
    "approximate": lambda spent: spent.spend(0.5, 1e-5),
    "pure": lambda spent: spent.spend(0.7),
    "Gaussian": lambda spent: spent.gaussian(0.6),
    "objective": lambda spent: spent.objective(3.0, 3.0),
}


@pytest.mark.parametrize("delta", quick_first([1e-5, 1.0001e-5, 1e-3]))
@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(KINDS, 2)))
def test_two_releases_have_no_less_than_each_alone(one: str, other: str, delta: float) -> None:
    """Also at the very delta of one of them: that of an objective beside it is not forgotten."""
    together = KINDS[other](KINDS[one](Accountant()))
    for kind in (one, other):
        alone = KINDS[kind](Accountant())
        assert together.eps(delta) >= alone.eps(delta) * (1 - 1e-9)
        assert together.delta(0.9) >= alone.delta(0.9) * (1 - 1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.gaussian(-1.0), lambda a: a.gaussian(math.nan), lambda a: a.gaussian(0.1, 1.5),
        lambda a: a.spend(-0.1), lambda a: a.spend(0.1, 1.0), lambda a: a.spend(0.1, 0.0, 0),
        lambda a: a.objective(0.0, 1.0), lambda a: a.objective(1.0, math.inf),
        lambda a: a.eps(1.0), lambda a: a.delta(math.nan),
    ],
)  # fmt: skip
def test_mistakes(call) -> None:
    with pytest.raises(UserError):
        call(Accountant())


def test_pure_releases_without_a_delta_add() -> None:
    assert Accountant().spend(0.25, times=3).spend(1.0).eps(0.0) == 1.75
    assert Accountant().spend(0.25).gaussian(1.0).eps(0.0) == math.inf
    assert Accountant().eps(0.0) == Accountant().eps(0.5) == Accountant().delta(0.0) == 0.0


@pytest.mark.parametrize("eps", [1e-30, 39.0, 41.0, 1e30, math.inf])
@pytest.mark.parametrize("mu", quick_first([0.0, 1.0, 1e-30, 1e5], 2))
def test_the_whole_range(eps: float, mu: float) -> None:
    accountant = Accountant().gaussian(mu).spend(eps, 1e-12).spend(0.5, times=3)
    found = accountant.eps(1e-6)
    assert max(gdp.eps_of(mu, 1e-6), min(eps, 1e30) * (1 - 1e-3) - 2) <= found * (1 + 1e-6)
    assert 0 <= accountant.delta(1.0) <= 1
    if math.isfinite(eps):
        added = eps + 1.5 + gdp.eps_of(mu, 1e-6 - 1e-12) * (1 + 1e-6)
        assert found <= math.nextafter(added, math.inf)  # a sum is rounded up


def test_an_eps_that_is_added_is_where_the_curve_begins() -> None:
    """Above an eps of 40 a release is added plainly; the answer is the same at both sides of it."""
    below, above = (Accountant().spend(e).gaussian(2.0) for e in (39.999, 40.001))
    assert below.eps(1e-5) == pytest.approx(above.eps(1e-5), rel=1e-3)
    for eps in (30.0, 39.0, 45.0):
        assert math.log(below.delta(eps)) == pytest.approx(math.log(above.delta(eps)), rel=0.01, abs=1e-3)
