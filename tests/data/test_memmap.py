"""Rows that are mapped from a file are put in order in another file, and nothing else changes."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from dpml.data import Dataset, memmap
from dpml.data.partition import Equal, partition
from dpml.errors import UserError


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """1003 rows of 7 numbers, mapped; windows and blocks are so small that there are many of both."""
    monkeypatch.setattr(memmap, "_HELD", 1000)
    monkeypatch.setattr(memmap, "_WINDOW", 4096)
    monkeypatch.setattr(memmap, "_BLOCK", 700)
    np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((1003, 7)))
    return np.load(tmp_path / "X.npy", mmap_mode="r")


def in_a_file(X: np.ndarray) -> bool:
    return isinstance(X.base, np.memmap)


@pytest.mark.parametrize("count", [1003, 500, 17])
def test_it_is_what_numpy_takes(rows: np.ndarray, count: int) -> None:
    order = np.random.default_rng(1).permutation(1003)[:count]
    taken = memmap.take(np.asarray(rows), order)
    np.testing.assert_array_equal(taken, np.array(rows)[order])
    assert in_a_file(taken) == (count > 17)
    assert not in_a_file(memmap.take(np.array(rows), order))  # what is in memory stays there


def test_parties_are_dealt_the_same_rows_and_no_file_is_left(rows: np.ndarray, tmp_path: Path) -> None:
    y = np.ones(1003)

    def dealt(X: np.ndarray):  # type: ignore[no-untyped-def]
        data = Dataset("mapped", "binary", X, y, X[:0], y[:0])
        return partition(data, Equal(), 5, np.random.default_rng(0))

    mapped, held = dealt(np.asarray(rows)), dealt(np.array(rows))
    assert in_a_file(mapped.X)
    assert mapped.X.tobytes() == held.X.tobytes()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_disk_without_room_is_one_sentence(rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(UserError, match=r"No space left on device.*DPML_CACHE=DIR"):
        memmap.take(rows, np.arange(1003))
