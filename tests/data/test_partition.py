"""Every row is dealt once: sizes, the laws of shares, parties of the data set, extremes, and what is computed once."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from dpml.data import Dataset
from dpml.data.partition import (
    BySize,
    Classes,
    Dirichlet,
    Equal,
    Fractions,
    Natural,
    Parties,
    PerParty,
    PowerLaw,
    Shards,
    Simplex,
    TwoGroup,
    dirichlet_shares,
    filled_up,
    partition,
    remembered,
    rows_of_shares,
    whole_rows,
)
from dpml.errors import UserError
from dpml.optim.convex import optimum
from dpml.optim.losses import LOSSES, mean_loss
from dpml.running.metrics import evaluate


def classed(*counts: int, task: str = "multiclass") -> Dataset:
    y = np.repeat(np.arange(len(counts), dtype=float), counts)
    X = np.arange(len(y), dtype=float)[:, None]
    return Dataset("classed", task, X, y, X[:0], y[:0])


def line(y: np.ndarray) -> Dataset:
    return Dataset("line", "regression", y[:, None], y, y[:0, None], y[:0])


def owned(party: np.ndarray) -> Dataset:
    return replace(line(np.arange(len(party)) / len(party)), party=party)


TEN = classed(3, 7)


def dealt(data: Dataset, rule, M: int, seed: int = 0) -> Parties:
    return partition(data, rule, M, np.random.default_rng(seed))


def table(parties: Parties) -> np.ndarray:
    """Rows of each class that each party has, (M, K), counted one party at a time."""
    K = int(parties.data.y.max()) + 1
    return np.array([[np.sum(parties.y[parties.of(k)] == c) for c in range(K)] for k in range(len(parties.sizes))])


ASIDE = st.sampled_from([0.0, 0.2])
RULES = st.one_of(
    st.builds(
        Dirichlet,
        auxiliary=ASIDE,
        alpha=st.sampled_from([1e-6, 1e-3, 0.1, 0.5, 10.0, 1e6]),
        smallest=st.integers(1, 3),
    ),
    st.builds(Shards, auxiliary=ASIDE, per_party=st.integers(1, 3)),
    st.builds(PowerLaw, auxiliary=ASIDE, a=st.sampled_from([0.0, 0.7, 1.0, 3.0, 400.0])),
    st.builds(Equal, auxiliary=ASIDE),
    st.builds(Simplex, auxiliary=ASIDE, floor=st.integers(1, 3)),
    st.builds(TwoGroup, auxiliary=ASIDE, u=st.just(1.5)),
    st.builds(PerParty, auxiliary=ASIDE, n=st.integers(1, 3)),
)


@pytest.mark.slow
@given(RULES, st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=300, deadline=None)
def test_every_row_goes_to_one_party_or_aside(rule, counts, M, seed) -> None:
    data = classed(*counts, 4 * M)  # enough for three rows each, also without the auxiliary ones
    parties = dealt(data, rule, M, seed)
    aside = round(len(data.y) * rule.auxiliary)
    assert len(parties.X_auxiliary) == aside
    used = np.sort(np.concatenate([parties.X[:, 0], parties.X_auxiliary[:, 0]]))
    if isinstance(rule, PerParty):
        assert set(parties.sizes) == {rule.n}
        assert np.all(np.diff(used) > 0)  # no row twice
    else:
        assert np.array_equal(used, data.X[:, 0])
    assert np.array_equal(parties.X, data.X[parties.order])
    assert np.array_equal(parties.y, data.y[parties.order])
    assert len(parties.sizes) == M
    assert parties.sizes.min() >= getattr(rule, "smallest", getattr(rule, "floor", 1))
    assert parties.problem.N == parties.sizes.sum() == len(parties.y)


@pytest.mark.slow
@given(st.integers(2, 6), st.integers(1, 6), st.integers(1, 20), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_classes_are_shared_equally_by_those_that_have_them(K, k, M, seed) -> None:
    k = min(k, K)
    counts = M + np.arange(K) * 7
    parties = dealt(classed(*counts), Classes(k=k), M, seed)
    held = table(parties)
    assert held.sum() == parties.problem.N
    assert np.all(np.count_nonzero(held, axis=1) == k)
    assert np.all(held[np.arange(M), np.arange(M) % K] > 0)
    for rows, have in zip(counts, held.T, strict=True):
        own = have[have > 0]
        assert have.sum() in (0, rows)  # without anybody who has the class it is not used
        if len(own):
            assert own.max() - own.min() <= 1
    if M >= K:
        assert held.sum() == counts.sum()


def test_other_classes_are_drawn_with_equal_chances() -> None:
    """Of 9 parties with 2 of 3 classes half have each of the others: 0.5 +- 0.035, false-alarm rate 1e-4, seeded."""
    held = table(dealt(classed(40_000, 40_000, 40_000), Classes(k=2), 3000, 1)) > 0
    for c in range(3):
        others = held[c::3, (c + 1) % 3]
        assert abs(others.mean() - 0.5) < stats.norm.isf(0.5e-4) * 0.5 / np.sqrt(len(others))


def test_shards_are_intervals_of_the_sorted_rows() -> None:
    """With the target as its own order, a party's rows fill `per_party` intervals of N / (per_party M) rows."""
    parties = dealt(line(np.random.default_rng(0).permutation(600).astype(float)), Shards(per_party=3), 20)
    shards = [np.unique(parties.y[parties.of(k)] // 10, return_counts=True) for k in range(20)]
    assert all(len(which) == 3 and set(counts) == {10} for which, counts in shards)
    assert sorted(np.concatenate([which for which, _ in shards])) == list(range(60))
    # dealt at random: neighbouring shards lie with one party about as rarely as chance has it (1 of 20 pairs of 59)
    assert sum(np.sum(np.diff(which) == 1) for which, _ in shards) < 20


@pytest.mark.parametrize("alpha", [0.05, 0.5, 3.0])
def test_shares_have_beta_marginals(alpha) -> None:
    """A share of M is Beta(alpha, (M-1) alpha), and a sum of two is Beta(2 alpha, (M-2) alpha); false alarms 1e-4."""
    rng, M = np.random.default_rng(2), 6
    drawn = np.array([dirichlet_shares(alpha, M, rng) for _ in range(3000)])
    assert drawn.sum(axis=1) == pytest.approx(1)
    assert stats.kstest(drawn[:, 0], stats.beta(alpha, (M - 1) * alpha).cdf).pvalue > 1e-4
    pair = drawn[:, 2] + drawn[:, 5]
    assert stats.kstest(pair, stats.beta(2 * alpha, (M - 2) * alpha).cdf).pvalue > 1e-4


def test_systematic_sampling_rounds_to_one_row_and_is_unbiased() -> None:
    rng = np.random.default_rng(4)
    shares = rng.dirichlet(np.full(7, 0.4))
    counts = np.array([np.bincount(rows_of_shares(shares, 23, rng), minlength=7) for _ in range(4000)])
    assert np.all(counts.sum(axis=1) == 23)
    assert np.all(np.abs(counts - 23 * shares) < 1)
    # a count is one of two numbers beside each other: s.d. at most 1/2; false alarms 7 * 2e-5
    assert np.abs(counts.mean(axis=0) - 23 * shares).max() < stats.norm.isf(1e-5) * 0.5 / np.sqrt(4000)


@pytest.mark.slow
def test_filling_up_moves_only_what_is_missing_and_every_spare_row_alike() -> None:
    owners = np.repeat([0, 1, 3], [6, 2, 4])  # of 5 parties 2 and 4 have nothing
    moved = np.zeros(12)
    for seed in range(3000):
        filled = filled_up(owners, 5, 2, np.random.default_rng(seed))
        assert list(np.bincount(filled, minlength=5)[[1, 2, 4]]) == [2, 2, 2]
        assert np.bincount(filled, minlength=5).min() >= 2
        assert set(filled[filled != owners]) == {2, 4}
        moved += filled != owners
    # four rows move: of party 0's six, four can, of party 3's four, two; so 4/6 * 4/6 and 4/6 * 2/4 is the chance
    expected = np.repeat([4 / 6 * 4 / 6, 0, 4 / 6 * 2 / 4], [6, 2, 4])
    width = stats.norm.isf(1e-5) * np.sqrt(expected * (1 - expected) / 3000)
    assert np.all(np.abs(moved / 3000 - expected) <= width)  # false alarms 10 * 2e-5


def test_rows_of_one_party_are_in_random_order() -> None:
    """What holds the last rows of a party out of training must not get one class. False-alarm rate 1e-4, seeded."""
    for rule in (Dirichlet(alpha=5.0), Shards(per_party=9), Classes(k=2)):
        parties = dealt(classed(3000, 5000), rule, 3)
        own = parties.y[parties.of(1)]
        half = len(own) // 2
        ones = np.array([[own[:half].sum(), half - own[:half].sum()], [own[half:].sum(), (1 - own[half:]).sum()]])
        assert stats.chi2_contingency(ones).pvalue > 1e-4, rule
    natural = dealt(owned(np.repeat([0, 1], 200)), Natural(), 2)
    assert abs(stats.spearmanr(natural.order[:200], np.arange(200)).statistic) < 0.3  # false-alarm rate 2e-5, seeded


def test_extremes() -> None:
    for rule in (*(Dirichlet(alpha=alpha) for alpha in (1e-3, 0.5, 1e6)), Shards(per_party=1), PowerLaw(a=2.0)):
        assert set(dealt(classed(30, 70), rule, 100).sizes) == {1}
    for rule in (Dirichlet(), Classes(), Shards(), PowerLaw()):
        assert dealt(classed(50), rule, 7).sizes.sum() == 50
        assert list(dealt(classed(20, 30), rule, 1).sizes) == [20 if isinstance(rule, Classes) else 50]


def test_a_small_alpha_leaves_each_class_to_one_party_and_a_large_one_deals_alike() -> None:
    rng = np.random.default_rng(3)
    one, even = dirichlet_shares(1e-6, 1000, rng), dirichlet_shares(1e6, 1000, rng)
    assert one.max() == pytest.approx(1)
    assert np.all(np.isfinite(one))
    assert even == pytest.approx(np.full(1000, 1e-3), rel=0.006)  # six standard deviations of 1e-3 relative
    held = table(dealt(classed(4000, 6000), Dirichlet(alpha=1e-6), 10, 7))
    assert sorted(held.sum(axis=1))[:8] == [1] * 8  # filled up
    even = table(dealt(classed(4000, 6000), Dirichlet(alpha=1e6), 10, 7))
    assert np.abs(even - [400, 600]).max() <= 5


def test_very_many_parties() -> None:
    data = classed(80_000, 80_000, 80_000)
    for rule in (Dirichlet(alpha=0.1), Classes(), Shards(per_party=1), PowerLaw(), Simplex()):
        parties = dealt(data, rule, 200_000)
        assert len(parties.offsets) == 200_001
        assert parties.sizes.min() >= 1
        assert parties.sizes.sum() == 240_000


@given(st.integers(1, 200), st.integers(0, 5000), st.integers(1, 5), st.floats(0, 50))
@settings(max_examples=200, deadline=None)
def test_a_power_law_with_a_smallest_size(M, more, smallest, a) -> None:
    """Those above `smallest` are in proportion to rank^-a to one row; nobody at `smallest` would have had more."""
    N = smallest * M + more
    sizes = PowerLaw(a=a, smallest=smallest).sizes(N, M, np.random.default_rng(0))
    assert sizes.sum() == N
    assert sizes.min() >= smallest
    assert np.all(np.diff(sizes) <= 0)
    shares = np.arange(1, M + 1, dtype=float) ** -a
    scale = brentq(lambda c: np.maximum(smallest, c * shares).sum() - N, 0, 2 * N)
    assert np.abs(sizes - np.maximum(smallest, scale * shares)).max() < 1 + 1e-6


@pytest.mark.parametrize(
    ("data", "rule", "M", "message"),
    [
        (TEN, lambda: Dirichlet(alpha=0.0), 2, "partition.alpha must be from 1e-06 to 1e"),
        (TEN, lambda: Dirichlet(smallest=6), 2, "partition.smallest=6 rows for each of M=2 parties"),
        (TEN, lambda: Classes(k=3), 2, "partition.k must be a whole number from 1 to the 2 classes, got 3"),
        (TEN, lambda: Classes(k=1), 10, "partition=classes leaves a party without"),
        (TEN, lambda: Shards(per_party=6), 2, "partition.per_party=6 shards for each of M=2 parties"),
        (TEN, lambda: PowerLaw(smallest=6), 2, "partition.smallest=6 rows for each of M=2"),
        (TEN, Dirichlet, 11, "M=11 parties cannot share N=10"),
        (TEN, Equal, 0, "M=0 parties"),
        (TEN, lambda: Equal(auxiliary=1.0), 2, "partition.auxiliary must be a share"),
        (TEN, lambda: Simplex(floor=6), 2, "partition.floor=6 rows for each of M=2"),
        (TEN, lambda: Fractions(fractions=(0.5, 0.5)), 3, "must be M=3 positive numbers that sum to 1"),
        (TEN, lambda: Fractions(fractions=(0.5, 0.4)), 2, "sum to 1"),
        (TEN, lambda: Fractions(fractions=(0.999, 0.001)), 2, "leaves a party without"),
        (TEN, lambda: Fractions(fractions=(1e308, 1e308)), 2, "must be M=2 positive numbers that sum to 1"),
        (TEN, lambda: TwoGroup(u=1000.0), 4, "leaves a party without"),
        (TEN, lambda: PerParty(n=6), 2, "partition.n=6 rows for each of M=2"),
        (line(np.arange(9.0)), Dirichlet, 2, "classes, but dataset=line has real"),
        (line(np.arange(9.0)), Natural, 2, "partition=natural needs a data set"),
        (owned(np.arange(9) % 3), Natural, 4, "N=9 private training rows of dataset=line"),
        (owned(np.array([0, 5, 5])), Natural, 3, "to M=3: set M=2."),  # others have no row in use
    ],
)
def test_refusals(data, rule, M, message) -> None:
    with pytest.raises(UserError, match=message):
        dealt(data, rule(), M)


@pytest.mark.slow
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=40), st.integers(0, 10_000))
def test_whole_rows_sum_and_follow_the_shares(shares: list[float], N: int) -> None:
    sizes = whole_rows(np.array(shares), N)
    assert sizes.sum() == N
    assert np.abs(sizes - N * np.array(shares) / np.sum(shares)).max() < 1


@pytest.mark.parametrize(
    ("rule", "sizes"),
    [
        (TwoGroup(u=3.0), [50] * 5 + [150] * 5),
        (TwoGroup(u=2.0), [143, 143, 143, 286, 285]),  # of an odd number of parties the one in the middle is small
        (Fractions(fractions=(0.01, 0.29, 0.2, 0.25, 0.25)), [10, 290, 200, 250, 250]),
    ],
)
def test_sizes_are_those_of_the_rule(rule, sizes) -> None:
    assert list(dealt(line(np.arange(1000.0)), rule, len(sizes)).sizes) == sizes


def test_simplex_shares_are_uniform_on_the_simplex() -> None:
    rng = np.random.default_rng(1)
    first = [Simplex().sizes(100_000, 4, rng)[0] / 100_000 for _ in range(2000)]
    assert stats.kstest(first, stats.beta(1, 3).cdf).pvalue > 1e-4  # false-alarm rate 1e-4, seeded


OF_SIZES = [Equal(), Simplex(), Fractions(fractions=(0.6, 0.4)), TwoGroup(u=1.5), PerParty(n=40), PowerLaw()]


@pytest.mark.parametrize("rule", OF_SIZES, ids=lambda rule: rule.name)
def test_sizes_depend_on_random_numbers_where_a_rule_says_so(rule) -> None:
    dealt = {tuple(rule.sizes(101, 2, np.random.default_rng(seed))) for seed in range(20)}
    assert rule.drawn == (len(dealt) > 1)
    assert BySize.drawn  # a rule of a user, too, unless it denies it


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


@pytest.mark.slow
def test_a_million_natural_parties() -> None:
    party = np.random.default_rng(0).permutation(np.arange(1_200_000) % 1_000_000)
    parties = dealt(owned(party), Natural(), 1_000_000)
    assert np.array_equal(parties.sizes, np.bincount(party))


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
        assert (dealt(data, Equal(), 2).folded[2] is None) == (most < 4)


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
