"""A file of data that changes while it is used, or whose dates say that it has not: never the old numbers as the new.

And no result depends on a clock.
"""

import os
import shutil
import time
from pathlib import Path

import pytest
from failing import COMMANDS, go, made, prepare

from dpml.data.csv import csv_rows
from dpml.data.sources import files
from dpml.errors import UserError
from dpml.running import cell, executors

RUN = COMMANDS["run"]


@pytest.fixture
def work(folder: Path) -> Path:
    prepare(folder)
    forget()
    return folder


def forget() -> None:
    """What a new process does not know."""
    for remembered in (cell._data, cell._parties, csv_rows.read_rows):
        remembered.cache_clear()


def edited(path: Path, back: bool = True) -> None:
    """Other labels, as many bytes; `back`: its date is set back."""
    before = path.stat()
    content = path.read_text()
    path.write_text(
        content[:400].replace(",1\n", ",2\n").replace(",0\n", ",1\n").replace(",2\n", ",0\n") + content[400:]
    )
    assert path.stat().st_size == before.st_size
    if back:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_mtime_ns == before.st_mtime_ns


def rows(folder: Path) -> bytes:
    return (folder / "out/rows.csv").read_bytes()


_undisturbed: dict[str, bytes] = {}


def undisturbed(folder: Path) -> bytes:
    """The rows of this file without anything that was kept. Most tests end with the same file."""
    content = (folder / "own.csv").read_text()
    if content not in _undisturbed:
        for name in ("results", "cache", "out"):
            shutil.rmtree(folder / name, ignore_errors=True)
        forget()
        assert go(folder, RUN)[0] == 0
        _undisturbed[content] = rows(folder)
    return _undisturbed[content]


def test_a_file_of_the_same_size_and_date_is_read_again(work: Path) -> None:
    assert go(work, RUN)[0] == 0
    before = rows(work)
    edited(work / "own.csv")
    assert go(work, RUN)[0] == 0
    found = rows(work)
    assert found != before
    assert found == undisturbed(work)


def test_another_file_moved_to_its_place_with_its_date_is_read(work: Path) -> None:
    assert go(work, RUN)[0] == 0
    shutil.copy2(work / "own.csv", work / "copy.csv")
    edited(work / "copy.csv")
    (work / "copy.csv").replace(work / "own.csv")
    assert go(work, RUN)[0] == 0
    assert rows(work) == undisturbed(work)


def content_of(path: Path) -> files.Content:
    return files.known_content(path) or files.fresh_content(path)


def test_a_file_that_changes_while_its_checksum_is_computed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is not taken for the checksum of what is there now."""
    path, read = work / "own.csv", files.read_content

    def slowly(*arguments: object) -> files.Content:
        content = read(*arguments)  # type: ignore[arg-type]
        edited(path, back=False)
        return content

    with monkeypatch.context() as patch:
        patch.setattr(files, "read_content", slowly)
        old = content_of(path)
    assert files.known_content(path) is None
    assert content_of(path).sha256 == read(path).sha256 != old.sha256


def test_a_file_that_changes_while_it_is_parsed_is_not_kept_as_the_old_one(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = csv_rows.read

    def late(*arguments: object) -> object:
        edited(work / "own.csv")
        return read(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(csv_rows, "read", late)
        status, _, err = go(work, RUN)
    assert status != 0
    assert "own.csv changed while it was read: give the command again." in err
    assert "Traceback" not in err
    assert go(work, RUN)[0] == 0
    assert rows(work) == undisturbed(work)


def test_a_file_that_changes_between_the_plan_and_the_work(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers read it later, after hours perhaps: what they measure is not kept under the name of the old data."""
    measure = executors.measure

    def later(asked: cell.Cell) -> cell.Measured:
        edited(work / "own.csv", back=False)
        csv_rows.read_rows.cache_clear()  # as in another process
        return measure(asked)

    with monkeypatch.context() as patch:
        patch.setattr(executors, "measure", later)
        status, _, err = go(work, RUN)
    assert status == 1
    assert "the data have changed since the command began: give it again" in err
    assert not list(work.glob("results/.cells/*/*/result-*.json"))
    assert go(work, RUN)[0] == 0
    assert rows(work) == undisturbed(work)


@pytest.mark.parametrize("years", [-30, 30])
def test_no_result_depends_on_a_clock(work: Path, monkeypatch: pytest.MonkeyPatch, years: int) -> None:
    """The clock is set, and the dates of all that is kept are far in the past or in the future: nothing is new."""
    assert go(work, RUN)[0] == 0
    before = made(work)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + years * 365 * 24 * 3600)
    then = now() + years * 365 * 24 * 3600
    for path in work.rglob("*"):
        os.utime(path, (then, then))
    status, out, _ = go(work, RUN)
    assert (status, "1 cached, 0 to run" in out) == (0, True)
    assert made(work) == before


def test_a_checksum_that_was_recorded_of_another_file_is_not_used(work: Path) -> None:
    first, second = work / "own.csv", work / "other.csv"
    second.write_text("a,b,label\n1,2,0\n")
    contents = [content_of(path) for path in (first, second)]
    records = [files._record_path(path) for path in (first, second)]
    texts = [record.read_bytes() for record in records]
    for record, text in zip(records, reversed(texts), strict=True):
        record.write_bytes(text)
    assert [files._record(path) for path in (first, second)] == [{}, {}]
    assert [content_of(path) for path in (first, second)] == contents


def test_a_data_set_of_files_that_change_while_they_are_parsed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for sets that have a loader of their own."""
    from dpml.data import Files, Info, Raw
    from dpml.data.table import RandomSplit, Table

    path = work / "mini" / "mini.csv"

    class Mini(RandomSplit):
        info = Info("mini", "Mini", "regression", "nobody", "Make it.", files=(Raw("mini.csv"),), rows=2, features=1)
        steps = ()

        def parse(self, paths):  # type: ignore[no-untyped-def]
            import numpy as np

            rows = np.loadtxt(paths["mini.csv"], delimiter=",")
            path.write_text("9,9\n9,9\n")
            return Table(rows[:, :1], rows[:, 1])

    path.parent.mkdir()
    path.write_text("1,2\n3,4\n")
    with pytest.raises(UserError, match=r"changed while it was read|has changed since"):
        Mini().table(Files(str(work)))
