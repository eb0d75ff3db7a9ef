"""A default stands in an option's YAML file and in its class: here both are held to the same keys and values."""

import dataclasses

import harness
import pytest
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from dpml import paths
from dpml.config.build import build_algorithm, instantiate
from dpml.config.compose import compose
from dpml.data.sets.synthetic import Synthetic
from dpml.optim.losses import LOSSES

CONF = paths.folder("conf")

PATHS = [path for group in ("algo", "dataset", "partition") for path in sorted((CONF / group).glob("*.yaml"))]


OPTIONS = [(path.parent.name, path.stem) for path in PATHS]


@pytest.fixture(scope="module")
def composed() -> DictConfig:
    """The configuration with every option, as Hydra composes it, under ``every.GROUP.NAME``: all in one go."""
    return compose([f"+{group}@every.{group}.{name}={name}" for group, name in OPTIONS])


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_yaml_and_class_have_the_same_defaults(composed: DictConfig, group: str, name: str) -> None:
    node = composed.every[group][name]
    if group == "algo":
        loss = "squared" if name == "adassp" else "logistic"
        config = OmegaConf.create({"algo": node, "loss": loss, "calibration": composed.calibration})
        from_yaml = build_algorithm(config, Synthetic(recipe="logistic"))
        assert from_yaml == type(from_yaml)(LOSSES[loss])  # calibration, from config.yaml, included
        return
    from_yaml = instantiate(node, group)
    for field in dataclasses.fields(get_class(node["_target_"])):
        if field.default not in (dataclasses.MISSING, ()):  # an empty list stands for no default
            assert getattr(from_yaml, field.name) == field.default, field.name


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_an_option_sets_exactly_the_fields_of_its_class(composed: DictConfig, group: str, name: str) -> None:
    node = composed.every[group][name]
    fields = {field.name for field in dataclasses.fields(get_class(node["_target_"])) if field.init}
    assert set(node) - {"_target_"} == fields - {"loss", "calibration"}


def test_only_algorithms_that_label_public_rows_ask_for_some() -> None:
    kinds = {path.stem: get_class(OmegaConf.load(path)["_target_"]) for path in PATHS if path.parent.name == "algo"}
    assert {name: kind.auxiliary for name, kind in kinds.items() if kind.auxiliary} == {"soft": 0.1, "vote": 0.1}


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["eps=0.1", "algo=objpert", "algo.lam=1e-3", "delta=null"],
        ["dataset.d=3", "dataset=synthetic", "partition=simplex", "adversary.colluders=2", "seed=7"],
        ["algo=capefm", "calibration=tight", "dataset=crime", "results_dir='a b'", "metrics=[math.fsum]"],
    ],
)
def test_tests_that_do_without_hydra_have_what_it_composes(default: DictConfig, words: list[str]) -> None:
    assert harness.composed(default, words) == compose(words)
