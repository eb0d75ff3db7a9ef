"""The audit is in the identity of no number: a change of an attack computes nothing again."""

import pytest
import yaml

from dpml import code, paths

TARGETS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["_target_"].rpartition(".")[0]
    for path in sorted((paths.folder("conf") / "algo").glob("*.yaml"))
}


@pytest.mark.parametrize("algo", TARGETS)
def test_no_number_depends_on_the_audit(algo: str) -> None:
    reached = code.reached("dpml.running.cell", TARGETS[algo])
    assert not {name for name in reached if name.startswith("dpml.audit")}
