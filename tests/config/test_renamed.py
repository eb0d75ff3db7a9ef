"""A key that has another name now gets one sentence that says so, wherever it is used."""

import json

import pytest
from omegaconf import OmegaConf

import dpml
from dpml import paths
from dpml.config import renamed
from dpml.config.build import instantiate
from dpml.config.compose import compose, options

TABLE = renamed.RENAMED
RENAMED = {("algo.pace", "dpgd"): "algo.rate", ("epsilon", None): "eps"}
PACE, EPSILON = "algo.pace of algo=dpgd is now called algo.rate.", "epsilon is now called eps."


@pytest.fixture(autouse=True)
def _renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed, "RENAMED", RENAMED)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["algo=dpgd", "algo.pace=1"], PACE),
        (["-m", "algo=dpgd", "+algo.pace=1,2"], PACE),
        (["epsilon=1"], EPSILON),
        (["+epsilon=1"], EPSILON),
        (["algo=capefm", "algo.pace=1"], "unknown key 'algo.pace': "),
    ],
)
def test_on_the_command_line(run_command, words: list[str], expected: str) -> None:
    done = run_command("dpml-run", *words)
    assert done.code != 0
    assert expected in done.err


def test_in_an_experiment(run_command, tmp_path) -> None:
    path = tmp_path / "own/experiment/mine/tiny.yaml"
    path.parent.mkdir(parents=True)
    for settings, expected in (({"algo": "dpgd", "algo.pace": 1}, PACE), ({"epsilon": 1}, EPSILON)):
        path.write_text("# @package experiment\n" + json.dumps({"title": "T", "source": "S", "settings": settings}))
        done = run_command("dpml-run", "--config-dir", str(tmp_path / "own"), "experiment=mine/tiny")
        assert done.code == 2
        assert expected in done.err


def test_in_python(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dpml.UserError, match=PACE):
        dpml.run(algo="dpgd", **{"algo.pace": 1})
    with pytest.raises(dpml.UserError, match=EPSILON):
        dpml.guarantee(epsilon=1)
    with pytest.raises(dpml.UserError, match=PACE):
        dpml.PrivateClassifier(bounds=(0, 1), algo_options={"pace": 1}).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("group", ["algo", "dataset", "partition"])
def test_every_option_can_have_some(monkeypatch: pytest.MonkeyPatch, group: str) -> None:
    for name in options(group):
        monkeypatch.setattr(renamed, "RENAMED", {(f"{group}.former", name): f"{group}.new"})
        node = OmegaConf.load(paths.folder("conf") / group / f"{name}.yaml")
        with pytest.raises(dpml.UserError, match=f"{group}.former of {group}={name} is now called {group}.new."):
            instantiate(OmegaConf.create({**node, "former": 1}), group)


@pytest.mark.parametrize(("old", "new"), TABLE.items(), ids=str)
def test_the_new_name_is_a_key_and_the_old_one_is_none(old: tuple[str, str | None], new: str) -> None:
    (key, option) = old
    config = compose([f"{key.partition('.')[0]}={option}"] if option else [])
    assert OmegaConf.select(config, new, default=OmegaConf) is not OmegaConf
    assert OmegaConf.select(config, key, default=OmegaConf) is OmegaConf
