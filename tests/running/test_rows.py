"""What a row says of a setting."""

from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.data.partition import Equal
from dpml.data.sets.official import Crime
from dpml.data.sets.synthetic import Synthetic
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget
from dpml.running.cell import Cell
from dpml.running.rows import setting


def test_an_option_of_another_set_is_none_although_there_is_a_method_of_that_name() -> None:
    algorithm, budgets = FunctionalMechanism(LOSSES["squared"]), (Budget(1.0, 1e-5),)
    crime, made = (Cell(data, Equal(), algorithm, 5, None, 0, budgets, 1) for data in (Crime(), Synthetic(rows=70)))
    assert setting(crime, "dataset.rows") is None
    assert setting(made, "dataset.rows") == 70
    assert setting(crime, "dataset.steps") == "[max_abs,max_norm]"
