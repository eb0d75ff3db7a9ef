"""`dpml federate init`: folders in which no signing key lies, and whose steps are those of a release."""

import json
import shlex
import socket
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from examples_federated import tables

from dpml.cli import federate
from dpml.data.csv.column_bounds import load
from dpml.errors import UserError
from dpml.federated.consortium import write_consortium

NAMES = ("ayr", "bonn", "cork", "dax")
STATED = """\
columns:
  age: {low: 0, high: 100}
  member: boolean
  job: [farm, mine, office]
  seen: {unit: days, low: 2019-01-01, high: 2024-12-31, format: "%d.%m.%Y"}
classes: ["$well", ill]
label: health
drop: [id]
steps: [one_hot, symmetric, sample_norm]
"""
WORDS = ("algo=ssp", "eps=1", "delta=1e-5")


def begun(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    (folder / "columns.yaml").write_text(STATED)
    stated = load(folder / "columns.yaml")
    write_consortium(names, ("127.0.0.1", 8000), stated, ("--set", *WORDS), ("--colluders", "1"), folder / "all")
    return folder / "all"


def test_no_key_of_a_party_is_made_and_nothing_is_overwritten(tmp_path) -> None:
    with pytest.raises(UserError, match="aggregator"):
        begun(tmp_path, ("ayr", "aggregator"))
    place = begun(tmp_path)
    with pytest.raises(UserError, match="is there already"):
        begun(tmp_path)
    assert sorted(path.name for path in place.iterdir()) == ["aggregator", *NAMES]
    secret = [path.relative_to(place).as_posix() for path in place.rglob("*") if path.suffix == ".key"]
    assert secret == ["aggregator/server.key"]
    assert (place / secret[0]).stat().st_mode & 0o077 == 0
    assert not any(b"PRIVATE KEY" in path.read_bytes() for path in place.rglob("*") if path.is_file() and
                   path.name != "server.key")  # fmt: skip
    authority = (place / "aggregator" / "ca.pem").read_bytes()
    assert all((place / name / "ca.pem").read_bytes() == authority for name in NAMES)


def test_init_says_what_would_be_guaranteed_and_refuses_a_delta_of_1_over_n(run_command, tmp_path) -> None:
    (tmp_path / "columns.yaml").write_text(STATED)
    words = ("federate", "init", "3", "--aggregator", "a.example:80", "--bounds", "columns.yaml", "-o", "all", "--set")
    done = run_command("dpml", *words, *[word.replace("1e-5", "0.003") for word in WORDS])
    assert done.code == 2
    assert not (tmp_path / "all").exists()
    done = run_command("dpml", *words, *WORDS)
    assert "3 parties add it, of whom 1 may collude" in " ".join(done.out.split())
    assert (tmp_path / "all" / "hospital-3" / "STEPS.md").exists()
    written = load(tmp_path / "all" / "hospital-3" / "columns.yaml")
    assert written.content() == load(tmp_path / "columns.yaml").content()  # with the label and how files are read


def test_a_card_replaces_no_file_that_is_read(tmp_path) -> None:
    rows, bounds = tmp_path / "rows.csv", tmp_path / "columns.yaml"
    for file in (rows, bounds):
        file.write_text("read")
        with pytest.raises(UserError, match="would replace"):
            federate.run_card(Namespace(output=file, data=rows, key=tmp_path / "own.key", bounds=bounds))


@pytest.mark.slow
def test_the_steps_make_a_model_that_all_have(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    stated = {"columns": {"age": {"low": 0, "high": 100}, "bmi": {"low": 10, "high": 60}, "job": ["farm", "mine"]}}
    (tmp_path / "columns.yaml").write_text(json.dumps({**stated, "classes": ["well", "ill"], "label": "health"}))
    program = [sys.executable, "-c", "from dpml.cli import dpml; dpml()"]

    def start(folder: Path, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*program, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)  # fmt: skip

    def done(process: subprocess.Popen[str]) -> None:
        said = process.communicate(timeout=240)[0]
        assert process.returncode == 0, said

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    words = ["init", *NAMES, "--aggregator", f"127.0.0.1:{port}", "--bounds", "columns.yaml"]
    done(start(tmp_path, "federate", *words, "-o", "all", "--set", *WORDS))
    place = tmp_path / "all"

    def step(folder: str, name: str) -> subprocess.Popen[str]:
        lines = (place / folder / "STEPS.md").read_text(encoding="utf-8").splitlines()
        written = [shlex.split(line) for line in lines if line.startswith("dpml ")]
        words = {"copies" if "--copies" in words else words[2]: words[1:] for words in written}
        return start(place / folder, *words[name])

    for name, table in zip(NAMES, tables(), strict=True):
        (place / name / "rows.csv").write_text(table)
        done(step(name, "card"))
        (place / "aggregator" / f"{name}.card").write_bytes((place / name / f"{name}.card").read_bytes())
    done(step("aggregator", "plan"))
    for name in NAMES:
        (place / name / "plan.json").write_bytes((place / "aggregator" / "plan.json").read_bytes())
        done(step(name, "sign"))
        (place / "aggregator" / f"{name}.json").write_bytes((place / name / "plan.json").read_bytes())
    done(step("aggregator", "copies"))
    for name in NAMES:
        (place / name / "plan.json").write_bytes((place / "aggregator" / "plan.json").read_bytes())
    running = [step("aggregator", "aggregator"), *(step(name, "party") for name in NAMES)]
    for process in running:
        done(process)
    model = (place / "aggregator" / "model.json").read_bytes()
    assert all((place / name / "model.json").read_bytes() == model for name in NAMES)
    assert all((place / name / f"{name}.key").stat().st_mode & 0o077 == 0 for name in NAMES)
