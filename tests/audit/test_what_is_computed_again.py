"""The audit is in the identity of no number: a change of an attack computes nothing again."""

import importlib.util
import shutil
from pathlib import Path

import hydra
import pytest
import yaml

import dpml
from dpml import code, paths
from dpml.config.compose import initialise
from dpml.running.dependencies import named
from dpml.running.expansion import Expansion

TARGETS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["_target_"].rpartition(".")[0]
    for path in sorted((paths.folder("conf") / "algo").glob("*.yaml"))
}


@pytest.mark.parametrize("algo", TARGETS)
def test_no_number_depends_on_the_audit(algo: str) -> None:
    reached = code.reached("dpml.running.cell", TARGETS[algo])
    assert not {name for name in reached.modules if name.startswith("dpml.audit")}


@pytest.mark.slow
def test_a_change_of_the_neighbours_changes_no_key(tmp_path) -> None:
    """End to end, in a copy of the package; a change of the noise is noticed in the same way."""
    folder = shutil.copytree(
        Path(dpml.__file__).parent, tmp_path / "dpml", ignore=shutil.ignore_patterns("__pycache__")
    )
    with initialise():
        cells = []
        for algo in ("capefm", "dpgd", "psgd", "gop", "vote"):
            (point,) = Expansion.from_config(hydra.compose("config", [f"algo={algo}"]), []).run()
            cells.append(point.cell)

    def keys() -> list[str]:
        spec = importlib.util.spec_from_file_location("dpml.code", folder / "code.py")
        copied = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(copied)
        return [copied.digest(*sorted(set(named(cell)))) for cell in cells]

    def change(file: str, old: str, new: str) -> None:
        content = (folder / file).read_text(encoding="utf-8")
        assert old in content
        (folder / file).write_text(content.replace(old, new, 1), encoding="utf-8")

    before = keys()
    change("audit/neighbours.py", "np.linspace(0.1, 1, 19)", "np.linspace(0.2, 1, 19)")
    assert keys() == before
    change("privacy/noise.py", "import numpy as np\n", "import numpy as np\n\nOTHER = 1\n")
    assert not set(keys()) & set(before)
