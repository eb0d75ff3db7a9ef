"""The analytic curves against what they are made of, written down anew."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.optim.losses import LOSSES
from dpml.packs.imtiaz2019.curves import (
    delta_against_colluders,
    delta_against_tau,
    noise_of_uneven_sites,
)
from dpml.packs.imtiaz2019.tight import FAMILY, loss_at_proven_eps
from dpml.privacy import Budget, Problem, gdp, worst


def one(table: pd.DataFrame, algo: str, reading: str) -> pd.Series:
    rows = table[(table["algo"] == algo) & (table["reading"] == reading) & (table["metric"] == "digits")]
    return 10 ** -rows["value"].reset_index(drop=True)


def everything_seen(M: int, honest: int) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of (all messages, sum of ehat, the colluders' ehat and g) in units of tau, from the definition."""
    ehat, g = np.eye(2 * M)[:M], np.eye(2 * M)[M:] / math.sqrt(M)
    messages = ehat - ehat.mean(axis=0) + g
    view = np.concatenate([messages, ehat.sum(axis=0, keepdims=True), ehat[honest:], g[honest:]])
    return view @ view.T, np.eye(len(view))[0]


@pytest.mark.parametrize(("N", "M", "eps"), [(1000, 10, 1e-3), (5000, 30, 0.1), (90, 9, 1.0)])
def test_delta_of_the_whole_view_is_that_of_everything_seen(N: int, M: int, eps: float) -> None:
    table = delta_against_tau(N, M, eps, low=0.01, high=1.0, points=3)
    honest = M - (math.ceil(M / 3) - 1)
    covariance, shift = everything_seen(M, honest)
    for tau, delta in zip([0.01, 0.1, 1.0], one(table, "cape", "whole view"), strict=True):
        mu = gdp.correlated(covariance * tau**2, shift * M / N)
        assert math.log(delta) == pytest.approx(gdp.log_delta_of(mu, eps), rel=1e-6)
    # conv with the noise that makes the average as accurate: the average of M of variance tau^2/M has tau^2/M^2
    conv = one(table, "conv", "whole view")
    assert math.log(conv[0]) == pytest.approx(gdp.log_delta_of((M / N) / (0.01 / math.sqrt(M)), eps), rel=1e-9)


def test_plotted_curves_are_the_scripts_formulas() -> None:
    N, M, eps, tau = 1000, 10, 1e-3, 50.0
    table = delta_against_colluders(N, M, eps, tau)
    assert one(table, "conv", "as plotted")[0] == pytest.approx(1.25 * math.exp(-10 * (100 * eps * tau / 10) ** 2 / 2))
    for i, honest in enumerate([10, 9, 8, 7]):
        sigma = np.block(
            [
                [(1.1 * np.eye(honest) - 0.1) * tau**2, np.full((honest, 1), (1 - honest / 10) * tau**2)],
                [np.full((1, honest), (1 - honest / 10) * tau**2), np.array([[honest * tau**2]])],
            ]
        )
        v = np.eye(honest + 1)[0] / 100
        square = v @ np.linalg.pinv(sigma) @ v
        plotted = 2 * stats.norm.sf((eps - square / 2) / math.sqrt(square))
        assert one(table, "cape", "as plotted")[i] == pytest.approx(plotted, rel=1e-8)
        # Theorem 1, eqs. (4) and (5)
        C = 10 - honest
        printed = 1000 / (tau**2 * N**2 * 11) * ((honest + 2) / honest + 9 / honest * C**2 / (110 - 3 * C**2))
        z = (eps - printed / 2) / math.sqrt(printed)
        assert one(table, "cape", "printed")[i] == pytest.approx(2 / z * stats.norm.pdf(z), rel=1e-9)


def test_more_colluders_see_more_but_their_view_says_less() -> None:
    table = delta_against_colluders(5000, 30, 0.1, 0.5)
    whole, theirs = one(table, "cape", "whole view"), one(table, "cape", "their view")
    assert whole[0] == pytest.approx(theirs[0], rel=1e-6)  # without colluders the two are one
    assert (np.diff(whole) > 0).all()
    assert (np.diff(theirs) < 0).all()  # which cannot be: what is left random is known


def test_the_plain_average_of_uneven_sites_is_h_times_as_noisy_and_the_weighted_sum_is_not() -> None:
    table = noise_of_uneven_sites(4, [1, 5, 20], N=840, samples=20000)
    found = table.set_index(["u", "algo", "reading"])["value"]
    for u, small in ((1, 210), (5, 70), (20, 20)):  # two sites of `small` rows, two of u times as many
        exact = 840**2 / 4**3 * (2 / small**2 + 2 / (u * small) ** 2)
        assert found[u, "cape", "H(n)"] == pytest.approx(exact)
        assert exact * (1 + 1e-12) >= 1
        assert exact <= 840**2 / 4**3 * (1 / (840 - 3) ** 2 + 3)  # the paper's bound
        assert found[u, "cape", "plain average"] == pytest.approx(exact, rel=0.05)  # five standard errors
        assert found[u, "capefm", "weighted sum"] == pytest.approx(1, rel=0.05)
        assert found[u, "conv", "weighted sum"] == pytest.approx(4, rel=0.05)


def test_both_noises_are_compared_at_the_same_proven_eps() -> None:
    table = loss_at_proven_eps("linear", 5, 500, 4, 1e-5, [0.5, 5.0], draws=30)
    assert set(table["proven_eps"]) == {0.5, 5.0}
    asked = table[(table["noise"] == "published") & (table["metric"] == "asked_eps")]
    asked = asked.set_index(["algo", "proven_eps"])["value"]
    for (name, target), eps in asked.items():
        given = FunctionalMechanism(LOSSES["squared"], sites=FAMILY[name]).guarantees(
            Budget(eps, 1e-5), Problem(4, 500, 5)
        )
        assert worst(g for g in given if g.basis == "proven").eps == pytest.approx(target, rel=1e-9)
    assert asked["fm", 5.0] > asked["capefm", 5.0]  # whose colluders see more
    assert asked["fm", 5.0] == pytest.approx(asked["conv", 5.0])  # one message is as private as fm's release
    ratio = table[table["metric"] == "gap_ratio"].set_index(["algo", "proven_eps"])["value"]
    gaps = table[table["metric"] == "optimality_gap"].groupby(["algo", "proven_eps", "noise"])["value"].mean()
    assert ratio["fm", 5.0] == pytest.approx(gaps["fm", 5.0, "published"] / gaps["fm", 5.0, "tight"])
