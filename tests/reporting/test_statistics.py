"""Intervals and comparisons on made-up rows, against scipy's own."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from harness import made_rows
from scipy import stats

from dpml.data.sets.official import Adult, BreastCancer
from dpml.errors import UserError
from dpml.reporting.statistics import caution, official, replication, same_rows, settings, summarise, varied
from dpml.reporting.tables import wide
from dpml.seeds import generator

table = partial(made_rows, proven_eps=2.0)


def half(values):
    """Half of scipy's 95 % t-interval of a mean."""
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    return (high - low) / 2


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


@pytest.mark.parametrize("values", [[[3.0]], [[3.0, 3.0, 3.0]], [[3.0, np.nan, 3.0]]])
def test_what_does_not_vary_has_no_interval(values):
    assert np.isnan(summarise(table(values))["interval"]).all()
    assert "no interval" in replication(summarise(table(values)))


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
    without = pd.concat([rows[rows["algo"] == "a"], table([[5.0]], algo="c"), table([[7.0]], algo="d")])
    found = compare(without, "c").set_index("algo")["difference"]  # neither c nor d has the setting
    assert found["d"] == 2.0
    assert found["a"].isna().all()


def test_two_values_of_one_run_are_a_setting_without_a_column():
    rows = pd.concat([table([[1.0]]), table([[2.0]])])
    with pytest.raises(UserError, match=r"two values of loss .*algo=x.*seed=0, draw=0"):
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


def compare(rows, reference):
    found = summarise(rows.assign(block="all"), reference, ())
    return found[found["algo"] != reference].reset_index(drop=True)


def pair(values, algos=("capefm", "conv")):
    return pd.concat([table(own, algo=algo) for algo, own in zip(algos, values, strict=True)])


def test_with_several_seeds_the_comparison_is_paired_over_them():
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 100, (1, 6, 1))  # what a seed's data cost every algorithm: it must cancel
    noise = rng.normal(0, 1, (2, 6, 4))
    found = compare(pair(hard + noise + np.array([0, 5])[:, None, None]), "capefm").iloc[0]
    gaps = (noise[1] - noise[0] + 5).mean(axis=1)
    assert (found["algo"], found["reference"], found["paired"], found["seeds"]) == ("conv", "capefm", "seeds", 6)
    assert found["difference"] == pytest.approx(gaps.mean())
    assert found["difference_interval"] == pytest.approx(half(gaps))


def test_with_one_seed_it_is_welchs_interval_over_draws():
    values = np.random.default_rng(1).normal(0, [[[1]], [[3]]], (2, 1, 30))
    found = compare(pair(values), "capefm").iloc[0]
    theirs = stats.ttest_ind(values[1, 0], values[0, 0], equal_var=False).confidence_interval()
    assert found["paired"] == "no"
    assert found["difference_interval"] == pytest.approx((theirs.high - theirs.low) / 2)


def test_a_value_that_is_no_number_makes_the_mean_none_and_is_counted():
    """The four of ten that are left are no sample of the ten."""
    good, broken = [[0.5, 0.51], [0.5, 0.5], [0.52, 0.5], [0.5, 0.49], [0.5, 0.5]], [[np.nan] * 2, [0.3] * 2] * 2
    rows = pd.concat([table(good, algo="good"), table(broken, algo="broken")], ignore_index=True)
    summary = summarise(rows).set_index("algo")
    assert np.isnan(summary.loc["broken", ["mean", "std", "interval"]].astype(float)).all()
    assert list(summary.loc["broken", ["missing", "count", "seeds"]]) == [4, 8, 4]
    assert summary.loc["good", "missing"] == 0
    assert summary.loc["good", "mean"] == pytest.approx(np.mean(good))
    assert np.isnan(compare(rows, "good")[["difference", "difference_interval"]].astype(float)).all(axis=None)
    shown = wide(summary.reset_index(), "eps")
    assert shown["broken"].tolist() == ["NaN (4 of 8)"]


LINES = pd.DataFrame(
    {
        "dataset": ["adult", "adult", "adult", "breast_cancer", "plug_in", "har"],
        "N": [30_162, 30_162, 20_000, 559, 30_162, 7_352],
        "M": [1, 10, 1, 1, 1, 1],
        "metric": "accuracy",
        "mean": [0.84, 0.8, 0.8, 0.9, 0.8, 0.9],
    }
)


def test_an_official_split_in_full_has_the_same_rows_for_every_seed():
    def training_sets(kind, n):
        splits = (kind().split(np.zeros(n), None, generator(seed, "data")) for seed in (0, 1))
        return len({frozenset(train.tolist()) for train, _ in splits})

    assert (training_sets(Adult, 45_222), training_sets(BreastCancer, 699)) == (1, 2)
    assert official("adult") == (30_162, 15_060)
    assert official("breast_cancer") is None
    assert official("a_plug_in") is None
    assert official("csv") is None  # a file of the user's, which has no name
    assert list(same_rows(LINES)) == [True, True, False, False, False, True]
    assert list(varied(LINES)) == ["noise", "parties", "seeds", "seeds", "seeds", "noise"]


def test_the_interval_of_a_test_file_is_that_of_a_share():
    """Of 15,060 rows, at an accuracy of 0.8: 1.96 sqrt(0.8 * 0.2 / 15,060) = 0.0064; of a loss nothing is known."""
    assert caution(LINES[1:2]).endswith(
        "Drawing the 15,060 test rows at random would alone give an interval of up to ±0.006"
    )
    assert "test rows" not in caution(LINES[:1].assign(metric="loss"))
    assert caution(LINES[3:5]) == ""
