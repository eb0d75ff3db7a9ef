"""Heikkilä et al. 2017: sensitivities by search, noise by its law, the model by the program's steps, and the claims."""

import math

import numpy as np
import pandas as pd
import pytest
from examples import release_of
from made_up import decide, delta_of

from dpml.data import Dataset
from dpml.data.partition import Equal, partition
from dpml.optim.losses import LOSSES
from dpml.packs.heikkila2017 import dca, theorems
from dpml.privacy import Budget, Problem

SQUARED = LOSSES["squared"]


def textbook(delta):
    return math.sqrt(2 * math.log(1.25 / delta))


def test_the_programs_sensitivity_product_by_product():
    c = np.array([0.3, 1.2, 0.7, 2.0])
    total = 0.0
    for i in range(3):
        for j in range(i + 1):
            total += (c[i] * c[j] * (1 if i == j else 2)) ** 2
        total += (2 * c[i] * c[3]) ** 2
    assert theorems.printed_statistics(c) == pytest.approx(math.sqrt(total))


@pytest.mark.parametrize("d", [1, 2, 4])
def test_no_two_rows_are_farther_apart_than_is_proven(d):
    rng = np.random.default_rng(d)
    for _ in range(20):
        c = rng.uniform(0.1, 2, d + 1)
        corners = c * rng.choice([-1.0, 0.0, 1.0], (60, d + 1))
        inside = c * rng.uniform(-1, 1, (60, d + 1))
        seen = np.array([theorems.coefficients(z) for z in (*corners, *inside)])
        apart = np.linalg.norm(seen[:, None] - seen, axis=2).max()
        assert apart <= theorems.proven_statistics(c) * (1 + 1e-12) <= theorems.printed_statistics(c) * (1 + 1e-9)
    rows = theorems.moves([d]).set_index("reading")["value"]
    shown, most = (rows[f"clipped, {words}"] for words in ("shown", "at most"))
    assert 0.89 * most < shown <= most <= 1
    far = theorems.coefficients(np.full(d + 1, 10.0))  # from one end of a column to the other, beside a row of zeros
    assert rows["not clipped, one-sided"] == pytest.approx(
        np.linalg.norm(far) / theorems.printed_statistics(np.full(d + 1, 5.0))
    )


def test_the_parts_of_a_release():
    d, eps, delta = 3, 2.0, 1e-3
    rows = theorems.parts([eps], delta, d, (2.0, 3.0)).set_index(["part", "metric"])["value"]
    reach = np.array([2.0, 2.0, 2.0, 3.0])
    squares = np.linalg.norm(reach**2) / np.linalg.norm(reach) * 0.3 * eps / textbook(0.3 * delta)
    sums = 0.7 * eps / textbook(0.7 * delta)
    unit = theorems.printed_statistics(np.ones(d + 1))
    mus = {
        "bounds": (squares, 0.3),
        "printed": (sums, 0.7),
        "statistics": (sums * math.sqrt(16 + 1.5) / unit, 0.7),
        "whole": (math.hypot(squares, sums * math.sqrt(d * (d + 1) / 2 + d) / unit), 1.0),
    }
    for part, (mu, share) in mus.items():
        exact = delta_of(mu, share * eps)
        assert rows[part, "log10_excess"] == pytest.approx(math.log10(exact / (share * delta)), abs=1e-6)
        assert delta_of(mu, rows[part, "eps_of_noise"]) == pytest.approx(share * delta, rel=1e-5)


def test_an_attack_reaches_most_of_what_is_there_and_no_more():
    rows = theorems.attacked([3.0], 1e-4, [7.5] * 3, 20_000).set_index("metric")["value"]
    assert 0.9 * rows["proven"] < rows["attacked"] < rows["proven"]


def test_what_is_left_of_the_noise():
    rows = theorems.noise_lacking([10], [1, 3, 10]).set_index("known")["value"]
    assert dict(rows) == {1: 1.0, 3: 9 / 7}  # of ten clients who know all there is nothing left


def dealt(n=60, d=2, zero=False):
    x, y = dca.auxiliary(np.random.default_rng(0), n, d, np.array([1.0, -0.5])[:d])
    data = Dataset("made", "regression", (not zero) * x, (not zero) * np.clip(y / 5, -1, 1), x[:1], y[:1] / 5)
    return partition(data, Equal(), 6, np.random.default_rng(1))


def released(algorithm, parties, eps=2.0, draws=1):
    return release_of(algorithm, parties, [Budget(eps, 1e-4)], draws, seed=3).weights[0]


def test_a_model_in_the_programs_steps():
    rng = np.random.default_rng(0)
    gram, target, noise = np.diag([4.0, 0.1, 2]), np.arange(3.0), -9 * rng.standard_normal(9)
    low = np.zeros((3, 3))
    low[np.tril_indices(3)] = noise[:6]
    noisy = gram + low + np.triu(low.T, k=1)
    values, vectors = np.linalg.eig(noisy)
    assert values.min() < 0
    whole = vectors @ np.diag(np.abs(values)) @ np.linalg.inv(vectors)
    expected = np.linalg.solve(whole + np.eye(3), target + noise[6:])
    assert dca.posterior(gram, target, noise) == pytest.approx(expected)
    assert dca.posterior(gram[None], target[None], noise[None])[0] == pytest.approx(expected)


def test_with_little_noise_it_is_ridge_regression():
    parties = dealt()
    z = 5 * parties.X
    expected = np.linalg.solve(z.T @ z + np.eye(2), z.T @ (5 * parties.y))
    assert released(dca.Unprojected(SQUARED), parties, 1e9)[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "more"), [(dca.Unprojected, 6 / 5), (dca.InputPerturbed, 6), (dca.DCA, 6 / 5), (dca.Curator, 1)]
)
def test_the_noise_of_all_numbers_is_the_programs(kind, more, monkeypatch):
    seen, draws = {}, 3000
    monkeypatch.setattr(dca, "posterior", lambda gram, target, added: seen.update(noise=added) or added[:, :2])
    monkeypatch.setattr(dca, "thresholds", lambda *_: (0.5, 0.5))
    algorithm, parties = kind(SQUARED), dealt()
    released(algorithm, parties, draws=draws)
    noise = seen["noise"]
    if not algorithm.clips:
        std = theorems.printed_statistics(np.full(3, 5.0)) * textbook(1e-4) / 2
        assert np.var(noise) == pytest.approx(more * std**2, rel=6 * math.sqrt(2 / noise.size))
        return
    rng = np.random.default_rng(3)  # the same numbers: sums of squares first
    drawn = rng.standard_normal((2, draws, 5))
    wide = math.sqrt(more) * textbook(0.3e-4) * math.sqrt(3 * 7.5**2) / (0.3 * 2)
    squares = 25 * np.sum(np.column_stack([parties.X, parties.y]) ** 2, axis=0)
    variances = (squares + wide * drawn[0, :, :3]) / 60
    bounds = np.minimum(0.5 * np.sqrt(np.where(variances > 0, variances, 0.5)), 7.5)
    std = math.sqrt(more) * theorems.printed_statistics(bounds) * textbook(0.7e-4) / (0.7 * 2)
    assert noise == pytest.approx(std[:, None] * drawn[1])


def test_the_factors_are_those_of_a_plain_search():
    n, d, eps, delta = 40, 2, 3.0, 1e-3
    rng = np.random.default_rng(1)
    x, y = dca.auxiliary(rng, n, d, rng.standard_normal(d))
    noise = rng.standard_normal((1, 1, 5))[0, 0] * textbook(delta) / eps * math.sqrt(n / (n - 1))
    errors = {}
    for i in np.arange(1, 21) / 10:
        for j in np.arange(1, 21) / 10:
            c, cy = i * np.std(x, ddof=1), j * np.std(y, ddof=1)
            cut, target = np.clip(x, -c, c), np.clip(y, -cy, cy)
            squared = d * c**4 + d * (d - 1) * 2 * c**4 + d * (2 * c * cy) ** 2
            low = np.zeros((d, d))
            low[np.tril_indices(d)] = noise[:3] * squared**2
            values, vectors = np.linalg.eigh(cut.T @ cut + low + np.triu(low.T, k=1))
            gram = vectors @ np.diag(np.abs(values)) @ vectors.T
            w = np.linalg.solve(gram + np.eye(d), cut.T @ target + noise[3:] * squared**2)
            errors[i, j] = np.mean(np.abs(x @ w - y))
    assert dca.thresholds(n, d, eps, delta, 1, 1) == pytest.approx(min(errors, key=errors.get))


def test_proven_is_what_each_view_can_know():
    problem, budget = Problem(10, 100, 4, colluders=3), Budget(2.0, 1e-4)

    def proven(kind):
        return {g.view: g.mu for g in kind(SQUARED).guarantees(budget, problem) if g.basis == "proven"}

    alone = 2.0 / textbook(1e-4)
    assert proven(dca.Unprojected) == pytest.approx(
        dict.fromkeys(("release", "aggregate"), alone * math.sqrt(9 / 10)) | {"colluders": alone * math.sqrt(9 / 7)}
    )
    assert proven(dca.InputPerturbed)["client"] == pytest.approx(alone)
    both = math.hypot(7.5 * 0.6 / textbook(0.3e-4), 1.4 / textbook(0.7e-4))
    assert proven(dca.Curator) == pytest.approx({"release": both})
    assert proven(dca.DCA)["release"] == pytest.approx(both * math.sqrt(9 / 10))


def test_made_up_rows_are_in_the_domain_and_the_error_is_theirs():
    data = dca.MadeUp(d=3).load(None, 50, np.random.default_rng(0))
    assert data.X.shape == (50, 3)
    assert np.linalg.norm(data.X, axis=1).max() <= 1
    assert np.abs(data.y).max() <= 1
    parties, weights = partition(data, Equal(), 5, np.random.default_rng(1)), np.ones((2, 3))
    by_hand = np.mean([abs(row.sum() - y) for row, y in zip(data.X_test, data.y_test, strict=True)])
    assert dca.mean_absolute_error(weights, parties, SQUARED, 0.0) == pytest.approx([by_hand, by_hand])


DEPENDS, HOLDS, FAILS = "depends on an unstated choice", "reproduced", "not reproduced"


def test_verdicts_on_exact_numbers():
    uci = theorems.parts([1, 31.6], 1e-4, 8, (7.5, 7.5)).assign(block="uci")
    gdsc = theorems.parts([1, 10], 1e-3, 10, (1, 7.5)).assign(block="gdsc")
    others = pd.concat([theorems.moves([1, 8]), theorems.noise_lacking([840], [1, 2, 84])]).assign(block="others")
    rows = pd.concat([uci, gdsc, others]).assign(algo="all")

    def verdicts(rows):
        return [decide(f"HK.{number}", rows) for number in range(1, 7)]

    assert verdicts(rows) == [HOLDS, DEPENDS, DEPENDS, FAILS, DEPENDS, FAILS]
    assert verdicts(rows.assign(value=-1.0)) == [HOLDS] * 6
    assert verdicts(rows.assign(value=2.0)) == [FAILS] * 6
    tried = theorems.attacked([1.0], 1e-4, [7.5] * 9, 10_000).assign(block="squares", algo="squares")
    assert decide("HK.7", tried) == FAILS
