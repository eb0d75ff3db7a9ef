"""Whatever happens to a command or to its files, no number is wrong; a file is whole or not there."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from dpml.errors import UserError
from dpml.files import create_atomically, reserved
from dpml.privacy import Guarantee
from dpml.release.ledger import Ledger
from dpml.running.store import Store

MANY = ("algo=capefm", "dataset=synthetic", "N=200", "M=2", "draws=1", "seed=0..199")


def flip(path: Path, place: int, bit: int = 2) -> None:
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def cells() -> list[Path]:
    return list(Path("results/.cells").glob("*/*.json"))


def partial_files() -> set[Path]:
    return {path for path in Path.cwd().rglob(".*-*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_it_goes_on_from_what_is_finished(run_command, workers):
    program = "from dpml.cli import dpml_run; dpml_run()"
    words = [*MANY, f"run.workers={workers}", "hydra.run.dir=killed"]
    process = subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.DEVNULL)
    while len(cells()) < 20 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept, interrupted = len(cells()), partial_files()
    assert len(interrupted) <= workers  # those that the kill interrupted: dpml.files.write_atomically
    assert f"run: {kept} cached, {200 - kept} to run" in run_command("dpml-run", *words).out
    assert run_command("dpml-run", *MANY, "results_dir=other", "hydra.run.dir=whole").code == 0
    assert Path("killed/rows.csv").read_bytes() == Path("whole/rows.csv").read_bytes()
    assert partial_files() == interrupted


@pytest.mark.slow
def test_when_a_worker_is_killed_finished_cells_are_kept(run_command, monkeypatch):
    write, killed = Store.write, []

    def write_and_kill(*arguments):
        write(*arguments)
        if not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(Store, "write", write_and_kill)
    done = run_command("dpml-run", *MANY, "run.workers=2")
    assert done.code == 2
    assert "error: a worker process died (out of memory?). Finished cells are kept: give the same command" in done.err
    assert done.err.strip().count("\n") == 0
    assert not multiprocessing.active_children()
    kept = len(cells())
    assert 0 < kept < 200
    assert f"run: {kept} cached, {200 - kept} to run" in run_command("dpml-run", *MANY, "run.dry=true").out


def test_a_cell_in_which_a_bit_is_flipped_is_computed_again(run_command):
    words = ("algo=capefm", "draws=2")
    assert run_command("dpml-run", *words, "hydra.run.dir=one").code == 0
    (path,) = cells()
    flip(path, len(path.read_bytes()) // 2)
    assert "0 cached, 1 to run" in run_command("dpml-run", *words, "hydra.run.dir=two").out
    assert Path("one/rows.csv").read_bytes() == Path("two/rows.csv").read_bytes()


@pytest.mark.parametrize("step", [97, pytest.param(1, marks=pytest.mark.slow)])
def test_a_ledger_in_which_a_bit_is_flipped_is_refused_or_says_the_same(tmp_path, step):
    ledger = Ledger(tmp_path / "ledger")
    for mu in (0.1, 0.2, 0.3):
        ledger.enter("", [Guarantee("release", "sample", 1.0, 1e-5, "proven", "made up", mu)])
    whole = ledger.path.read_bytes()
    bits = np.random.default_rng(0).integers(8, size=len(whole))
    for place in range(0, len(whole), step):
        ledger.path.write_bytes(whole)
        flip(ledger.path, place, int(bits[place]))
        with suppress(UserError):
            assert len(ledger.entries()) == 3, f"bit {bits[place]} of byte {place}"


def test_a_full_disk_leaves_nothing_half_written_and_the_next_try_works(run_command, monkeypatch):
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    words = ("dpml-run", "algo=nonpriv", "draws=1", "hydra.run.dir=out")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        done = run_command(*words)
    assert done.code == 2
    assert "dpml-run: error: " in done.err
    assert "no space left on device" in done.err
    assert not cells()
    assert not list(Path.cwd().rglob("rows.csv"))
    assert run_command(*words).code == 0
    assert "1 cached, 0 to run" in run_command(*words).out


def test_of_many_at_once_one_creates_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def create(number: int) -> bool:
        try:
            create_atomically(path, str(number) * 100_000)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(create, range(8)))
    assert sum(created) == 1
    assert path.read_text() == str(created.index(True)) * 100_000
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(PermissionError) as caught:
        create_atomically(tmp_path / "file", "content")
    assert caught.value.filename == str(tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_of_many_who_reserve_a_name_at_most_one_has_it(tmp_path: Path) -> None:
    path, together = tmp_path / "file", Barrier(8)

    def write(number: int) -> bool:
        try:
            with reserved(path) as put:
                put("x" * 100_000)
                put(str(number) * 1000)
        except UserError:
            return False
        finally:
            together.wait()
        return True

    with ThreadPoolExecutor(8) as pool:
        wrote = list(pool.map(write, range(8)))
    assert [path.read_text()] * sum(wrote) == [str(number) * 1000 for number in range(8) if wrote[number]]
    assert list(tmp_path.iterdir()) == [path] * sum(wrote)


def test_what_fails_leaves_no_name_reserved(tmp_path: Path) -> None:
    with suppress(ValueError), reserved(tmp_path / "file") as put:
        put("content")
        raise ValueError
    assert not list(tmp_path.iterdir())


def test_a_name_that_a_killed_process_reserved_is_free_after_its_file_is_deleted(tmp_path: Path) -> None:
    left = tmp_path / ".file-new"
    left.write_text("half")
    with pytest.raises(UserError, match=f"another process is writing .*delete {left}"), reserved(tmp_path / "file"):
        pass
    left.unlink()
    with reserved(tmp_path / "file") as put:
        put("whole")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["whole"]
