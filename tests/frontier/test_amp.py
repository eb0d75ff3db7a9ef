"""`amp`: its noise and its gradients as they are released, beside what is counted, and the paper's constants."""

import math
from dataclasses import replace

import numpy as np
import pytest
from examples import LOGISTIC, binary_parties, eta_of, proven, release_of, sent
from scipy import stats

from dpml.optim import NotConvergedError
from dpml.optim.convex import optimum
from dpml.optim.losses import Logistic
from dpml.packs.frontier import amp
from dpml.packs.frontier.amp import ApproximateMinima
from dpml.privacy import Budget, Problem, noise

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
def test_no_gradient_is_longer_than_gamma(monkeypatch, algorithm, eps) -> None:
    """Where the solver stopped, by sums of our own."""
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


def test_without_noise_it_is_the_minimum_and_nothing_is_proven() -> None:
    parties, budget = binary_parties(), Budget(math.inf, 0.1)
    for algorithm in (replace(TIGHT, lam=0.05), ApproximateMinima(LOGISTIC, lam=0.05)):
        released = release_of(algorithm, parties, [budget], 2, seed=0)
        best = optimum(LOGISTIC, parties.X, parties.y, 0.05)
        assert np.abs(released.weights - best).max() <= sent(algorithm, budget, parties.problem).gamma / 0.05 + 1e-7
        assert proven(algorithm, budget, parties.problem)["release"] == math.inf
    best = optimum(Logistic(2.0), parties.X, parties.y, 0.05)
    assert np.allclose(
        release_of(replace(TIGHT, lam=0.05, shift=2.0), parties, [budget], 1, seed=0).weights, best, atol=1e-6
    )
