"""Where nothing is proven, every table and figure says so, says why, and what would hold without the selection."""

import math
import re

import pandas as pd
import pytest
from harness import drawn, run

from dpml.reporting.curves import algorithms

TUNED = {
    "title": "Tuned",
    "source": "nobody, 2000",
    "settings": {
        "dataset": "synthetic",
        "dataset.recipe": "ball_sign",
        "dataset.d": 2,
        "M": 1,
        "N": 60,
        "draws": 2,
        "algo.rounds": 4,
    },
    "grid": {"a_eps": [{"algo": "wang", "algo.step_selection": ["oracle", "rule"], "eps": [0.5, 1.0]}]},
    "panels": [
        {"block": "a_eps", "x": "eps", "y": "accuracy", "curve": ["algo.step_selection"]},
        {"block": "a_eps", "x": "eps", "y": "conditional_eps", "curve": ["algo.step_selection"]},
    ],
    "reference": "wang",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    with drawn("svg"):
        assert run(folder, TUNED) == 0
    return folder / "mine"


def test_rows_say_why_and_what_would_hold(results) -> None:
    summary = pd.read_csv(results / "tiny.csv")
    oracle, rule = (summary[summary["algo.step_selection"] == tuned] for tuned in ("oracle", "rule"))
    assert len(oracle) == len(rule) > 0
    assert oracle["proven_eps"].map(math.isinf).all()
    assert set(oracle["not_proven"]) == {"selection by the private objective is not counted"}
    assert rule["not_proven"].isna().all()
    assert rule["conditional_eps"].isna().all()
    # the same noise, the same steps at most: what would hold is what holds by rule
    metric = summary["metric"] == "accuracy"
    pairs = summary[metric].pivot(index="eps", columns="algo.step_selection", values=["proven_eps", "conditional_eps"])
    assert pairs["conditional_eps", "oracle"].to_numpy() == pytest.approx(pairs["proven_eps", "rule"].to_numpy())


def test_the_page_has_a_line_for_it_and_the_reason(results) -> None:
    page = (results / "tiny.md").read_text("utf-8")
    assert "No ε is proven for wang: selection by the private objective is not counted." in page
    lines = [line for line in page.splitlines() if line.startswith("| Wang") and "release" in line]
    assert any("∞ | ∞" in line and "fixed beforehand" not in line for line in lines)
    assert any("release, if fixed beforehand" in line and "∞" not in line for line in lines)


def test_the_figure_says_so_and_draws_what_would_hold(results) -> None:
    picture = (results / "tiny.svg").read_text("utf-8")
    text = " ".join(re.findall(r">([^<>]+)</text>", picture))
    page = (results / "tiny.md").read_text("utf-8")
    assert "No ε is proven for Wang (central): selection by the private objective is not counted." in page
    assert "ε, if fixed beforehand" in text
    assert "claimed" in text  # the line that they are compared with


def test_a_variant_is_named_where_the_papers_own_algorithm_is_not_meant() -> None:
    rows = pd.DataFrame({"algo": ["soft", "soft", "wang"], "variant": ["radial", "radial", "paper"]})
    assert algorithms(rows) == ["soft radial", "wang"]
