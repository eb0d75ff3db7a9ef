"""Break things while dpml works, many times, and count what is wrong afterwards: the table of docs/howto/resume.md.

    python scripts/faults.py [--moments 60] [--federations 20] [--dask 5] [WORD ...]    faults with a word in their name

Processes are real ones, forks of one that has loaded everything, and end as a program does; workers are started anew by
them. Disks are small ones in memory, so it needs Linux's `unshare`. Exit status 1: something is wrong.
"""

import argparse
import hashlib
import importlib
import os
import pkgutil
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from fault_bytes import READERS, bytes_flipped
from fault_commands import (
    COMMANDS,
    RELEASE,
    STATED,
    Command,
    Tally,
    entered,
    made,
    more_than_a_sentence,
    prepare,
    temporary,
    undisturbed,
)

import dpml
from dpml.errors import UserError
from dpml.release.ledger import Ledger
from dpml.release.model import read_model

SIGNALS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
SETTING = ["--bounds", "own.yaml", "--set", "algo=ssp", "eps=1", "delta=1e-5", "dataset.label=label"]
NAMES = ("ayr", "bonn", "cork", "dax")
CLUSTER = """
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1") as cluster:
        print(cluster.scheduler_address, *(worker.pid for worker in cluster.workers.values()), flush=True)
        input()
"""


# ---- ended at random moments


def sweeps(folder: Path, sign: signal.Signals, times: int, rng: np.random.Generator) -> Tally:
    """A sweep with two workers is ended; the same command then makes the same bytes."""
    tally, words = Tally(), COMMANDS["sweep"]
    prepare(folder)
    whole = undisturbed(folder, [*words, "run.workers=2"])
    undisturbed(folder, words)  # for the manifest has the words of a command
    expected = made(folder)
    for moment in rng.random(times) * whole:
        prepare(folder)
        command = Command(folder, [*words, "run.workers=2"])
        command.after(moment, sign)
        status, said = command.end()
        again, said_again = Command(folder, words).end()
        _count(tally, folder, expected, (status, said), (again, said_again))
    return tally


def releases(folder: Path, sign: signal.Signals, times: int, rng: np.random.Generator) -> Tally:
    """A release is ended: no model without its entry, no entry gone, and none but one more each time."""
    tally = Tally()
    prepare(folder)
    (folder / "own.yaml").write_text(STATED)
    whole = undisturbed(folder, [*RELEASE, "first.json"])
    entries, number = entered(folder), 0
    for moment in rng.random(times) * whole:
        model = folder / f"{number}.json"
        command = Command(folder, [*RELEASE, model.name])
        command.after(moment, sign)
        status, said = command.end()
        now = entered(folder)
        tally.times += 1
        tally.met += status != 0
        tally.tracebacks += more_than_a_sentence(status, said)
        tally.lost += now[: len(entries)] != entries or len(now) > len(entries) + 1
        if model.exists():
            tally.wrong += not whole_model(model)
            tally.lost += hashlib.sha256(model.read_bytes()).hexdigest() != now[-1]["model"]
            number += 1  # else the next one writes this one's model, and removes what is left of it
        entries = now
    undisturbed(folder, [*RELEASE, f"{number}.json"])
    tally.lost += len(entered(folder)) != len(entries) + 1
    tally.left += bool(temporary(folder))
    return tally


def whole_model(path: Path) -> bool:
    """Whether a model is as it was written."""
    try:
        read_model(path)
    except UserError:
        return False
    return True


def federations(folder: Path, sign: signal.Signals, times: int, rng: np.random.Generator) -> Tally:
    """One of four parties or the aggregator is ended.

    A model there is has three parties' rows or more, whose ledgers have it; a party's model is the aggregator's.
    """
    tally = Tally()
    prepare(folder)
    port = _agree(folder)
    whole, entries = 0.0, [0] * len(NAMES)
    for number in range(times + 2):  # the first and the last are left in peace
        models = [folder / "model.json", *(folder / f"{name}.model" for name in NAMES)]
        for path in models:
            path.unlink(missing_ok=True)
        began = time.monotonic()
        listen = ["--listen", f"127.0.0.1:{port}", "--wait", "10", "--plan", "plan.json", "-o", "model.json"]
        commands = [Command(folder, ["dpml", "federate", "aggregator", *listen])]
        commands += [Command(folder, _party(name, port)) for name in NAMES]
        disturbed = 0 < number <= times
        if disturbed:
            ended = commands[0 if rng.random() < 0.5 else rng.integers(1, 5)]
            ended.after(rng.random() * whole, sign)
        outputs = [command.end() for command in commands]
        whole = whole or time.monotonic() - began
        now = [len(Ledger(folder / f"{name}.csv.ledger").entries()) for name in NAMES]
        more = [after - before for before, after in zip(entries, now, strict=True)]
        texts = [path.read_bytes() for path in models if path.exists()]
        tally.times += disturbed
        tally.met += any(status != 0 for status, _ in outputs)
        tally.tracebacks += any(more_than_a_sentence(*output) for output in outputs)
        tally.wrong += len(set(texts)) > 1 or any(not whole_model(path) for path in models if path.exists())
        tally.wrong += not disturbed and (len(texts) < len(models) or any(status for status, _ in outputs))
        tally.lost += min(more) < 0 or max(more) > 1 or (bool(texts) and sum(more) < len(NAMES) - 1)
        entries = now
    tally.left += bool(temporary(folder))
    return tally


def _agree(folder: Path) -> int:
    """The parties' files, keys and signed plan, and a free port for their aggregator."""
    (folder / "own.yaml").write_text(STATED)
    for name in NAMES:
        shutil.copy(folder / "own.csv", folder / f"{name}.csv")
        card = ["dpml", "federate", "card", f"{name}.csv", "--key", f"{name}.key", "-o", f"{name}.card", *SETTING]
        undisturbed(folder, card)
    cards = [f"{name}.card" for name in NAMES]
    missing = ["--colluders", "0", "--dropouts", "1"]
    undisturbed(folder, ["dpml", "federate", "plan", *cards, "-o", "plan.json", *missing, *SETTING])
    for name in NAMES:
        undisturbed(folder, ["dpml", "federate", "sign", "plan.json", "--key", f"{name}.key"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _party(name: str, port: int) -> list[str]:
    """The command of a party."""
    own = [f"{name}.csv", "--key", f"{name}.key", "-o", f"{name}.model"]
    return [
        "dpml",
        "federate",
        "party",
        *own,
        "--plan",
        "plan.json",
        "--aggregator",
        f"127.0.0.1:{port}",
        "--wait",
        "10",
    ]


# ---- disks


def full_disks(folder: Path, times: int) -> Tally:
    """A disk of so many kilobytes: one sentence, and the same command goes on when there is room."""
    tally = Tally()
    prepare(folder)
    undisturbed(folder, COMMANDS["sweep"])
    disk = folder.with_name("disk")
    expected = made(folder)
    most = sum(path.stat().st_blocks for path in folder.rglob("*")) // 2
    disk.mkdir(exist_ok=True)
    for size in np.linspace(40, 40 + 2 * most, times).astype(int):
        mount("-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(disk))
        prepare(disk / "own")
        status, said = Command(disk / "own", COMMANDS["sweep"]).end()
        mount("-o", "remount,size=100m", str(disk))
        again, said_again = Command(disk / "own", COMMANDS["sweep"]).end()
        _count(tally, disk / "own", expected, (status, said), (again, said_again))
        unmount(disk)
    return tally


def read_only_disks(folder: Path, times: int) -> Tally:
    """A disk that can be read only from a moment on: the same."""
    tally = Tally()
    prepare(folder)
    whole = undisturbed(folder, COMMANDS["sweep"])
    disk = folder.with_name("disk")
    expected = made(folder)
    disk.mkdir(exist_ok=True)
    for moment in np.linspace(0, whole, times):
        mount("-t", "tmpfs", "tmpfs", str(disk))
        prepare(disk / "own")
        command = Command(disk / "own", COMMANDS["sweep"])
        time.sleep(moment)
        while True:  # refused while a file is open for writing
            with suppress(subprocess.CalledProcessError):
                mount("-o", "remount,ro", str(disk))
                break
        status, said = command.end()
        mount("-o", "remount,rw", str(disk))
        again, said_again = Command(disk / "own", COMMANDS["sweep"]).end()
        _count(tally, disk / "own", expected, (status, said), (again, said_again))
        unmount(disk)
    return tally


def _count(
    tally: Tally, folder: Path, expected: dict[str, bytes], first: tuple[int, str], again: tuple[int, str]
) -> None:
    tally.times += 1
    tally.met += first[0] != 0
    tally.tracebacks += more_than_a_sentence(*first) or more_than_a_sentence(*again)
    tally.wrong += again[0] != 0 or made(folder) != expected
    tally.left += bool(temporary(folder))


def mount(*words: str) -> None:
    """A disk, in the name space of this program."""
    subprocess.run(["mount", *words], check=True, stderr=subprocess.DEVNULL)


def unmount(disk: Path) -> None:
    """Take it away; a process that has just ended may hold it for a moment."""
    subprocess.run(["umount", "-l", str(disk)], check=True)


# ---- others


def two_at_once(folder: Path, times: int, rng: np.random.Generator) -> Tally:
    """Two of the same command in one folder."""
    tally = Tally()
    prepare(folder)
    whole = undisturbed(folder, COMMANDS["sweep"])
    expected = made(folder)
    for pause in rng.random(times) * whole:
        prepare(folder)
        first = Command(folder, COMMANDS["sweep"])
        time.sleep(pause)
        second = Command(folder, COMMANDS["sweep"])
        ends = first.end(), second.end()
        _count(tally, folder, expected, *ends)
        tally.wrong += ends[0][0] != 0
    return tally


def dask(folder: Path, whom: str, times: int, rng: np.random.Generator) -> Tally:
    """A worker of a Dask cluster is killed, or the scheduler: the cluster is another program."""
    tally, words = Tally(), [*COMMANDS["sweep"], "seed=[0,1,2,3]"]
    prepare(folder)
    undisturbed(folder, words)
    expected = made(folder)
    for _ in range(times):
        prepare(folder)
        with subprocess.Popen(
            [sys.executable, "-c", CLUSTER],
            stdin=-1,
            stdout=-1,
            stderr=-3,
            text=True,
            start_new_session=True,
            cwd=folder,
        ) as cluster:
            assert cluster.stdout is not None
            address, *workers = cluster.stdout.readline().split()
            command = Command(folder, [*words, "run.engine=dask", f"run.address={address}"])
            while command.process.is_alive() and not list(folder.glob("results/.cells/*/*/result-*.json")):
                time.sleep(0.01)
            time.sleep(rng.random() * 0.2)
            os.kill(int(rng.choice(workers)) if whom == "worker" else cluster.pid, signal.SIGKILL)
            first = command.end()
            os.killpg(cluster.pid, signal.SIGKILL)
        _count(tally, folder, expected, first, Command(folder, words).end())
        more = first[1].strip().count("\n") > 0  # after the line of progress, the sentence
        if more:
            print(first[1], file=sys.stderr)
        tally.tracebacks += more
    return tally


# ---- all of them


def faults(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Callable[[], Tally]]]:
    """Every fault, by its name."""
    rng, times = np.random.default_rng(arguments.seed), arguments.moments
    few, dasks = arguments.federations, arguments.dask
    for name, sign in SIGNALS.items():
        yield f"{name}, a sweep with two workers", lambda sign=sign: sweeps(folder, sign, times, rng)
        yield f"{name}, a release", lambda sign=sign: releases(folder, sign, times, rng)
        yield f"{name}, a federation of four", lambda sign=sign: federations(folder, sign, few, rng)
    yield "a full disk, a sweep", lambda: full_disks(folder, times)
    yield "a read-only disk, a sweep", lambda: read_only_disks(folder, times)
    yield "two runs in one folder", lambda: two_at_once(folder, times, rng)
    for whom in ("worker", "scheduler"):
        yield f"kill -9, a Dask {whom}", lambda whom=whom: dask(folder, whom, dasks, rng)
    for kind in READERS:
        yield f"a bit of every byte, {kind}", lambda kind=kind: bytes_flipped(folder, kind, rng)


def main() -> int:
    """Run the script: its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only faults with one of these in their name")
    parser.add_argument("--moments", type=int, default=60, help="of each kind of end, of a sweep and of a release")
    parser.add_argument("--federations", type=int, default=20, help="of each kind of end")
    parser.add_argument("--dask", type=int, default=5, help="workers and schedulers killed")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's `&` has switched off
    for module in pkgutil.walk_packages(dpml.__path__, "dpml."):
        importlib.import_module(module.name)
    bad = 0
    print(f"{datetime.now(UTC):%Y-%m-%d}\n\n| fault | times | ended or refused | wrong | lost | tracebacks | left |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "work"
        os.environ |= {"DPML_CACHE": str(folder / "cache"), "DPML_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        for name, fault in faults(arguments, folder):
            if not arguments.words or any(re.search(word, name) for word in arguments.words):
                tally = fault()
                bad += tally.bad
                print(f"| {name} | {' | '.join(str(count) for count in asdict(tally).values())} |", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    if "--inside" not in sys.argv:
        os.execvp("unshare", ["unshare", "-rm", sys.executable, *sys.argv, "--inside"])
    sys.argv.remove("--inside")
    sys.exit(main())
