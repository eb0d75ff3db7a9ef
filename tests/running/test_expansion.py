"""Lists of settings: each value once."""

import re

import pytest

from dpml.api.jobs import ask
from dpml.api.settings import Settings
from dpml.errors import UserError
from dpml.running.cell import Cell


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("seed=3", [3]),
        ("seed=[1,2,1,3,2]", [1, 2, 3]),
        ("seed=3..5", [3, 4, 5]),
        ("M=7..7", [7]),
        ("N=50..52", [50, 51, 52]),
    ],
)
def test_each_value_is_taken_once_in_order_and_a_range_has_both_its_ends(word, values) -> None:
    cells = [point.cell for point in ask(Settings([word])).plans[0].points]
    assert [getattr(cell, word.partition("=")[0]) for cell in cells] == values


@pytest.mark.parametrize("seed", ["5..3", "0..1000000", "[]"])
def test_no_value_is_a_mistake(seed) -> None:
    with pytest.raises(UserError, match=rf"seed.*{re.escape(seed)}"):
        ask(Settings([f"seed={seed}"]))


@pytest.mark.parametrize(("partition", "seeds"), [("simplex", {0, 1, 2}), ("equal", {0}), ("dirichlet", {0})])
def test_seeds_that_draw_the_sizes_are_each_checked_before_data_are_read(monkeypatch, partition, seeds):
    checked = set()
    monkeypatch.setattr(Cell, "check", lambda cell: checked.add((cell.M, cell.N, cell.seed)))
    words = ["seed=0..2", "M=[2,3]", "N=[50,60]", f"partition={partition}"]
    ask(Settings(words))
    assert checked == {(M, N, seed) for M in (2, 3) for N in (50, 60) for seed in seeds}
