"""Lists of settings: each value once."""

import pytest

from dpml.api.jobs import ask
from dpml.api.settings import Settings
from dpml.errors import UserError
from dpml.running.cell import Cell
from dpml.running.expansion import _values


@pytest.mark.parametrize(
    ("value", "values"),
    [
        (3, [3]),
        ("adult", ["adult"]),
        ([1, 2, 1, 3, 2], [1, 2, 3]),
        ([0.1, "inf", 0.1], [0.1, "inf"]),
        ([["max_abs"], ["max_abs", "bias"], ["max_abs"]], [["max_abs"], ["max_abs", "bias"]]),
        ([None, {"name": "equal"}, None, {"name": "equal"}], [None, {"name": "equal"}]),
    ],
)
def test_each_value_once_in_order(value, values) -> None:
    assert _values(value, "key") == values


@pytest.mark.parametrize("key", ["seed", "M", "N"])
def test_a_range_includes_both_its_ends(key) -> None:
    assert _values("3..5", key) == [3, 4, 5]
    assert _values("7..7", key) == [7]


def test_no_value_is_a_mistake() -> None:
    for empty in ("5..3", "0..1000000"):
        with pytest.raises(UserError, match=rf"seed={empty} must be LOW..HIGH"):
            _values(empty, "seed")
    with pytest.raises(UserError, match=r"seed must be .*, got seed=\[\]"):
        _values([], "seed")


@pytest.mark.parametrize(("partition", "seeds"), [("simplex", {0, 1, 2}), ("equal", {0}), ("dirichlet", {0})])
def test_seeds_that_draw_the_sizes_are_each_checked_before_data_are_read(monkeypatch, partition, seeds):
    checked = set()
    monkeypatch.setattr(Cell, "check", lambda cell: checked.add((cell.M, cell.N, cell.seed)))
    words = ["seed=0..2", "M=[2,3]", "N=[50,60]", f"partition={partition}"]
    ask(Settings(words))
    assert checked == {(M, N, seed) for M in (2, 3) for N in (50, 60) for seed in seeds}
