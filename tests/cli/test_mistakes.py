"""A user's mistake, and a system that says no, get one sentence that says what to do; a bug stays a traceback."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from harness import tables

from dpml.cli.errors import exit_on_mistakes, sentence
from dpml.errors import UserError

Shell = Callable[..., "subprocess.CompletedProcess[str]"]


SYSTEM = {
    errno.ENOSPC: "the disk is full: make room",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied: change the permissions",
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.EEXIST: "there is a file of this name",
    errno.ENOENT: "there is no such file or folder",
    errno.EMFILE: "too many files are open: raise the limit",
    errno.EIO: "input/output error",  # one without advice
}


@pytest.mark.parametrize("number", SYSTEM, ids=errno.errorcode.get)
def test_the_system_says_no(number: int) -> None:
    said = sentence(OSError(number, os.strerror(number), "results/rows.csv"))
    assert said is not None
    assert said.startswith("results/rows.csv: ")
    assert SYSTEM[number] in said
    assert said.endswith(".")


@pytest.mark.parametrize(
    ("program", "file", "advised"),
    [("dpml-run", "out/rows.csv", True), ("dpml-run", None, False), ("dpml", "m", False)],
)
def test_another_folder_of_results_is_advised_where_results_are_written(program, file, advised, capsys) -> None:
    def write() -> None:
        raise OSError(errno.ENOSPC, "full", file)  # of stdout, there is no name

    with pytest.raises(SystemExit, match="2"):
        exit_on_mistakes(program, write)
    said = capsys.readouterr().err
    assert "the disk is full: make room, or write elsewhere" in said
    assert ("results_dir=DIR" in said) == advised


def test_what_is_nobodys_mistake_stays_an_exception() -> None:
    assert sentence(OSError("made up by a program")) is None
    assert sentence(ValueError("of our own")) is None
    assert sentence(KeyError("view")) is None


def test_want_of_memory() -> None:
    assert "there is not enough memory (Unable to allocate 36.4 TiB): ask for fewer" in str(
        sentence(MemoryError("Unable to allocate 36.4 TiB"))
    )
    assert str(sentence(MemoryError())).startswith("there is not enough memory: ask for fewer")
    assert "a worker process was killed" in str(sentence(BrokenProcessPool("abruptly")))


MISTAKES = [
    (["experiment=imtiaz2018/fig3"], "unknown experiment 'imtiaz2018/fig3': did you mean 'imtiaz2019/fig3'?"),
    (["experiment=imtiaz2019/fgi3"], "unknown experiment 'imtiaz2019/fgi3': did you mean 'imtiaz2019/fig3'?"),
    (["experiment=nope"], "unknown experiment 'nope': choose one of all, audit, audit/all, frontier, frontier/centre,"),
    (["experiment=imtiaz2019/fig4", "eps=abc"], "eps must be a number, got eps=abc"),
    (["N=1e400"], "N must be a whole number, got N=inf"),
    (["run.workers=2.5"], "run.workers must be a whole number"),
    (["offline=maybe"], "offline must be true or false, got offline=maybe"),
    (["data_dir=3"], """data_dir must be text, got data_dir=3: write data_dir='"3"'."""),
    (["~eps"], "eps is missing: a run needs it, so leave ~eps out"),
    (["~dataset"], "dataset is missing: a run needs it"),
    (["algo=3"], "unknown algo '3': choose one of adassp, amp, avg, batch,"),
    (["algo={a: 1}"], "unknown algo '{a: 1}': choose one of adassp,"),
    (["dataset=null"], "unknown dataset 'null': choose one of adult,"),
    (["hydra.run.dri=x"], "unknown key 'hydra.run.dri': did you mean 'hydra.run.dir'?"),
    (["hydra/launcher=joblb"], "unknown hydra/launcher 'joblb': did you mean 'joblib'?"),
    (["--config-name", "other"], "unknown configuration 'other'."),
    (["--config-dir", "nowhere"], "nowhere' not found"),
]


@pytest.mark.parametrize(("words", "expected"), MISTAKES, ids=lambda value: " ".join(value)[:40])
def test_a_mistake_gets_one_sentence(run_command, tmp_path, words, expected) -> None:
    done = run_command("dpml-run", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("dpml-run: error: ")
    assert done.err.count("\n") == 1
    assert expected in done.err
    assert list(tmp_path.iterdir()) == []


FURTHER = [  # of values, which Hydra has nothing to do with
    (["eps=1e-320"], "eps must lie between 1e-30 and 1e+30, or be inf for no noise"),
    (["eps=[1,1e31]"], "eps must lie between 1e-30 and 1e+30, or be inf for no noise, got eps=1e+31"),
    (["delta=x"], "delta must be a number, got delta=x"),
    (["M=inf"], "M must be a whole number, got M=inf"),
    (["N=nan"], "N must be a whole number, got N=nan"),
    (["seed=null"], "seed must be a whole number, got seed=null"),
    (["draws=true"], "draws must be a whole number, got draws=true"),
    (["offline=1"], "offline must be true or false, got offline=1"),
    (["run.dry=maybe"], "run.dry must be true or false, got run.dry=maybe"),
    (["loss=3"], "loss must be text, got loss=3"),
    (["dataset=synthetic", "dataset.recipe=3"], "dataset.recipe must be text, got dataset.recipe=3"),
    (["dataset.steps=null"], "dataset.steps must be a list, got dataset.steps=null."),
    (["partition=fractions", "partition.fractions=[.5,x]"], "partition.fractions must be a number, got"),
    (["draws=abc"], "draws must be a whole number, got draws=abc"),
    (["M=abc"], "M must be a whole number, got M=abc"),
    (["seed=0..2.5"], "seed must be a whole number, got seed=0..2.5"),
    (["draws=1..3"], "draws must be a whole number, got draws=1..3"),
]


@pytest.mark.parametrize(("words", "expected"), FURTHER, ids=lambda value: " ".join(value)[:40])
def test_the_sentences_of_further_mistakes(default, tmp_path, words, expected) -> None:
    with pytest.raises(UserError) as mistake:
        tables(default, words, tmp_path / "results")
    assert expected in str(mistake.value)
    assert "\n" not in str(mistake.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["guarantee", "draws=abc"], "draws must be a whole number, got draws=abc"),
        (["guarantee", "seed=[1,2]"], "dpml guarantee takes one seed"),
        (["guarantee", "seed=1..2"], "dpml guarantee takes one seed, got seed=1..2."),
        (["guarantee", "epss=1"], "unknown key 'epss': did you mean 'eps'?"),
        (["guarantee", "eps=1e-320"], "eps must lie between"),
        (["guarantee", "algo=3"], "unknown algo '3'"),
        (["guarantee", "results_dir=[a]"], "results_dir must be text, got results_dir=['a']"),
        (["audit", "M=inf"], "M must be a whole number"),
        (["audit", "--config-dir", "nowhere"], "--config-dir=nowhere is no folder."),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_mistakes_with_dpml(run_command, words, expected) -> None:
    done = run_command("dpml", *words)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", ["guarantee", "audit"])
def test_an_unknown_option_says_how_the_command_is_used(run_command, command) -> None:
    done = run_command("dpml", command, "algo=capefm", "--jsn")
    assert done.code == 2
    assert "unrecognized arguments: --jsn" in done.err


# ---- plug-ins

PLUG_INS = {
    "absent": (None, "=absent.Mine: no module 'absent' is found: put absent.py into a folder of PYTHONPATH."),
    "misspelt": ("class Mien: pass\n", "misspelt.py has no class 'Mine': did you mean 'Mien'?"),
    "broken": ("class Mine\n", "broken.py, line 1: "),
    "needing": ("import a_module_of_nobody\n", "needs the module 'a_module_of_nobody', which is not installed."),
    "lossless": ("def Mine(calibration): pass\n", "unexpected keyword argument 'loss'"),
    "greedy": ("def Mine(loss, calibration, more): pass\n", "missing a required argument: 'more'"),
}


@pytest.mark.parametrize(
    ("program", "command", "name"),
    [("dpml-run", [], "broken"), ("dpml-run", [], "greedy"), *(("dpml", ["guarantee"], name) for name in PLUG_INS)],
)
def test_a_plug_in_that_cannot_be_used(run_command, tmp_path, monkeypatch, name, program, command) -> None:
    content, expected = PLUG_INS[name]
    (tmp_path / "own/algo").mkdir(parents=True)
    (tmp_path / f"own/algo/{name}.yaml").write_text(f"_target_: {name}.Mine\n")
    if content is not None:
        (tmp_path / f"{name}.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    done = run_command(program, *command, "--config-dir", "own", f"algo={name}")
    assert done.code == 2
    assert expected in done.err
    assert done.err.count("\n") == 1


def test_a_bug_of_a_plug_in_stays_a_traceback(run_command, tmp_path, monkeypatch) -> None:
    (tmp_path / "own/algo").mkdir(parents=True)
    (tmp_path / "own/algo/buggy.yaml").write_text("_target_: buggy.Mine\n")
    (tmp_path / "buggy.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError):
        run_command("dpml", "guarantee", "--config-dir", "own", "algo=buggy")


def test_an_option_from_outside_is_suggested_too(run_command, tmp_path) -> None:
    (tmp_path / "own/algo").mkdir(parents=True)
    (tmp_path / "own/algo/mean_model.yaml").write_text("_target_: mean_model.MeanModel\n")
    for words in (["dpml-run"], ["dpml", "guarantee"]):
        done = run_command(*words, "--config-dir", "own", "algo=mean_modle")
        assert "unknown algo 'mean_modle': did you mean 'mean_model'?" in done.err


# ---- the system, as it is


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Run a line of shell in an empty folder; DPML and DPML_RUN in it stand for the commands."""
    bin_ = Path(sys.executable).parent

    def run(line: str) -> "subprocess.CompletedProcess[str]":
        line = line.replace("DPML_RUN", f"{bin_}/dpml-run").replace("DPML", f"{bin_}/dpml")
        return subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=120)

    return run


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ("file", "a part of this path is a file, not a folder: choose another folder."),
        ("/proc/nowhere", "/proc/nowhere: there is no such file or folder, and none can be made: choose another."),
    ],
)
def test_results_cannot_go_there(run_command, tmp_path, results, expected) -> None:
    (tmp_path / "file").touch()
    done = run_command("dpml-run", "draws=1", "N=50", f"results_dir={results}")
    assert done.code == 2
    assert expected in done.err
    assert results in done.err
    assert "Traceback" not in done.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
@pytest.mark.parametrize("command", ["secagg -M 2 -d 2", pytest.param("guarantee", marks=pytest.mark.slow)])
def test_a_full_disk(shell: Shell, command: str) -> None:
    done = shell(f"DPML {command} > /dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "dpml: error: the disk is full" in done.stderr


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


TABLES = {
    "empty": b"",
    "binary": b"\xff\xfe\x00\x01",
    "cut off": b"dataset,partition,algo\nwdbc,eq",
    "of something else": b"a,b\n1,2\n",
}


@pytest.mark.parametrize("content", TABLES)
@pytest.mark.parametrize("command", [["plot", "folder"], ["merge", "folder", "folder", "-o", "union"]])
def test_a_table_that_is_none(run_command, tmp_path, command, content) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("rows.csv", "guarantees.csv"):
        (tmp_path / "folder" / name).write_bytes(TABLES[content])
    done = run_command("dpml", *command)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith("dpml: error: folder/rows.csv is no")
    assert not (tmp_path / "union").exists()
