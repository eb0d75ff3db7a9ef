"""Parsed and preprocessed arrays on disk, as .npy files that are memory-mapped when they are used again.

Everything here can be computed again from the raw files, so a folder that is not writable only costs time, and a
damaged entry is built again: every array has a checksum (CRC-32, against disk faults), which is verified when the array
is mapped.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
from platformdirs import user_cache_path

from dpml.atomic import MACHINE, seal, unseal
from dpml.code import UNKNOWN

_CHUNK = 1 << 20
_STALE = 24 * 3600  # seconds

OWN = "csv"
"""The name of entries of users' own files, which nobody else may read."""

_KEPT = ContextVar("kept", default=True)

Arrays = dict[str, NDArray[Any]]
Facts = dict[str, Any]


def root() -> Path:
    """The folder of derived files: DPML_CACHE, else DPML_DATA, else the user's cache. Never the folder `data_dir`."""
    chosen = os.environ.get("DPML_CACHE") or os.environ.get("DPML_DATA") or user_cache_path("dpml")
    return Path(chosen).expanduser()


def folder(name: str, key: Mapping[str, Any]) -> Path:
    """The folder of the entry for `key` (plain JSON values), whether or not it exists."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return root() / "processed" / f"{name}-{digest[:16]}"


def load_or_build(name: str, key: Mapping[str, Any], build: Callable[[], tuple[Arrays, Facts]]) -> tuple[Arrays, Facts]:
    """The result of `build`: from the cache if it is there, otherwise built now and stored.

    Arrays from the cache are read-only and memory-mapped. An entry is written atomically; if two processes need the
    same entry, the second waits for the first. Nothing is stored if the code in `key` is unknown.
    """
    place = folder(name, key)
    entry = _read(place)
    if entry is not None:
        return entry
    if (name == OWN and not _KEPT.get()) or str(key.get("code")).startswith(UNKNOWN):
        return build()
    with locked(place.with_name(f".{place.name}.lock")) as held:
        entry = _read(place)  # another process may have built it meanwhile
        if entry is None:
            if held:
                sweep(place.parent, place.name)
            arrays, facts = build()
            if not _write(place, arrays, facts):
                return arrays, facts
            del arrays  # before the same bytes are mapped
            entry = _read(place) or build()
    return entry


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Nothing that is parsed or computed of a user's own files in this block is written to the disk."""
    token = _KEPT.set(False)
    try:
        yield
    finally:
        _KEPT.reset(token)


def kept() -> bool:
    """Whether derived files may be written."""
    return _KEPT.get()


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Wait until no other process holds the lock file `path`, then hold it; yields whether the lock is held.

    The lock only avoids double work: the code it guards is safe without it. Without a lock, execution continues.
    """
    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError):  # a folder that is not writable, or a file system without locks
        yield False
        return
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)
        lock.release()


def part_prefix(name: str = "") -> str:
    """The prefix of the names of this machine's temporary folders for `name`."""
    return f".part-{MACHINE}-{name}"


def sweep(folder: Path, name: str = "") -> None:
    """Remove temporary folders left by killed processes of this machine; the caller must hold their lock.

    Folders of other machines, which may not see that lock, are removed when they are a day old.
    """
    for part in folder.glob(".part-*"):
        with suppress(OSError):
            if part.name.startswith(part_prefix(name)) or time.time() - part.stat().st_mtime > _STALE:
                shutil.rmtree(part)


def _read(place: Path) -> tuple[Arrays, Facts] | None:
    if not place.is_dir():
        return None
    try:
        described = json.loads(unseal((place / "facts.json").read_bytes()) or "")
        if described["place"] != place.name:
            raise ValueError(f"{place} holds another entry")
        return {name: _map(place / f"{name}.npy", crc) for name, crc in described["arrays"].items()}, described["facts"]
    except (OSError, ValueError, KeyError, EOFError):  # damaged: treated as absent
        shutil.rmtree(place, ignore_errors=True)
        return None


def _map(path: Path, crc: int) -> NDArray[Any]:
    """The array in a file; raises ValueError when the file does not match its checksum."""
    if _crc(path) != crc:
        raise ValueError(f"{path} is damaged")
    # an empty file cannot be mapped; a plain view of the map is as fast as any other array and behaves like one
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except ValueError:
        array = np.load(path, allow_pickle=False)
        if array.size:
            raise
        return array


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc


def _write(place: Path, arrays: Arrays, facts: Facts) -> bool:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=part_prefix(place.name), dir=place.parent))
        try:
            for name, array in arrays.items():
                np.save(unfinished / f"{name}.npy", array, allow_pickle=False)
            crcs = {name: _crc(unfinished / f"{name}.npy") for name in arrays}
            described = json.dumps({"place": place.name, "arrays": crcs, "facts": facts}, indent=1)
            (unfinished / "facts.json").write_text(seal(described), encoding="utf-8")
            if not place.name.startswith(f"{OWN}-"):  # mkdtemp's folders are private
                unfinished.chmod(0o755)
            _move(unfinished, place)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        _say_once(
            f"note: cannot keep parsed data in {place.parent} ({error.strerror}); set DPML_CACHE=DIR to save time."
        )
        return False
    return True


def _move(unfinished: Path, place: Path) -> None:
    try:
        unfinished.replace(place)
    except OSError:
        if not (place / "facts.json").exists():  # otherwise another process was faster
            raise


@cache
def _say_once(message: str) -> None:
    print(message, file=sys.stderr)
