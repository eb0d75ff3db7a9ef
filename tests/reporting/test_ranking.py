"""Which algorithm when: on made-up rows, who competes, who wins, and who cannot be told from the winner."""

import json

import numpy as np
import pandas as pd
import pytest
from harness import MADE, made_rows, run, without_pictures
from scipy.stats import binom

from dpml.errors import UserError
from dpml.reporting import ranking as module
from dpml.reporting.artifacts import write_claims
from dpml.reporting.ranking import (
    beside,
    best_at,
    oracle_table,
    rankings,
)
from dpml.reporting.statistics import summarise
from dpml.running.plan import Results
from dpml.running.spec import Experiment, Oracle, Panel

POINTS = pd.DataFrame(columns=["series", "x", "algo", "metric", "mean", "std", "n", "peer"])
NOISE = np.random.default_rng(0).normal(0, 1, (5, 2))


def runs(algo, mean, spread=0.001, **columns):
    """Five seeds of two draws each; the seeds' own part is shared by all algorithms."""
    own = np.random.default_rng(len(algo)).normal(0, spread, (5, 2))
    about = {"M": 1, "metric": "accuracy", "calibration": "tight", "algo": algo}
    return made_rows(mean + 0.02 * NOISE + own, **about | columns).to_dict("records")


def guaranteed(algo, views=("release",), sums=np.nan, **columns):
    about = {key: MADE[key] for key in ("block", "dataset", "partition", "variant", "loss", "unit")}
    about |= {"calibration": "tight", "M": 1, "algo": algo, "basis": "proven", "budget_eps": 1.0, "eps": 1.0}
    return [about | {"view": view, "secure_sums": sums} | columns for view in views]


def ranked(rows, guarantees, metric="accuracy", points=POINTS, published=None):
    panel = Panel("a", "eps", metric, title="A", published=published)
    experiment = Experiment("mine/a", "T", "S", grid={"a": {}}, panels=[panel], rank_by=[metric])
    results = Results(experiment, pd.DataFrame(rows), pd.DataFrame(guarantees), published=points)
    (found,) = rankings(results)
    return found


def test_the_best_is_named_with_those_that_are_not_significantly_worse():
    rows = (
        runs("first", 0.82) + runs("second", 0.8199) + runs("third", 0.80) + runs("constant", 0.75, proven_eps=np.inf)
    )
    rows += runs("constant", 0.75, proven_eps=np.inf) + runs("ceiling", 0.85, proven_eps=np.inf)
    guarantees = guaranteed("first", sums=300) + guaranteed("second", sums=1) + guaranteed("third", sums=1)
    (choice,) = ranked(rows, guarantees)["choices"]
    assert choice["best"] in ("first", "second")
    assert [name for name, _ in choice["alike"]] == [({"first", "second"} - {choice["best"]}).pop()]
    assert choice["above_floor"]
    assert (choice["floor"], choice["ceiling"]) == pytest.approx((0.75, 0.85), abs=0.02)
    json.dumps(choice)  # plain values


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"proven_eps": 1.01}, "more than was asked for is proven"),
        ({"proven_eps": np.inf}, "nothing is proven"),
        ({"unit": "other"}, "another unit"),
        ({"M": 32}, "one trusted place among several parties"),
    ],
)
def test_what_does_not_keep_the_promise_does_not_compete(change, reason):
    rows = runs("good", 0.80, **({"M": 32} if "M" in change else {})) + runs("better", 0.90, **change)
    views = ("release", "colluders") if "M" in change else ("release",)
    several = {"M": 32} if "M" in change else {}
    found = ranked(rows, guaranteed("good", views, 1, **several) + guaranteed("better", **several))
    assert [choice["best"] for choice in found["choices"]] == ["good"], reason


def test_of_an_error_less_is_better_and_a_floor_can_be_below():
    rows = runs("small", 0.2) + runs("large", 0.3) + runs("constant", 0.15, proven_eps=np.inf)
    rows = [row | {"metric": "rmse"} for row in rows]
    (choice,) = ranked(rows, guaranteed("small") + guaranteed("large"), "rmse")["choices"]
    assert (choice["best"], choice["alike"], choice["above_floor"]) == ("small", [], False)


def test_the_answer_at_one_eps_is_who_is_among_the_best_most_often():
    def panel(best, alike, above=True):
        choice = {"eps": 1.0, "best": best, "alike": [[name, 0.5] for name in alike], "above_floor": above}
        return {"choices": [choice, choice | {"eps": 2.0, "best": "other", "alike": []}]}

    rankings = [panel("a x=1", ["b", "a x=2"]), panel("b", []), panel("a", []), panel("a", [], above=False)]
    assert best_at(rankings, 1.0) == "**a** or **b** (on 2 of 4 panels)"
    assert best_at(rankings, 3.0) == ""


@pytest.mark.slow
@pytest.mark.parametrize("equal", [2, 12])
def test_how_often_an_equal_algorithm_is_told_apart_is_as_the_page_says(equal, monkeypatch):
    """False alarms of this test: 1e-6 for either bound."""
    rng, repeats = np.random.default_rng(7), 300
    monkeypatch.setattr(module, "summarise", lambda _: pd.DataFrame({"interval": [0.0]}))  # slow, and not in question
    about = {"eps": 1.0, "proven_eps": 1.0, "draw": 0, "seed": range(5)}
    one = some = 0
    for _ in range(repeats):
        values = rng.normal(0.8, 0.01, (5, 1)) + rng.normal(0, 0.01, (5, equal))
        competing = {str(k): (pd.DataFrame(about | {"value": column}), None) for k, column in enumerate(values.T)}
        choice = module._choice(1.0, "accuracy", competing, {})
        apart = set(choice["means"]) - {choice["best"]} - {name for name, _ in choice["alike"]}
        one, some = one + ("0" in apart), some + bool(apart)
    assert one <= binom.isf(1e-6, repeats, 0.05)
    assert some > (binom.isf(1e-6, repeats, 0.05) if equal == 12 else one)


def test_settings_of_one_algorithm_compete_apart():
    rows = runs("gop", 0.80, **{"algo.shift": 0.0}) + runs("gop", 0.83, **{"algo.shift": 2.0})
    guarantees = [one | {"algo.shift": shift} for shift in (0.0, 2.0) for one in guaranteed("gop")]
    found = ranked(rows, guarantees)
    assert found["choices"][0]["best"] == "gop algo.shift=2"
    assert set(found["competing"]) == {"gop algo.shift=0", "gop algo.shift=2"}


def test_own_means_are_counted_beside_those_of_others_by_eps_and_an_error_is_better_if_it_is_less():
    def panel(metric, *choices):
        keys = ("eps", "means", "peers")
        return {"metric": metric, "choices": [dict(zip(keys, one, strict=True)) for one in choices]}

    found = beside(
        [
            panel("accuracy", (0.1, {"mine": 0.6}, {"a": 0.7, "b": 0.6}), (1.0, {"mine": 0.9}, {"a": 0.7})),
            panel("auc", (1.0, {"mine": 0.8}, {"a": 0.9}), (4.0, {"else": 0.8}, {"a": 0.7})),
            panel("rmse", (1.0, {"mine": 0.2}, {"a": 0.3})),
        ],
        "mine",
    )
    assert found["columns"] == ["program", "ε = 0.1", "ε = 1"]
    assert found["rows"] == [["a", "0 of 1", "2 of 3"], ["b", "0 of 1", ""]]  # b is as good: not better


def test_an_oracle_stands_beside_the_rule_with_what_it_chose():
    by_rule = runs("a", 0.80, **{"algo.clip": 0.1}) + runs("b", 0.85, **{"algo.clip": 0.1})
    grid = [
        row | {"block": "grid"}
        for clip, mean in ((0.2, 0.82), (0.3, 0.81))
        for row in runs("a", mean, **{"algo.clip": clip}) + runs("b", mean, **{"algo.clip": clip})
    ]
    table = oracle_table(Oracle("a", "grid", "accuracy"), summarise(pd.DataFrame(by_rule + grid)))
    first, second = table.to_dict("records")
    assert (first["algorithm"], first["the oracle's choice"], first["of"]) == ("a", "algo.clip=0.2", 3)
    assert float(first["worth"]) == pytest.approx(0.02, abs=0.002)
    assert (second["worth"], second["the oracle's choice"]) == ("0", "the rule")


TINY = {
    "title": "Which",
    "source": "nobody, 2000",
    "settings": {"dataset": "synthetic", "dataset.recipe": "ball_sign", "dataset.d": 2, "calibration": "tight"},
    "grid": {
        "a": {"algo": ["constant", "ceiling", "fm", "objpert"], "N": 60, "seed": [0, 1], "eps": [1, 2], "M": 1},
        "b": {"algo": ["capefm", "fm"], "N": 60, "seed": [0, 1], "eps": [1, 2], "M": 5},
        "grid": {"algo": "objpert", "algo.lam": [0.001, 0.1], "N": 60, "seed": [0, 1], "eps": [1, 2], "M": 1},
    },
    "panels": [
        {"block": "a", "x": "eps", "y": "accuracy", "title": "one", "thin": ["fm"]},
        {"block": "b", "x": "eps", "y": "accuracy", "title": "five"},
    ],
    "rank_by": ["accuracy"],
    "oracle": {"rule": "a", "grid": "grid", "metric": "accuracy"},
    "twins": False,
}


@pytest.fixture(scope="module")
def ranking(tmp_path_factory):
    results = tmp_path_factory.mktemp("ranking")
    with without_pictures():
        assert run(results, TINY) == 0
    return results


def test_an_experiment_that_ranks_writes_the_page_of_its_folder(ranking):
    assert "| five: test accuracy | " in (ranking / "mine" / "which.md").read_text("utf-8")
    competing = {one["title"]: set(one["competing"]) for one in manifest(ranking)["rankings"]}
    assert {name.split()[0] for name in competing["one"]} == {"fm", "objpert"}
    assert {name.split()[0] for name in competing["five"]} == {"capefm"}  # fm needs one trusted place
    assert "by an oracle (not private)" in (ranking / "mine" / "tiny.md").read_text("utf-8")
    assert write_claims(ranking) == []


def manifest(results):
    return json.loads((results / "mine" / "tiny.json").read_text("utf-8"))


def test_an_oracle_of_blocks_that_are_not_there_is_refused():
    content = {key: value for key, value in TINY.items() if key != "oracle"}
    with pytest.raises(UserError, match="'grit'"):
        Experiment.from_content("mine/a", content | {"oracle": {"rule": "a", "grid": "grit", "metric": "accuracy"}})
