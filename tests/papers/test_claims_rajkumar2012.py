"""Rajkumar 2012: every test of a claim both ways, on made-up rows whose verdict is known."""

import pandas as pd
import pytest
from made_up import (
    check_that_nothing_is_judged_without_what_it_needs,
    decide,
    joined,
    made_up,
    without,
)

from dpml.reporting.cards import claims_of
from dpml.reporting.claims import Evidence

CLAIMS = claims_of("rajkumar2012")
GRIDS = {"partition": ("0.5/0.5", "0.1/0.9", "0.01/0.99"), "M": (5, 10, 15)}
LEVEL = (0.2, 0.2, 0.2)


def shares(la, psgd=LEVEL, gop=LEVEL, axis="partition", readings=("noisy", "plain"), **options):
    """Rows of a figure whose mean errors over share vectors (or M) are these, at both eps."""
    options = {"noise": 0.02} | options
    curves = {"la": la, "psgd": psgd, "gop": gop}
    found = made_up({f"{lam}_{axis}": curves for lam in readings}, GRIDS, "error", **options)
    return Evidence(pd.concat([found.rows.assign(eps=eps) for eps in (0.1, 0.2)]), found.published, found.axes)


@pytest.mark.parametrize(
    ("claim", "found", "decision"),
    [
        ("R1.1", shares((0.3, 0.4, 0.5), axis="M"), "reproduced"),
        ("R1.1", shares((0.5, 0.4, 0.3), axis="M"), "not reproduced"),
        ("R1.1", shares((0.3, 0.5, 0.4), axis="M"), "not reproduced"),
        ("R1.3", shares((0.1, 0.3, 0.3), axis="M"), "not reproduced"),
        ("R2.4", shares((0.5, 0.4, 0.3)), "not reproduced"),
        ("R2.4", shares((0.3, 0.4, 0.5), gop=(0.2, 0.2, 0.3)), "not reproduced"),
        ("R2.4", shares((0.3, 0.4, 0.5), psgd=(0.2, 0.24, 0.2)), "reproduced"),
    ],
)
def test_claims(claim, found, decision):
    assert decide(CLAIMS[claim], found) == decision


@pytest.mark.slow
def test_a_figure_is_judged_as_a_whole():
    whole = joined(shares((0.3, 0.4, 0.5), axis="M"), shares((0.3, 0.4, 0.5)))
    claims = {f"R1.{n}": CLAIMS[f"R1.{n}"] for n in range(1, 6)}
    check_that_nothing_is_judged_without_what_it_needs(claims, whole)


def halved(after, paper=0.3, noise=0.01):
    """Rows whose mean errors are these after the most rounds."""
    tables = [
        made_up({"tries_rounds": {"psgd": means}}, {"rounds": (1, 100)}, "error", variant, (8, 2), noise)
        for variant, means in (("halving", (0.4, after)), ("paper", (0.4, paper)))
    ]
    found = joined(*tables)
    rows = pd.concat([found.rows.assign(eps=eps) for eps in (0.1, 0.2, 1.0, 10.0)]).replace("tries_rounds", "rounds")
    return Evidence(rows, found.published, {"rounds": "rounds"})


def test_halved_budgets_end_in_guessing():
    assert decide(CLAIMS["R3.2"], halved(0.49)) == "reproduced"
    assert decide(CLAIMS["R3.2"], halved(0.42)) == "not reproduced"
    assert decide(CLAIMS["R3.2"], halved(0.49, paper=0.55)) == "not reproduced"
    assert decide(CLAIMS["R3.2"], halved(0.49, noise=0.4)) == "undecided with these seeds"
    assert decide(CLAIMS["R3.2"], without(halved(0.49), eps=10.0)) == "cannot be tested here"
    assert decide(CLAIMS["R3.2"], without(halved(0.49), variant="paper")) == "cannot be tested here"


@pytest.mark.parametrize(
    ("seeds", "far", "decision"),
    [
        (20, 0, "undecided with these seeds"),  # the 95 % bound on the share is 0.05^(1/20) = 0.861
        (29, 0, "reproduced"),  # 0.902
        (100, 4, "reproduced"),
        (100, 5, "undecided with these seeds"),  # 0.897
        (100, 17, "not reproduced"),
    ],
)
def test_a_bound_is_kept_by_nine_in_ten(seeds, far, decision):
    """So many seeds lie above it in one draw."""
    grids = {"N": (100, 1000)}
    measured = made_up({"excess_N": {"gop": (0.3, 0.1)}}, grids, "excess_loss", shape=(seeds, 2), noise=1e-3)
    outside = (measured.rows["seed"] < far) & (measured.rows["draw"] == 1) & (measured.rows["N"] == 1000)
    measured.rows.loc[outside, "value"] = 0.6
    limit = made_up({"bound_N": {"gop": (0.5, 0.5)}}, grids, "bound", shape=(1, 1), noise=0.0)
    verdict = CLAIMS["R5.3"].judge(joined(measured, limit))
    assert verdict.decision == decision
    assert decide(CLAIMS["R5.3"], measured) == "cannot be tested here"
    if seeds == 20:
        assert "kept by 20 of 20 [0.861, 1]" in verdict.deciding["effect"]


@pytest.mark.parametrize(("off", "decision"), [(0.0, "reproduced"), (0.5, "not reproduced")])
def test_the_draws_of_gop_keep_their_bound(off, decision):
    gap = {f"{lam}_M": {"gop": (0.04, 0.04, 0.04)} for lam in ("noisy", "plain")}
    tables = [
        made_up(gap, GRIDS, metric, shape=(40, 5), noise=noise)
        for metric, noise in (("optimality_gap", 0.1), ("gap_bound", 0.0))
    ]
    found = joined(*tables)
    bound = found.rows["metric"] == "gap_bound"
    rows = found.rows.assign(value=found.rows["value"].where(~bound, 0.04 * (2 - 2 * off)))
    both = Evidence(pd.concat([rows.assign(eps=eps) for eps in (0.1, 0.2)]), found.published, found.axes)
    assert decide(CLAIMS["R1.B"], both) == decision
    assert decide(CLAIMS["R1.B"], without(both, metric="gap_bound")) == "cannot be tested here"
