"""Imtiaz 2019: every test of a claim both ways, on made-up rows whose verdict is known."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from made_up import (
    NO_POINTS,
    check_that_nothing_is_judged_without_what_it_needs,
    decide,
    holding,
    joined,
    made_up,
    without,
)

from dpml.packs.imtiaz2019.curves import (
    delta_against_colluders,
    delta_against_tau,
    noise_left,
    noise_of_uneven_sites,
)
from dpml.reporting import evidence
from dpml.reporting.cards import claims_of
from dpml.reporting.claim_tests import depends
from dpml.reporting.claims import Claim, Evidence, Reading
from dpml.running.computed import complete

CLAIMS = claims_of("imtiaz2019")
GRIDS = {"eps": [0.1, 1.0, 10.0], "N": [500, 1000, 2000], "delta": [1e-5, 1e-3, 1e-2]}
OURS, OTHERS = ("capefm", "conv", "local"), ("dpfm", "objpert", "conv", "local")
PRIVATE = ("capefm", *OTHERS)
READINGS = {"loss": "paper", "noisy_objective": "authors"}
GOOD = {name: [9, 6, 3] for name in OTHERS} | {"capefm": [8, 5, 1.1], "nonpriv": [1, 1, 1]}
DELTA = {name: [3, 2, 1] for name in OURS} | {"dpfm": [2, 2, 2], "objpert": [2, 2, 2]}


def figure(blocks, **options):
    """The rows of a figure in both readings."""
    return joined(*(made_up(blocks, GRIDS, metric, variant, **options) for metric, variant in READINGS.items()))


def fig3(eps=GOOD, delta=DELTA, **blocks):
    """Figure 3 with the same curves over eps and N for both d; d20 comes down to nonpriv earlier."""
    early = eps | {"capefm": [8, 1.1, 1.1]}
    return figure(
        {"d20_eps": early, "d50_eps": eps, "d20_N": early, "d50_N": eps, "d20_delta": delta, "d50_delta": delta}
        | blocks,
        noise=1e-3,
    )


# ---- loss and distance (figs. 3, 4, 7)


@pytest.mark.parametrize(
    ("change", "decision"),
    [
        ({}, "reproduced"),
        ({"conv": [1, 2, 3]}, "not reproduced"),
        ({"dpfm": [3, 2, 1]}, "not reproduced"),
    ],
)
def test_depends_on_delta(change, decision):
    found = made_up({"d20_delta": DELTA | change}, GRIDS, noise=1e-3)
    test = partial(depends, blocks=["d20_delta"], algorithms=OURS, others=("dpfm", "objpert"))
    assert decide(Claim("X", "x/x", "text", "criterion", test, [Reading("r", "paper", "loss")]), found) == decision


@pytest.mark.parametrize(
    ("name", "found", "decision"),
    [
        ("I3.3", fig3(d50_eps=GOOD | {"capefm": [9, 5, 1.1]}), "reproduced"),
        ("I3.3", fig3(d20_eps=GOOD), "not reproduced"),
        ("I3.2", fig3(eps=GOOD | {"dpfm": [7, 4, 1]}), "not reproduced"),
        ("I3.5", fig3(d50_eps=GOOD | {"capefm": [8, 5, 2.5]}), "not reproduced"),  # never comes down
        ("I3.4", fig3(d20_N=GOOD | {"local": [3, 6, 9]}), "not reproduced"),
    ],
)
def test_claims_of_figure_3(name, found, decision):
    assert decide(CLAIMS[name], found) == decision


# ---- the network (fig. 2)

NETS = {"nn_cape": [0.6, 0.8, 0.97], "nn_conv": [0.5, 0.7, 0.9], "nn_nonpriv": [0.98, 0.98, 0.98]}


@pytest.mark.parametrize(("conv", "decision"), [([0.55, 0.7, 0.8], "reproduced"), ([0.4, 0.7, 0.9], "not reproduced")])
def test_the_gap_is_small_where_there_are_few_samples(conv, decision):
    sweeps = {"authors": ("authors_N", "authorshalf_N"), "paper": ("text_N", "texthalf_N", "textlow_N")}
    nets = NETS | {"nn_conv": conv}
    tables = [
        made_up(dict.fromkeys(blocks, nets), GRIDS, "accuracy", variant, noise=1e-3)
        for variant, blocks in sweeps.items()
    ]
    assert decide(CLAIMS["I2.3"], joined(*tables)) == decision


@pytest.mark.parametrize(("off", "decision"), [(0.045, "reproduced"), (0.06, "not reproduced")])
def test_stored_accuracies_are_within_five_points(off, decision):
    metrics = ("accuracy", "train_accuracy")
    found = joined(*(made_up({"nn_eps": NETS}, GRIDS, metric, "authors") for metric in metrics))
    points = pd.DataFrame(
        {"series": "nn_eps", "x": x, "algo": algo, "metric": metric, "mean": mean - off,
         "std": np.nan, "n": 1}
        for metric in metrics for algo, means in NETS.items() for x, mean in zip(GRIDS["eps"], means, strict=True)
    )  # fmt: skip
    assert decide(CLAIMS["I2.P"], Evidence(found.rows, points, found.axes)) == decision


# ---- curves of delta, variances, bytes


def curves(name):
    """The rows of fig. 5 or 6 as the experiments have them."""
    if name == "tau":
        tables = {
            "small_tau": delta_against_tau(1000, 10, 1e-3, points=5),
            "large_tau": delta_against_tau(5000, 30, 0.1, points=5),
        }
    else:
        tables = {f"{size}_share": delta_against_colluders(*about) for size, about in
                  {"small": (1000, 10, 1e-3, 50), "large": (5000, 30, 0.1, 0.5)}.items()}  # fmt: skip
    rows = pd.concat([complete(table, block).assign(block=block) for block, table in tables.items()], ignore_index=True)
    return Evidence(rows, NO_POINTS, dict.fromkeys(tables, name))


@pytest.mark.parametrize(("name", "axis"), [("I5.1", "tau"), ("I6.1", "share")])
def test_cape_below_conventional(name, axis):
    found = curves(axis)
    assert decide(CLAIMS[name], found) == "reproduced"
    rows = found.rows
    last = (rows["algo"] == "cape") & (rows["reading"] == "whole view") & (rows[axis] == rows[axis].max())
    worse = Evidence(rows.assign(value=rows["value"].mask(last, 0.0)), NO_POINTS, found.axes)
    verdict = CLAIMS[name].judge(worse)
    assert verdict.decision == "depends on an unstated choice"
    assert holding(verdict) == ["as plotted"]
    swapped = rows.assign(algo=rows["algo"].map({"cape": "conv", "conv": "cape"}))
    assert decide(CLAIMS[name], Evidence(swapped, NO_POINTS, found.axes)) == "not reproduced"
    check_that_nothing_is_judged_without_what_it_needs({name: CLAIMS[name]}, found)


def test_variances():
    rows = complete(noise_left([2, 5], samples=20000), "noise_left").assign(block="noise_left")
    assert decide(CLAIMS["IT.1"], Evidence(rows, NO_POINTS)) == "reproduced"
    for metric in ("cape_over_pooled", "conv_over_cape"):
        for factor in (0.95, 1.05):  # five standard deviations
            other = rows.assign(value=rows["value"].where(rows["metric"] != metric, rows["value"] * factor))
            assert decide(CLAIMS["IT.1"], Evidence(other, NO_POINTS)) == "not reproduced"
        assert decide(CLAIMS["IT.1"], without(Evidence(rows, NO_POINTS), metric=metric)) == "cannot be tested here"


@pytest.mark.slow
def test_uneven_sites():
    tables = {"five": noise_of_uneven_sites(5, [1, 2, 8], N=2000), "six": noise_of_uneven_sites(6, [1, 2, 8], N=2100)}
    rows = pd.concat([complete(table, block).assign(block=block) for block, table in tables.items()])
    assert decide(CLAIMS["IT.3"], Evidence(rows, NO_POINTS)) == "reproduced"
    for reading, factor in (("plain average", 1.06), ("weighted sum", 0.94), ("H(n)", 1.06)):
        other = rows.assign(value=rows["value"].where(rows["reading"] != reading, rows["value"] * factor))
        assert decide(CLAIMS["IT.3"], Evidence(other, NO_POINTS)) == "not reproduced"
        assert decide(CLAIMS["IT.3"], without(Evidence(rows, NO_POINTS), reading=reading)) == "cannot be tested here"
    assert decide(CLAIMS["IT.3"], without(Evidence(rows, NO_POINTS), u=1)) == "cannot be tested here"


@pytest.mark.parametrize(
    ("who", "metric", "value", "decision"),
    [
        ("site", "in_M", 1.06, "not reproduced"),
        ("aggregator", "in_M", 2.04, "reproduced"),
        ("aggregator", "in_d", 1.06, "not reproduced"),
        ("site", "misfit", 0.02, "not reproduced"),
    ],
)
def test_communication(who, metric, value, decision):
    slopes = {("site", "in_M"): 1, ("aggregator", "in_M"): 2} | dict.fromkeys(
        [(w, m) for w in ("site", "aggregator") for m in ("in_d", "misfit")], 0.0
    )
    rows = pd.DataFrame(
        {"block": "exponents", "algo": algo, "who": w, "metric": m, "value": v}
        for algo in ("everybody", "ring") for (w, m), v in (slopes | {(who, metric): value}).items()
    )  # fmt: skip
    found = Evidence(rows, NO_POINTS)
    assert decide(CLAIMS["IT.2"], found) == decision
    for column, name in (("algo", "ring"), ("who", "site"), ("metric", "in_M")):
        assert decide(CLAIMS["IT.2"], without(found, **{column: name})) == "cannot be tested here"


def test_without_rows_nothing_can_be_tested():
    nothing = made_up({"other_eps": {"capefm": [1, 2, 3]}}, GRIDS)
    assert {decide(one, nothing) for one in CLAIMS.values()} == {"cannot be tested here"}


def test_a_claim_is_judged_on_the_papers_own_points_too():
    """Ours come down to the loss without privacy; the points do not, in the one block that has any."""
    panels = [{"block": f"d20_{x}", "x": x, "y": "noisy_objective", "published": f"s_{x}",
               "where": {"algo.variant": "authors"}} for x in ("eps", "N")]  # fmt: skip
    points = pd.DataFrame(
        {"series": "s_eps", "x": x, "algo": algo, "metric": "noisy_objective", "mean": mean, "std": 0, "n": 10,
         "peer": False}
        for algo, means in (("capefm", [8, 5, 3]), ("nonpriv", [1, 1, 1]), *((name, [9, 6, 3.5]) for name in OTHERS))
        for x, mean in zip(GRIDS["eps"], means, strict=True)
    )  # fmt: skip
    names = ("I3.1", "I3.2", "I3.3", "I3.5")
    verdicts = evidence.judge(
        fig3().rows.assign(calibration="published"), [CLAIMS[name] for name in names], panels, points
    )
    assert {one.id: one.published for one in verdicts} == {
        "I3.1": "holds", "I3.2": "holds", "I3.3": "", "I3.5": "does not hold"
    }  # fmt: skip
    assert verdicts[3].decision == "reproduced"
