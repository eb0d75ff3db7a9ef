"""What the tests share: running the commands in this process, from an empty folder."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dpml import cli

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run ``dpml-run`` or ``dpml`` with some words, in an empty working folder without a data cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")

    def run(program: str, *words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", [program, *words])
        capsys.readouterr()
        code = 0
        try:
            {"dpml-run": cli.dpml_run, "dpml": cli.dpml}[program]()
        except SystemExit as stop:
            if isinstance(stop.code, str):
                print(stop.code, file=sys.stderr)
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
