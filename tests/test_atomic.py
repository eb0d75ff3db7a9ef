"""A file that is created is whole, and never replaces another one."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpml.atomic import create_atomically


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
