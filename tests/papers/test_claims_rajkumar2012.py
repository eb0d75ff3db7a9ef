"""Rajkumar 2012: every test of a claim both ways, on made-up rows whose verdict is known."""

import pandas as pd
import pytest
from made_up import check_that_nothing_is_judged_without_what_it_needs, decide, joined, made_up, without

from dpml.reporting.judging import Evidence, claims_of

CLAIMS = claims_of("dpml.papers.rajkumar2012.claims")
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
        ("R1.3", shares((0.3, 0.1, 0.1), axis="M"), "reproduced"),
        ("R1.3", shares((0.1, 0.3, 0.3), axis="M"), "not reproduced"),
        ("R2.4", shares((0.3, 0.4, 0.5)), "reproduced"),
        ("R2.4", shares((0.5, 0.4, 0.3)), "not reproduced"),
        ("R2.4", shares((0.3, 0.4, 0.5), gop=(0.2, 0.2, 0.3)), "not reproduced"),
        ("R2.4", shares((0.3, 0.4, 0.5), psgd=(0.2, 0.24, 0.2)), "reproduced"),
    ],
)
def test_claims(claim, found, decision):
    assert decide(CLAIMS[claim], found) == decision


@pytest.mark.parametrize(("psgd", "decision"), [(0.23, "reproduced"), (0.27, "not reproduced")])
def test_similar_at_every_x_of_all_panels(psgd, decision):
    level = shares(LEVEL, axis="M")
    assert decide(CLAIMS["R2.2"], joined(level, shares(LEVEL, psgd=(psgd, 0.2, 0.2)))) == decision
    assert decide(CLAIMS["R2.2"], level) == "cannot be tested here"  # half of the panels


def test_a_rise_is_seen_through_the_differences_of_data_sets():
    """Data sets are the seeds: how hard they are cancels, and their draws are no further data sets."""
    rising = shares((0.30, 0.31, 0.32), axis="M", hard=0.3, noise=1e-3)
    assert decide(CLAIMS["R1.1"], rising) == "reproduced"
    # la rises in two data sets and falls in three, by as much in every draw
    rows = shares(LEVEL, axis="M", noise=1e-3, shape=(5, 20)).rows
    rows["value"] += 0.001 * rows["M"] * rows["seed"].map({0: 3, 1: 3, 2: -1, 3: -1, 4: -1})
    verdict = CLAIMS["R1.1"].judge(Evidence(rows, rising.published, rising.axes))
    assert verdict.decision == "undecided with these seeds"
    assert verdict.needed > 5
    # in a hundred data sets that do not differ, a rise of 0.01 is ruled out
    assert decide(CLAIMS["R1.1"], shares(LEVEL, axis="M", shape=(100, 1))) == "not reproduced"


def test_the_two_choices_of_lam_are_two_readings():
    tuned = shares((0.1, 0.3, 0.3), axis="M", readings=("noisy",))
    plain = shares((0.3, 0.3, 0.3), axis="M", readings=("plain",))
    verdict = CLAIMS["R1.3"].judge(joined(tuned, plain))
    assert verdict.decision == "depends on an unstated choice"
    assert verdict.numbers.startswith("holds only for [plain]: ")
    assert decide(CLAIMS["R1.3"], plain) == "cannot be tested here"


def test_a_figure_is_judged_as_a_whole():
    whole = joined(shares((0.3, 0.4, 0.5), axis="M"), shares((0.3, 0.4, 0.5)))
    claims = {name: claim for name, claim in CLAIMS.items() if name.startswith("R1")}
    check_that_nothing_is_judged_without_what_it_needs(claims, whole)
    verdict = CLAIMS["R1.1"].judge(without(whole, eps=0.2))
    assert verdict.numbers == "not computed: [noisy] noisy_M at eps = 0.2; [plain] plain_M at eps = 0.2"
