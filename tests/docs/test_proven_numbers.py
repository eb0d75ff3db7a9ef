"""Proven numbers in the sentences of pages are what `dpml guarantee` computes, rounded up."""

import json
from pathlib import Path

import pytest

from dpml.privacy.safe import written

PAGES = Path(__file__).parents[2] / "docs" / "privacy"
WDDP = "algo=wddp calibration=published dataset=adult M=32 N=45222 d=104 eps=0.25 delta=1e-3"
PSGD = "algo=psgd algo.lam=1 M=5 N=1000 d=10"
RANDOM = "partition=simplex partition.floor=100"


@pytest.mark.parametrize(
    ("page", "words", "said"),
    [
        ("kang2019", WDDP, "is {client} ({release}) with equal sizes"),
        ("kang2019", f"{WDDP} partition=two_group partition.u=9", "{client} ({release}) with $u = 9$"),
        ("kang2019", f"{WDDP} {RANDOM}", "{client} ({release}) with random sizes"),
        ("kang2019", f"{WDDP} {RANDOM} seed=1", "{client} ({release}) with `seed=1`"),
        (
            "rajkumar2012",
            f"{PSGD} eps=0.1 delta=0.05",
            "is {release} for `release` and `aggregate`, {colluders} for colluders, {client} for a client",
        ),
        ("rajkumar2012", f"{PSGD} eps=1 delta=1e-5", "{release}, {colluders}, {client}"),
    ],
)
def test_a_sentence_says_what_is_computed(run_command, page, words, said) -> None:
    found = json.loads(run_command("dpml", "guarantee", *words.split(), "--json").out)
    eps = {each["view"]: written(each["eps"], 3) for each in found if each["basis"] == "proven"}
    assert said.format(**eps) in (PAGES / f"{page}.md").read_text(encoding="utf-8")
