"""Hamm 2016: every test of a claim both ways, on made-up rows whose verdict is known."""

import math

import pytest
from made_up import check_that_nothing_is_judged_without_what_it_needs, holding, joined, lacking, made_up

from dpml.reporting.cards import claims_of

CLAIMS = claims_of("hamm2016")
GRIDS = {"eps": [math.inf, 1000.0, 10.0, 1.0, 0.1]}
FITS = ("paper", "binary", "per_coordinate", "radial", "sum", "sum_per_coordinate", "sum_radial")
FLAT = {"batch": [0.9] * 5, "indiv": [0.5] * 5}


def rows(blocks, variant="paper", shape=(5, 4)):
    """Rows whose means are given by block and algorithm, one for every eps."""
    return made_up(blocks, GRIDS, "accuracy", variant, shape, noise=2e-4)


GOOD = FLAT | {name: [0.8, 0.8, 0.7, 0.5, 0.3] for name in ("soft", "avg", "vote")}
NEVER = FLAT | {name: [0.8] * 5 for name in ("soft", "avg", "vote")}

KDD = tuple(f"kdd{M}_eps" for M in (5000, 10000, 20000))


@pytest.mark.parametrize(
    ("means", "small"),
    [
        (GOOD, ["0", "0.001", "0.1", "1"]),
        (GOOD | {"vote": [0.8, 0.8, 0.7, 0.3, 0.3]}, ["0", "0.001", "0.1"]),
        (GOOD | {"avg": [0.8, 0.97, 0.7, 0.5, 0.3]}, ["0"]),
        (NEVER, []),
    ],
)
def test_between_depends_on_what_is_small(means, small):
    verdict = CLAIMS["H3.1"].judge(joined(rows({KDD[0]: GOOD, KDD[1]: GOOD, KDD[2]: means})))
    assert verdict.decision == {4: "reproduced", 0: "not reproduced"}.get(len(small), "depends on an unstated choice")
    if 0 < len(small) < 4:
        assert holding(verdict) == [f"small 1/eps: at most {x}" for x in small]


@pytest.mark.slow
def test_the_figures_are_judged_as_a_whole():
    url = GOOD | {"indiv": [0.4] * 5, "batch": [0.95] * 5}
    kdd = dict.fromkeys((f"kdd{M}_eps" for M in (5000, 10000, 20000)), GOOD)
    blocks = kdd | {f"url{M}_eps": url for M in (5000, 10000, 20000)} | {"har_eps": GOOD}
    claims = {name: CLAIMS[name] for name in ("H2.2", "H2.3", "H2.4", "H3.2", "H3.3", "H3.4", "H4.1")}
    check_that_nothing_is_judged_without_what_it_needs(claims, rows(blocks))
    few = {name: CLAIMS[name] for name in ("H3.1", "H4.2")}
    for block in ("kdd5000_eps", "url10000_eps"):
        less = rows({name: curves for name, curves in blocks.items() if name != block})
        assert block in lacking(few["H3.1" if block in kdd else "H4.2"].judge(less))
