"""Every proven number against 60 digits: reported eps, delta and mu are never below the exact ones, by no tolerance."""

import dataclasses
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from harness import algorithms
from mpmath import mpf
from quick import quick_first

from dpml.errors import UserError
from dpml.mechanism.message import Sum
from dpml.packs.frontier.amp import ApproximateMinimum
from dpml.privacy import CALIBRATIONS, Budget, Problem, gdp
from dpml.privacy.accountant import Accountant
from dpml.privacy.proofs import laplace_sums
from dpml.privacy.proofs import objective_perturbation as objective
from dpml.privacy.proofs.last_iterate import last_iterate_mu
from dpml.privacy.safe import above, total, written, written_below

DIGITS = 60


@pytest.fixture(autouse=True)
def _precise():
    with mpmath.workdps(DIGITS):
        yield


def tail(x):
    """Pr[N(0, 1) > x]."""
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def divergence(mu, eps):
    """(delta, 1 - delta) of mu-GDP at any eps, either of them without cancellation at its small end."""
    if mu == 0:
        delta = max(mpf(0), -mpmath.expm1(eps))
        return delta, 1 - delta
    below, above = eps / mu - mu / 2, eps / mu + mu / 2
    rest = mpmath.exp(eps) * tail(above)
    return tail(below) - rest, tail(-below) + rest


def holds(mu, eps: float, delta: float) -> bool:
    """Whether mu-GDP implies (eps, delta)-DP."""
    if math.isinf(eps):
        return True
    found, rest = divergence(mpf(mu), mpf(eps))
    return bool(rest >= 1 - mpf(delta) if delta > 0.1 else found <= mpf(delta))


def random_delta(rng) -> float:
    kind = rng.random()
    if kind < 0.3:
        return float(10 ** rng.uniform(-300, -12))
    return float(10 ** rng.uniform(-12, -0.3)) if kind < 0.8 else float(rng.uniform(0.5, 0.9999))


def test_the_gaussian_curve_and_its_inverses() -> None:
    """The answers are on the safe side, and exact to 10 digits of delta and 11 of mu."""
    rng = np.random.default_rng(0)
    for _ in range(600):
        mu, eps, delta = float(10 ** rng.uniform(-8, 6)), float(10 ** rng.uniform(-12, 10)), random_delta(rng)
        found = gdp.eps_of(mu, delta)
        assert holds(mu, found, delta), (mu, delta)
        assert found == 0 or not holds(mu * (1 + 1e-11), found, delta), (mu, delta)
        least = gdp.mu_of(eps, delta)
        assert holds(least, eps, delta), (eps, delta)
        assert not holds(least * (1 + 1e-11), eps, delta), (eps, delta)
        assert gdp.eps_of(least * (1 + 8e-13), delta) <= eps, (eps, delta)  # room for what follows
        for at in (0.0, eps, mu * (mu / 2 + float(10 ** rng.uniform(-2, 3.2)))):
            log_delta = gdp.log_delta_of(mu, at)
            if at / mu < 1500:  # beyond delta = 10^-480000 even the reference is slow
                found, rest = divergence(mpf(mu), mpf(at))
                exact = mpmath.log1p(-rest) if rest < 0.5 else mpmath.log(found)
                error = 1e-10 * (-exact if exact < -690 else max(1, mu / 1e3))
                assert exact <= log_delta <= exact + error, (mu, at)


def composed(gaussians, spent, eps):
    """The exact delta of Gaussian releases, (mu, times), and randomised responses, (eps, delta, times)."""
    mu = mpmath.sqrt(sum((mpf(each) ** 2 * times for each, times in gaussians), mpf(0)))
    kept, losses = mpf(1), {mpf(0): mpf(1)}
    for each, lost, times in spent:
        kept *= (1 - mpf(lost)) ** times
        truth = 1 / (1 + mpmath.exp(-mpf(each)))
        lies = [mpmath.binomial(times, k) * truth ** (times - k) * (1 - truth) ** k for k in range(times + 1)]
        following: dict = {}
        for at, mass in losses.items():
            for k, share in enumerate(lies):
                place = at + (times - 2 * k) * mpf(each)
                following[place] = following.get(place, mpf(0)) + mass * share
        losses = following
    finite = sum((mass * divergence(mu, mpf(eps) - at)[0] for at, mass in losses.items()), mpf(0))
    return 1 - kept + kept * min(finite, mpf(1))


@pytest.mark.slow_cases("both-6")
@pytest.mark.parametrize(
    ("kind", "many"), [("gaussian", 50), pytest.param("pure", 25, marks=pytest.mark.slow), ("both", 6)]
)
def test_what_is_spent_together(kind: str, many: int) -> None:
    rng = np.random.default_rng(len(kind))
    for _ in range(many):
        releases = range(rng.integers(1, 3))
        gaussians = (
            [] if kind == "pure" else [(float(10 ** rng.uniform(-3, 1)), int(rng.integers(1, 20))) for _ in releases]
        )
        spent = []
        if kind != "gaussian":
            spent = [
                (float(10 ** rng.uniform(-3, 1.7)), float(rng.choice([0, 1e-9, 1e-6])), int(rng.integers(1, 7)))
                for _ in releases
            ]
        accountant = Accountant()
        for mu, times in gaussians:
            accountant = accountant.gaussian(mu, times)
        for one in spent:
            accountant = accountant.spend(*one)
        delta, eps = float(10 ** rng.uniform(-12, -0.1)), float(10 ** rng.uniform(-3, 2))
        found = accountant.eps(delta)
        assert math.isinf(found) or composed(gaussians, spent, found) <= mpf(delta), (gaussians, spent, delta)
        assert mpf(accountant.delta(eps)) >= composed(gaussians, spent, eps), (gaussians, spent, eps)
        if kind == "pure" and not any(lost for _, lost, _ in spent):
            assert accountant.eps(0.0) >= sum(mpf(each) * times for each, _, times in spent)
        exact = mpmath.sqrt(sum((mpf(each) ** 2 * times for each, times in gaussians), mpf(0)))
        assert mpf(accountant.mu) >= exact


def test_the_last_of_equal_rounds() -> None:
    """One straight path: ``m sum c^t / (s sqrt(sum c^2t))`` over t < T for a contraction c <= 1."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        T, m, s = int(rng.integers(1, 2000)), float(10 ** rng.uniform(-3, 3)), float(10 ** rng.uniform(-3, 3))
        c = float(rng.choice([0.0, 1.0, 1 - 10 ** rng.uniform(-9, -0.1)]))
        sums = [mpf(T), mpf(T)] if c == 1 else [(1 - mpf(c) ** (k * T)) / (1 - mpf(c) ** k) for k in (1, 2)]
        exact = mpf(m) / mpf(s) * sums[0] / mpmath.sqrt(sums[1])
        found = last_iterate_mu([c] * T, [m] * T, [s] * T)
        assert exact <= mpf(found) <= exact * (1 + mpf(1e-9)), (T, m, s, c)


ONE, TWO = ([(parties, eps) for eps in (0.3, 1e-3, 2.0, 20.0)] for parties in (1, 2))


@pytest.mark.slow_cases("2-0.3")
@pytest.mark.parametrize(("parties", "eps"), [*ONE, *quick_first(TWO)])
def test_sums_of_laplace_numbers(parties: int, eps: float) -> None:
    """One number, or the sum of two, of density exp(-beta |x|) beta/2, moved by 2: exact delta by its integral."""
    losses = laplace_sums.losses(eps, parties, 1)
    beta = mpf(eps) / 2

    def density(x):
        return (1 if parties == 1 else (1 + abs(beta * x)) / 2) * mpmath.exp(-abs(beta * x)) * beta / 2

    def gain(x):
        return density(x - 2) - mpmath.exp(mpf(at)) * density(x)

    for share in (0.0, 0.3, 0.8):
        at = share * eps
        if parties == 1:
            exact = -mpmath.expm1((mpf(at) - mpf(eps)) / 2)
        else:
            low, high = mpf(1), 2 + 100 / beta  # the loss rises with x; at 1 it is 0
            for _ in range(220):
                middle = (low + high) / 2
                low, high = (middle, high) if gain(middle) < 0 else (low, middle)
            exact = mpmath.quad(gain, [high, max(mpf(2), high), max(mpf(2), high) + 10 / beta, mpmath.inf])
        assert mpf(losses.delta(at)) >= exact, (eps, share)
        assert losses.eps(float(exact)) >= at * (1 - 1e-15)


def largest_pure_loss(beta, ridge):
    """``beta + max_s (beta s + log(1 + s (1 - s)/R))`` at the root of its derivative in [0, 1], or at 1."""
    a, b, c = -beta / ridge, (beta - 2) / ridge, beta + 1 / ridge
    root = (-b - mpmath.sqrt(b * b - 4 * a * c)) / (2 * a)
    s = min(root, mpf(1))
    return beta + beta * s + mpmath.log1p(s * (1 - s) / ridge)


def test_perturbed_objectives() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        eps, ridge = float(10 ** rng.uniform(-6, 4)), float(10 ** rng.uniform(-3, 4))
        for beta in (float(10 ** rng.uniform(-6, 4)), 1 / ridge, objective.beta_of(eps, ridge)):
            if beta > 0:
                found = objective.pure_eps_of(beta, ridge)
                assert mpf(found) >= largest_pure_loss(mpf(beta), mpf(ridge)), (beta, ridge)
        drawn = objective.beta_of(eps, ridge)
        assert drawn == 0 or objective.pure_eps_of(drawn * (1 + 1e-13), ridge) <= eps
    for _ in range(100):
        eps, delta = float(10 ** rng.uniform(-3, 2)), float(10 ** rng.uniform(-12, -0.5))
        sigma = objective.sigma_of(eps, math.inf, delta)
        ridge = objective.free_ridge(eps, sigma) or 1.0
        found = objective.eps_of(sigma, ridge, delta)
        assert found <= eps
        assert holds(2 / mpf(sigma), found, delta), (eps, delta)  # no better than the Gaussian mechanism


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("name", ["amp", "avg", "dpfm", "gop", "la", "objpert", "soft", "vote"])
def test_what_is_reported_of_noise_that_is_drawn_once(name: str, calibration: str) -> None:
    """And all certificates are verified to the last digit (tests/release/test_verify.py)."""
    made = dataclasses.replace(algorithms()[name], calibration=calibration)
    rng = np.random.default_rng([len(name), len(calibration), ord(name[0])])
    for _ in range(3 if name in ("amp", "gop") and calibration == "published" else 15):
        M = int(10 ** rng.uniform(0, 4))
        problem = Problem(M, M * int(10 ** rng.uniform(1, 4)), int(10 ** rng.uniform(0, 2)), auxiliary=100)
        budget = Budget(float(10 ** rng.uniform(-9, 8)), min(random_delta(rng), 0.9))
        try:
            reported = [g for g in made.guarantees(budget, problem) if g.basis == "proven" and math.isfinite(g.eps)]
            message = made.messages(budget, problem)[0]
        except UserError:
            continue
        for g in reported:
            assert calibration == "published" or g.eps <= budget.eps
            if isinstance(message, Sum):
                assert mpf(g.eps) >= mpf(message.sensitivity) / mpf(message.noise), g
            elif message.law == "gaussian":
                mu = 2 / mpf(message.scale)
                if isinstance(message, ApproximateMinimum):
                    mu = mpmath.hypot(mu, 2 * mpf(message.gamma) / mpf(message.strength) / mpf(message.output))
                assert holds(mu, g.eps, g.delta), g
            else:
                assert mpf(g.eps) >= largest_pure_loss(1 / mpf(message.scale), message.N * mpf(message.strength)), g


def test_exact_sums() -> None:
    assert total([(0.1, 3), (0.2, 1)]) == above(3 * Fraction(0.1) + Fraction(0.2))
    assert Fraction(total([(0.1, 3)])) >= 3 * Fraction(0.1)
    assert total([(math.inf, 2), (1.0, 1)]) == math.inf == above(Fraction(10) ** 400)


def test_written_numbers_are_rounded_to_the_safe_side() -> None:
    """Up, or down for lower bounds, by less than the last digit; an excess of a millionth is rounding."""
    rng = np.random.default_rng(0)
    for number, digits in zip(10 ** rng.uniform(-9, 6, 2000), rng.integers(2, 9, 2000), strict=True):
        number, step = float(number), 10.0 ** (1 - digits)
        assert number * (1 - 1e-6) <= float(written(number, int(digits))) < number * (1 + step)
        assert number * (1 - step) < float(written_below(number, int(digits))) <= number * (1 + 1e-6)
    for write in (written, written_below):
        assert [write(number) for number in (0.0, math.inf, math.nan, 1.0)] == ["0", "inf", "nan", "1"]
