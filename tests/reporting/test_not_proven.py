"""Where nothing is proven, every table and figure says so, says why, and what would hold without the selection."""

import math
import re

import pandas as pd
import pytest
from harness import drawn, run

SETTINGS = {"dataset": "synthetic", "dataset.recipe": "ball_sign", "dataset.d": 2, "M": 1, "N": 60, "draws": 2}
CURVES = {"block": "a_eps", "x": "eps", "curve": ["algo.step_selection"]}
TUNED = {
    "title": "Tuned",
    "source": "nobody, 2000",
    "settings": SETTINGS | {"algo": "wang", "algo.rounds": 4},
    "grid": {"a_eps": {"algo.step_selection": ["oracle", "rule"], "eps": [0.5, 1.0]}},
    "panels": [CURVES | {"y": "accuracy"}, CURVES | {"y": "conditional_eps"}],
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


def test_page_and_figure_say_so_and_show_what_would_hold(results) -> None:
    page, picture = ((results / name).read_text("utf-8") for name in ("tiny.md", "tiny.svg"))
    assert page.count("No ε is proven for Wang (central). Reason: hyper-parameters were selected by the objective") == 2
    assert re.search(r"release, if fixed beforehand[^∞\n]*\n", page)
    assert "ε, if fixed beforehand" in " ".join(re.findall(r">([^<>]+)</text>", picture))
