"""A user's mistake, and a system that says no, get one sentence that says what to do; a bug stays a traceback."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dpml.cli.errors import sentence

Shell = Callable[..., "subprocess.CompletedProcess[str]"]


def test_want_of_memory() -> None:
    assert str(sentence(MemoryError())).startswith("there is not enough memory: ask for fewer")


MISTAKES = [  # one of each kind: Hydra's own, of a value, of an option, of the data, of a sweep, of a command
    ("dpml-run algo=capfm", "did you mean 'capefm'"),
    ("dpml-run algo=3", "unknown algo '3'"),
    ("dpml-run experiment=imtiaz2019/fgi3", "did you mean 'imtiaz2019/fig3'"),
    ("dpml-run epss=1", "did you mean 'eps'"),
    ("dpml-run +algo.rigde=1", "did you mean 'algo.ridge'"),
    ("dpml-run eps", "KEY=VALUE"),
    ("dpml-run capefm", "write algo=capefm"),
    ("dpml-run dataset.path=f.csv", "add dataset=csv"),
    ("dpml-run eps=0", "eps must be a positive number"),
    ("dpml-run data_dir=3", "data_dir must be text"),
    ("dpml-run ~eps", "eps is missing"),
    ("dpml-run M=1000", "M=1000"),
    ("dpml-run dataset=crime data_dir=nowhere", "nowhere/crime"),
    ("dpml-run algo=capefm,conv", "add -m to dpml-run"),
    ("dpml-run eps=0,1", "eps=[0,1]"),
    ("dpml-run algo=[capefm,conv]", "dpml-run -m algo=capefm,conv"),
    ("dpml-run -m algo=capefm,capfm", "did you mean 'capefm'"),
    ("dpml-run hydra.run.dri=x", "did you mean 'hydra.run.dir'"),
    ("dpml-run hydra/launcher=joblb", "did you mean 'joblib'"),
    ("dpml-run --config-dir nowhere", "--config-dir=nowhere"),
    ("dpml-run eps=nan", "eps"),
    ("dpml-run eps=[1,1e31]", "eps"),
    ("dpml-run eps=abc", "eps"),
    ("dpml-run delta=1", "delta"),
    ("dpml-run M=0", "M"),
    ("dpml-run dataset=synthetic N=0", "N=0"),
    ("dpml-run N=1000", "N=1000"),
    ("dpml-run draws=true", "draws"),
    ("dpml-run seed=-1", "seed"),
    ("dpml-run seed=0..2.5", "seed"),
    ("dpml-run offline=1", "offline"),
    ("dpml-run loss=squard", "did you mean 'squared'"),
    ("dpml-run algo=nonpriv loss=softmax", "loss=softmax"),
    ("dpml-run dataset=synthetic loss=logistic", "loss=logistic"),
    ("dpml-run algo=dpfm algo.variant=authors calibration=tight", "calibration=published"),
    ("dpml-run metrics=3", "metrics"),
    ("dpml-run algo.lam=-1", "algo.lam"),
    ("dpml-run dataset.steps=[min_max]", "unit ball"),
    ("dpml-run dataset.steps=clip", "dataset.steps"),
    ("dpml-run partition=fractions partition.fractions=[.5,x]", "partition.fractions"),
    ("dpml-run partition=natural", "dataset=wdbc"),
    ("dpml guarantee eps=[1,2]", "eps"),
    ("dpml guarantee partition=[equal]", "partition must have one value"),
    ("dpml release eps=1,2", "eps must have one value"),
    ("dpml guarantee d=x", "d must be a whole number"),
    ("dpml guarantee M=10 N=5", "M=10"),
    ("dpml plot nowhere", "nowhere/rows.csv"),
    ("dpml ledger nowhere", "nowhere"),
    ("dpml guarantee algo=capefm --eps 1", "write eps=1"),
    ("dpml-run -m --algo.shift 2", "write algo.shift=2"),
    ("dpml release --delta", "write delta=VALUE"),
    ("dpml gaurantee algo=capefm", "did you mean 'guarantee'"),
    ("dpml data lst", "did you mean 'list'"),
    ("dpml run algo=capefm", "write dpml-run"),
]


@pytest.mark.parametrize(("command", "expected"), MISTAKES, ids=lambda value: value[:40])
def test_a_mistake_gets_one_sentence_and_leaves_nothing(run_command, tmp_path, command, expected) -> None:
    done = run_command(*command.split())
    assert done.code == 2
    assert re.match(rf"{command.split()[0]}[a-z ]*: error: ", done.err)
    assert done.err.count("\n") == 1
    assert expected in done.err
    assert list(tmp_path.iterdir()) == []


PLUG_INS = {
    "absent": (None, "No module named 'absent'"),
    "misspelt": ("class Mien: pass\n", "did you mean 'Mien'"),
    "broken": ("class Mine\n", "broken.py, line 1"),
    "needing": ("import a_module_of_nobody\n", "a_module_of_nobody"),
    "greedy": ("def Mine(loss, calibration, more): pass\n", "more"),
}


@pytest.mark.slow_cases("dpml-run-command1-greedy")
@pytest.mark.parametrize(
    ("program", "command", "name"),
    [("dpml-run", [], "broken"), ("dpml-run", [], "greedy"), *(("dpml", ["guarantee"], name) for name in PLUG_INS)],
)
def test_a_plug_in_that_cannot_be_used(run_command, tmp_path, monkeypatch, name, program, command) -> None:
    content, expected = PLUG_INS[name]
    own = tmp_path / "it's mine, x"  # which needs quoting
    (own / "algo").mkdir(parents=True)
    (own / f"algo/{name}.yaml").write_text(f"_target_: {name}.Mine\n")
    if content is not None:
        (tmp_path / f"{name}.py").write_text(content)
    monkeypatch.delitem(sys.modules, name, raising=False)
    done = run_command(program, *command, "--config-dir", own.name, f"algo={name}")
    assert done.code == 2
    assert expected in done.err
    assert done.err.count("\n") == 1


def test_a_bug_of_a_plug_in_stays_a_traceback(run_command, tmp_path) -> None:
    (tmp_path / "own/algo").mkdir(parents=True)
    (tmp_path / "own/algo/buggy.yaml").write_text("_target_: buggy.Mine\n")
    (tmp_path / "buggy.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        run_command("dpml", "guarantee", "--config-dir", "own", "algo=buggy")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Run a line of shell in an empty folder; DPML and DPML_RUN in it stand for the commands."""
    bin_ = Path(sys.executable).parent

    def run(line: str) -> "subprocess.CompletedProcess[str]":
        line = line.replace("DPML_RUN", shlex.quote(f"{bin_}/dpml-run")).replace("DPML", shlex.quote(f"{bin_}/dpml"))
        usual = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
        return subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=usual, capture_output=True, text=True, timeout=120
        )

    return run


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ("file", "not a directory."),
        ("/proc/nowhere", "/proc/nowhere: no such file or directory."),
    ],
)
def test_results_cannot_go_there(run_command, tmp_path, results, expected) -> None:
    (tmp_path / "file").touch()
    done = run_command("dpml-run", "draws=1", "N=50", f"results_dir={results}")
    assert done.code == 2
    assert expected in done.err
    assert results in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
@pytest.mark.parametrize("command", ["DPML guarantee", "PYTHONUNBUFFERED=1 DPML guarantee", "DPML_RUN draws=1 N=50"])
def test_a_full_disk(shell: Shell, command: str) -> None:
    done = shell(f"{command} > /dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "error: no space left on device." in done.stderr


@pytest.mark.slow_cases("DPML secagg -M 2 -d 2")
@pytest.mark.parametrize(
    "command",
    [
        "DPML secagg -M 2 -d 2",
        "DPML --help",
        pytest.param("DPML guarantee --json", marks=pytest.mark.slow),
        pytest.param("DPML_RUN --help", marks=pytest.mark.slow),
        pytest.param("DPML_RUN run.dry=true", marks=pytest.mark.slow),
    ],
)
def test_a_reader_that_leaves_is_no_error(shell: Shell, command: str) -> None:
    # the reader is gone before the first line is written
    done = shell(f"set -o pipefail; {{ sleep 0.2; {command}; }} | true")
    assert done.stderr == ""
    assert done.returncode in (0, 1)  # argparse does not mind


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("p", {"plot", "predict"}),
        ("data des", {"describe"}),
        ("release --ca", {"--cap", "--cap-delta"}),
        ("guarantee algo = cap", {"capefm"}),
        ("release ep", {"eps="}),
    ],
)
def test_bash_completes(run_command, words, expected) -> None:
    done = run_command("dpml", "completion", "bash")
    assert (done.code, done.err) == (0, "")
    ask = f'COMP_WORDS=(dpml {words}); COMP_CWORD={len(words.split())}; _shtab_dpml; echo "${{COMPREPLY[@]}}"'
    found = subprocess.run(["bash", "-c", done.out + ask], capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == expected
