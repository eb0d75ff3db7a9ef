"""What "better" and "similar" mean: against scipy's tests, closed forms and a seeded simulation."""

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpml.reporting.criteria import Pair, better, covers, holm, scale, similar
from dpml.reporting.criteria import effect as effect_of

LINEAR, LOG = scale("error", 0.1), scale("loss")  # of the room of 0.1 a tenth is relevant


def runs(values):
    values = np.asarray(values, dtype=float)
    return pd.Series(values.ravel(), numbered(*values.shape))


@cache
def numbered(seeds, draws):
    return pd.MultiIndex.from_product([range(seeds), range(draws)], names=["seed", "draw"])


def pair(a, b, on, same_noise=False):
    return Pair("block", "one", "one" if same_noise else "other", "x", a, b, on)


def effect(a, b, on, same_noise=False):
    return effect_of(pair(a, b, on, same_noise))


def p_better(a, b, same_noise=False):
    return effect(a, b, LINEAR, same_noise).p_above()


def rejections(trials, rate):
    """How often a test that is wrong at this rate may be, but for one in a million seeds."""
    return stats.binom.interval(1 - 1e-6, trials, rate)


def test_an_effect_on_a_size_says_whether_the_first_is_lower_or_higher():
    large, small = runs([[2.0], [2.0]]), runs([[-1.0], [1.0]])
    assert LOG.interval(effect(large, small, LOG)) == "2× higher [2, 2]"
    assert LOG.interval(effect(small, large, LOG)) == "2× lower [2, 2]"


def test_a_share_is_linear_and_a_size_logarithmic_in_absolute_value():
    for metric, up in (("accuracy", True), ("balanced_accuracy", True), ("auc", True), ("error", False)):
        found = scale(metric, 0.4)
        assert (found.log, found.up) == (False, up)
        assert found.matters == found.near == pytest.approx(0.04)  # a tenth of the room
    for metric in ("loss", "optimality_gap", "err_w", "noisy_objective", "mean_absolute_error"):
        assert scale(metric).log
        assert scale(metric).matters == pytest.approx(-math.log(0.9))
        assert scale(metric).near == pytest.approx(math.log(2))
    assert LOG.badness(np.array([-math.e, 1e-30, 0.0])) == pytest.approx([1, math.log(2**-52), math.log(2**-52)])
    assert effect(runs([[0.9], [0.8]]), runs([[0.7], [0.6]]), scale("accuracy", 1.0)).estimate == pytest.approx(0.2)


def test_it_is_over_the_means_of_seeds_in_pairs():
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 100, (6, 1))
    a, b = hard + rng.normal(0, 1, (6, 4)), hard + rng.normal(1, 1, (6, 4))
    theirs = stats.ttest_rel(a.mean(axis=1), b.mean(axis=1), alternative="less")
    assert theirs.pvalue < 0.05 < stats.ttest_ind(a.mean(axis=1), b.mean(axis=1), alternative="less").pvalue
    for same_noise in (False, True):
        assert p_better(runs(a), runs(b), same_noise) == pytest.approx(theirs.pvalue)
        assert p_better(runs(b), runs(a), same_noise) == pytest.approx(1 - theirs.pvalue)
    low, high = stats.ttest_rel(b.mean(axis=1), a.mean(axis=1)).confidence_interval()
    assert effect(runs(a), runs(b), LINEAR).interval(0.95) == pytest.approx((low, high))


def test_on_logarithms_it_is_over_those_of_the_means_of_seeds():
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.normal(0, 1, (6, 4))), np.exp(rng.normal(1, 1, (6, 4)))
    theirs = stats.ttest_rel(np.log(a.mean(axis=1)), np.log(b.mean(axis=1)), alternative="less").pvalue
    assert effect(runs(a), runs(-b), LOG).p_above() == pytest.approx(theirs)


def test_with_one_seed_it_is_over_draws():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 10, (1, 12))  # two settings of an algorithm have the noise's directions in common
    a, b = noise + rng.normal(0, 1, (1, 12)), noise + rng.normal(2, 1, (1, 12))
    assert p_better(runs(a), runs(b), True) == pytest.approx(stats.ttest_rel(a[0], b[0], alternative="less").pvalue)
    b = 3 * b[:, :6]  # another variance and number of draws
    apart = stats.ttest_ind(a[0], b[0], equal_var=False, alternative="less")
    assert p_better(runs(a), runs(b)) == pytest.approx(apart.pvalue)
    low, high = stats.ttest_ind(b[0], a[0], equal_var=False).confidence_interval()
    assert effect(runs(a), runs(b), LINEAR).interval(0.95) == pytest.approx((low, high))


@pytest.mark.parametrize("same_noise", [False, True])
def test_where_nothing_varies_the_sign_decides_and_one_run_says_nothing(same_noise):
    for shape in ((1, 4), (3, 2)):
        assert p_better(runs(np.zeros(shape)), runs(np.ones(shape)), same_noise) == 0
        assert p_better(runs(np.ones(shape)), runs(np.zeros(shape)), same_noise) == 1
        assert p_better(runs(np.ones(shape)), runs(np.ones(shape)), same_noise) == 1
    assert p_better(runs([[0.0]]), runs([[1.0]]), same_noise) == 1
    (one,) = better([pair(runs([[0.0]]), runs([[1.0]]), LINEAR, same_noise)])
    assert one.holds is None


def test_holm_stops_at_the_first_that_is_not_significant():
    assert holm({"a": 0.001, "b": 0.03, "c": 0.02}) == {"a": True, "b": True, "c": True}
    assert holm({"a": 0.001, "b": 0.04, "c": 0.03}) == {"a": True, "b": False, "c": False}


@pytest.mark.parametrize(
    ("difference", "holds", "against"),
    [(0.02, True, False), (0.009, False, False), (-0.009, False, False), (-0.02, False, True)],
)
def test_what_does_not_matter_counts_neither_for_nor_against(difference, holds, against):
    """All four are significant, by far: a hundredth is what matters, on both sides."""
    rng = np.random.default_rng(6)
    base = rng.normal(0.5, 0.01, (20, 1))
    both = pair(runs(base), runs(base + difference + rng.normal(0, 1e-5, (20, 1))), LINEAR)
    assert abs(effect_of(both).p_above() - 0.5) > 0.5 - 1e-9
    (one,) = better([both])
    assert (one.holds, one.against) == (holds, against)


@pytest.mark.slow
def test_it_is_decided_wrongly_as_often_as_it_says():
    rng, trials = np.random.default_rng(4), 600

    def decided(gap, kind):
        pairs = [(runs(rng.normal(0, 0.02, (10, 1))), runs(rng.normal(gap, 0.02, (10, 1)))) for _ in range(trials)]
        return sum(better([pair(a, b, LINEAR)])[0].holds is kind for a, b in pairs)

    assert decided(0.0, True) <= rejections(trials, 0.05)[1]  # nothing is there, and is seen
    low, high = rejections(trials, 0.05)
    assert low <= decided(0.01, False) <= high  # what matters is there, and is ruled out


@pytest.mark.parametrize(
    ("difference", "two_sided", "one_sided"),
    [(0.008, True, True), (-0.008, True, True), (0.012, False, True), (-0.012, False, False)],
)
def test_similar_has_two_sides_and_as_good_as_has_one(difference, two_sided, one_sided):
    rng = np.random.default_rng(5)
    a = rng.normal(0.5, 0.1, (40, 1))
    b = a + difference + rng.normal(0, 0.001, (40, 1))  # an error: a is better by the difference
    assert similar(pair(runs(a), runs(b), LINEAR)).holds is two_sided
    assert similar(pair(runs(a), runs(b), LINEAR), better_too=True).holds is one_sided


def test_sizes_are_similar_up_to_a_factor_of_two():
    rng = np.random.default_rng(5)
    a = np.exp(rng.normal(0, 3, (40, 1)))
    for factor, holds in ((1.9, True), (1 / 1.9, True), (2.1, False), (1 / 2.1, False)):
        other = runs(a * factor * np.exp(rng.normal(0, 0.01, (40, 1))))
        assert similar(pair(runs(a), other, LOG)).holds is holds
    assert similar(pair(runs(1e-20 * a), runs(0 * a), LOG)).holds is True  # rounding errors


def test_similar_is_not_the_absence_of_significance():
    rng = np.random.default_rng(5)
    few = similar(pair(runs(rng.normal(0, 1, (4, 1))), runs(rng.normal(0, 1, (4, 1))), LINEAR))
    assert few.holds is None


def test_a_share_is_decided_by_clopper_and_pearsons_bounds():
    for kept, of in ((20, 20), (29, 29), (5, 20), (95, 100), (0, 7)):
        one = covers(kept, of, 0.9)
        low = stats.binomtest(kept, of, alternative="greater").proportion_ci(0.95, "exact").low
        high = stats.binomtest(kept, of, alternative="less").proportion_ci(0.95, "exact").high
        assert one.holds is (True if low >= 0.9 else False if high < 0.9 else None)
