"""A user's mistake, and a system that says no, get one sentence that says what to do; a bug stays a traceback."""

import errno
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from harness import tables

from dpml.cli.errors import sentence
from dpml.errors import UserError

Shell = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_system_says_no() -> None:
    assert sentence(OSError(errno.ENOSPC, "", "results/rows.csv")) == "results/rows.csv: no space left on device."
    assert sentence(OSError(errno.EIO, "")) == "input/output error."  # of stdout, there is no name


def test_what_is_nobodys_mistake_stays_an_exception() -> None:
    assert sentence(OSError("made up by a program")) is None
    assert sentence(ValueError("of our own")) is None
    assert sentence(KeyError("view")) is None


def test_want_of_memory() -> None:
    assert str(sentence(MemoryError())).startswith("there is not enough memory: ask for fewer")
    assert "a worker process was killed" in str(sentence(BrokenProcessPool("abruptly")))


MISTAKES = [  # one of each kind: Hydra's own, of a value, of an option, of the data, of a sweep
    (["algo=capfm"], "unknown algo 'capfm': did you mean 'capefm'?"),
    (["algo=3"], "unknown algo '3': choose one of adassp, amp, avg, batch,"),
    (["algo={a: 1}"], "unknown algo '{a:1}': choose one of adassp,"),
    (["dataset=null"], "unknown dataset 'null': choose one of adult,"),
    (["experiment=imtiaz2019/fgi3"], "unknown experiment 'imtiaz2019/fgi3': did you mean 'imtiaz2019/fig3'?"),
    (["experiment=nope"], "unknown experiment 'nope': choose one of all, audit, audit/all, frontier, frontier/centre,"),
    (["epss=1"], "unknown key 'epss': did you mean 'eps'?"),
    (["+algo.rigde=1"], "unknown key 'algo.rigde': did you mean 'algo.ridge'?"),
    (["eps"], "cannot read the override 'eps': write KEY=VALUE, with quotes around special characters."),
    (["capefm"], "cannot read the override 'capefm': write algo=capefm."),
    (["dataset.path=f.csv"], "unknown key 'dataset.path': it is an option of dataset=csv, so add dataset=csv."),
    (["eps=0"], "eps must be a positive number (inf for no noise), got eps=0"),
    (["data_dir=3"], """data_dir must be text, got data_dir=3: write data_dir='"3"'."""),
    (["~eps"], "eps is missing: a run needs it, so remove ~eps"),
    (["M=[1,???]"], "M must be a whole number, got M=???"),
    (["run=3"], "run has keys of its own: run.address, run.dry, run.force, run.workers"),
    (["M=1000"], "M=1000 parties need at least one training row each, but N=455"),
    (["dataset=crime", "data_dir=nowhere"], "nowhere/crime"),
    (["algo=capefm,conv"], "'algo=capefm,conv' has several values: add -m to dpml-run to sweep over them."),
    (["eps=0,1"], "has several values: add -m to dpml-run to sweep over them, or write a list, eps=[0,1]."),
    (["draws=1,2"], "'draws=1,2' has several values: add -m to dpml-run to sweep over them."),  # it takes no list
    (["loss=squared,logistic"], "has several values: add -m to dpml-run to sweep over them."),
    (["seed=0..3,5"], "'seed=0..3,5' has several values: add -m to dpml-run to sweep over them."),
    (["algo=[capefm,conv]"], "algo takes one name, got algo=[capefm,conv]: for several, dpml-run -m algo=capefm,conv."),
    (["experiment=[imtiaz2019/fig3,imtiaz2019/fig4]"], "for several, dpml-run -m experiment=imtiaz2019/fig3,imtiaz20"),
    (["-m", "algo=capefm,capfm"], "unknown algo 'capfm': did you mean 'capefm'?"),
    (["hydra.run.dri=x"], "unknown key 'hydra.run.dri': did you mean 'hydra.run.dir'?"),
    (["hydra/launcher=joblb"], "unknown hydra/launcher 'joblb': did you mean 'joblib'?"),
    (["--config-name", "other"], "unknown configuration 'other'."),
    (["--config-dir", "nowhere"], "--config-dir=nowhere is not a folder."),
]


@pytest.mark.parametrize(("words", "expected"), MISTAKES, ids=lambda value: " ".join(value)[:40])
def test_a_mistake_gets_one_sentence_and_leaves_nothing(run_command, tmp_path, words, expected) -> None:
    done = run_command("dpml-run", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("dpml-run: error: ")
    assert done.err.count("\n") == 1
    assert expected in done.err
    assert list(tmp_path.iterdir()) == []


FURTHER = [  # of values, which Hydra has nothing to do with
    (["eps=nan"], "eps must be from 1e-30 to 1e30, or inf"),
    (["eps=[]"], "eps must be one value or a list of at least one"),
    (["eps=[1,1e31]"], "eps must be from 1e-30 to 1e30, or inf for no noise, got eps=1e+31"),
    (["eps=abc"], "eps must be a number, got eps=abc"),
    (["delta=1"], "delta must lie strictly between 0 and 1"),
    (["M=0"], "M must be at least 1"),
    (["dataset=synthetic", "N=0"], "N must be at least 1, got N=0"),
    (["M=inf"], "M must be a whole number, got M=inf"),
    (["N=1000"], "N=1000 training rows were asked for, but dataset=wdbc has 455"),
    (["draws=true"], "draws must be a whole number, got draws=true"),
    (["draws=1..3"], "draws must be a whole number, got draws=1..3"),
    (["seed=-1"], "seed must be at least 0"),
    (["seed=0..2.5"], "seed must be a whole number, got seed=0..2.5"),
    (["offline=1"], "offline must be true or false, got offline=1"),
    (["loss=3"], "loss must be text, got loss=3"),
    (["loss=squard"], "unknown loss 'squard': did you mean 'squared'?"),
    (["algo=nonpriv", "loss=softmax"], "loss=softmax takes the whole numbers 0..K-1, but the data have the label -1"),
    (["algo=ssp", "loss=softmax"], "loss=softmax takes the whole numbers 0..K-1, but the data have the label -1"),
    (["dataset=synthetic", "loss=logistic"], "loss=logistic takes the labels -1 and +1, but the data have the label"),
    (["algo=dpfm", "algo.variant=authors", "calibration=tight"], "set calibration=published"),
    (["metrics=3"], "metrics must be text, got metrics=3"),
    (["adversary=2"], "adversary has keys of its own: adversary.colluders"),
    (["algo.lam=x"], "algo.lam must be a number"),
    (["algo.lam=-1"], "algo.lam must be from 0"),
    (["dataset.steps=[min_max]"], "but the guarantee needs rows in the unit ball"),
    (["dataset.steps=[minmax]"], "unknown preprocessing step 'minmax' in dataset.steps: did you mean 'min_max'?"),
    (["dataset.steps=clip"], "dataset.steps must be a list"),
    (["dataset=synthetic", "dataset.recipe=linaer"], "did you mean 'linear'?"),
    (["partition=fractions", "partition.fractions=[.5,x]"], "partition.fractions must be a number, got"),
    (["partition=natural"], "but dataset=wdbc does not say whose: choose another partition"),
    (["partition.auxiliary=2"], "partition.auxiliary must be a share in [0, 1)"),
]


@pytest.mark.parametrize(("words", "expected"), FURTHER, ids=lambda value: " ".join(value)[:40])
def test_the_sentences_of_further_mistakes(tmp_path, words, expected) -> None:
    with pytest.raises(UserError) as mistake:
        tables(words, tmp_path / "results")
    assert expected in str(mistake.value)
    assert "\n" not in str(mistake.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["guarantee", "eps=[1,2]"], "dpml guarantee takes one eps"),
        (["guarantee", "N=0"], "N must be at least 1, got N=0"),
        (["guarantee", "partition=[equal]"], "partition takes one name, got partition=[equal]: write partition=equal."),
        (["guarantee", "seed=1..2"], "dpml guarantee takes one seed, got seed=1..2."),
        (["guarantee", "epss=1"], "unknown key 'epss': did you mean 'eps'?"),
        (["guarantee", "d=x"], "d must be a whole number"),
        (["guarantee", "results_dir=[a]"], "results_dir must be text, got results_dir=['a']"),
        (["guarantee", "M=10", "N=5"], "M=10 parties need at least one training row each, but N=5"),
        (["audit", "M=inf"], "M must be a whole number"),
        (["audit", "--config-dir", "nowhere"], "--config-dir=nowhere is not a folder."),
        (["plot", "nowhere"], "there is no nowhere/rows.csv"),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_mistakes_with_dpml(run_command, words, expected) -> None:
    done = run_command("dpml", *words)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert done.err.count("\n") == 1


def test_an_unknown_option_says_how_the_command_is_used(run_command) -> None:
    done = run_command("dpml", "guarantee", "algo=capefm", "--jsn")
    assert done.code == 2
    assert done.err.startswith("usage: dpml guarantee ")
    assert "unrecognized arguments: --jsn" in done.err
    done = run_command("dpml", "verify", "results", "dataset.path=a.csv")  # it takes a path, but has no option --path
    assert done.code == 2
    assert "unrecognized arguments: dataset.path=a.csv" in done.err


# ---- plug-ins

PLUG_INS = {
    "absent": (None, "=absent.Mine: No module named 'absent'. A module of your own must be in a folder of PYTHONPATH."),
    "misspelt": ("class Mien: pass\n", "misspelt.py has no 'Mine': did you mean 'Mien'?"),
    "broken": ("class Mine\n", "(broken.py, line 1)"),
    "needing": ("import a_module_of_nobody\n", "No module named 'a_module_of_nobody'"),
    "lossless": ("def Mine(calibration): pass\n", "unexpected keyword argument 'loss'"),
    "greedy": ("def Mine(loss, calibration, more): pass\n", "missing a required argument: 'more'"),
}


@pytest.mark.slow_cases("dpml-run-command1-greedy")
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
    done = run_command("dpml", "guarantee", "--config-dir", "own", "algo=mean_modle")
    assert "unknown algo 'mean_modle': did you mean 'mean_model'?" in done.err


# ---- the system, as it is


def test_hydra_passes_errors_on_whatever_it_is_told(run_command, monkeypatch) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    done = run_command("dpml-run", "algo=nope")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "unknown algo 'nope'" in done.err


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
def test_figures_need_no_notebook_that_a_shell_belongs_to(shell: Shell, tmp_path: Path) -> None:
    """The shell of a Jupyter notebook has this variable, and another environment than dpml perhaps."""
    done = shell("MPLBACKEND=module://nowhere.to_be_found DPML_RUN draws=2 N=50 eps=[1,2] hydra.run.dir=out")
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0)
    assert (tmp_path / "out/figure.png").is_file()


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
