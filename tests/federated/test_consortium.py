"""`dpml federate init`: folders in which no signing key lies, and whose steps are those of a release."""

import json
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from examples_federated import tables

from dpml.cli import dpml
from dpml.data.csv.column_bounds import load
from dpml.errors import UserError
from dpml.federated.agreed import agreed_of
from dpml.federated.consortium import Consortium, write_consortium
from dpml.federated.party_rows import own_rows
from dpml.release.model import read_model

NAMES = ("ayr", "bonn", "cork", "dax")
STATED = """\
columns:
  age: {low: 0, high: 100}
  member: boolean
  job: [farm, mine, office]
  seen: {unit: days, low: 2019-01-01, high: 2024-12-31, format: "%d.%m.%Y"}
"""
CLASSES = 'classes: ["$well", ill]\n'
WORDS = ("algo=ssp", "eps=1", "delta=1e-5", "dataset.label=health")


def begun(folder: Path, *words: str, labels: str = CLASSES, names: tuple[str, ...] = NAMES) -> Path:
    (folder / "columns.yaml").write_text(STATED + labels)
    stated, dataset = load(folder / "columns.yaml"), agreed_of((*WORDS, *words)).dataset
    consortium = Consortium(names, "127.0.0.1", 8000, ("--set", *WORDS, *words), ("--colluders", "1"))
    write_consortium(consortium, stated, dataset, 50, folder / "all")
    return folder / "all"


def test_no_key_of_a_party_is_made_and_the_aggregators_is_its_own(tmp_path) -> None:
    place = begun(tmp_path)
    assert sorted(path.name for path in place.iterdir()) == ["aggregator", *NAMES, "rehearsal"]
    secret = [path.relative_to(place).as_posix() for path in place.rglob("*") if path.suffix == ".key"]
    assert secret == ["aggregator/server.key"]
    assert (place / secret[0]).stat().st_mode & 0o077 == 0
    assert not any(b"PRIVATE KEY" in path.read_bytes() for path in place.rglob("*") if path.is_file() and
                   path.name != "server.key")  # fmt: skip
    authority = (place / "aggregator" / "ca.pem").read_bytes()
    assert all((place / name / "ca.pem").read_bytes() == authority for name in NAMES)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_compose_files_take_the_steps_that_are_written(tmp_path) -> None:
    place = begun(tmp_path, "dataset.drop=[$id]")
    for name in (*NAMES, "aggregator", "rehearsal"):
        services = yaml.safe_load((place / name / "compose.yaml").read_text(encoding="utf-8"))["services"]
        steps = (place / name / "STEPS.md").read_text(encoding="utf-8")
        written = [shlex.split(line) for line in steps.splitlines() if line.startswith("dpml ")]
        assert [[word.replace("$$", "$") for word in each["command"]] for each in services.values()] == written
        assert all(each["read_only"] and each["cap_drop"] == ["ALL"] for each in services.values())
        assert [name for name, each in services.items() if "profiles" not in each] == [*services][-1:]
        assert any("$$id" in word for each in services.values() for word in each["command"]) or name == "aggregator"


@pytest.mark.parametrize("labels", [CLASSES, "target: {low: 0, high: 5}\n"])
@pytest.mark.parametrize(
    "words", [(), ("dataset.decimal=comma", "dataset.encoding=latin-1"), ("dataset.separator=tab", "dataset.drop=[id]")]
)
def test_made_up_rows_can_be_used(tmp_path, labels, words) -> None:
    place = begun(tmp_path, *words, labels=labels)
    for name in NAMES:
        X, y = own_rows(
            agreed_of((*WORDS, *words)).dataset, load(tmp_path / "columns.yaml"), place / "rehearsal" / f"{name}.csv"
        )
        assert len(X) == len(y) == 50


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("ayr",), "at least two parties"),
        (("ayr", "ayr"), "different names"),
        (("ayr", "../bonn"), "cannot be a party's folder"),
        (("ayr", "aggregator"), "cannot be a party's folder"),
        (("ayr", "Bonn"), "small letters"),
        (("ayr", "\x1b[2J"), "cannot be a party's folder"),
    ],
)
def test_names_that_are_no_folders_are_refused(tmp_path, names, said) -> None:
    with pytest.raises(UserError, match=said):
        begun(tmp_path, names=names)
    assert not (tmp_path / "all").exists()


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path) -> None:
    begun(tmp_path)
    with pytest.raises(UserError, match="is there already"):
        begun(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_consortium(
            Consortium(NAMES, "127.0.0.1", 8000, (), ()),
            load(tmp_path / "columns.yaml"),
            agreed_of(WORDS).dataset,
            5,
            tmp_path / "file" / "all",
        )


def test_a_number_names_the_parties_and_what_is_guaranteed_is_said(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "columns.yaml").write_text(STATED + CLASSES)
    words = ["init", "3", "--aggregator", "a.example:80", "--bounds", tmp_path / "columns.yaml", "--set", *WORDS]
    monkeypatch.setattr(sys, "argv", ["dpml", "federate", *map(str, words), "-o", str(tmp_path / "all")])
    dpml()
    said = " ".join(capsys.readouterr().out.split())
    assert (tmp_path / "all" / "hospital-3" / "STEPS.md").exists()
    assert "3 parties add it, of whom 1 may collude" in said
    assert "keeps it" in said


@pytest.mark.parametrize("rows", ["0", "-5", "100000000000"])
def test_a_number_of_rows_that_is_none_is_one_sentence(tmp_path, monkeypatch, capsys, rows) -> None:
    words = ["init", "3", "--aggregator", "a.example:80", "--bounds", "columns.yaml", "--rows", rows, "--set", *WORDS]
    monkeypatch.setattr(sys, "argv", ["dpml", "federate", *words, "-o", str(tmp_path / "all")])
    with pytest.raises(SystemExit):
        dpml()
    assert capsys.readouterr().err == f"dpml: error: --rows must be from 1 to 1,000,000, got {rows}.\n"


@pytest.mark.slow
def test_the_steps_make_a_model_that_all_have_and_so_does_the_rehearsal(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    stated = {"columns": {"age": {"low": 0, "high": 100}, "bmi": {"low": 10, "high": 60}, "job": ["farm", "mine"]}}
    (tmp_path / "columns.yaml").write_text(json.dumps({**stated, "classes": ["well", "ill"]}))
    program = [sys.executable, "-c", "from dpml.cli import dpml; dpml()"]

    def start(folder: Path, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*program, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)  # fmt: skip

    def done(process: subprocess.Popen[str]) -> None:
        said = process.communicate(timeout=240)[0]
        assert process.returncode == 0, said

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    words = ["init", *NAMES, "--aggregator", f"127.0.0.1:{port}", "--bounds", "columns.yaml", "--rows", "60"]
    done(start(tmp_path, "federate", *words, "-o", "all", "--set", *WORDS))
    place = tmp_path / "all"

    def step(folder: str, name: str) -> subprocess.Popen[str]:
        services = yaml.safe_load((place / folder / "compose.yaml").read_text(encoding="utf-8"))["services"]
        command = [word.replace("$$", "$") for word in services[name]["command"]]
        return start(place / folder, *command[1:])

    done(step("rehearsal", "try"))
    assert read_model(place / "rehearsal" / "model.json").guarantees[0].eps <= 1
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
