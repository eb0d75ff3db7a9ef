"""The entry points: the version, and Ctrl-C at any moment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import RARE, imported

from dpml import __version__


@pytest.mark.parametrize("program", ["dpml", "dpml-run"])
def test_the_version_is_dpmls(run_command, program) -> None:
    done = run_command(program, "--version")
    assert (done.code, done.out, done.err) == (0, f"dpml {__version__}\n", "")


LIBRARIES = {"numpy", "scipy", "pandas", "hydra", "omegaconf", "yaml", *RARE}  # NumPy alone makes help slow


@pytest.mark.parametrize(
    ("words", "not_loaded", "shown"),
    [
        (["dpml", "--help"], LIBRARIES, "guarantee"),
        pytest.param(["dpml-run", "algo=capefm", "eps=0.1"], {*RARE}, "claimed ε", marks=pytest.mark.slow),
    ],
)
def test_a_command_from_a_shell_waits_for_no_library_that_it_does_not_need(tmp_path, words, not_loaded, shown) -> None:
    """Python itself says on stderr what it imports."""
    program = Path(sys.executable).with_name(words[0])
    environment = os.environ | {"PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(
        [program, *words[1:]], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    loaded = imported(done.stderr)
    assert "dpml.cli.errors" in loaded
    assert not loaded & not_loaded
    assert shown in done.stdout
    files = {path.name for folder in tmp_path.glob("results/runs/*/*") for path in folder.iterdir()}
    assert files == ({"rows.csv", "guarantees.csv", "manifest.json"} if words[0] == "dpml-run" else set())


# a finder of modules that presses Ctrl-C when one of them is imported, which an import may catch and ignore
INTERRUPT = """
import os, signal, sys
from dpml import cli

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
            except KeyboardInterrupt:
                print("caught and ignored", file=sys.stderr)
        return None

sys.meta_path.insert(0, Finder())
sys.argv = {argv!r}
getattr(cli, {entry!r})()
"""


@pytest.mark.parametrize(
    ("entry", "module", "argv"),
    [
        ("dpml_run", "hydra", ["dpml-run"]),
        ("dpml", "dpml.cli.privacy", ["dpml", "guarantee"]),
    ],
)
def test_ctrl_c_while_modules_are_loaded(tmp_path, entry, module, argv) -> None:
    program = INTERRUPT.format(entry=entry, module=module, argv=argv)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_later(run_command, monkeypatch) -> None:
    def interrupt(arguments) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpml.cli.privacy.run_secagg", interrupt)
    done = run_command("dpml", "secagg")
    assert (done.code, done.out, done.err) == (130, "", "")
