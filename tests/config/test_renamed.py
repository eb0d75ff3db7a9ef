"""A key that has another name now gets one sentence that says so, wherever it is used."""

import json
import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import dpml
from dpml.config import renamed
from dpml.config.build import instantiate
from dpml.config.compose import compose, options
from dpml.files import shipped_folder

EPSILON = "epsilon is now called eps."


def _named(group: str) -> dict[str, list[str]]:
    """The options of a group, by the name of their class."""
    found: dict[str, list[str]] = {}
    for name in options(group):
        target = OmegaConf.load(shipped_folder("conf") / group / f"{name}.yaml").get("_target_", "")
        found.setdefault(target.rpartition(".")[2], []).append(name)
    return found


ALGORITHMS = _named("algo")
KEYS = [(key, name, new) for (key, kind), new in renamed.RENAMED.items() for name in ALGORITHMS[str(kind)]]
each_key = pytest.mark.parametrize(("key", "name", "new"), KEYS)


@pytest.fixture
def _epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed, "RENAMED", {("epsilon", None): "eps"})


def test_every_algorithm_of_a_class_with_a_former_key_is_tested() -> None:
    assert {name for _, name, _ in KEYS} == {
        *("dpgd", "ssp_descent", "newton", "outpert"),
        *("wang", "jayaraman", "wddp"),
    }


@each_key
def test_the_sentence_of_a_former_key(key: str, name: str, new: str) -> None:
    node = OmegaConf.load(shipped_folder("conf") / "algo" / f"{name}.yaml")
    with pytest.raises(dpml.UserError, match=re.escape(f"{key} is now called {new}.")):
        instantiate({**node, key.removeprefix("algo."): 1}, "algo")


@pytest.mark.slow
def test_a_former_key(run_command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """On the command line, in an experiment, in the Python API, and in the options of an estimator."""
    key, name, expected = "algo.norm", "newton", "algo.norm is now called algo.model_norm."
    for words in ([f"algo={name}", f"{key}=1"], ["-m", f"algo={name}", f"+{key}=1,2"]):
        done = run_command("dpml-run", *words)
        assert done.code != 0
        assert expected in done.err

    path = tmp_path / "own/experiment/mine/tiny.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"title": "T", "source": "S", "settings": {"algo": name, key: 1}}))
    path.write_text(f"# @package experiment\n{path.read_text()}")
    done = run_command("dpml-run", "--config-dir", str(tmp_path / "own"), "experiment=mine/tiny")
    assert done.code == 2
    assert expected in done.err

    monkeypatch.chdir(tmp_path)
    with pytest.raises(dpml.UserError, match=re.escape(expected)):
        dpml.run(algo=name, **{key: 1})
    with pytest.raises(dpml.UserError, match=re.escape(expected)):
        dpml.guarantee(algo=name, eps=1.0, **{key: 1})


@each_key
def test_its_new_name_is_a_key_and_the_old_one_is_none(key: str, name: str, new: str) -> None:
    config = compose([f"algo={name}"])
    assert OmegaConf.select(config, new, default=OmegaConf) is not OmegaConf
    assert OmegaConf.select(config, key, default=OmegaConf) is OmegaConf


def test_the_key_of_another_algorithm_keeps_its_name() -> None:
    assert "rate" in compose(["algo=nn_cape"]).algo


def test_an_estimator_of_an_algorithm_with_a_former_key() -> None:
    with pytest.raises(dpml.UserError, match=r"algo\.rate is now called algo\.noise_step\."):
        dpml.PrivateClassifier(bounds=(0, 1), algo="dpgd", algo_options={"rate": 1}).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.usefixtures("_epsilon")
def test_a_former_key_of_a_run(run_command) -> None:
    assert EPSILON in run_command("dpml-run", "+epsilon=1").err
    with pytest.raises(dpml.UserError, match=EPSILON):
        dpml.guarantee(epsilon=1)


@pytest.mark.slow_cases("dataset")
@pytest.mark.parametrize("group", ["algo", "dataset", "partition"])
def test_every_option_can_have_some(monkeypatch: pytest.MonkeyPatch, group: str) -> None:
    for kind, names in _named(group).items():
        monkeypatch.setattr(renamed, "RENAMED", {(f"{group}.former", kind): f"{group}.new"})
        for name in names:
            node = OmegaConf.load(shipped_folder("conf") / group / f"{name}.yaml")
            with pytest.raises(dpml.UserError, match=f"{group}.former is now called {group}.new."):
                instantiate(OmegaConf.create({**node, "former": 1}), group)
