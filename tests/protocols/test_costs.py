"""Table 1: the measured bytes are those of a formula. And the errors that `dpml secagg` shows."""

import re
from fractions import Fraction

import numpy as np
import pytest

from dpml.packs.imtiaz2019.costs import communication, exponents
from dpml.protocols import FixedPoint
from dpml.protocols.costs import float_difference, measure

FEW = {"everybody": [4, 8, 16], "ring": [], "d": [10, 1000, 100_000]}


def test_bytes_are_those_of_a_formula() -> None:
    rows = communication(**FEW, nodes=3)
    nodes = rows["algo"] == "heikkila2017"
    table, theirs = (rows[some].set_index(["M", "d", "metric"])["value"] for some in (~nodes, nodes))
    for M in FEW["everybody"]:
        for d in FEW["d"]:  # 30 bytes around each of 9 bodies, 5 signatures, and the bodies
            quorum, survivors = -(-2 * M // 3), -(-M // 8)
            site = 9 * 30 + 5 * 64 + 100 + 40 * M + 316 * (M - 1) + 8 * d + 2 * survivors + 68 * quorum
            site += 32 * (M - 1).bit_length()  # to find the roster
            assert table[M, d, "site_bytes"] == site
            assert table[M, d, "aggregator_bytes"] == M * site
            assert table[M, d, "degree"] == M - 1
            # words of 8 bytes: M sites send d to each of 3 nodes, which send d each to the aggregator
            assert theirs[M, d, "site_bytes"] == 8 * d * 3
            assert theirs[M, d, "aggregator_bytes"] == M * 8 * d * 3 + 3 * d * 8


def test_slopes_and_the_stated_form() -> None:
    found = exponents(**FEW).set_index(["who", "metric"])["value"]
    assert found["site", "in_d"] == pytest.approx(found["aggregator", "in_d"])
    assert found["aggregator", "in_M"] == pytest.approx(found["site", "in_M"] + 1)
    assert 0.5 < found["site", "in_d"] < 1
    # not exactly: two thirds of M, and M bits as bytes, are rounded up, and the roster is a tree
    assert 0 < max(found["site", "misfit"], found["aggregator", "misfit"]) < 0.006


# ---- dpml secagg


@pytest.mark.parametrize(
    ("M", "d", "drop"), [(2, 2000, 0.0), (10, 2000, 0.2), pytest.param(100, 50, 0.29, marks=pytest.mark.slow)]
)
def test_the_error_that_is_shown_is_within_its_bound(M: int, d: int, drop: float) -> None:
    shown = measure(M, d, drop)
    assert shown["in the sum"] == f"{M - round(drop * M)} of {M}"
    error, bound = map(float, re.match(r"(\S+) \(bound (\S+):", shown["largest error"]).groups())
    assert 0 <= error <= bound
    assert bound < 1e-9


@pytest.mark.parametrize("count", [1, 2, 1000, 10_000])
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
