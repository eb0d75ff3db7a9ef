"""The keys of an option: those of its class, with the defaults that stand there alone."""

from inspect import Parameter, signature
from pathlib import Path

import pytest
from hydra.utils import get_class
from omegaconf import OmegaConf

from dpml.config.build import build_algorithm, completed
from dpml.config.compose import compose, options
from dpml.data.sets.synthetic import Synthetic
from dpml.files import shipped_folder
from dpml.optim.losses import LOSSES

GROUPS = ("algo", "dataset", "partition")
OPTIONS = [(group, name) for group in GROUPS for name in options(group)]


@pytest.fixture(scope="module")
def every() -> dict:
    config = compose([f"+{group}@every.{group}.{name}={name}" for group, name in OPTIONS]).whole
    for group, name in OPTIONS:
        config.every[group][name] = completed(config.every[group][name])
    return OmegaConf.to_container(config.every)


@pytest.mark.slow_cases("algo-adassp")
@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_the_keys_are_the_parameters_of_the_class(every: dict, group: str, name: str) -> None:
    node = every[group][name]
    parameters = set(signature(get_class(node["_target_"])).parameters)
    assert set(node) - {"_target_"} == parameters - {"loss", "calibration"}


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_a_file_says_only_what_its_class_does_not(group: str, name: str) -> None:
    content = OmegaConf.load(shipped_folder("conf") / group / f"{name}.yaml")
    defaults = {key: value.default for key, value in signature(get_class(content.pop("_target_"))).parameters.items()}
    assert {key for key, value in content.items() if defaults[key] == value} == set()
    assert all(value is not Parameter.empty for key, value in defaults.items() if key not in {*content, "loss"})


@pytest.mark.parametrize("name", options("algo"))
def test_an_algorithm_of_a_configuration_is_that_of_its_class(every: dict, name: str) -> None:
    loss = "squared" if name in ("adassp", "regression") else "logistic"
    config = {"algo": every["algo"][name], "loss": loss, "calibration": None}
    built = build_algorithm(config, Synthetic(recipe="logistic"))
    own = OmegaConf.to_container(OmegaConf.load(shipped_folder("conf") / "algo" / f"{name}.yaml"))
    own = {key: value for key, value in own.items() if key != "_target_"}
    assert built == type(built)(LOSSES[loss], **own)  # calibration, from config.yaml, included


@pytest.mark.slow
def test_options_of_ones_own_have_their_keys_from_their_class_too(tmp_path: Path, monkeypatch) -> None:
    parameters = "loss, calibration='tight', steps=(1, 2), place=object(), length=0.5"
    (tmp_path / "own_options.py").write_text(f"class Mine:\n    def __init__(self, {parameters}): pass\n")
    (tmp_path / "algo").mkdir()
    (tmp_path / "algo/plain.yaml").write_text("_target_: own_options.Mine\n")
    (tmp_path / "algo/based.yaml").write_text("defaults: [fm, _self_]\nlam: 0.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    mine = compose(["algo=plain", "algo.length=2"], tmp_path).values["algo"]
    assert mine == {"_target_": "own_options.Mine", "steps": [1, 2], "length": 2}
    based = compose(["algo=based", "algo.ridge=2"], tmp_path).values["algo"]
    assert based == {**compose(["algo=fm"]).values["algo"], "lam": 0.5, "ridge": 2}


def test_the_help_says_what_the_keys_mean(run_command) -> None:
    done = run_command("dpml-run", "algo=dpgd", "partition=power_law", "--help")
    assert "algo.unit: The unit that is protected: sample, one row; or party" in done.out
    assert "partition.auxiliary: The share of the training rows that is set aside as public" in done.out


def test_only_algorithms_that_label_public_rows_ask_for_some(every: dict) -> None:
    kinds = {name: get_class(node["_target_"]) for name, node in every["algo"].items()}
    assert {name: kind.auxiliary for name, kind in kinds.items() if kind.auxiliary} == {"soft": 0.1, "vote": 0.1}
