"""Rajkumar & Agarwal 2012, footnote 2: local aggregation with a Laplace number in every coordinate."""

import math

import numpy as np
import pytest
from examples import LOGISTIC, binary_parties, proven, release_of
from scipy import stats

from dpml.data.partition import Fractions
from dpml.packs.rajkumar2012.methods import LaplaceAggregation
from dpml.privacy import Budget

LAM, EPS, DRAWS = 0.1, 0.5, 4000


def test_the_noise_is_that_of_footnote_2():
    """False alarm: 4 tests of Kolmogorov and Smirnov at 1e-4 each, and six correlations of five standard errors."""
    parties = binary_parties(Fractions(fractions=(0.1, 0.2, 0.3, 0.4)), M=4)
    algorithm = LaplaceAggregation(LOGISTIC, lam=LAM)
    exact = release_of(algorithm, parties, [Budget(math.inf)]).weights[0, 0]
    noise = release_of(algorithm, parties, [Budget(EPS)], DRAWS).weights[0] - exact
    scale = 2 / (4 * 30 * LAM * EPS)
    for each in noise.T:
        assert stats.kstest(each, stats.laplace(scale=scale).cdf).pvalue > 1e-4
    others = np.corrcoef(noise.T) - np.eye(4)
    assert np.abs(others).max() < 5 / math.sqrt(DRAWS)
    # sqrt(d) times the claim, as a move along the diagonal shows
    assert proven(algorithm, Budget(EPS), parties.problem)["release"] == pytest.approx(2 * EPS, rel=1e-5)
