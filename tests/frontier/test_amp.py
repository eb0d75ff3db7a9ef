"""`amp`: its noise and its gradients as they are released, beside what is counted, and the paper's constants."""

import math
from dataclasses import replace

import numpy as np
import pytest
from examples import LOGISTIC, binary_parties, eta_of, proven, release_of, sent
from scipy import stats
from scipy.special import expit

from dpml.optim import NotConvergedError
from dpml.packs.frontier import amp
from dpml.packs.frontier.amp import ApproximateMinima
from dpml.privacy import Budget, Problem, gdp, noise
from dpml.privacy.proofs import objective_perturbation as objective

BUDGET = Budget(0.5, 1e-3)
TIGHT = ApproximateMinima(LOGISTIC, calibration="tight")


def test_the_papers_constants() -> None:
    """Alg. 1 by hand: eps = 1, delta = 1e-5, N = 1000, d = 5; eps_3 is .9053707 of .99."""
    made = sent(ApproximateMinima(LOGISTIC), Budget(1.0, 1e-5), Problem(1, 1000, 5))
    eps_3 = 0.99 * 0.9053707
    Lambda = 2 * 0.25 / (0.99 - eps_3)
    assert made.scale == pytest.approx(2 * (1 + math.sqrt(2 * math.log(1 / 0.99e-5))) / eps_3)
    assert 1000 * made.extra == pytest.approx(Lambda)
    assert made.gamma == 1e-6
    assert made.output == pytest.approx(1000 * 1e-6 / Lambda * (1 + math.sqrt(2 * math.log(1e7))) / 0.01)
    # a Hessian of one feature has rank 1, however many rows are exchanged
    one = sent(ApproximateMinima(LOGISTIC), Budget(1.0, 1e-5), Problem(1, 1000, 1))
    assert one.extra == pytest.approx(made.extra / 2)
    # a lam that is there counts for Lambda
    given = sent(ApproximateMinima(LOGISTIC, lam=made.extra / 4), Budget(1.0, 1e-5), Problem(1, 1000, 5))
    assert given.extra == pytest.approx(made.extra * 3 / 4)
    assert given.output == pytest.approx(made.output)


@pytest.mark.parametrize("lam", [0.0, 1e-9, 1e-4, 1.0])
def test_tight_spends_the_budget_at_every_size(lam) -> None:
    rng = np.random.default_rng(0)
    for eps in (1e-30, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 20.0, 1e3, 1e6, 1e30):
        for N, d in ((2, 1), (455, 30), (30_162, 104), (10**7, 10**4)):
            delta = 10 ** rng.uniform(-12, -0.31)
            budget, problem = Budget(eps, delta), Problem(1, N, d)
            algorithm = replace(TIGHT, lam=lam)
            found = proven(algorithm, budget, problem)["release"]
            assert found <= eps
            assert found >= 0.999 * eps or eps <= 1e-6  # where the noise is that of delta alone
            made = sent(algorithm, budget, problem)
            assert made.extra >= 0
            assert 0 < made.output < math.inf
            # whatever the budget is, the published noise has a number as well
            assert 0 <= proven(ApproximateMinima(LOGISTIC, lam=lam), budget, problem)["release"] < math.inf


@pytest.mark.parametrize("algorithm", [TIGHT, ApproximateMinima(LOGISTIC), replace(TIGHT, shift=2.0)])
def test_both_noises_are_drawn_as_they_are_counted(monkeypatch, algorithm) -> None:
    """The model before the output's noise shows eta; with it, that noise."""
    parties, draws = binary_parties(), 2000
    kept, right = [], amp.perturbed_minimisers
    monkeypatch.setattr(amp, "perturbed_minimisers", lambda *arguments: kept.append(right(*arguments)) or kept[-1])
    released = release_of(algorithm, parties, [BUDGET], draws).weights[0]
    made = sent(algorithm, BUDGET, parties.problem)
    if algorithm.shift == 0:
        eta = eta_of(kept[0][0], parties, algorithm.lam + made.extra) / made.scale
        assert stats.kstest(eta.ravel(), "norm").pvalue > 1e-4  # false-alarm rate 1e-4, seeded
    output = (released - kept[0][0]) / made.output
    assert stats.kstest(output.ravel(), "norm").pvalue > 1e-4  # and here
    assert np.abs(np.corrcoef(output.T) - np.eye(4)).max() < 5 / math.sqrt(draws)


@pytest.mark.parametrize("eps", [1e-30, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("algorithm", [TIGHT, ApproximateMinima(LOGISTIC), replace(TIGHT, shift=4.0)])
def test_no_gradient_is_longer_than_gamma(algorithm, eps) -> None:
    parties, budget = binary_parties(), Budget(eps, 1e-5)
    made = sent(algorithm, budget, parties.problem)
    released = release_of(algorithm, parties, [budget], 5, seed=3).weights[0]
    rng = np.random.default_rng(3)
    eta, z = made.scale * noise.gaussian(rng, (5, 4)), made.output * noise.gaussian(rng, (5, 4))
    left = eta - eta_of(released - z, parties, algorithm.lam + made.extra, algorithm.shift)
    gradient = left / len(parties.y)
    lost = 4e-16 * np.abs(z).max() * (0.25 + algorithm.lam + made.extra)  # of w, where z is added and taken away
    assert np.linalg.norm(gradient, axis=1).max() <= made.gamma + 10 * lost


def test_a_solver_that_stops_early_releases_nothing(monkeypatch) -> None:
    right = amp.perturbed_minimisers
    monkeypatch.setattr(amp, "perturbed_minimisers", lambda *a: right(*a) * (1 + 1e-6))
    prepared = TIGHT.prepare(binary_parties(), np.random.default_rng(0))
    with pytest.raises(NotConvergedError, match="gamma"):
        prepared.release([BUDGET], np.random.default_rng(1), 2)


SETTINGS = [  # sigma, R, mu of the output, delta
    (7.46, 1.9, 0.0054, 1e-5),
    (4.0, 5.0, 0.1, 1e-2),
    (2.0, 0.3, 0.2, 1e-3),
    (1.0, 0.05, 0.5, 1e-2),
    (9.0, 60.0, 0.1, 0.05),
]


def densities(sigma: float, ridge: float, force: float, shift: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Models w, and the densities at w with a row at 1 whose successor a crowd holds where its gradient is 1."""
    reach = 8 * sigma + 2
    w = np.linspace(force - reach, force + reach, 3001) / ridge
    s, b = expit(shift - w), force - ridge * w
    p = np.exp(-((b + s) ** 2) / (2 * sigma**2)) * (ridge + s * (1 - s))
    q = np.exp(-((b - 1) ** 2) / (2 * sigma**2)) * ridge
    scale = sigma * math.sqrt(2 * math.pi)
    return w, p / scale, q / scale


@pytest.mark.parametrize(("sigma", "ridge", "mu", "delta"), SETTINGS)
def test_a_model_and_what_the_solver_made_of_it(sigma: float, ridge: float, mu: float, delta: float) -> None:
    """The definition of delta, summed: the solver errs by g/R upwards with one row, else downwards."""
    eps, closest = amp.eps_of(sigma, ridge, mu, delta), 0.0
    y = np.linspace(-8, 8 + mu, 161)
    up, down = (np.exp(-((y - at) ** 2) / 2) for at in (mu, 0.0))
    up, down = up / up.sum(), down / down.sum()
    for force in sigma * np.array([-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0]):
        w, p, q = densities(sigma, ridge, force, shift=2.0)
        cell = w[1] - w[0]
        assert p.sum() * cell == pytest.approx(1, abs=1e-6)
        for first, second in ((p, q), (q, p)):
            joint = np.outer(first, up) - math.exp(eps) * np.outer(second, down)
            closest = max(closest, float(np.maximum(joint, 0).sum()) * cell / delta)
    assert closest <= 1 + 1e-3  # the accuracy of the sums
    free = amp._log_excess(eps, sigma, ridge, mu) <= math.log(amp.REST * delta)
    assert closest >= (0.9 if free else 0.03)


@pytest.mark.parametrize(("sigma", "ridge", "mu"), [(7.46, 8.0, 0.1), (4.0, 12.0, 0.2)])
def test_half_of_the_sensitivity_is_not_enough(sigma: float, ridge: float, mu: float) -> None:
    """What is counted where the solver's errors are taken for a shift by g/R."""
    delta, y = 1e-5, np.linspace(-8, 9, 341)
    up, down = (np.exp(-((y - at) ** 2) / 2) for at in (2 * mu, 0.0))
    eps = amp.eps_of(sigma, ridge, mu, delta)
    w, p, q = densities(sigma, ridge, -6 * sigma, shift=2.0)
    joint = np.outer(p, up / up.sum()) - math.exp(eps) * np.outer(q, down / down.sum())
    assert np.maximum(joint, 0).sum() * (w[1] - w[0]) > 1.02 * delta


@pytest.mark.parametrize(("sigma", "ridge", "mu", "delta"), SETTINGS)
def test_more_than_either_and_no_more_than_both(sigma: float, ridge: float, mu: float, delta: float) -> None:
    eps = amp.eps_of(sigma, ridge, mu, delta)
    assert eps >= gdp.eps_of(math.hypot(2 / sigma, mu), delta)
    assert eps >= objective.eps_of(sigma, ridge, delta)
    # (eps, delta) beside (eps, delta), where hardly any delta is left for the output
    apart = objective.eps_of(sigma, ridge, 0.999 * delta) + gdp.eps_of(mu, 0.001 * delta)
    assert eps <= apart * (1 + 1e-12)
    assert amp.eps_of(sigma, ridge, 1e-12, delta) == pytest.approx(objective.eps_of(sigma, ridge, delta), rel=2e-3)


@pytest.mark.parametrize("share", [0.003, 0.02, 0.2])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.05])
@pytest.mark.parametrize("eps", [1e-6, 0.01, 1.0, 30.0, 1e6])
def test_with_the_free_ridge_it_is_one_gaussian_release(eps: float, delta: float, share: float) -> None:
    whole = gdp.mu_of(eps, (1 - amp.REST) * delta)
    mu, sigma = share * whole, 2 / (whole * math.sqrt(1 - share**2)) * (1 + 1e-9)
    ridge = amp.free_ridge(eps, sigma, mu, delta)
    assert amp.eps_of(sigma, ridge, mu, delta) == pytest.approx(eps, rel=1e-3)
    assert amp.eps_of(sigma, ridge, mu, delta) <= eps * (1 + 1e-12)
    assert ridge >= objective.free_ridge(eps, sigma)
