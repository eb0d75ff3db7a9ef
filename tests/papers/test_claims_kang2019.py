"""Kang 2019: every test of a claim both ways, on made-up rows whose verdict is known."""

from dataclasses import replace

import pytest
from made_up import (
    check_that_nothing_is_judged_without_what_it_needs,
    decide,
    joined,
    lacking,
    made_up,
)

from dpml.reporting.cards import claims_of
from dpml.reporting.claims import Evidence

CLAIMS = claims_of("kang2019")
GRIDS = {"eps": [0.01, 0.1, 0.25], "u": [1, 5, 9]}
SETS = ("kdd", "adult", "bank", "breast", "credit")
GOOD_EPS = {"wddp": [0.75, 0.8, 0.82], "jayaraman": [0.6, 0.65, 0.7], "wang": [0.74, 0.79, 0.8]}
GOOD_U = {"wddp": [0.82, 0.81, 0.82], "jayaraman": [0.81, 0.7, 0.6]}


def figure(axis, metric, good, means, block=None, shape=(1, 10)):
    """All data sets as in `good`, and one with these means, or all; both readings of jayaraman alike, unless told."""
    good, means = ({"jayaraman_local": curves.get("jayaraman", [])} | curves for curves in (good, means))
    blocks = {f"{name}_{axis}": means if block in (None, name) else good for name in SETS}
    found = made_up(blocks, GRIDS, metric, shape=shape, noise=0.005)
    x = {"u": "partition.u"}.get(axis, axis)  # as the column is named
    return Evidence(found.rows.rename(columns={axis: x}), found.published, dict.fromkeys(found.axes, x))


@pytest.mark.parametrize(
    ("claim", "change", "decision"),
    [
        ("K1.1.fig1", {}, "reproduced"),
        ("K1.2.fig1", {}, "reproduced"),
        ("K1.3.fig1", {}, "reproduced"),
        ("K1.3.fig1", {"wang": [0.9, 0.9, 0.95]}, "not reproduced"),
        ("K1.3.fig1", {"wang": [0.5, 0.6, 0.65]}, "reproduced"),  # better is as good
        ("K1.1.fig1", {"jayaraman": [0.7, 0.7, 0.9]}, "not reproduced"),  # lost once
        ("K1.2.fig1", {"wddp": [0.75, 0.7, 0.82]}, "not reproduced"),  # a step back
    ],
)
def test_claims_over_eps(claim, change, decision):
    found = figure("eps", "accuracy", GOOD_EPS, GOOD_EPS | change, "bank")
    assert decide(CLAIMS[claim], found) == decision


@pytest.mark.parametrize(
    ("claim", "metric", "change", "decision"),
    [
        ("K2.1.fig2", "accuracy", {}, "reproduced"),
        ("K2.2.fig2", "accuracy", {}, "reproduced"),
        ("K2.2.fig2", "accuracy", {"wddp": [0.8, 0.77, 0.74]}, "not reproduced"),
        ("K2.2.fig2", "accuracy", {"jayaraman": [0.81, 0.85, 0.9]}, "not reproduced"),
        ("K2.2.fig12", "optimality_gap", {"wddp": [1, 1, 2.2], "jayaraman": [1, 3, 4]}, "not reproduced"),
    ],
)
def test_claims_over_unevenness(claim, metric, change, decision):
    block = "bank" if metric == "accuracy" else None
    assert decide(CLAIMS[claim], figure("u", metric, GOOD_U, GOOD_U | change, block)) == decision


def test_what_is_below_the_constant_classifier_is_no_evidence():
    """One data set at chance is left out, and said; where most of them are, nothing is tested."""
    found = figure("eps", "accuracy", GOOD_EPS, GOOD_EPS, shape=(5, 2))
    for names, decision in (
        (["breast"], "reproduced"),
        (["breast", "bank", "kdd"], "cannot be tested here"),
    ):
        floors = made_up({f"{name}_eps": {"constant": [0.9, 0.9, 0.9]} for name in names}, GRIDS, "accuracy")
        ours = (found.rows["algo"] == "constant") & found.rows["block"].isin(floors.axes)
        verdict = CLAIMS["K1.1.fig1"].judge(joined(replace(found, rows=found.rows[~ours]), floors))
        assert verdict.decision == decision
        left_out = [group[0] for group in verdict.readings[0]["groups"] if "constant classifier, 0.9" in group[-1]]
        assert (set(left_out) == {"breast_eps"}) == (len(names) == 1)
    left = [f"{name}_eps (none is above the constant classifier, 0.9)" for name in ("kdd", "bank", "breast")]
    assert f"3 of 5 data sets do not count: {', '.join(left)}" in lacking(verdict)


def test_figures_are_judged_as_a_whole():
    over_eps = figure("eps", "accuracy", GOOD_EPS, GOOD_EPS, shape=(5, 2))
    over_u = figure("u", "accuracy", GOOD_U, GOOD_U, shape=(5, 2))
    for names, found in ((("K1.1.fig1", "K1.2.fig1", "K1.3.fig1"), over_eps), (("K2.1.fig2", "K2.2.fig2"), over_u)):
        check_that_nothing_is_judged_without_what_it_needs({name: CLAIMS[name] for name in names}, found)
