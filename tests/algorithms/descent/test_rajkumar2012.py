"""Gradient descent on noisy sums: its limit, its rounds, and the real protocol."""

import math
from dataclasses import replace

import numpy as np
import pytest
from examples import LOGISTIC, Observed, binary_parties, eta_of, proven, release_of
from scipy import stats
from scipy.special import expit

from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.algorithms.perturbation import GaussianObjectivePerturbation
from dpml.data.partition import Parties
from dpml.mechanism.message import Terms
from dpml.privacy import Budget, Problem, gdp
from dpml.privacy.proofs import noisy_sums
from dpml.sums import imprecision

BUDGET = Budget(0.5, 1e-2)


def gradients(parties: Parties) -> Terms:
    (message,) = PrivateSGD(LOGISTIC).messages(BUDGET, parties.problem)
    return message.of.on(parties)


@pytest.mark.parametrize("long", [1, 500])  # some slopes vanish
def test_answers_are_the_sum_of_the_parties_gradients(long: int) -> None:
    """Also of rows with copies, as (x, 1) and (-x, -1) are."""
    rng = np.random.default_rng(3)
    few, of, turn = binary_parties(N=6), rng.integers(6, size=300), rng.choice([-1.0, 1.0], size=300)
    given = replace(binary_parties(), X=turn[:, None] * few.X[of], y=turn * few.y[of])
    w = rng.standard_normal((7, 4)) * long
    plain = [-signed * expit(-w @ signed)[:, None] for signed in given.y[:, None] * given.X]
    each = [np.sum(plain[given.of(k)], axis=0) for k in range(5)]
    assert np.allclose(gradients(given).total(w), sum(each), rtol=1e-9)
    assert np.allclose(gradients(given).each(w), each, rtol=1e-9)


@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_single_parties_have_the_noise_that_is_counted_together(calibration: str) -> None:
    """What each adds, measured: M equal sources, fresh and constant, which add up to the covariance of the sum."""
    parties, rounds = binary_parties(), 3
    algorithm = PrivateSGD(LOGISTIC, calibration=calibration, rounds=rounds)
    prepared = algorithm.prepare(parties, np.random.default_rng(0))
    (message,) = algorithm.messages(BUDGET, parties.problem)

    observer = Observed(prepared)
    prepared.release([BUDGET], np.random.default_rng(5), 4000, observer)
    for sources, residual in zip(observer.noise, observer.residuals, strict=True):
        assert np.allclose(residual, sources.sum(axis=0))
    noise = np.array(observer.noise) * message.noise  # (rounds, M, draws, d)
    for k in range(5):
        flat = noise[:, k].reshape(rounds, -1)
        # 16,000 numbers of kurtosis below 6: five standard errors
        counted = covariance(algorithm, BUDGET, parties.problem) / 5
        assert np.allclose(flat @ flat.T / flat.shape[1], counted, atol=0.1 * counted.max())


def covariance(algorithm: PrivateSGD, budget: Budget, problem: Problem) -> np.ndarray:
    """Of the noise in one coordinate of all rounds' sums, as declared; a party's rho has the variance (d+1)/beta^2."""
    messages = algorithm.messages(budget, problem)
    widths = np.concatenate([[message.noise] * message.times for message in messages])
    fresh = widths**2 * (1 if algorithm.tight else problem.M * (problem.d + 1))
    return np.diag(fresh) + messages[0].constant ** 2


def noise_of_one_round(algorithm: PrivateSGD, parties: Parties, draws: int) -> np.ndarray:
    """What is in the sum at 0, (draws, d), from the model after one round: the sum over N (lam + Delta + c)."""
    made = algorithm.perturbation(BUDGET, parties.problem)
    weights = release_of(algorithm, parties, [BUDGET], draws, seed=4).weights[0]
    return -weights * (algorithm.lam + made.extra + 0.25) * len(parties.y) - gradients(parties).total(np.zeros((1, 4)))


@pytest.mark.parametrize("protocol", ["simulate", "secagg"])
@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_one_round_of_psgd_is_procedure_3(calibration: str, protocol: str) -> None:
    """w_1 = - z_0/N (sum of gradients at 0 + rho + eta). False alarms: 1e-6."""
    parties, M = binary_parties(M=4), 4
    algorithm = PrivateSGD(LOGISTIC, calibration=calibration, lam=0.1, rounds=1, protocol=protocol)
    made = algorithm.perturbation(BUDGET, parties.problem)
    (message,) = algorithm.messages(BUDGET, parties.problem)
    if calibration == "published":
        assert message.noise == 2 / 0.5
        (exact,) = GaussianObjectivePerturbation(LOGISTIC, lam=0.1).messages(BUDGET, parties.problem)
        assert made.scale == message.constant == exact.scale
        variance = M * (4 + 1) * message.noise**2 + made.scale**2  # of an L2-Laplace coordinate: d + 1
    else:
        variance = message.noise**2
        mu = gdp.mu_of(0.5, 1e-2)
        # the three honest parties' share alone is the Gaussian mechanism of sensitivity 2
        assert variance * parties.problem.honest / M == pytest.approx((2 / mu) ** 2)
    assert covariance(algorithm, BUDGET, parties.problem) == pytest.approx(variance)
    noise = noise_of_one_round(algorithm, parties, 4000)
    assert stats.ttest_1samp(noise.ravel(), 0.0).pvalue > 1e-6
    assert noise.var() == pytest.approx(variance, rel=5 * math.sqrt(4 / noise.size))


def test_psgd_ends_within_a_thousandth_of_its_limit_point() -> None:
    """Where its own noise lets it: the distance of T noisy gradients is their noise over T^1/2 and the curvature."""
    parties = binary_parties(N=2000)
    budget = Budget(20.0, 1e-2)
    for rounds, within in ((100, 2e-2), (3000, 1e-3)):
        algorithm = PrivateSGD(LOGISTIC, lam=1.0, rounds=rounds)
        release = release_of(algorithm, parties, [budget], 20, seed=5)
        assert release.metrics["distance"].max() < within
        made = algorithm.perturbation(budget, parties.problem)
        eta = eta_of(release.weights[0], parties, 1.0 + made.extra)
        assert eta.std() == pytest.approx(made.scale, rel=0.4)  # it approaches its own eta, not w*


@pytest.mark.parametrize(("view", "honest"), [("client", 1), ("colluders", 3), ("aggregate", 5)])
def test_only_honest_parties_parts_of_eta_protect(view: str, honest: int) -> None:
    """Every one of M parties adds 1/M of eta's variance: of sigma^2, h/M is unknown to whom it protects from."""
    budget, problem = Budget(0.1, 0.05), Problem(5, 1000, 30, colluders=2)
    algorithm = PrivateSGD(LOGISTIC, lam=1.0, rounds=200)
    sigma = algorithm.perturbation(budget, problem).scale
    eps, _ = noisy_sums.proven(200, 0.1, honest, 30, math.sqrt(sigma**2 * honest / 5), 0.05)
    assert proven(algorithm, budget, problem)[view] == pytest.approx(eps, rel=1e-6)  # rounding


def test_halving_budgets_add_up_to_less_than_eps() -> None:
    problem = Problem(5, 1000, 10)
    for rounds in (1, 2, 30, 400):
        found = PrivateSGD(LOGISTIC, variant="halving", rounds=rounds).guarantees(Budget(0.3), problem)  # no delta
        proven_ = {g.view: g for g in found if g.basis == "proven"}
        assert set(proven_) == {"release", "aggregate", "client", "colluders"}
        for guarantee in proven_.values():
            assert guarantee.delta == 0
            assert guarantee.eps == pytest.approx(0.3 * sum(0.5**t for t in range(1, rounds + 1)))
            # published noise, whose sums round: a 1e-10th more
            assert guarantee.eps <= 0.3 * (1 + imprecision(problem.N, 2 * problem.d, model=1e3))
        assert [g.view for g in found if g.basis == "published"] == ["release", "aggregate"]


@pytest.mark.parametrize("protocol", ["simulate", "secagg"])
def test_the_noise_of_halving_budgets_doubles(protocol) -> None:
    """A round's sum has M vectors of length Gamma(d, 2 * 2^t/eps), t = 1, 2, ...: their energy. False alarm 1e-6."""
    parties, draws, budget, rounds = binary_parties(M=3), 1500, Budget(2.0), 4
    algorithm = PrivateSGD(LOGISTIC, variant="halving", rounds=rounds, protocol=protocol)
    prepared = algorithm.prepare(parties, np.random.default_rng(0))
    observer = Observed(prepared)
    prepared.release([budget], np.random.default_rng(5), draws, observer)
    messages = algorithm.messages(budget, parties.problem)
    assert len(messages) == rounds
    for t, (message, residual) in enumerate(zip(messages, observer.residuals, strict=True), start=1):
        scale, d, M = 2 * 2**t / 2.0, 4, 3
        energy = np.sum((residual * message.noise) ** 2, axis=1)
        # E ||rho||^2 = d (d + 1) scale^2; a sum of M has M times that
        assert abs(energy.mean() / (M * d * (d + 1) * scale**2) - 1) < 5 * energy.std() / energy.mean() / draws**0.5
        assert message.constant == 0  # nothing stays
