"""The how-to guides name all that there is to choose, and what they show of plug-ins works."""

import json
import re

import pytest
import yaml
from harness import written_from_page
from pages import DOCS

from dpml.files import shipped_folder

HOWTO = DOCS / "howto"


def named(page: str) -> set[str]:
    prose = re.sub(r"```.*?```", "", (HOWTO / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    return {word for text in re.findall(r"`([^`]+)`", prose) for word in text.split()}


def test_every_option_and_key_is_named() -> None:
    pages = {"algo": "algorithms.md", "dataset": "../data/README.md", "partition": "../partitions.md"}
    for group, page in pages.items():
        assert {path.stem for path in shipped_folder("conf").joinpath(group).glob("*.yaml")} <= named(page)
    config = yaml.safe_load((shipped_folder("conf") / "config.yaml").read_text(encoding="utf-8"))
    keys = {key for key in config if key not in ("defaults", "hydra", "run", "adversary")}
    assert keys | {f"adversary.{key}" for key in config["adversary"]} | set(pages) <= named("commands.md")
    others = set().union(*(named(page) for page in ("clusters.md", "resume.md", "sweeps.md")))
    assert {f"run.{key}" for key in config["run"]} <= {word.partition("=")[0] for word in others}


@pytest.mark.slow
@pytest.mark.parametrize(("sensitivity", "verdict"), [(1.0, "BUG"), (2.0, "consistent")])
def test_the_algorithm_of_the_tutorial_can_be_broken_as_it_says(run_command, tmp_path, sensitivity, verdict) -> None:
    """Half of the sensitivity is a bug; half of the noise alone proves less."""
    written_from_page("tutorials/algorithm.md", tmp_path)
    code = (tmp_path / "centroid.py").read_text(encoding="utf-8")
    line = "sensitivity=2.0, noise=2.0 /"
    assert line in code
    name = f"centroid_{verdict}"  # a module that was imported before stays what it was
    broken = code.replace(line, f"sensitivity={sensitivity}, noise=1.0 /")
    (tmp_path / f"{name}.py").write_text(broken, encoding="utf-8")
    (tmp_path / "conf/algo/centroid.yaml").write_text(f"_target_: {name}.Centroid\n", encoding="utf-8")
    words = ["--config-dir", "conf", "algo=centroid", "M=1", "eps=1", "delta=1e-5", "draws=20000", "--json"]
    (finding,) = json.loads(run_command("dpml", "audit", *words).out)["views"]
    assert finding["verdict"] == verdict
