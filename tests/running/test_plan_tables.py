"""The tables of a plan: the cells' tables, joined some at a time."""

import hydra
import pandas as pd
import pytest
from quick import quick_first

from dpml.config.compose import initialise
from dpml.running import plan
from dpml.running.executors import attempt
from dpml.running.expansion import Expansion
from dpml.running.spec import Experiment
from dpml.running.store import Store

CONTENT = {
    "title": "Two algorithms", "source": "nobody",
    "settings": {"dataset": "synthetic", "M": 2, "N": 60, "draws": 2, "seed": [0, 1, 2]},
    "grid": {
        "capefm": {"algo": "capefm", "eps": [0.5, 1.0]},
        "dpgd": {"algo": "dpgd", "algo.rounds": [2, 3], "eps": 1.0},
    },
    "panels": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A plan whose nine cells are finished, and its task."""
    with initialise():
        points = Expansion.from_config(hydra.compose("config"), []).experiment(
            Experiment.from_content("mine/two", CONTENT)
        )
    task, store = plan.Task("mine/two", points), Store(tmp_path_factory.mktemp("plan"))
    for entry in plan.make_plan([task], store, plan.Options()).waiting():
        store.write(entry.key, entry.identity, attempt(entry.point.cell))
    return plan.make_plan([task], store, plan.Options()), task


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("together", quick_first([1, 2, 4], 2))
def test_tables_do_not_depend_on_how_many_are_joined_at_once(done, together, monkeypatch) -> None:
    whole, task = done
    assert len(task.points) == 9
    expected = whole.tables(task)
    assert expected[0]["algo.rounds"].isna().any()  # a column that only some cells have
    monkeypatch.setattr(plan, "_TOGETHER", together)
    for found, table in zip(whole.tables(task)[:2], expected[:2], strict=True):
        pd.testing.assert_frame_equal(found, table)


def test_the_settings_of_a_task_are_read_once_for_all_cells(done, monkeypatch) -> None:
    """They are a list over all points: for each cell again would grow with the square of the cells."""
    whole, task = done
    read = []
    monkeypatch.setattr(plan.Task, "settings", property(lambda self: read.append(1) or ["algo.rounds"]))
    whole.tables(task)
    assert len(read) == 1
