"""Verdicts follow from rows: made-up rows with a known answer, and every claim of the shipped experiments."""

import numpy as np
import pandas as pd
import pytest

from dpml.papers import CLAIMS
from dpml.papers.imtiaz2019.claims import OURS, PLOTTED, TRUE, reaches
from dpml.reporting import judging
from dpml.reporting.judging import Claim, Evidence

EPS = [0.1, 1.0, 10.0]
NO_POINTS = pd.DataFrame(columns=["series", "x", "algo", "metric", "mean", "std", "n"])


def evidence(means, readings=(TRUE,), spread=0.01, seeds=5, block="d20_eps", points=NO_POINTS):
    """Rows whose means over runs are `means` (algorithm -> one per eps), up to `spread`."""
    rng = np.random.default_rng(0)
    lines = [
        {"block": block, "algo": algo, "variant": reading.variant, "metric": reading.metric, "seed": seed, "draw": draw,
         block.split("_")[-1]: x, "value": mean * (1 + spread * rng.standard_normal())}
        for reading in readings for algo, per_eps in means.items()
        for x, mean in zip(EPS, per_eps, strict=True) for seed in range(seeds) for draw in range(4)
    ]  # fmt: skip
    return Evidence(pd.DataFrame(lines), points)


def decide(test, found, readings=(TRUE,)):
    return Claim("X", "x/x", "text", "criterion", test, readings).judge(found).decision


@pytest.mark.parametrize(
    ("means", "decision"),
    [
        ([3, 2, 1], "reproduced"),
        ([1, 2, 3], "not reproduced"),
        ([3, 1, 2], "not reproduced"),
        ([2, 2, 2], "not reproduced"),
    ],
)
def test_falls(means, decision):
    found = evidence(dict.fromkeys(("capefm", "conv", "local"), means))
    assert decide(judging.falls(["d20_eps"], OURS), found) == decision


@pytest.mark.parametrize(
    ("other", "decision"),
    [
        ([3, 3, 3], "reproduced"),
        ([2, 3, 3], "reproduced"),
        ([2, 2, 3], "not reproduced"),
        ([1, 3, 3], "not reproduced"),
    ],
)
@pytest.mark.parametrize("seeds", [1, 5])
def test_beats(other, decision, seeds):
    found = evidence({"capefm": [2, 2, 2], "conv": other}, seeds=seeds)
    assert decide(judging.beats(["d20_eps"], "capefm", ["conv"]), found) == decision


@pytest.mark.parametrize(("last", "decision"), [(1.04, "reproduced"), (2.0, "not reproduced")])
def test_reaches(last, decision):
    found = evidence({"capefm": [9, 5, last], "nonpriv": [1, 1, 1]}, spread=1e-6)
    assert decide(reaches(["d20_eps"]), found) == decision


def test_weak_and_agreement_are_within_a_factor_of_two():
    about = {"series": "s", "algo": "capefm", "metric": "noisy_objective", "std": 0, "n": 1}
    points = pd.DataFrame([about | {"x": x, "mean": -m} for x, m in zip(EPS, [4.1, 2, 1.1], strict=True)])
    found = evidence({"capefm": [-3, -2, -1.6]}, (PLOTTED,), points=points)
    assert decide(judging.weak(["d20_eps"], ["capefm"]), found, (PLOTTED,)) == "reproduced"
    assert decide(judging.agrees({"d20_eps": "s"}, OURS), found, (PLOTTED,)) == "reproduced"
    far = Evidence(found.rows, points.assign(mean=points["mean"] * 3))
    assert decide(judging.agrees({"d20_eps": "s"}, OURS), far, (PLOTTED,)) == "not reproduced"


def test_readings_that_disagree_are_the_verdict():
    down = evidence({"capefm": [3, 2, 1]}, (PLOTTED,)).rows
    up = evidence({"capefm": [1, 2, 3]}, (TRUE,)).rows
    verdict = Claim("X", "x/x", "", "", judging.falls(["d20_eps"], OURS), (PLOTTED, TRUE)).judge(
        Evidence(pd.concat([down, up]), NO_POINTS)
    )
    assert verdict.decision == "depends on an unstated choice"
    assert verdict.numbers.startswith("holds only if read as plotted: [plotted] capefm d20_eps 2.99 to 1; [true]")


def test_without_rows_it_cannot_be_tested():
    rows = evidence({"capefm": [1, 2, 3]}, block="other_eps").rows
    nothing = Evidence(rows.assign(N=1, delta=1, M=1, partition="equal"), NO_POINTS)
    assert {claim.judge(nothing).decision for claim in CLAIMS.values()} == {"cannot be tested here"}


def test_holm_stops_at_the_first_that_is_not_significant():
    assert judging.holm({"a": 0.001, "b": 0.03, "c": 0.02}) == {"a": True, "b": True, "c": True}
    assert judging.holm({"a": 0.001, "b": 0.04, "c": 0.03}) == {"a": True, "b": False, "c": False}


def shares(la, psgd=(0.2, 0.2, 0.2), gop=(0.2, 0.2, 0.2), axis="partition"):
    """Rows of a figure of Rajkumar & Agarwal whose mean errors over share vectors (or M) are these, at both eps."""
    rng = np.random.default_rng(1)
    places = {"partition": ("0.5/0.5", "0.1/0.9", "0.01/0.99"), "M": (5, 10, 15)}[axis]
    lines = [
        {"block": f"{lam}_{axis}", "algo": algo, "variant": "paper", "metric": "error", "seed": seed, "draw": draw,
         "eps": eps, "M": 5, "partition": "equal", axis: x, "value": mean + 0.01 * rng.standard_normal()}
        for lam in ("noisy", "plain") for algo, means in {"la": la, "psgd": psgd, "gop": gop}.items()
        for x, mean in zip(places, means, strict=True) for eps in (0.1, 0.2) for seed in range(5) for draw in range(4)
    ]  # fmt: skip
    return Evidence(pd.DataFrame(lines), NO_POINTS)


@pytest.mark.parametrize(
    ("claim", "found", "decision"),
    [
        ("R1.1", shares((0.3, 0.4, 0.5), axis="M"), "reproduced"),
        ("R1.1", shares((0.5, 0.4, 0.3), axis="M"), "not reproduced"),
        ("R1.1", shares((0.3, 0.5, 0.4), axis="M"), "not reproduced"),
        ("R2.2", shares((0.3, 0.3, 0.3), psgd=(0.23, 0.2, 0.2)), "reproduced"),
        ("R2.2", shares((0.3, 0.3, 0.3), psgd=(0.27, 0.2, 0.2)), "not reproduced"),
        ("R1.3", shares((0.3, 0.1, 0.1), axis="M"), "reproduced"),
        ("R1.3", shares((0.1, 0.3, 0.3), axis="M"), "not reproduced"),
        ("R2.4", shares((0.3, 0.4, 0.5)), "reproduced"),
        ("R2.4", shares((0.5, 0.4, 0.3)), "not reproduced"),
        ("R2.4", shares((0.3, 0.4, 0.5), gop=(0.2, 0.2, 0.3)), "not reproduced"),
    ],
)
def test_claims_of_rajkumar_and_agarwal(claim, found, decision):
    assert CLAIMS[claim].judge(found).decision == decision


def test_the_two_choices_of_lam_are_two_readings():
    tuned, plain = shares((0.1, 0.3, 0.3), axis="M").rows, shares((0.3, 0.3, 0.3), axis="M").rows
    rows = pd.concat([tuned[tuned["block"] == "noisy_M"], plain[plain["block"] == "plain_M"]])
    verdict = CLAIMS["R1.3"].judge(Evidence(rows, NO_POINTS))
    assert verdict.decision == "depends on an unstated choice"
    assert verdict.numbers.startswith("holds only if read as plain: ")
