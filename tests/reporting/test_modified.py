"""Modified experiments: what may be overridden, and titles and published points that stay true."""

from dataclasses import replace

import pytest
from harness import TINY, jobs

from dpml.errors import UserError
from dpml.reporting.modified import only_block, refuse_ambiguous
from dpml.running.spec import Experiment

EXPERIMENT = Experiment.from_content("mine/tiny", TINY)
PUBLISHED = TINY | {
    "title": "Two parties (M = {M})",
    "panels": [
        {"block": "a_eps", "x": "eps", "y": "loss", "title": "N = {N}, M = {M}", "published": "synth20_eps"},
        {"block": "a_N", "x": "N", "y": "loss", "title": "ε = {eps}, T = {T}"},
    ],
}


def modified(tmp_path, *words):
    (job,) = jobs(tmp_path, PUBLISHED, words, "imtiaz2019/tiny")
    experiment = job.publication.experiment
    return experiment.title, [(panel.title, panel.published) for panel in experiment.panels]


def test_titles_and_published_points_follow_the_settings(tmp_path):
    usual = [("N = 200, M = 2", "synth20_eps"), ("ε = 1", None)]
    assert modified(tmp_path) == ("Two parties (M = 2)", usual)
    assert modified(tmp_path, "M=5") == ("Two parties (M = 5)", [("N = 200, M = 5", None), ("ε = 1", None)])
    assert modified(tmp_path, "draws=2") == ("Two parties (M = 2)", usual)
    assert modified(tmp_path, "block=a_eps", "eps=[0.1,2]") == ("Two parties (M = 2)", usual[:1])
    assert modified(tmp_path, "block=a_eps", "N=50")[1] == [("N = 50, M = 2", None)]


def test_another_data_set_takes_the_place_of_a_figures(tmp_path):
    """The keys of the figure's own data set are not those of another one."""
    titled = PUBLISHED | {"title": "{dataset}, d = {d}: loss"}
    (job,) = jobs(tmp_path, titled, ["dataset=diabetes"], "imtiaz2019/tiny")
    assert job.publication.experiment.title == "Progression of diabetes"
    assert all(point.cell for point in job.task.points)


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
    with pytest.raises(UserError, match=r"nothing of experiment=mine/tiny can be computed here: .*algo\.bins"):
        jobs(tmp_path, TINY | {"settings": TINY["settings"] | {"algo.bins": 3}}, [])
    with pytest.raises(UserError, match="draws=3 has no effect on experiment=mine/tiny"):
        jobs(tmp_path, TINY, ["draws=3"])
