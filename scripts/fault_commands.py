"""Commands of dpml in processes of their own, and what came of a fault, for `faults.py`."""

import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "faults"))
import failing  # noqa: E402
from failing import COMMANDS, RUN, prepare, temporary  # noqa: E402

from dpml.release.ledger import Ledger  # noqa: E402

__all__ = ["COMMANDS", "prepare", "temporary"]  # of the tests of faults, whose folder is no package

PATIENCE = 300.0
STATED = "columns: {a: {low: -5, high: 5}, b: {low: -5, high: 5}}\nclasses: [0, 1]\n"
RELEASE = ["dpml", "release", *RUN[1:4], "dataset.bounds=own.yaml", "algo=ssp", "eps=0.1", "delta=1e-5"]
RELEASE += ["--delta-anyway", "--ledger", "ledger", "-o"]


@dataclass
class Tally:
    """What came of a fault.

    Attributes:
        times: how often it was tried.
        met: how often a command was ended by it, or said in one sentence that it could not go on.
        wrong: tables or models that are not those of an undisturbed run.
        lost: releases that a ledger does not have, or entries that have gone.
        tracebacks: outputs that are more than one sentence.
        left: folders in which a temporary file is there in the end.
    """

    times: int = 0
    met: int = 0
    wrong: int = 0
    lost: int = 0
    tracebacks: int = 0
    left: int = 0

    @property
    def bad(self) -> int:
        """How much of it should not be."""
        return self.wrong + self.lost + self.tracebacks + self.left


@dataclass
class Command:
    """A command that runs in a process of its own, which leads a group as at a terminal."""

    folder: Path
    words: Sequence[str]

    def __post_init__(self) -> None:
        number, name = tempfile.mkstemp()
        os.close(number)
        self.log = Path(name)
        self.process: ForkProcess = get_context("fork").Process(target=self._run)
        self.process.start()

    def _run(self) -> None:
        os.setsid()
        os.chdir(self.folder)
        number = os.open(self.log, os.O_WRONLY)
        os.dup2(number, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = list(self.words)
        failing.PROGRAMS[self.words[0]]()

    def after(self, seconds: float, sign: signal.Signals) -> None:
        """Send a signal; Ctrl-C reaches what the process has started, too."""
        time.sleep(seconds)
        with suppress(ProcessLookupError):
            (os.killpg if sign is signal.SIGINT else os.kill)(self.process.pid or 0, sign)

    def end(self) -> tuple[int, str]:
        """Its exit status, once it has ended, and what it said on stderr."""
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
            return 1, "Traceback: it does not end"
        said = self.log.read_text(errors="replace")
        self.log.unlink()
        return self.process.exitcode or 0, said


def undisturbed(folder: Path, words: Sequence[str]) -> float:
    """Run a command to its end: the seconds that it took.

    Raises:
        RuntimeError: it failed.
    """
    began = time.monotonic()
    status, said = Command(folder, words).end()
    if status:
        raise RuntimeError(f"{' '.join(words)}: {status}: {said}")
    return time.monotonic() - began


def more_than_a_sentence(status: int, said: str) -> bool:
    """Whether a command that was ended, or refused, says anything but one sentence, which is printed."""
    more = "Traceback" in said or (status == 2 and said.count("error: ") != 1)
    if more:
        print(f"exit status {status}:\n{said}", file=sys.stderr)
    return more


def entered(folder: Path) -> list[dict[str, Any]]:
    """All entries of a ledger; what an entry's model is may still come."""
    return [asdict(entry) for entry in Ledger(folder / "ledger").entries()]


def made(folder: Path) -> dict[str, bytes]:
    """What a command has made, but the folder's name and the versions of libraries.

    Hydra's file about a sweep names the folder; a fork of this program has loaded more libraries than a worker.
    """
    parts = rb'"(versions|distributions)": {[^}]*}|' + re.escape(os.fsencode(folder))
    return {name: re.sub(parts, b"", content) for name, content in failing.made(folder).items()}
