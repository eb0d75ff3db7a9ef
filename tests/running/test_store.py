"""What is stored is replaced whole, or stays."""

import errno
import os
from pathlib import Path

import pytest

from dpml.errors import UserError
from dpml.running.store import Record, Store, digest

KEY = "ab" * 32


@pytest.mark.parametrize("before", [True, False])
def test_a_disk_that_is_full_leaves_what_was_there(tmp_path: Path, monkeypatch, before: bool) -> None:
    """Also where nothing was: no part of a record, and no temporary file."""
    store, one, two = Store(tmp_path), Record("", "one", 1.0, code="a"), Record("", "two", 2.0, code="a")
    if before:
        store.write(KEY, one)
        store.fail(KEY, "log one")
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for write in (lambda: store.write(KEY, two), lambda: store.fail(KEY, "log two")):
            with pytest.raises(OSError, match="No space left"):
                write()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files
    assert Store(tmp_path).glance(KEY, "a") == (one if before else None)
    store.write(KEY, two)
    assert Store(tmp_path).glance(KEY, "a") == two
    assert not store.log(KEY).exists()


def test_versions_of_the_code_lie_side_by_side(tmp_path: Path) -> None:
    for code in ("a", "b"):
        Store(tmp_path).write(KEY, Record("", f"by {code}", code=code))
    found = [Store(tmp_path).glance(KEY, code) for code in ("a", "b", "c")]
    assert [record and record.skipped for record in found] == ["by a", "by b", None]
    first, second = sorted(tmp_path.glob("*/*.json"))
    for content in ("scribble", second.read_text()):  # no checksum, and that of another cell
        first.write_text(content)
        assert Store(tmp_path).glance(KEY, "a") is None


def test_a_function_without_a_name_is_refused() -> None:
    assert digest({"call": digest}) == digest({"call": "dpml.running.store.digest"})
    with pytest.raises(UserError, match="with def"):
        digest({"call": lambda x: x})
