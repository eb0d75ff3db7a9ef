"""Table 1: the measured bytes follow the stated form, and the claim on them can fail. And `dpml secagg`."""

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpml.errors import UserError
from dpml.packs.imtiaz2019.costs import communication, exponents
from dpml.protocols import FixedPoint, costs
from dpml.protocols.costs import float_difference, measure
from dpml.reporting.cards import claims_of
from dpml.reporting.claims import Evidence

FEW = {"everybody": [4, 8, 16], "ring": [], "d": [10, 1000, 100_000]}


@pytest.fixture(scope="module")
def slopes() -> pd.DataFrame:
    return exponents(**FEW)


def test_bytes_are_those_of_a_formula(slopes) -> None:
    table = communication(**FEW).set_index(["M", "d", "metric"])["value"]
    for M in FEW["everybody"]:
        for d in FEW["d"]:  # the formulas of the count in test_transports, added up
            quorum, survivors = -(-2 * M // 3), -(-M // 8)
            site = 9 * 30 + 5 * 64 + 100 + 40 * M + 316 * (M - 1) + 8 * d + 2 * survivors + 68 * quorum
            site += 32 * (M - 1).bit_length()  # to find the roster
            assert table[M, d, "site_bytes"] == site
            assert table[M, d, "aggregator_bytes"] == M * site
            assert table[M, d, "degree"] == M - 1


def test_the_page_has_the_formula() -> None:
    page = (Path(__file__).parents[2] / "docs" / "secure_aggregation.md").read_text(encoding="utf-8")
    said = re.search(r"`(590 \+ [^`]*)` bytes", page)[1].replace("log2 M", "lb(M)")
    formula = re.sub(r"(\d)(?=[Mdt(])", r"\1*", re.sub(r"(\d)⌈([^⌉]*)⌉", r"\1*ceil(\2)", said))
    for M, d in ((4, 10), (16, 1000)):
        known = {"M": M, "d": d, "t": -(-2 * M // 3), "ceil": math.ceil, "lb": math.log2}
        assert eval(formula, known) == float(measure(M, d)["bytes of a site"].replace(",", ""))


def test_shares_for_compute_nodes_are_counted_by_the_formula() -> None:
    """Words of 8 bytes: M sites send d to each of 3 nodes, which send d each to the aggregator."""
    table = communication(**FEW, nodes=3)
    theirs = table[table["algo"] == "heikkila2017"].set_index(["M", "d", "metric"])["value"]
    for M in FEW["everybody"]:
        for d in FEW["d"]:
            assert theirs[M, d, "site_bytes"] == 8 * d * 3
            assert theirs[M, d, "aggregator_bytes"] == M * theirs[M, d, "site_bytes"] + 3 * d * 8
    assert len(theirs) == 2 * 9
    ours = table[table["algo"] != "heikkila2017"].reset_index(drop=True)
    pd.testing.assert_frame_equal(ours, communication(**FEW))


def test_slopes_and_the_stated_form(slopes) -> None:
    found = slopes.set_index(["who", "metric"])["value"]
    assert found["site", "in_d"] == pytest.approx(found["aggregator", "in_d"])
    assert found["aggregator", "in_M"] == pytest.approx(found["site", "in_M"] + 1)
    assert 0.5 < found["site", "in_d"] < 1
    # not exactly: two thirds of M, and M bits as bytes, are rounded up, and the roster is a tree
    assert 0 < max(found["site", "misfit"], found["aggregator", "misfit"]) < 0.006


def test_the_claim_follows_from_rows(slopes) -> None:
    claim = claims_of("imtiaz2019")["IT.2"]
    rows = pd.concat([slopes, slopes.assign(algo="ring")])
    none = pd.DataFrame()
    assert claim.judge(Evidence(rows, none)).decision == "reproduced"
    worse = rows.assign(value=rows["value"] + np.where(rows["metric"] == "in_M", 0.7, 0.0))
    assert claim.judge(Evidence(worse, none)).decision == "not reproduced"
    misfit = rows.assign(value=rows["value"] + np.where(rows["metric"] == "misfit", 0.02, 0.0))
    assert claim.judge(Evidence(misfit, none)).decision == "not reproduced"


# ---- dpml secagg


@pytest.mark.slow_cases("60-200-0.0")
@pytest.mark.parametrize(
    ("M", "d", "drop"),
    [(2, 2000, 0.0), (10, 2000, 0.2), (60, 200, 0.0), pytest.param(150, 50, 0.1, marks=pytest.mark.slow)],
)
def test_the_error_that_is_shown_is_within_its_bound(M: int, d: int, drop: float) -> None:
    line = measure(M, d, drop)["largest error"]
    error, bound = map(float, re.match(r"(\S+) \(bound (\S+):", line).groups())
    assert 0 <= error <= bound
    assert bound < 1e-9


@pytest.mark.slow
def test_a_share_of_the_parties_is_a_whole_number_of_them() -> None:
    assert 0.29 * 100 < 29
    assert measure(100, 1, 0.29)["in the sum"] == "71 of 100"


@pytest.mark.parametrize("count", [1, 2, 1000, 10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_decoded_sum_and_one_of_floats_differ_by_no_more_than_the_bound(count: int) -> None:
    """Numbers of one sign and full size, whose sum in floats, one after the other, rounds at every step."""
    values = np.random.default_rng(count).uniform(0.9, 1.0, (count, 3))
    codec = FixedPoint.fit(count, 1.0)
    decoded = codec.decode(codec.encode(values, np.random.default_rng(1)).sum(axis=0))
    bound = float_difference(codec, count)
    for column, total in zip(values.T, decoded, strict=True):
        exact = sum(map(Fraction, column))
        one_by_one = 0.0
        for value in column:
            one_by_one += value
        rounding = Fraction(one_by_one) - exact
        assert abs(Fraction(total) - exact - rounding) <= bound
        # neither of the two can be left out of the bound: it is that of their sum
        assert abs(rounding) <= bound - codec.error
        assert abs(Fraction(total) - exact) <= codec.error + Fraction(count, 2**53)


def test_more_parties_than_one_process_plays_in_minutes_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(costs, "in_process", None)  # or this test would take hours
    with pytest.raises(UserError, match="M must be at most 2,000"):
        measure(1_000_000, 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-M", "5", "-d", "999999999999"), "at most 134,217,728, got M=5 and d=999999999999"),
        (("-M", "999999999999", "-d", "1"), "at most 134,217,728, got M=999999999999 and d=1"),
        (("-M", "5", "-d", "0"), "d >= 1 entries, got M=5 and d=0"),
        (("-M", "2", "-d", "-7"), "d >= 1 entries, got M=2 and d=-7"),
    ],
)
def test_sizes_that_cannot_be_are_refused_in_one_sentence(run_command, words, sentence) -> None:
    done = run_command("dpml", "secagg", *words)
    assert done.code == 2
    assert sentence in done.err
    assert done.err.count("\n") == 1
