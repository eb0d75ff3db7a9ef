"""Modified experiments: what may be overridden, and titles and published points that stay true."""

from dataclasses import replace

import pandas as pd
import pytest
from harness import TINY, plan, run

from dpml.errors import UserError
from dpml.reporting.charts import only_block, refuse_ambiguous, titled
from dpml.running.spec import Experiment

EXPERIMENT = Experiment.from_content("mine/tiny", TINY)
PUBLISHED = TINY | {
    "title": "Two parties ({M})",
    "panels": [
        {"block": "a_eps", "x": "eps", "y": "loss", "title": "{dataset}, {N}, {M}", "published": "synth20_eps"},
        {"block": "a_N", "x": "N", "y": "loss", "title": "{eps}, {algo.lam}"},
    ],
}


def test_titles_have_the_settings_of_the_rows():
    columns = ["block", "dataset", "algo", "eps", "N", "M", "algo.lam"]
    lines = [("a_eps", "adult", "capefm", eps, 20000, 5, 0.1) for eps in (1.0, 2.0)]
    lines += [("a_N", "adult", algo, 1e-3, N, 5, 0.1) for N in (10, 20) for algo in ("fm", "conv")]
    found = titled(Experiment.from_content("mine/tiny", PUBLISHED), pd.DataFrame(lines, columns=columns))
    assert found.title == "Two parties (M = 5)"
    assert [panel.title for panel in found.panels] == ["Adult, N = 20,000, M = 5", "ε = 0.001, λ = 0.1"]


@pytest.mark.parametrize(
    ("words", "published", "judged"),
    [
        ((), ["synth20_eps", None], True),
        (("draws=2",), ["synth20_eps", None], True),
        (("M=5",), [None, None], False),
        (("block=a_eps", "eps=[0.1,2]"), ["synth20_eps"], False),
        (("block=a_eps", "N=50"), [None], False),
        (("block=a_eps",), ["synth20_eps"], True),
    ],
)
def test_published_points_and_claims_are_about_the_papers_own_settings(tmp_path, words, published, judged):
    experiment = plan(tmp_path, PUBLISHED, words, "imtiaz2019/tiny").experiment
    assert ([panel.published for panel in experiment.panels], experiment.judged) == (published, judged)


def test_a_key_of_some_blocks_needs_the_name_of_one():
    refuse_ambiguous(EXPERIMENT, ["M", "draws", "seed", "calibration"])
    for key in ("eps", "N"):
        with pytest.raises(UserError, match=rf"{key} differs between the blocks .*block=a_eps \(a_eps, a_N\)"):
            refuse_ambiguous(EXPERIMENT, [key])
    one = only_block(EXPERIMENT, "a_N")
    assert (list(one.grid), [panel.block for panel in one.panels]) == (["a_N"], ["a_N"])
    refuse_ambiguous(one, ["eps", "N"])
    assert only_block(EXPERIMENT, None) is EXPERIMENT
    with pytest.raises(UserError, match="unknown block 'a_M'"):
        only_block(replace(EXPERIMENT), "a_M")


def test_an_experiment_without_any_cell_says_why(tmp_path):
    with pytest.raises(UserError, match=r"experiment=mine/tiny .*algo\.bins"):
        run(tmp_path, TINY | {"settings": TINY["settings"] | {"algo.bins": 3}})


def test_another_data_set_takes_the_place_of_a_figures(tmp_path):
    points = plan(tmp_path, TINY, ["dataset=diabetes"]).points
    assert {point.cell.dataset.info.title for point in points} == {"Progression of diabetes"}
