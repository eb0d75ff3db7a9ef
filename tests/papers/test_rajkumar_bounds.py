"""Rajkumar & Agarwal 2012: Theorem 5.3, with the constants of its proof, and the noise of footnote 2."""

import math

import numpy as np
import pytest
from examples import LOGISTIC, binary_parties, proven, release_of
from scipy import stats

from dpml.algorithms.perturbation import GaussianObjectivePerturbation
from dpml.data import Files
from dpml.data.partition import Equal, Fractions, partition
from dpml.data.sets.synthetic import Synthetic
from dpml.errors import UserError
from dpml.packs.rajkumar2012 import bounds
from dpml.packs.rajkumar2012.methods import LaplaceAggregation
from dpml.privacy import Budget, Problem
from dpml.seeds import generator

BUDGET = Budget(0.1, 0.05)


def test_the_bound_is_its_three_terms() -> None:
    """From the definitions of sigma* and of T, by distribution functions."""
    N, d, lam, length = 5000, 10, 0.05, 2.0
    left = 0.1 - 2 * math.log(1 + 0.25 / (N * lam))
    T = bounds.noise_quantile(BUDGET, Problem(1, N, d), lam)
    sigma = math.sqrt(T / stats.chi2(d).ppf(0.95))
    assert stats.chi2(d).cdf(((sigma**2 * left - 2) / (2 * sigma)) ** 2) == pytest.approx(0.95)
    found = bounds.risk_bound(BUDGET, Problem(1, N, d), lam, length)
    assert found == pytest.approx(2 * T / N**2 / lam + 16 * (32 + math.log(20)) / (lam * N) + lam * length**2 / 2)
    assert bounds.risk_bound(BUDGET, Problem(1, 10, d), 1e-3, length) == math.inf  # Delta is not 0


@pytest.mark.parametrize(
    ("tau", "length", "d", "eps"), [(0.2, 2.0, 10, 0.1), (0.5, 1.0, 30, 0.01), (1.0, 0.1, 3, 1e-3)]
)
def test_so_many_rows_are_enough_and_an_eighth_is_not(tau, length, d, eps) -> None:
    budget, lam = Budget(eps, 0.05), tau / length**2
    N = bounds.rows_needed(budget, d, tau, length)
    assert bounds.risk_bound(budget, Problem(1, N, d), lam, length) <= tau
    assert bounds.risk_bound(budget, Problem(1, N // 8, d), lam, length) > tau
    # eps is in two of the three terms only: at last the rows' own term decides
    assert bounds.rows_needed(Budget(1e6, 0.05), d, tau, length) == math.ceil(64 * (32 + math.log(20)) / lam / tau)


def test_the_excess_is_measured_against_the_weights_that_made_the_labels() -> None:
    data = Synthetic("ball_sign", d=3, rows=50, test_rows=400, scale=2.0).load(Files(), None, generator(0, "data"))
    parties = partition(data, Equal(), 1, np.random.default_rng(0))
    w = np.array([[0.5, -1.0, 2.0], list(data.truth)])
    margins = data.y_test[:, None] * (data.X_test @ w.T)
    losses = np.log1p(np.exp(-margins)).mean(axis=0)
    found = bounds.excess_loss(w, parties, LOGISTIC, 0.1)
    assert found == pytest.approx([losses[0] - losses[1], 0.0])
    none = partition(
        Synthetic("two_gaussians", d=3).load(Files(), 50, generator(0, "data")), Equal(), 1, np.random.default_rng(0)
    )
    with pytest.raises(UserError, match="excess_loss needs test rows and weights"):
        bounds.excess_loss(w, none, LOGISTIC, 0.1)


def test_gop_keeps_the_bound() -> None:
    """1 - 2 delta' = 0.9 of 200 releases would do; the proof is far from tight, and all do."""
    data = Synthetic("ball_sign", d=5, rows=2000, test_rows=5000, scale=2.0).load(Files(), None, generator(1, "data"))
    parties = partition(data, Equal(), 1, np.random.default_rng(0))
    budget, lam = Budget(0.5, 0.05), 0.2
    weights = release_of(GaussianObjectivePerturbation(LOGISTIC, lam=lam), parties, [budget], 200, seed=2).weights[0]
    limit = bounds.risk_bound(budget, parties.problem, lam, 2.0)
    assert np.mean(bounds.excess_loss(weights, parties, LOGISTIC, lam) <= limit) >= 0.9
    table = bounds.bounds([500, 2000], 5, 0.5, 0.05, lam, 2.0)
    assert table["value"].iloc[1] == limit < table["value"].iloc[0]


def test_proposition_5_2_is_of_the_stated_order():
    """The proof's chain of bounds, with an independent quantile, stays below 120 for eps up to 1."""
    rows = bounds.quantile_orders([1, 30], [0.05, 1.0], [0.3, 1e-4])
    for d, left, x, y, value in rows[["d", "eps", "delta", "tail", "value"]].itertuples(index=False):
        sigma2 = 4 * (d + 2 * math.sqrt(d * math.log(1 / x)) + 2 * math.log(1 / x) + left) / left**2
        most = sigma2 * stats.chi2.isf(y, d) * left**2 / (d**2 * math.log(x) * math.log(y))
        assert 0 < value <= most <= 120


def test_full_noise_has_the_variance_of_all_parties():
    rows = bounds.full_noise({"equal": [0.25] * 4, "skewed": [0.01, 0.33, 0.33, 0.33]}, 1000, 10, 0.1, 0.05)
    ratios = rows[rows["metric"] == "noise_ratio"].set_index(["setting", "reading"])["value"]
    assert ratios["equal", "stated"] == 4 < ratios["equal", "full noise"] == ratios["skewed", "stated"]
    assert ratios["skewed", "full noise"] > ratios["skewed", "stated"]
    proven = rows.loc[rows["metric"] == "proven_of_party", "value"]
    assert (proven <= 0.1).all()


def test_the_noise_is_that_of_footnote_2():
    """False alarm: 4 tests of Kolmogorov and Smirnov at 1e-4 each, and six correlations of five standard errors."""
    parties = binary_parties(Fractions(fractions=(0.1, 0.2, 0.3, 0.4)), M=4)
    algorithm = LaplaceAggregation(LOGISTIC, lam=0.1)
    exact = release_of(algorithm, parties, [Budget(math.inf)]).weights[0, 0]
    noise = release_of(algorithm, parties, [Budget(0.5)], 4000).weights[0] - exact
    scale = 2 / (4 * 30 * 0.1 * 0.5)
    for each in noise.T:
        assert stats.kstest(each, stats.laplace(scale=scale).cdf).pvalue > 1e-4
    others = np.corrcoef(noise.T) - np.eye(4)
    assert np.abs(others).max() < 5 / math.sqrt(4000)
    # sqrt(d) times the claim, as a move along the diagonal shows
    assert proven(algorithm, Budget(0.5), parties.problem)["release"] == pytest.approx(2 * 0.5, rel=1e-5)
