"""Tests of claims on exact numbers: a bound that is kept, broken or missing."""

import pandas as pd
import pytest

from dpml.reporting.claim_exact import at_most, private, rows_of
from dpml.reporting.claims import Evidence, NotComputedError, Reading, holds

PLAIN = Reading("as stated", "paper", "")
ROWS = pd.DataFrame(
    [
        {"block": block, "algo": block, "eps": eps, "metric": metric, "value": value}
        for block, by in (("a", 1.0), ("b", 2.0))
        for eps in (0.5, 4.0)
        for metric, value in (("exact", by * eps), ("claimed", eps))
    ]
)


def check(test, rows=ROWS):
    return test(Evidence(rows, pd.DataFrame()).under(PLAIN))


def made(test, *arguments):
    return lambda asked: test(asked, *arguments)


def test_a_bound_is_a_number_or_another_metric_of_the_same_rows():
    for most, where in (
        (8, None),
        (8 * (1 - 1e-13), None),
        (4, {"block": ["a", "b"], "eps": 0.5}),
        ("claimed", {"block": "a"}),
    ):
        assert holds(check(made(at_most, "exact", most, where)))
    for most, worse in ((7.9, 1), ("claimed", 2)):
        broken = check(made(at_most, "exact", most))
        assert not holds(broken)
        assert [one.holds for one in broken[0].shown.values()].count(False) == worse
        worst = broken[0].shown["block = b, eps = 4"]
        assert (worst.holds, worst.value, worst.needs) == (False, "8", f"at most {7.9 if worse == 1 else 4}")


@pytest.mark.parametrize(
    ("metric", "most", "where"),
    [("other", 1, None), ("exact", 1, {"eps": [0.5, 3.0]}), ("exact", 1, {"reading": "x"}), ("exact", "other", None)],
)
def test_what_is_missing_is_not_judged(metric, most, where):
    with pytest.raises(NotComputedError):
        check(made(at_most, metric, most, where))


def test_every_row_needs_its_limit():
    less = ROWS[(ROWS["metric"] == "exact") | (ROWS["block"] == "a")]
    with pytest.raises(NotComputedError):
        check(made(at_most, "exact", "claimed"), less)
    assert len(rows_of(Evidence(ROWS, pd.DataFrame()), "exact", {"eps": 4.0})) == 2


def test_a_value_that_is_no_number_is_above_no_bound_and_below_none():
    broken = ROWS.assign(value=ROWS["value"].where(ROWS["eps"] > 1))
    for most in (8, "claimed"):
        with pytest.raises(NotComputedError, match="exact: 2 of 4 values are NaN"):
            check(made(at_most, "exact", most), broken)
    assert holds(check(made(at_most, "exact", 8, {"eps": 4.0}), broken))


@pytest.mark.parametrize(
    ("proven", "verdict", "outcome"),
    [
        (0.9, "consistent (power 1.00)", True),
        (1.2, "no violation seen (power 0.30)", None),
        (1.2, "claim violated", False),
    ],
)
def test_a_privacy_claim_is_proven_or_refuted_in_every_view(proven, verdict, outcome):
    lines = [
        ("release", "published", 0.5, "consistent (power 1.00)"),
        ("client", "published", proven, verdict),
        ("client", "tight", 2.0, "consistent (power 1.00)"),
    ]
    rows = pd.DataFrame(
        {"algo": "x", "variant": "paper", "loss": "logistic", "view": view, "noise": noise, "verdict": told,
         "metric": metric, "value": value}
        for view, noise, bound, told in lines
        for metric, value in (("claimed", 1.0), ("proven", bound), ("attacked", 0.2))
    )  # fmt: skip
    found = check(made(private, ["x"]), rows)
    assert holds(found) is outcome
    assert {(group.against, group.holds) for group in found} == {("release", True), ("client", outcome)}
    for algorithms, less in ((["x", "y"], rows), (["x"], rows.drop(columns="verdict"))):
        with pytest.raises(NotComputedError):
            check(made(private, algorithms), less)
