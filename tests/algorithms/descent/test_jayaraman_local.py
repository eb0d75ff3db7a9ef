"""Jayaraman et al.'s method as eq. (2) of Kang et al. 2019 writes it: by hand, and against what a view can tell."""

import math

import numpy as np
import pytest
from examples import wddp
from test_kang2019 import SIZES, dealt, problem_of

from dpml.algorithms.descent.noisy_descent import LocalRounds
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, gdp

LOGISTIC, BUDGET = LOSSES["logistic"], Budget(0.25, 1e-3)
EQUAL = np.full(6, 20)


def algorithm(**options):
    return LocalRounds(LOGISTIC, sites="clients", **options)


def released(kind, parties, budget, draws=3):
    prepared = kind.prepare(parties, np.random.default_rng(0))
    return prepared.start, prepared.release([budget], np.random.default_rng(1), draws).weights[0]


def test_without_noise_it_is_the_plain_mean_of_local_descents():
    parties = dealt(SIZES)
    start, (found, *_) = released(algorithm(rounds=30, step=0.5, lam=0.1), parties, Budget(math.inf, 1e-3))
    models = []
    for k in range(len(SIZES)):
        X, y, w = parties.X[parties.of(k)], parties.y[parties.of(k)], start.copy()
        for _ in range(30):
            w -= 0.5 * (-(X.T @ (y / (1 + np.exp(y * (X @ w))))) / len(y) + 0.1 * w)
        models.append(w)
    assert found == pytest.approx(np.mean(models, axis=0), abs=1e-6)


def test_its_noise_is_that_of_table_1_in_every_client():
    """The s.d. over draws after T rounds, gradients made zero: step^2 T sigma^2 / M, sigma by the formula."""
    parties = dealt(SIZES)
    parties.X[:] = 0.0
    _, models = released(algorithm(rounds=20, step=0.5), parties, BUDGET, 2000)
    sigma2 = 16 * 20 * math.log(1e3) / (len(SIZES) * SIZES.min() * BUDGET.eps) ** 2
    ratio = models.var(axis=0, ddof=1).mean() / (20 * 0.25 * sigma2 / len(SIZES))
    assert abs(ratio - 1) < 4 * math.sqrt(2 / (1999 * 5))  # a false alarm in 16,000


def test_with_clients_of_equal_size_it_is_wddp():
    """ "A special case": the same noise, weights and guarantees."""
    parties, problem = dealt(EQUAL), problem_of(EQUAL)
    ours, theirs = (released(kind, parties, BUDGET)[1] for kind in (algorithm(rounds=9), wddp(LOGISTIC, rounds=9)))
    assert ours == pytest.approx(theirs, rel=1e-12)
    known = wddp(LOGISTIC).mus(BUDGET, problem)
    assert algorithm().mus(BUDGET, problem) == pytest.approx(known)


@pytest.mark.parametrize("rounds", [1, 7, 50])
@pytest.mark.parametrize("lam", [0.0, 0.3])
def test_no_view_learns_more_than_is_proven(rounds, lam):
    """A row that always pulls by G one way, then the other, where curvature is least: the exact mu of both views.

    The client's map is w -> (1 - step lam) w, so its model is Gaussian with a shift and a variance in closed form. The
    average has the other clients' noise of all rounds too; what is proven counts that of the last round.
    """
    problem, one = problem_of(SIZES), algorithm(rounds=rounds, step=0.2, lam=lam)
    sigma = math.sqrt(16 * rounds * math.log(1e3)) / (len(SIZES) * SIZES.min() * BUDGET.eps)
    powers = (1 - 0.2 * lam) ** np.arange(rounds)
    shift, spread = 2 / SIZES.min() * powers.sum(), sigma * math.sqrt(np.sum(powers**2))
    exact = {"client": shift / spread, "release": shift / (spread * math.sqrt(len(SIZES)))}
    mus = one.mus(BUDGET, problem)
    for view, mu in exact.items():
        assert mus[view] >= mu
    assert mus["client"] == mus["colluders"]
    if lam == 0 or rounds == 1:  # nothing is forgotten; rounding is counted, 2.5e-4 in single precision
        assert mus["client"] == pytest.approx(exact["client"], rel=3e-4)
    if rounds == 1:
        assert mus["release"] == pytest.approx(exact["release"], rel=3e-4)
    assert gdp.eps_of(mus["client"], 1e-3) > BUDGET.eps
