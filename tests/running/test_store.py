"""What is stored is replaced whole, or stays."""

import errno
import os
from pathlib import Path

import pytest

from dpml.running.store import Record, Store

KEY = "ab" * 32


@pytest.mark.parametrize("before", [True, False])
def test_a_disk_that_is_full_leaves_what_was_there(tmp_path: Path, monkeypatch, before: bool) -> None:
    """Also where nothing was: no part of a record, and no temporary file."""
    store = Store(tmp_path)
    if before:
        store.write(KEY, {}, Record(None, "one", 1.0))
        store.fail(KEY, "log one")
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for write in (lambda: store.write(KEY, {}, Record(None, "two", 2.0)), lambda: store.fail(KEY, "log two")):
            with pytest.raises(OSError, match="No space left"):
                write()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files
    assert store.glance(KEY) == (Record(None, "one", 1.0) if before else None)
    store.write(KEY, {}, Record(None, "two", 2.0))
    assert store.glance(KEY) == Record(None, "two", 2.0)
    assert not store.failed(KEY)
