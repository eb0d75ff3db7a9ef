"""Which files commands leave behind that read a file of one's own, and that none tells the file's content."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from harness import own_experiment

STATED = {
    "columns": {"a": {"low": 0, "high": 1}, "b": {"low": 0, "high": 10}},
    "classes": ["no", "yes"],
    "label": "y",
    "missing": "refuse",
    "steps": ["symmetric", "bias", "sample_norm"],
}
OWN = ("dataset=csv", "dataset.path=people.csv", "dataset.bounds=people.yaml")
RESULT = "results/.cells/KEY-KEY.json 644"
RUN = {
    "out/guarantees.csv 644", "out/manifest.json 600", "out/rows.csv 644", RESULT, "cache/secret 600",
}  # fmt: skip
EXPERIMENT = (".json", "_plan.csv", "_rows.csv", "_rows.csv.xz")
FILES = ("people", "other", "third")


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers = np.random.default_rng(0).random((120, 2))
    for name in FILES:
        lines = [f"{a:.3f},{10 * b:.2f},{'yes' if a > b else 'no'}" for a, b in numbers]
        Path(f"{name}.csv").write_text("\n".join(["a,b,y", *lines, ""]))
    Path("people.yaml").write_text(json.dumps(STATED))
    return tmp_path


def left(folder: Path, given: set[Path]) -> set[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path not in given]
    own = hashlib.sha256((folder / "people.csv").read_bytes()).hexdigest()
    assert not [path for path in files if own in path.read_text("utf-8", errors="replace")]
    names = [(str(path.relative_to(folder)), path.stat().st_mode & 0o777) for path in files]
    names = [(re.sub(r"(\b[0-9a-f]{2}/)?\b[0-9a-f]{32,}", "KEY", name), mode) for name, mode in names]
    return {f"{name} {mode:o}" for name, mode in names if not name.endswith(".lock")}


COMMANDS = {
    "run": (["dpml-run", *OWN, "algo=ssp", "eps=1", "delta=1e-5", "M=1", "draws=2", "hydra.run.dir=out"], RUN),
    "audit": (["dpml", "audit", "algo=ssp", "eps=1", "delta=1e-5", "M=1", "draws=2000"], set()),
    "release": (["dpml", "release", "people.csv", "--bounds", "people.yaml", "eps=1", "delta=1e-5"],
                {"people.csv.ledger 600", "model.json 644"}),
    "card": (["dpml", "federate", "card", "people.csv", "--bounds", "people.yaml", "--key", "a.key", "-o", "a.card",
              "--set", "algo=ssp", "eps=1", "delta=1e-5"], {"a.key 600", "a.card 644"}),
}  # fmt: skip


@pytest.mark.parametrize(("words", "files"), COMMANDS.values(), ids=COMMANDS)
def test_what_a_command_leaves_behind(words, files, people, run_command):
    given = set(people.rglob("*"))
    done = run_command(*words)
    assert done.code == 0, done.err
    assert left(people, given) == files


def test_what_an_experiment_leaves_behind_and_that_no_result_names_the_file(people, run_command):
    settings = dict(word.split("=") for word in OWN) | {"algo": "ssp", "eps": 1, "delta": 1e-5, "M": 1, "draws": 2}
    words = own_experiment(people, {"title": "T", "source": "S", "settings": settings})
    given = set(people.rglob("*"))
    done = run_command("dpml-run", *words, "experiment=mine/tiny", "run.dry=true", "hydra.run.dir=out")
    assert done.code == 0, done.err
    assert left(people, given) == {"results/plan.csv 644"}
    done = run_command("dpml-run", *words, "experiment=mine/tiny", "hydra.run.dir=out")
    assert done.code == 0, done.err
    files = {"results/plan.csv 644", "results/claims.md 644", RESULT, "cache/secret 600"}
    assert left(people, given) == files | {f"results/mine/tiny{end} 644" for end in EXPERIMENT}
    (result,) = (people / "results/.cells").rglob("*.json")
    assert "people" not in result.read_text()


def test_what_a_federation_leaves_behind(people, run_command):
    given = set(people.rglob("*"))
    words = ["people.csv", "other.csv", "third.csv", "--bounds", "people.yaml", "-o", "model.json", "--release"]
    done = run_command("dpml", "federate", "try", *words, "--set", "algo=ssp", "eps=1", "delta=1e-5")
    assert done.code == 0, done.err
    assert left(people, given) == {"model.json 644", *(f"{name}.csv.ledger 600" for name in FILES)}
