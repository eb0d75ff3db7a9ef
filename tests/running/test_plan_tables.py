"""The tables of a plan: the cells' tables, joined some at a time."""

import pandas as pd
import pytest
from harness import plan as planned
from quick import quick_first

from dpml.running import plan
from dpml.running.executors import attempt

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
    """A plan whose nine cells are finished."""
    folder = tmp_path_factory.mktemp("plan")
    made = planned(folder, CONTENT, name="mine/two")
    for point in made.points:
        made.store.write(point.key, point.identity, attempt(point.cell))
    return planned(folder, CONTENT, name="mine/two")


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("together", quick_first([1, 2, 4], 2))
def test_tables_do_not_depend_on_how_many_are_joined_at_once(done, together, monkeypatch) -> None:
    assert len(done.points) == 9
    expected = done.results()
    assert expected.rows["algo.rounds"].isna().any()  # a column that only some cells have
    monkeypatch.setattr(plan, "_TOGETHER", together)
    found = done.results()
    pd.testing.assert_frame_equal(found.rows, expected.rows)
    pd.testing.assert_frame_equal(found.guarantees, expected.guarantees)
