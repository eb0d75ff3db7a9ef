"""Kang 2019: every test of a claim both ways, on made-up rows whose verdict is known."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import yaml
from made_up import (
    NO_POINTS,
    check_that_nothing_is_judged_without_what_it_needs,
    decide,
    holding,
    joined,
    lacking,
    made_up,
)

from dpml.files import shipped_folder
from dpml.reporting.cards import claims_of
from dpml.reporting.claims import Evidence

CLAIMS = claims_of("kang2019")
ONCE, LOCAL = "jayaraman's noise once on the average", "in local rounds, eq. (2)"
CHOICES = {reading.name.partition(", ")[2]: reading.more for reading in CLAIMS["K1.1r"].readings}
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


@pytest.mark.parametrize("shape", [(1, 10), pytest.param((6, 3), marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("claim", "metric", "change", "decision"),
    [
        ("K1.1.fig1", "accuracy", {}, "reproduced"),
        ("K1.2.fig1", "accuracy", {}, "reproduced"),
        ("K1.3.fig1", "accuracy", {}, "reproduced"),
        ("K1.3.fig1", "accuracy", {"wang": [0.9, 0.9, 0.95]}, "not reproduced"),
        ("K1.3.fig1", "accuracy", {"wang": [0.7, 0.8, 0.89]}, "not reproduced"),
        ("K1.3.fig1", "accuracy", {"wang": [0.5, 0.6, 0.65]}, "reproduced"),  # better is as good
        ("K1.1.fig1", "accuracy", {"jayaraman": GOOD_EPS["wddp"]}, "not reproduced"),
        ("K1.1.fig1", "accuracy", {"jayaraman": [0.7, 0.7, 0.9]}, "not reproduced"),  # lost once
        ("K1.2.fig1", "accuracy", {"wddp": [0.75, 0.75, 0.75]}, "not reproduced"),
        ("K1.2.fig1", "accuracy", {"wddp": [0.75, 0.7, 0.82]}, "not reproduced"),  # a step back
    ],
)
def test_claims_over_eps(claim, metric, change, decision, shape):
    found = figure("eps", metric, GOOD_EPS, GOOD_EPS | change, "bank", shape)
    assert decide(CLAIMS[claim], found) == decision


@pytest.mark.parametrize("shape", [(1, 10), pytest.param((6, 3), marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("claim", "metric", "change", "decision"),
    [
        ("K2.1.fig2", "accuracy", {}, "reproduced"),
        ("K2.2.fig2", "accuracy", {}, "reproduced"),
        ("K2.1.fig2", "accuracy", {"jayaraman": [0.75, 0.7, 0.6]}, "not reproduced"),
        ("K2.2.fig2", "accuracy", {"wddp": [0.8, 0.77, 0.74]}, "not reproduced"),
        ("K2.2.fig2", "accuracy", {"jayaraman": [0.81, 0.81, 0.81]}, "not reproduced"),
        ("K2.2.fig2", "accuracy", {"jayaraman": [0.81, 0.85, 0.9]}, "not reproduced"),
        ("K2.1.fig12", "optimality_gap", {"wddp": [1, 1, 1], "jayaraman": [1.9, 3, 4]}, "reproduced"),
        ("K2.1.fig12", "optimality_gap", {"wddp": [1, 1, 1], "jayaraman": [2.2, 3, 4]}, "not reproduced"),
        ("K2.2.fig12", "optimality_gap", {"wddp": [1, 1, 1.9], "jayaraman": [1, 3, 4]}, "reproduced"),
        ("K2.2.fig12", "optimality_gap", {"wddp": [1, 1, 2.2], "jayaraman": [1, 3, 4]}, "not reproduced"),
    ],
)
def test_claims_over_unevenness(claim, metric, change, decision, shape):
    block = "bank" if metric == "accuracy" else None
    assert decide(CLAIMS[claim], figure("u", metric, GOOD_U, GOOD_U | change, block, shape)) == decision


@pytest.mark.slow_cases("K1.1.fig3")
@pytest.mark.parametrize("claim", ["K1.1.fig3", "K1.2.fig3"])
def test_a_smaller_gap_is_better(claim):
    assert decide(CLAIMS[claim], figure("eps", "optimality_gap", {}, GOOD_EPS)) == "not reproduced"
    turned = {algorithm: [1 - mean for mean in means] for algorithm, means in GOOD_EPS.items()}
    assert decide(CLAIMS[claim], figure("eps", "optimality_gap", {}, turned)) == "reproduced"


def test_few_and_scattered_seeds_decide_nothing():
    """Three seeds that scatter by a tenth, drawn apart for every algorithm: nobody is accused."""
    found = figure("u", "accuracy", GOOD_U, GOOD_U, shape=(3, 1))
    rng = np.random.default_rng(0)
    found.rows["value"] += 0.1 * rng.standard_normal(len(found.rows))
    verdict = CLAIMS["K2.1.fig2"].judge(found)
    assert verdict.decision == "undecided with these seeds"


STEPS = {"adult": "one_hot,min_max", "breast_cancer": "impute,min_max", "creditcard": "min_max"}


def readings(metric_means):
    """All readings, of three data sets each: blocks of one change, and one of choices crossed, which rows tell."""
    tables = {}
    for (metric, means), axis, (name, choice) in product(metric_means.items(), ("eps", "u"), CHOICES.items()):
        for data, steps in STEPS.items():
            curves = means(axis, name)
            other = {"jayaraman_local" if name.endswith(LOCAL) else "jayaraman": curves["jayaraman"]}
            found = made_up({f"x_{axis}": curves | other}, GRIDS, metric, shape=(5, 1), noise=0.005)
            known = dict(choice["where"])
            known |= {"dataset.steps": f"[{steps},{known['dataset.steps']}]"} if known else {}
            rows = found.rows.assign(block=f"{axis}_{choice['block']}", dataset=data, **known)
            rows = rows[rows["algo"] != "jayaraman"] if name.endswith(LOCAL) else rows
            rows.loc[rows["algo"] == "wddp", "variant"] = "once" if choice["block"] == "once" else "paper"
            for algo, part in rows.groupby("algo"):
                tables[metric, axis, choice["block"], *known.values(), data, algo] = part
    return Evidence(pd.concat(tables.values(), ignore_index=True).rename(columns={"u": "partition.u"}), NO_POINTS, {})


@pytest.mark.slow
def test_what_a_claim_depends_on_is_named():
    good = {"eps": GOOD_EPS, "u": GOOD_U}
    turned = {axis: {a: [1 - m for m in ms] for a, ms in good[axis].items()} for axis in good}
    alike = {axis: good[axis] | {"jayaraman": [0.81, 0.81, 0.81]} for axis in good}
    everywhere = readings({"accuracy": lambda axis, _: good[axis], "optimality_gap": lambda axis, _: turned[axis]})
    for name in ("K1.1r", "K1.2r", "K1.3r", "K2.1r", "K2.2r"):
        assert decide(CLAIMS[name], everywhere) == "reproduced"
    chosen = f"c = 1, rows of length 1, {LOCAL}"
    but_one = readings(
        {
            "accuracy": lambda axis, name: (alike if name == chosen else good)[axis],
            "optimality_gap": lambda axis, _: turned[axis],
        }
    )
    for name in ("K1.1r", "K2.2r"):
        verdict = CLAIMS[name].judge(but_one)
        assert verdict.decision == "depends on an unstated choice"
        held = holding(verdict)
        assert f"accuracy, {chosen}" not in held
        assert {f"accuracy, c = 1, rows of length 1, {ONCE}", f"gap, {chosen}"} <= {*held}
    none = Evidence(everywhere.rows[everywhere.rows["block"] != "eps_c4"], everywhere.published, {})
    assert decide(CLAIMS["K1.1r"], none) == "cannot be tested here"
    assert decide(CLAIMS["K2.1r"], none) == "reproduced"


def test_the_choices_are_the_blocks_of_the_experiment():
    blocks = yaml.safe_load((shipped_folder("experiments") / "kang2019" / "readings.yaml").read_text("utf-8"))["grid"]
    assert set(blocks) == {f"{axis}_{choice['block']}" for axis in ("eps", "u") for choice in CHOICES.values()}


def test_where_jayaramans_noise_is_decides_whether_methods_are_alike():
    """The figures' claims are judged by both readings of the baseline, and point to the other readings."""
    known = figure("u", "optimality_gap", {}, {"wddp": [1, 1, 1], "jayaraman": [5, 8, 9], "jayaraman_local": [1, 3, 4]})
    verdict = CLAIMS["K2.1.fig12"].judge(known)
    assert verdict.decision == "depends on an unstated choice"
    assert holding(verdict) == [f"gap, {LOCAL}"]
    assert verdict.text.endswith("[by reading: K2.1r]")


def test_what_is_below_the_constant_classifier_is_no_evidence():
    """One data set at chance is left out, and said; where most of them are, nothing is tested."""
    found = figure("eps", "accuracy", GOOD_EPS, GOOD_EPS, shape=(5, 2))
    for names, outcome in (
        (["breast"], "reproduced on 4 of 5 data sets"),
        (["breast", "bank", "kdd"], "cannot be tested here"),
    ):
        floors = made_up({f"{name}_eps": {"constant": [0.9, 0.9, 0.9]} for name in names}, GRIDS, "accuracy")
        ours = (found.rows["algo"] == "constant") & found.rows["block"].isin(floors.axes)
        verdict = CLAIMS["K1.1.fig1"].judge(joined(replace(found, rows=found.rows[~ours]), floors))
        assert verdict.outcome == outcome
        left_out = [group[0] for group in verdict.readings[0]["groups"] if "constant classifier, 0.9" in group[-1]]
        assert (set(left_out) == {"breast_eps"}) == (len(names) == 1)
    left = [f"{name}_eps (none is above the constant classifier, 0.9)" for name in ("kdd", "bank", "breast")]
    assert f"3 of 5 data sets do not count: {', '.join(left)}" in lacking(verdict)


def test_our_rule_is_an_extra():
    """What comes of the rule's steps is told and decides nothing."""
    found = figure("eps", "accuracy", GOOD_EPS, GOOD_EPS, shape=(5, 2))
    worse = figure("eps", "accuracy", GOOD_EPS, GOOD_EPS | {"wddp": [0.75, 0.7, 0.6]}, shape=(5, 2))
    rule = Evidence(worse.rows.assign(block=worse.rows["block"] + "_rule"), NO_POINTS)
    verdict = CLAIMS["K1.2.fig1"].judge(joined(found, rule))
    assert verdict.decision == "reproduced"
    extra = [one for one in verdict.groups(verdict.readings[0]) if one["block"] == "kdd_eps_rule"]
    assert [(one["outcome"], one["why"]) for one in extra] == [("does not hold", "with the rule's steps")]


def test_figures_are_judged_as_a_whole():
    over_eps = figure("eps", "accuracy", GOOD_EPS, GOOD_EPS, shape=(5, 2))
    over_u = figure("u", "accuracy", GOOD_U, GOOD_U, shape=(5, 2))
    for names, found in ((("K1.1.fig1", "K1.2.fig1", "K1.3.fig1"), over_eps), (("K2.1.fig2", "K2.2.fig2"), over_u)):
        check_that_nothing_is_judged_without_what_it_needs({name: CLAIMS[name] for name in names}, found)
    less = Evidence(over_eps.rows[over_eps.rows["block"] != "kdd_eps"], over_eps.published, over_eps.axes)
    assert CLAIMS["K1.2.fig1"].judge(less).outcome == "reproduced on 4 of 5 data sets"
    half = Evidence(less.rows[less.rows["block"].isin(["bank_eps", "breast_eps"])], less.published, less.axes)
    assert decide(CLAIMS["K1.2.fig1"], half) == "cannot be tested here"
    uneven = Evidence(over_u.rows[over_u.rows["partition.u"] > 1], over_u.published, over_u.axes)
    assert {decide(CLAIMS[name], uneven) for name in ("K2.1.fig2", "K2.2.fig2")} == {"cannot be tested here"}
