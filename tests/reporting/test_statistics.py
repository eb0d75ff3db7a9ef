"""Intervals, comparisons and tests on made-up rows: against scipy's own, and by how often they are right.

The simulations are seeded; their limits are such that a correct method would break them once in a million seeds.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpml.errors import UserError
from dpml.reporting.statistics import (
    algorithm_below,
    alike,
    below,
    compare,
    holm,
    matters,
    replication,
    settings,
    shows,
    summarise,
    welch,
    worse,
)
from dpml.reporting.tables import wide
from dpml.running.rows import COLUMNS

ABOUT = dict.fromkeys(COLUMNS, "x") | {"eps": 1.0, "delta": 1e-5, "M": 2, "N": 10, "d": 3, "metric": "loss"}
ABOUT |= {"claimed_eps": 1.0, "proven_eps": 2.0}


def table(values, **columns):
    """Rows of values (seeds, draws)."""
    lines = [
        ABOUT | {"seed": seed, "draw": draw, "value": value} | columns
        for seed, draws in enumerate(values)
        for draw, value in enumerate(draws)
    ]
    return pd.DataFrame(lines)


def half(values):
    """Half of scipy's 95 % t-interval of a mean."""
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    return (high - low) / 2


def rejections(trials, rate):
    """The numbers of rejections that a test at `rate` has in all but one of a million simulations."""
    return stats.binom.interval(1 - 1e-6, trials, rate)


# ---- summaries


def test_with_several_seeds_the_interval_is_over_their_means():
    values = np.random.default_rng(0).normal(0, 1, (5, 1)) + np.random.default_rng(1).normal(0, 0.1, (5, 20))
    line = summarise(table(values)).iloc[0]
    assert line["mean"] == pytest.approx(values.mean())
    assert line["std"] == pytest.approx(values.std(ddof=1))
    assert (line["count"], line["seeds"], line["replicates"]) == (100, 5, "seeds")
    assert line["interval"] == pytest.approx(half(values.mean(axis=1)))


def test_with_one_seed_it_is_over_draws():
    values = np.random.default_rng(0).normal(0, 1, (1, 20))
    line = summarise(table(values)).iloc[0]
    assert (line["count"], line["seeds"], line["replicates"]) == (20, 1, "draws")
    assert line["interval"] == pytest.approx(half(values[0]))


@pytest.mark.parametrize("values", [[[3.0]], [[3.0, 3.0, 3.0]]])
def test_nothing_that_varies_has_no_interval(values):
    line = summarise(table(values)).iloc[0]
    assert line["mean"] == 3
    assert np.isnan(line["interval"])
    assert replication(summarise(table(values))) == "one seed without noise: no interval"


def test_without_noise_seeds_still_vary():
    line = summarise(table([[1.0] * 20, [2.0] * 20, [4.0] * 20])).iloc[0]
    assert line["interval"] == pytest.approx(half([1, 2, 4]))


def test_seeds_count_alike_however_many_draws_they_have():
    rows = pd.concat([table([[0.0]]), table([[6.0, 8.0, 7.0, 7.0]]).assign(seed=1)])
    line = summarise(rows).iloc[0]
    assert line["mean"] == 3.5
    assert (line["count"], line["seeds"]) == (5, 2)


def test_a_run_that_stands_twice_counts_once():
    values = np.random.default_rng(0).normal(0, 1, (3, 4))
    once, twice = summarise(table(values)), summarise(pd.concat([table(values), table(values)]))
    pd.testing.assert_frame_equal(once, twice)
    other = pd.concat([table(values, algo=name) for name in ("a", "b")])
    pd.testing.assert_frame_equal(compare(other, "a"), compare(pd.concat([other, other]), "a"))


@pytest.mark.parametrize("key", ["algo.lam", "partition.u", "eps", "block", "tuned", "unit"])
def test_rows_that_differ_in_a_setting_are_never_averaged(key):
    rows = pd.concat([table([[0.0, 1.0]], **{key: 1.0}), table([[4.0, 5.0]], **{key: 2.0})])
    assert summarise(rows)["mean"].tolist() == [0.5, 4.5]
    other = table([[1.0, 2.0]])  # has no such setting
    assert sorted(summarise(pd.concat([rows, other.drop(columns=key, errors="ignore")]))["mean"]) == [0.5, 1.5, 4.5]


def test_comparisons_are_made_under_the_same_own_settings():
    rows = pd.concat(
        [
            table([[base + step] * 2, [base + step + 1] * 2], algo=algo, **{"algo.lam": lam})
            for lam, base in ((0.0, 0.0), (1.0, 50.0))
            for algo, step in (("a", 0.0), ("b", 3.0 + lam))
        ]
    )
    assert settings(summarise(rows)) == settings(rows)
    assert "algo.lam" in settings(rows)
    assert compare(rows, "a").set_index("algo.lam")["difference"].to_dict() == {0.0: 3.0, 1.0: 4.0}


def test_two_values_of_one_run_are_a_setting_without_a_column():
    rows = pd.concat([table([[1.0]]), table([[2.0]])])
    with pytest.raises(UserError, match=r"a setting that has no column: two values of loss .*algo=x.*seed=0, draw=0"):
        summarise(rows)
    assert summarise(pd.concat([table([[1.0]]), table([[1.0 + 1e-12]])]))["count"].tolist() == [1]


def test_a_guarantee_holds_for_every_seed_and_splits_none():
    guarantees = [(1.0, "client"), (3.0, "release"), (2.0, "client")]
    tables = [table([[1.0, 2.0]], proven_eps=eps, proven_view=view) for eps, view in guarantees]
    rows = pd.concat([rows.assign(seed=seed) for seed, rows in enumerate(tables)])
    (line,) = summarise(rows).to_dict("records")
    assert (line["seeds"], line["proven_eps"], line["proven_view"]) == (3, 3.0, "release")


def test_a_proven_eps_that_is_an_axis_stays_one():
    rows = pd.concat([table([[base, base + 1]], proven_eps=eps, eps=np.nan) for eps, base in ((0.1, 5.0), (1.0, 2.0))])
    assert summarise(rows).set_index("proven_eps")["mean"].to_dict() == {0.1: 5.5, 1.0: 2.5}


def test_what_intervals_are_over_in_words():
    rng = np.random.default_rng(0)
    many, few = (summarise(table(rng.random(shape))) for shape in ((5, 20), (10, 1)))
    one = summarise(table(rng.random((1, 10))))
    assert replication(many) == "5 seeds, 20 draws each"
    assert replication(one) == "10 draws of one seed: these rows and this partition only"
    assert replication(pd.concat([many, few])) == "5 to 10 seeds, 1 to 20 draws each"
    assert replication(pd.concat([many, one])) == f"{replication(many)}; {replication(one)}"
    assert replication(few) == "10 seeds, 1 draw each"


def test_the_interval_covers_the_true_mean_as_often_as_it_says():
    """2,000 experiments of 5 seeds and 20 draws, seeds as different as draws: pooled draws would cover far less."""
    rng, experiments = np.random.default_rng(0), 2000
    values = rng.normal(0, 1, (experiments, 5, 1)) + rng.normal(0, 1, (experiments, 5, 20))
    index = pd.MultiIndex.from_product([range(experiments), range(5), range(20)], names=["N", "seed", "draw"])
    rows = pd.DataFrame({"value": values.ravel()}, index).reset_index()
    found = summarise(rows.assign(**{key: ABOUT[key] for key in ABOUT if key not in rows}))
    covered = int((found["mean"].abs() <= found["interval"]).sum())
    low, high = rejections(experiments, 0.95)
    assert low <= covered <= high
    pooled = values.reshape(experiments, 100)
    error = stats.sem(pooled, axis=1) * stats.t.ppf(0.975, 99)
    assert np.mean(np.abs(pooled.mean(axis=1)) <= error) < 0.7


# ---- comparisons


def pair(values, algos=("capefm", "conv")):
    """Rows of two algorithms: values (algorithms, seeds, draws)."""
    return pd.concat([table(own, algo=algo) for algo, own in zip(algos, values, strict=True)])


def test_with_several_seeds_the_comparison_is_paired_over_them():
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 100, (1, 6, 1))  # what a seed's data cost every algorithm: it must cancel
    noise = rng.normal(0, 1, (2, 6, 4))
    found = compare(pair(hard + noise + np.array([0, 5])[:, None, None]), "capefm").iloc[0]
    gaps = (noise[1] - noise[0] + 5).mean(axis=1)
    assert (found["algo"], found["reference"], found["paired"], found["n"]) == ("conv", "capefm", "seeds", 6)
    assert found["difference"] == pytest.approx(gaps.mean())
    assert found["interval"] == pytest.approx(half(gaps))


def test_with_one_seed_it_is_welchs_interval_over_draws():
    values = np.random.default_rng(1).normal(0, [[[1]], [[3]]], (2, 1, 30))
    found = compare(pair(values), "capefm").iloc[0]
    theirs = stats.ttest_ind(values[1, 0], values[0, 0], equal_var=False).confidence_interval()
    assert found["paired"] == "no"
    assert found["interval"] == pytest.approx((theirs.high - theirs.low) / 2)


# ---- tests


def runs(values):
    """Runs of values (seeds, draws)."""
    values = np.asarray(values, dtype=float)
    return pd.Series(values.ravel(), numbered(*values.shape))


@cache
def numbered(seeds, draws):
    return pd.MultiIndex.from_product([range(seeds), range(draws)], names=["seed", "draw"])


def test_a_test_is_over_the_means_of_seeds_in_pairs():
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 100, (6, 1))
    a, b = hard + rng.normal(0, 1, (6, 4)), hard + rng.normal(1, 1, (6, 4))
    theirs = stats.ttest_rel(a.mean(axis=1), b.mean(axis=1), alternative="less").pvalue
    assert theirs < 0.05 < stats.ttest_ind(a.mean(axis=1), b.mean(axis=1), alternative="less").pvalue
    assert below(runs(a), runs(b)) == pytest.approx(theirs)
    assert algorithm_below(runs(a), runs(b)) == pytest.approx(theirs)
    assert algorithm_below(runs(b), runs(a)) == pytest.approx(1 - theirs)


def test_with_one_seed_a_test_is_over_draws():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 10, (1, 12))  # two settings of an algorithm have the noise's directions in common
    a, b = noise + rng.normal(0, 1, (1, 12)), noise + rng.normal(2, 1, (1, 12))
    assert below(runs(a), runs(b)) == pytest.approx(stats.ttest_rel(a[0], b[0], alternative="less").pvalue)
    apart = stats.ttest_ind(a[0], b[0], equal_var=False, alternative="less").pvalue
    assert algorithm_below(runs(a), runs(b)) == pytest.approx(apart)


def test_variances_and_numbers_of_draws_may_differ():
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, 30), rng.normal(2, 8, 6)
    theirs = stats.ttest_ind(a, b, equal_var=False, alternative="less").pvalue
    assert welch(runs([a]), runs([b])) == pytest.approx(theirs)
    assert abs(theirs - stats.ttest_ind(a, b, alternative="less").pvalue) > 0.05


def test_only_seeds_that_both_have_are_compared():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, (3, 8)), rng.normal(9, 1, (1, 8))
    apart = stats.ttest_ind(a[0], b[0], equal_var=False, alternative="less").pvalue
    assert algorithm_below(runs(a), runs(b)) == pytest.approx(apart)


@pytest.mark.parametrize("test", [below, algorithm_below])
def test_where_nothing_varies_the_sign_decides_and_one_run_says_nothing(test):
    for shape in ((1, 4), (3, 2)):
        assert test(runs(np.zeros(shape)), runs(np.ones(shape))) == 0
        assert test(runs(np.ones(shape)), runs(np.zeros(shape))) == 1
        assert test(runs(np.ones(shape)), runs(np.ones(shape))) == 1
    assert test(runs([[0.0]]), runs([[1.0]])) == 1


@pytest.mark.parametrize("test", [below, algorithm_below])
def test_a_test_is_wrong_as_often_as_it_says(test):
    """1,000 pairs that do not differ: 5 seeds that differ by setting, 20 draws. Pairs of draws would often be wrong."""
    rng, trials = np.random.default_rng(1), 1000
    values = rng.normal(0, 1, (trials, 2, 5, 1)) + rng.normal(0, 0.5, (trials, 2, 5, 20))
    wrong = sum(test(runs(a), runs(b)) <= 0.05 for a, b in values)
    low, high = rejections(trials, 0.05)
    assert low <= wrong <= high
    draws = (values[:, 0] - values[:, 1]).reshape(trials, 100)
    assert np.mean(stats.ttest_1samp(draws, 0, axis=1, alternative="less").pvalue <= 0.05) > 0.2


def test_holm_stops_at_the_first_that_is_not_significant():
    assert holm({"a": 0.001, "b": 0.03, "c": 0.02}) == {"a": True, "b": True, "c": True}
    assert holm({"a": 0.001, "b": 0.04, "c": 0.03}) == {"a": True, "b": False, "c": False}


def test_what_matters_is_a_hundredth_of_a_share_and_a_tenth_of_a_size():
    for metric in ("accuracy", "error", "balanced_accuracy", "train_accuracy", "auc"):
        assert matters(metric)(0.9, 0.5) == 0.01
    assert matters("optimality_gap")(-2.0, 1.0) == pytest.approx(0.2)


def test_comparisons_are_wrong_as_often_as_they_say_and_decide_with_the_seeds_they_ask_for():
    rng = np.random.default_rng(4)
    matter = lambda a, b: 0.5  # noqa: E731

    def share(gap, seeds, kind, trials=600):
        found = [
            shows({"x": (runs(rng.normal(0, 1, (seeds, 1))), runs(rng.normal(gap, 1, (seeds, 1))))}, matter)["x"]
            for _ in range(trials)
        ]
        return sum(one.holds is kind for one in found), found

    low, high = rejections(600, 0.05)
    assert low <= share(0.0, 10, True)[0] <= high  # nothing is there, and is seen
    ruled_out, found = share(0.5, 10, False)
    assert low <= ruled_out <= high  # what matters is there, and is ruled out
    needed = int(np.median([one.needed for one in found if one.needed]))
    seen, _ = share(0.5, needed, True)
    assert seen > rejections(600, 0.7)[0]  # the median of estimates from ten seeds is a few per cent off


def test_alike_is_within_what_matters_not_without_significance():
    rng = np.random.default_rng(5)
    base = rng.normal(0, 1, (40, 1))
    matter = lambda a, b: 0.1  # noqa: E731
    assert alike(runs(base), runs(base + rng.normal(0.01, 0.1, (40, 1))), matter).holds is True
    assert alike(runs(base), runs(base + rng.normal(0.5, 0.1, (40, 1))), matter).holds is False
    few = alike(runs(base[:4]), runs(rng.normal(0, 1, (4, 1))), matter)
    assert few.holds is None
    assert few.needed > 100
    assert alike(runs(base), runs(base), matter).holds is True


def test_a_difference_that_does_not_matter_is_held_against_nobody():
    rng = np.random.default_rng(6)
    base = rng.normal(0.9, 0.01, (20, 1))
    slightly = runs(base), runs(base + 1e-4 + rng.normal(0, 1e-6, (20, 1)))
    clearly = runs(base), runs(base + 0.05 + rng.normal(0, 1e-3, (20, 1)))
    assert below(*slightly) < 1e-9
    assert worse({"slightly": slightly, "clearly": clearly}, matters("accuracy")) == ["clearly"]


# ---- values that are no numbers


def test_a_value_that_is_no_number_makes_the_mean_none_and_is_counted():
    """The four of ten that are left are no sample of the ten."""
    good, broken = [[0.5, 0.51], [0.5, 0.5], [0.52, 0.5], [0.5, 0.49], [0.5, 0.5]], [[np.nan] * 2, [0.3] * 2] * 2
    rows = pd.concat([table(good, algo="good"), table(broken, algo="broken")], ignore_index=True)
    summary = summarise(rows).set_index("algo")
    assert np.isnan(summary.loc["broken", ["mean", "std", "interval"]].astype(float)).all()
    assert list(summary.loc["broken", ["missing", "count", "seeds"]]) == [4, 8, 4]
    assert summary.loc["good", "missing"] == 0
    assert summary.loc["good", "mean"] == pytest.approx(np.mean(good))
    assert np.isnan(compare(rows, "good")[["difference", "interval"]].astype(float)).all(axis=None)
    shown = wide(summary.reset_index(), "eps")
    assert shown["broken"].tolist() == ["NaN (4 of 8)"]
