"""A default stands in an option's YAML file and in its class: here both are held to the same value."""

import dataclasses

import pytest
from hydra.utils import get_class
from omegaconf import OmegaConf

from dpml import where
from dpml.config.build import build_algorithm, instantiate
from dpml.config.compose import compose
from dpml.data.sets.synthetic import Synthetic
from dpml.optim.losses import LOSSES

CONF = where.folder("conf")

PATHS = [path for group in ("algo", "dataset", "partition") for path in sorted((CONF / group).glob("*.yaml"))]


@pytest.mark.parametrize("option", [f"{path.parent.name}={path.stem}" for path in PATHS])
def test_yaml_and_class_have_the_same_defaults(option: str) -> None:
    group, _ = option.split("=")
    loss = "squared" if option == "algo=adassp" else "logistic"
    config = compose([option, f"loss={loss}"])
    if group == "algo":
        from_yaml = build_algorithm(config, Synthetic(recipe="logistic"))
        assert from_yaml == type(from_yaml)(LOSSES[loss])  # calibration, from config.yaml, included
        return
    from_yaml = instantiate(config[group], group)
    for field in dataclasses.fields(get_class(config[group]["_target_"])):
        if field.default not in (dataclasses.MISSING, ()):  # an empty list stands for no default
            assert getattr(from_yaml, field.name) == field.default, field.name


def test_only_algorithms_that_label_public_rows_ask_for_some() -> None:
    kinds = {path.stem: get_class(OmegaConf.load(path)["_target_"]) for path in PATHS if path.parent.name == "algo"}
    assert {name: kind.auxiliary for name, kind in kinds.items() if kind.auxiliary} == {"soft": 0.1, "vote": 0.1}
