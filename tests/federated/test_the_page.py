"""docs/federation.md, "In earnest", from an empty folder: its commands, for four clinics on this machine."""

import json
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from examples_federated import STATED, tables

from dpml.release.ledger import Ledger
from dpml.release.model import read_model

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "federation.md"
CLINICS = ("ayr", "bonn", "cork", "dax")


def commands() -> dict[str, list[str]]:
    """The commands of the page by their action, the first of each."""
    section = PAGE.read_text(encoding="utf-8").split("## In earnest")[1].split("\n## ")[0]
    found: dict[str, list[str]] = {}
    for block in re.findall(r"```bash\n(.*?)```", section, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line)
            action = words[2] if "--copies" not in words else "copies"
            found.setdefault(action, words[2:])
    return found


def test_the_commands_of_the_page_make_a_model_that_all_have(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    read = {"label": "health", "missing": "refuse", "steps": ["one_hot", "symmetric", "sample_norm"]}
    (tmp_path / "clinics.yaml").write_text(json.dumps({**STATED, **read}))
    for name, table in zip(CLINICS, tables(), strict=True):
        (tmp_path / f"{name}.csv").write_text(table)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    away = {"aggregator.example:8000": f"127.0.0.1:{port}", "0.0.0.0:8000": f"127.0.0.1:{port}"}
    away |= {"aggregator.example": "127.0.0.1", "ca.pem": "tls/ca.pem"}
    page = {action: [away.get(word, word) for word in words] for action, words in commands().items()}
    assert list(page) == ["card", "plan", "sign", "copies", "tls", "aggregator", "party"]

    def start(action: str, name: str = "ayr") -> subprocess.Popen[str]:
        words = [word.replace("ayr", name) for word in page[action]]
        if action == "party":
            words[-1] = f"{name}-model.json"
        command = [sys.executable, "-c", "from dpml.cli import dpml; dpml()", "federate", *words]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def done(process: subprocess.Popen[str]) -> str:
        said = process.communicate(timeout=240)[0]
        assert process.returncode == 0, said
        return said

    for name in CLINICS:
        done(start("card", name))
    page["plan"] = page["plan"][:1] + [f"{name}.card" for name in CLINICS] + page["plan"][page["plan"].index("-o") :]
    done(start("plan"))
    done(start("tls"))
    unsigned = (tmp_path / "plan.json").read_text(encoding="utf-8")
    refused = start("aggregator").communicate(timeout=240)[0]
    assert "lacks the signature of ayr, bonn, cork, dax" in " ".join(refused.split())
    for name in CLINICS[::-1]:  # each signs a copy of its own; the first one's is that of the folder
        (tmp_path / "plan.json").write_text(unsigned, encoding="utf-8")
        done(start("sign", name))
        (tmp_path / f"from-{name}").mkdir()
        (tmp_path / f"from-{name}" / "plan.json").write_bytes((tmp_path / "plan.json").read_bytes())
    done(start("copies"))
    running = [start("aggregator"), *(start("party", name) for name in CLINICS)]
    for process in running:
        done(process)
    model = (tmp_path / "model.json").read_bytes()
    assert 0.999 < read_model(tmp_path / "model.json").guarantees[0].eps <= 1
    for name in CLINICS:
        assert (tmp_path / f"{name}-model.json").read_bytes() == model
        (entry,) = Ledger(tmp_path / f"{name}.csv.ledger").entries()
        assert entry.model is not None
        assert (tmp_path / f"{name}.key").stat().st_mode & 0o077 == 0
