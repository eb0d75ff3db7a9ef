"""What two cells must not share: an identity, when any setting differs, and noise, when their draws are others."""

from dataclasses import fields, replace

import numpy as np
import pytest
from examples import LOGISTIC

from dpml.algorithms.perturbation import GaussianObjectivePerturbation
from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.data.partition import Equal, TwoGroup
from dpml.data.sets.official import Crime
from dpml.data.sets.synthetic import Synthetic
from dpml.optim.losses import LOSSES
from dpml.privacy import Adversary, Budget
from dpml.running import cell as module
from dpml.running.cell import Cell, measure
from dpml.running.rows import setting

CELL = Cell(
    dataset=Synthetic(recipe="logistic", d=3),
    partition=Equal(),
    algorithm=GaussianObjectivePerturbation(LOGISTIC, lam=0.1),
    M=4,
    N=40,
    seed=7,
    budgets=(Budget(1.0, 1e-2),),
    draws=3,
)
OTHER = {
    "dataset": Synthetic(recipe="logistic", d=4),
    "partition": TwoGroup(),
    "algorithm": GaussianObjectivePerturbation(LOGISTIC, lam=0.2),
    "M": 5,
    "N": 41,
    "seed": 8,
    "budgets": (Budget(1.0, 1e-3),),
    "draws": 4,
    "first": 3,
    "adversary": Adversary(colluders=1),
    "metrics": ("mine.metric",),
}


@pytest.mark.parametrize("name", [field.name for field in fields(Cell) if field.name != "files"])
def test_every_setting_is_in_the_identity(name: str) -> None:
    assert replace(CELL, **{name: OTHER[name]}).identity("checksum") != CELL.identity("checksum")
    assert CELL.identity("checksum") != CELL.identity("another")


def test_later_draws_have_noise_of_their_own() -> None:
    first, later = (measure(replace(CELL, first=number)).metrics["loss"] for number in (0, 3))
    assert not np.isclose(first[:, :, None], later[:, None, :]).any()


def test_every_stream_is_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, asked = module.generator, []

    def noted(seed: int, purpose: str, *who: str) -> np.random.Generator:
        asked.append((seed, purpose))
        return usual(seed, purpose, *who)

    monkeypatch.setattr(module, "generator", noted)
    measure(replace(CELL, seed=123))
    assert {purpose for _, purpose in asked} == {"data", "partition", "start", "noise"}
    assert {seed for seed, _ in asked} == {123}


def test_an_option_of_another_set_is_none_although_there_is_a_method_of_that_name() -> None:
    algorithm, budgets = FunctionalMechanism(LOSSES["squared"]), (Budget(1.0, 1e-5),)
    crime, made = (Cell(data, Equal(), algorithm, 5, None, 0, budgets, 1) for data in (Crime(), Synthetic(rows=70)))
    assert setting(crime, "dataset.rows") is None
    assert setting(made, "dataset.rows") == 70
    assert setting(crime, "dataset.steps") == "[max_abs,max_norm]"
