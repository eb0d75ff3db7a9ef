"""What seeds do not vary in a claim's rows, told with its verdict: by made-up rows of sets with an official split."""

import math

import numpy as np
import pandas as pd
import pytest

from dpml.reporting import claim_places, claim_tests
from dpml.reporting.claims import Claim, Evidence, Reading
from dpml.reporting.criteria import better, scale, similar
from dpml.reporting.fixed_rows import OtherTestRows, with_rows

EPS = (0.1, 1.0)
POINTS = pd.DataFrame()
ADULT, ITS_TEST_ROWS = 30_162, 15_060


def rows(curves, dataset="adult", metric="accuracy", N=ADULT, M=8, block="eps"):
    """Rows of 5 seeds whose means are `curves` (algorithm -> one per eps), with next to no noise."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"block": block, "dataset": dataset, "algo": algo, "variant": "paper", "metric": metric, "eps": eps, "N": N,
         "M": M, "seed": seed, "draw": 0, "value": mean + 1e-5 * rng.standard_normal()}
        for algo, means in curves.items() for eps, mean in zip(EPS, means, strict=True) for seed in range(5)
    )  # fmt: skip


def told(table, test=None, metrics=("accuracy",)):
    """The decision, and what is told of the rows."""
    evidence = Evidence(table, POINTS, dict.fromkeys(table["block"], "eps"))
    readings = [Reading(metric, "paper", metric) for metric in metrics]
    claim = Claim("X", "x/x", "text", "criterion", test or claim_tests.beats(["eps"], "ours", ["theirs"]), readings)
    verdict = claim.judge(evidence)
    found = with_rows(claim, verdict, OtherTestRows.of(evidence))
    assert verdict == claim.judge(evidence)  # it decides nothing
    return found.decision, found.rows


CLEAR, CLOSE = {"ours": (0.7, 0.7), "theirs": (0.6, 0.6)}, {"ours": (0.611, 0.611), "theirs": (0.6, 0.6)}


def test_a_difference_that_other_test_rows_could_undo_is_named():
    half = "paired over them too, [accuracy] is undecided, eps, ours against theirs 1: +0.011 [-0.0032, +0.025]"
    decision, words = told(rows(CLOSE))
    assert decision == "reproduced"
    assert words.endswith(f"every seed has the same 15,060 test rows of adult; {half}")
    decision, words = told(rows(CLEAR))
    assert decision == "reproduced"
    assert "paired over them too, no outcome changes, eps, ours against theirs" in words


def test_rows_that_seeds_share_are_told_for_every_metric():
    same = "every seed has the same rows of adult, so that intervals there are over the noise"
    assert told(rows(CLEAR))[1].startswith(f"{same} and who holds which row; every seed")
    assert told(rows(CLEAR, M=1))[1].startswith(f"{same}; every seed")
    assert told(rows(CLEAR, metric="loss"), metrics=["loss"])[1] == f"{same} and who holds which row"
    assert told(rows(CLEAR, N=20_000))[1].startswith("every seed has the same 15,060 test rows of adult; paired")


@pytest.mark.parametrize("dataset", ["breast_cancer", "a_plug_in"])
def test_nothing_is_told_of_rows_that_seeds_draw(dataset):
    assert told(rows(CLOSE, dataset)) == ("reproduced", "")
    assert told(rows({"ours": (0.7, 0.7)})) == ("cannot be tested here", "")


def test_only_files_that_were_compared_are_named():
    both = pd.concat([rows(CLEAR), rows(CLEAR, "har", N=7_352, block="other")])
    assert "har" not in told(both)[1].partition("; ")[2]
    two = claim_tests.beats(["eps", "other"], "ours", ["theirs"])
    assert "same 15,060 test rows of adult, 2,947 test rows of har; paired" in told(both, two)[1]


def test_a_gap_between_accuracies_is_no_share_of_rows():
    widens = rows({"ours": (0.61, 0.7), "theirs": (0.6, 0.6)})
    decision, words = told(widens, claim_places.gap_grows("eps", "ours", "theirs"))
    assert decision == "reproduced"
    assert "test rows" not in words


def test_the_error_of_an_effect_counts_the_rows_of_a_common_file():
    index = pd.MultiIndex.from_product([range(4), range(2)], names=["seed", "draw"])
    rng = np.random.default_rng(0)
    a, b = (pd.Series(mean + 0.01 * rng.standard_normal(8), index) for mean in (0.8, 0.7))
    on = scale("accuracy")
    plain = similar(a, b, on).effect
    a.attrs["test_file"] = b.attrs["test_file"] = "adult", ITS_TEST_ROWS
    for wide in (similar(a, b, on).effect, better({"": (a, b)}, on)[""].effect):
        at_most = 2 - a.mean() - b.mean() - (a.mean() - b.mean()) ** 2
        assert wide.error == pytest.approx(math.sqrt(plain.error**2 + at_most / ITS_TEST_ROWS))
        freedom = 3 * (plain.error**2 + at_most / ITS_TEST_ROWS) ** 2 / plain.error**4
        assert (wide.estimate, wide.file) == (plain.estimate, ("adult", ITS_TEST_ROWS))
        assert wide.freedom == pytest.approx(freedom)
    b.attrs["test_file"] = "har", 2_947  # rows of two files are no pairs
    assert similar(a, b, on).effect == plain
    b.attrs["test_file"] = a.attrs["test_file"]
    one = similar(a * 0 + 0.8, b * 0 + 0.7, on).effect  # no noise at all
    assert (one.freedom, one.interval(0.95)[0]) == (math.inf, pytest.approx(0.1 - 1.96 * one.error, abs=1e-5))
    assert similar(a[:1], b[:1], on).effect.freedom == 0
    del b.attrs["test_file"]
    assert similar(a, b, on).effect == plain
