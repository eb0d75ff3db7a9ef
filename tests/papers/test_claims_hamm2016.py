"""Hamm 2016: the claims' tests on made-up rows with a known answer."""

import math

import numpy as np
import pandas as pd
import pytest

from dpml.papers import CLAIMS
from dpml.reporting.judging import Evidence

EPS = [math.inf, 1000.0, 10.0, 1.0, 0.1]
NO_POINTS = pd.DataFrame(columns=["series", "x", "algo", "metric", "mean", "std", "n"])
FLAT = {"batch": [0.9] * 5, "indiv": [0.5] * 5}


def rows(blocks, variant="paper", seeds=5, draws=4):
    """Rows whose means are given by block and algorithm, one for every eps; indiv and batch do not vary by draw."""
    rng = np.random.default_rng(0)
    lines = []
    for block, means in blocks.items():
        for algo, line in means.items():
            still = algo in ("batch", "indiv")
            for seed in range(seeds):
                offset = 1e-4 * rng.standard_normal()
                for draw in range(1 if still else draws):
                    for eps, mean in zip(EPS, line, strict=True):
                        value = mean + offset + (0 if still else 1e-4 * rng.standard_normal())
                        lines.append((block, algo, variant, "accuracy", seed, draw, eps, value))
    return pd.DataFrame(lines, columns=["block", "algo", "variant", "metric", "seed", "draw", "eps", "value"])


def decide(name, *tables):
    return CLAIMS[name].judge(Evidence(pd.concat(tables), NO_POINTS)).decision


@pytest.mark.parametrize(
    ("name", "means", "holds"),
    [
        ("H2.1", {"batch": [0.86] * 5, "indiv": [0.43] * 5}, True),
        ("H2.1", {"batch": [0.84] * 5, "indiv": [0.47] * 5}, False),
        ("H2.2", {"vote": [0.75, 0, 0, 0, 0], "soft": [0.80, 0, 0, 0, 0], "avg": [0.65, 0, 0, 0, 0]}, True),
        ("H2.2", {"vote": [0.79, 0, 0, 0, 0], "soft": [0.76, 0, 0, 0, 0], "avg": [0.73, 0, 0, 0, 0]}, False),
        ("H2.3", FLAT | {"vote": [0.8, 0.7, 0.4, 0.2, 0.2]}, True),
        ("H2.3", FLAT | {"vote": [0.8, 0.7, 0.6, 0.2, 0.2]}, False),
        ("H2.4", FLAT | {"soft": [0.8, 0.8, 0.7, 0.6, 0.2], "avg": [0.8, 0.8, 0.7, 0.55, 0.2]}, True),
        ("H2.4", FLAT | {"soft": [0.8, 0.8, 0.7, 0.6, 0.2], "avg": [0.8, 0.8, 0.7, 0.5, 0.2]}, False),
    ],
)
def test_har(name, means, holds):
    assert decide(name, rows({"har_eps": means})) == ("reproduced" if holds else "not reproduced")


GOOD = FLAT | {name: [0.8, 0.8, 0.7, 0.5, 0.3] for name in ("soft", "avg", "vote")}
LOST = FLAT | {name: [0.8, 0.4, 0.3, 0.3, 0.3] for name in ("soft", "avg", "vote")}
NEVER = FLAT | {name: [0.8] * 5 for name in ("soft", "avg", "vote")}
ABOVE = FLAT | {name: [0.93, 0.8, 0.7, 0.5, 0.3] for name in ("soft", "avg", "vote")}


@pytest.mark.parametrize(("means", "holds"), [(GOOD, True), (LOST, False), (NEVER, False), (ABOVE, False)])
def test_between(means, holds):
    blocks = {f"kdd{M}_eps": GOOD for M in (5000, 10000)} | {"kdd20000_eps": means}
    assert decide("H3.1", rows(blocks)) == ("reproduced" if holds else "not reproduced")


@pytest.mark.parametrize(
    ("soft", "holds"),
    [([0.8, 0.8, 0.8, 0.6, 0.3], True), ([0.8, 0.8, 0.7, 0.5, 0.3], False), ([0.8, 0.7, 0.8, 0.6, 0.3], False)],
)
def test_more_parties_hold_longer(soft, holds):
    better = GOOD | {"soft": soft, "avg": [0.8, 0.8, 0.75, 0.6, 0.3]}
    found = decide("H3.2", rows({"kdd5000_eps": GOOD, "kdd20000_eps": better}))
    assert found == ("reproduced" if holds else "not reproduced")


@pytest.mark.parametrize(
    ("soft", "holds"), [([0.9, 0.9, 0.88, 0.87, 0.86], True), ([0.9, 0.9, 0.88, 0.87, 0.84], False)]
)
def test_nearly_batch(soft, holds):
    blocks = {"kdd20000_eps": FLAT | {"soft": soft}}
    assert decide("H3.3", rows(blocks)) == ("reproduced" if holds else "not reproduced")
    # by reading: holds for one, not for the other
    other = rows({"kdd20000_eps": FLAT | {"soft": [0.9, 0.5, 0.5, 0.5, 0.5]}}, "radial")
    assert decide("H3.3n", rows(blocks), other) == ("depends on an unstated choice" if holds else "not reproduced")


@pytest.mark.parametrize(("low", "holds"), [(0.7, True), (0.8, False), (0.85, False)])
def test_a_wider_gap_than_on_kdd(low, holds):
    url = FLAT | {name: [low, 0.5, 0.4, 0.3, 0.3] for name in ("soft", "avg", "vote")} | {"indiv": [0.4] * 5}
    blocks = {f"kdd{M}_eps": GOOD for M in (5000, 10000, 20000)} | {f"url{M}_eps": url for M in (5000, 10000, 20000)}
    assert decide("H4.1", rows(blocks)) == ("reproduced" if holds else "not reproduced")


def test_another_lam_is_enough():
    low = FLAT | {"soft": [0.8, 0.4, 0.3, 0.3, 0.3], "avg": [0.8, 0.4, 0.3, 0.3, 0.3]}
    high = FLAT | {"soft": [0.8, 0.8, 0.7, 0.6, 0.3], "avg": [0.8, 0.8, 0.7, 0.6, 0.3]}
    assert decide("H2.4l", rows({"har_lam1e-3_eps": low, "har_lam1e-2_eps": low})) == "not reproduced"
    assert decide("H2.4l", rows({"har_lam1e-3_eps": low, "har_lam1e-2_eps": high})) == "reproduced"
