"""Partitions: sizes, the data set's own parties, and what is computed once."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpml.data import Dataset
from dpml.data.partition import (
    BySize,
    Equal,
    Fractions,
    Natural,
    Parties,
    PerParty,
    PowerLaw,
    Simplex,
    TwoGroup,
    partition,
    remembered,
    whole_rows,
)
from dpml.errors import UserError
from dpml.optim.convex import optimum
from dpml.optim.losses import LOSSES, mean_loss
from dpml.running.metrics import evaluate


def toy(rows: int) -> Dataset:
    X = np.arange(rows, dtype=float)[:, None] / rows
    return Dataset("toy", "regression", X, X[:, 0], X[:0], X[:0, 0])


@pytest.mark.slow
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=40), st.integers(0, 10_000))
def test_whole_rows_sum_and_follow_the_shares(shares: list[float], N: int) -> None:
    sizes = whole_rows(np.array(shares), N)
    assert sizes.sum() == N
    assert np.abs(sizes - N * np.array(shares) / np.sum(shares)).max() < 1


def test_two_group_has_the_ratio() -> None:
    sizes = partition(toy(1000), TwoGroup(u=3.0), 10, np.random.default_rng(0)).sizes
    assert sorted(set(sizes)) == [50, 150]
    assert list(sizes) == [50] * 5 + [150] * 5
    # of an odd number of parties the one in the middle is small
    assert list(partition(toy(1000), TwoGroup(u=2.0), 5, np.random.default_rng(0)).sizes) == [143, 143, 143, 286, 285]


def test_simplex_shares_are_uniform_on_the_simplex() -> None:
    rng = np.random.default_rng(1)
    first = [Simplex().sizes(100_000, 4, rng)[0] / 100_000 for _ in range(2000)]
    assert stats.kstest(first, stats.beta(1, 3).cdf).pvalue > 1e-4  # false-alarm rate 1e-4, seeded


def test_fractions_are_followed() -> None:
    rule = Fractions(fractions=(0.01, 0.29, 0.2, 0.25, 0.25))
    assert list(partition(toy(1000), rule, 5, np.random.default_rng(0)).sizes) == [10, 290, 200, 250, 250]


OF_SIZES = [Equal(), Simplex(), Fractions(fractions=(0.6, 0.4)), TwoGroup(u=1.5), PerParty(n=40), PowerLaw()]


@pytest.mark.parametrize("rule", OF_SIZES, ids=lambda rule: rule.name)
def test_sizes_depend_on_random_numbers_where_a_rule_says_so(rule) -> None:
    dealt = {tuple(rule.sizes(101, 2, np.random.default_rng(seed))) for seed in range(20)}
    assert rule.drawn == (len(dealt) > 1)


def test_a_rule_of_a_user_may_draw_unless_it_denies_it() -> None:
    class Own(BySize):
        name = "own"

        def sizes(self, N, M, rng):
            return rng.multinomial(N - M, np.full(M, 1 / M)) + 1

    assert Own().drawn


def owned(party: np.ndarray) -> Dataset:
    return replace(toy(len(party)), party=party)


@pytest.mark.slow
@given(st.lists(st.integers(0, 9), min_size=1, max_size=300), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3]))
@settings(max_examples=100, deadline=None)
def test_natural_parties_have_their_own_rows(owners: list[int], seed: int, auxiliary: float) -> None:
    data = owned(np.array(owners))
    aside = partition(data, PerParty(auxiliary, n=1), 1, np.random.default_rng(seed)).X_auxiliary[:, 0]  # the same
    there = {owner: sorted(data.X[:, 0][np.array(owners) == owner]) for owner in sorted(set(owners))}
    there = {owner: [x for x in rows if x not in set(aside)] for owner, rows in there.items()}
    expected = [rows for rows in there.values() if rows]
    parties = partition(data, Natural(auxiliary), len(expected), np.random.default_rng(seed))
    assert [sorted(parties.X[parties.of(k), 0]) for k in range(len(parties.sizes))] == expected
    assert np.array_equal(parties.X, data.X[parties.order])
    assert len(owners) - len(aside) == parties.problem.N


def test_rows_of_a_natural_party_are_in_random_order() -> None:
    parties = partition(owned(np.repeat([0, 1], 200)), Natural(), 2, np.random.default_rng(0))
    assert abs(stats.spearmanr(parties.order[:200], np.arange(200)).statistic) < 0.3  # false-alarm rate 2e-5, seeded


@pytest.mark.slow
def test_a_million_natural_parties() -> None:
    party = np.random.default_rng(0).permutation(np.arange(1_200_000) % 1_000_000)
    parties = partition(owned(party), Natural(), 1_000_000, np.random.default_rng(0))
    assert np.array_equal(parties.sizes, np.bincount(party))


@pytest.mark.parametrize(
    ("data", "M", "message"),
    [
        (toy(10), 2, "partition=natural needs a data set"),
        (owned(np.arange(9) % 3), 4, "N=9 private training rows of dataset=toy"),
        (owned(np.arange(9) % 3), 2, "M=2: set M=3."),
        (owned(np.array([0, 5, 5])), 3, "to M=3: set M=2."),  # others have no row in use
    ],
)
def test_refusals_of_natural_parties(data, M, message) -> None:
    with pytest.raises(UserError, match=message):
        partition(data, Natural(), M, np.random.default_rng(0))


def copied(K: int) -> Parties:
    numbers = np.random.default_rng(0)
    X, rows = numbers.random((12, 3)) / 2, numbers.integers(0, 12, 90)
    y = numbers.integers(0, max(K, 2), 12).astype(float)
    y = y if K > 1 else 2 * y - 1
    data = Dataset("copies", "multiclass" if K > 1 else "binary", X[rows], y[rows], X, y)
    return partition(data, Equal(auxiliary=0.1), 4, np.random.default_rng(1))


@pytest.mark.parametrize(("K", "lam"), [(1, 0.1), (1, 0.0), (3, 0.1)])
def test_metrics_of_folded_rows_are_those_of_all_rows(K, lam):
    parties, loss = copied(K), LOSSES["logistic" if K == 1 else "softmax"]
    X, y, counts = parties.folded
    assert len(X) == len(y) == len(counts) <= 12
    assert counts.sum() == len(parties.y)
    weights = np.random.default_rng(2).standard_normal((2, 3, 3 * K))
    found = evaluate(weights, parties, loss, lam)
    flat = weights.reshape(6, -1)
    mean, best = mean_loss(loss, parties.X, parties.y, flat), optimum(loss, parties.X, parties.y, lam)[None]
    lowest = mean_loss(loss, parties.X, parties.y, best)[0] + lam / 2 * np.sum(best**2)
    np.testing.assert_allclose(found["loss"].ravel(), mean, rtol=1e-12)
    np.testing.assert_allclose(found["optimality_gap"].ravel(), mean + lam / 2 * np.sum(flat**2, axis=1) - lowest)


def test_whether_rows_are_merged_is_decided_by_their_public_number_alone(monkeypatch):
    for rows, most in [(np.eye(4), 3), (np.eye(4), 4), (np.ones((4, 4)) / 2, 3), (np.ones((4, 4)) / 2, 4)]:
        monkeypatch.setattr("dpml.data.partition.FOLDED", most)
        data = Dataset("plain", "binary", rows, np.ones(4), rows, np.ones(4))
        assert (partition(data, Equal(), 2, np.random.default_rng(0)).folded[2] is None) == (most < 4)


def test_remembered_as_long_as_the_parties_live():
    calls = []

    @remembered
    def work(parties, factor):
        calls.append(factor)
        return factor * len(parties.y)

    parties, other = copied(1), copied(1)
    assert [work(parties, 2), work(parties, 2), work(parties, 3), work(other, 2)] == [162, 162, 243, 162]
    assert calls == [2, 3, 2]
    gone = weakref.ref(parties)
    del parties
    gc.collect()
    assert gone() is None
