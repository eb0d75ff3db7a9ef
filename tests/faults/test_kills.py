"""Commands that are killed or ended at any moment: the same command then gives the same bytes, and nothing is left.

Random moments, the first second among them; `test_killed_at_every_step_of_writing` has those that matter.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import mini
import numpy as np
import pytest
from failing import BEFORE, COMMANDS, go, made, prepare, temporary

from dpml.atomic import MACHINE, write_atomically

EVERY_STEP = ("run", "merge", "plot", "report", "describe", "get")  # a sweep and an experiment write as a run does

PROGRAM = (
    "import sys; from dpml import cli; sys.argv[0] = sys.argv.pop(1); getattr(cli, sys.argv[0].replace('-', '_'))()"
)


def start(folder: Path, words: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a terminal of its own, in a way: its signals reach nobody else
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_STEP)
def test_killed_at_every_step_of_writing(folder: Path, name: str) -> None:
    program = [sys.executable, str(Path(__file__).with_name("crash.py")), str(folder), name]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["steps"] > 2
    assert found["problems"] == {}


@pytest.mark.slow
def test_ctrl_c_at_a_terminal_leaves_no_traceback(folder: Path) -> None:
    """It reaches the workers too, and finds them starting, waiting or at work."""
    words = [*COMMANDS["sweep"], "run.workers=2"]
    prepare(folder)
    began = time.monotonic()
    process = start(folder, words)
    process.communicate(timeout=60)
    whole = time.monotonic() - began
    for part in np.linspace(0.15, 0.9, 6):
        prepare(folder)
        process = start(folder, words)
        time.sleep(part * whole)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, -signal.SIGINT, 128 + signal.SIGINT)
        assert "Traceback" not in err


STARTING = """
import os, signal, time
from multiprocessing import util
from dpml.cli.errors import exit_on_mistakes
from dpml.running import executors
begin = util.spawnv_passfds
def interrupted(*words):
    process = begin(*words)
    if b"spawn_main" in b"".join(map(os.fsencode, words[1])):  # a worker
        signal.raise_signal({sign})
    return process
util.spawnv_passfds = interrupted
def main():
    try:
        executors.stop(executors.start("processes", 2, None))
    finally:  # a worker has time to read what it was told
        time.sleep(1)
if __name__ == "__main__":
    exit_on_mistakes("dpml", main)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_ended_while_a_worker_is_told_its_task(folder: Path, sign: signal.Signals) -> None:
    program = folder.with_name("starting.py")
    program.write_text(STARTING.replace("{sign}", str(int(sign))))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (128 + sign, "")


UNTOLD = re.compile(
    r'Traceback .*\n  File "<string>", line 1, in <module>\n(?:  File ".*multiprocessing.spawn.py", .*\n|   .*\n)+'
    r"(?:EOFError|_pickle.UnpicklingError: pickle data was truncated).*\n"
)
"""What a worker says that was being told its task when kill -9 ended the command: Python's words, none of dpml's."""


@dataclass(frozen=True)
class Uninterrupted:
    """A command, the folder it is given in, how many seconds it takes, and what it makes."""

    words: list[str]
    before: Path
    seconds: float
    made: dict[str, bytes]


@cache
def uninterrupted(folder: Path, name: str) -> Uninterrupted:
    words = [*COMMANDS[name], *(["run.workers=2"] if name != "report" else [])]
    prepare(folder)
    for first in BEFORE.get(name, ()):
        assert go(folder, first)[0] == 0
    before = shutil.copytree(folder, folder.with_name(f"before_{name}"))
    began = time.monotonic()
    process = start(folder, words)
    process.communicate(timeout=60)
    assert process.returncode == 0
    return Uninterrupted(words, before, time.monotonic() - began, made(folder))


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ["sweep", "experiment", "report"])
def test_ended_at_a_random_moment(folder: Path, name: str, sign: signal.Signals) -> None:
    """Moments are spread over as long as the command takes, three of them, from a seed."""
    whole = uninterrupted(folder, name)
    for part in np.random.default_rng(0).random(3):
        shutil.rmtree(folder)
        shutil.copytree(whole.before, folder)
        process = start(folder, whole.words)
        time.sleep(part * whole.seconds)
        process.send_signal(sign)
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, -sign, 128 + sign)
        assert "Traceback" not in (UNTOLD.sub("", err) if sign == signal.SIGKILL else err)
        assert go(folder, whole.words)[0] == 0
        assert made(folder) == whole.made
        assert temporary(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ended_while_a_file_is_on_its_way(folder: Path, monkeypatch: pytest.MonkeyPatch, sign: signal.Signals) -> None:
    """Half of it has come. Nothing of it is taken for the file, and the next try fetches what is missing."""
    half_sent, ended = threading.Event(), threading.Event()

    def half(path: str, answer: IO[bytes]) -> None:
        content = mini.served()[path]
        if path == "/two.zip" or ended.is_set():
            answer.write(content)
            return
        answer.write(content[: len(content) // 2])
        answer.flush()
        half_sent.set()
        ended.wait(60)

    prepare(folder)
    with mini.serving(half) as address:
        for name, value in {mini.URL: address, "DPML_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        process = start(folder, COMMANDS["get"])
        assert half_sent.wait(60)
        process.send_signal(sign)
        _, err = process.communicate(timeout=60)
        ended.set()
        assert process.returncode in (-sign, 128 + sign)
        assert "Traceback" not in err
        assert [path for path in made(folder) if "/." not in path] == ["out/mini/a.csv", "out/mini/b.csv"]
        status, out, err = go(folder, COMMANDS["get"])
    assert (status, out) == (0, "mini: ready, 120 rows x 2 columns as parsed, verified\n")
    assert "two.zip" not in err
    assert [path for path in made(folder) if "/." not in path] == [
        f"out/mini/{name}" for name in ("a.csv", "b.csv", "c.csv.gz")
    ]
    assert temporary(folder) == []


DEADLY = """import os, time
def deadly(weights, parties, loss, lam):
    time.sleep(0 if lam == 0.5 else 1)  # the others are in flight when it dies
    if lam == 0.5:
        os._exit(1)
    return weights[:, 0]
"""


@pytest.mark.slow
def test_a_job_that_brings_down_three_workers_is_failed_and_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are slower than it, so that each of them is in flight whenever it dies, unless it is alone."""
    prepare(folder)
    (folder / "out/own_metric.py").write_text(DEADLY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder / "out"), os.environ.get("PYTHONPATH", "")]))
    words = [*COMMANDS["sweep"][:-2], "algo.lam=0.3,0.4,0.5,0.6,0.7", "hydra.sweep.dir=out"]
    process = start(folder, [*words, "metrics=[own_metric.deadly]", "run.workers=2"])
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in err
    (told,) = (path.read_text() for path in folder.glob("results/.cells/*/*/error.txt"))
    assert told == "3 worker processes died while computing it (out of memory?)\n"
    assert len(list(folder.glob("results/.cells/*/*/result-*.json"))) == 4


# ---- what is left of a killed process


def test_who_writes_next_removes_what_was_left(tmp_path: Path) -> None:
    left = tmp_path / f".table.csv-{MACHINE}-{'0' * 32}"
    left.write_text("half")
    write_atomically(tmp_path / "table.csv", "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    """So do the files of another machine, whose locks may not be seen here, and what is of another name."""
    held = tmp_path / f".table.csv-{MACHINE}-{'0' * 32}"
    others = [tmp_path / f".table.csv-{'0' * 8}-{'0' * 32}", tmp_path / f".rows.csv-{MACHINE}-{'0' * 32}"]
    for path in (held, *others):
        path.write_text("half")
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_atomically(tmp_path / "table.csv", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", held.name, *(path.name for path in others)}


def test_a_file_that_is_swept_before_it_is_held_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, swept = fcntl.flock, []

    def first_swept(number: int, how: int) -> None:
        if not swept:
            swept.extend(tmp_path.iterdir())
            swept[0].unlink()
        lock(number, how)

    monkeypatch.setattr(fcntl, "flock", first_swept)
    write_atomically(tmp_path / "table.csv", "whole")
    assert (tmp_path / "table.csv").read_text() == "whole"
    assert len(swept) == 1


def test_without_locks_files_are_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(number: int, how: int) -> None:
        raise OSError(os.strerror(37))

    monkeypatch.setattr(fcntl, "flock", none)
    left = tmp_path / f".table.csv-{MACHINE}-{'0' * 32}"
    left.write_text("half")
    write_atomically(tmp_path / "table.csv", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", left.name}  # nobody knows whose it is


@pytest.mark.parametrize("program", ["dpml", "dpml-run"])
def test_ending_a_command_is_an_exception_so_that_nothing_is_left(program: str) -> None:
    from dpml.cli.errors import exit_on_mistakes

    usual = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stop:
        exit_on_mistakes(program, lambda: signal.raise_signal(signal.SIGTERM))
    assert stop.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is usual


def test_a_command_that_has_ended_is_ended_without_a_word() -> None:
    program = """
import atexit, signal
from dpml.cli.errors import exit_on_mistakes
atexit.register(signal.raise_signal, signal.SIGTERM)
exit_on_mistakes("dpml", lambda: None)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
