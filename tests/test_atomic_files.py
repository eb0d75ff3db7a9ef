"""A file is whole or not there, and one that is created never replaces another."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

import pytest

from dpml.errors import UserError
from dpml.files import create_atomically, reserved


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
