"""Keep parsed data sets in a cache of memory-mapped .npy files; a damaged entry is built again."""

import hashlib
import hmac
import json
import os
import secrets
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
from platformdirs import user_cache_path

from dpml.code import UNKNOWN
from dpml.files import create_atomically, seal, unseal

_CHUNK = 1 << 20

Arrays = dict[str, NDArray[Any]]
Facts = dict[str, Any]
Entry = tuple[Arrays, Facts]


WRITES: ContextVar[bool] = ContextVar("writes", default=True)
"""Whether data may be downloaded and stored; false in a dry run."""


def root() -> Path:
    """Return the folder of downloaded files and parsed arrays: $DPML_CACHE if it is set, or the user's cache folder."""
    return Path(os.environ.get("DPML_CACHE") or user_cache_path("dpml")).expanduser()


def folder(name: str, key: Mapping[str, Any]) -> Path:
    """Return the folder of the cache entry for `key` (plain JSON values); the folder may not exist."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return root() / "processed" / f"{name}-{digest[:16]}"


def keyed(checksum: str) -> str:
    """Return a keyed digest of a file's checksum, which hides the checksum from everybody without the user's key."""
    return hmac.new(_secret(root() / "secret", WRITES.get()), checksum.encode(), "sha256").hexdigest()


@cache
def _secret(path: Path, create: bool) -> bytes:
    with suppress(OSError):  # without a cache there are no entries to find by this digest
        if create and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                create_atomically(path, secrets.token_bytes(32), private=True)
        return path.read_bytes()
    return secrets.token_bytes(32)


def load_or_build(name: str, key: Mapping[str, Any], build: Callable[[], Entry], private: bool = False) -> Entry:
    """Return the result of `build` from the cache, or else call `build` and store its result.

    Concurrent processes build an entry only once. Only the user can read a `private` entry.
    """
    if str(key.get("code")).startswith(UNKNOWN):  # source files may differ from the loaded code
        return build()
    place = folder(name, key)
    if (entry := _read(place)) is not None:
        return entry
    if not WRITES.get():
        return build()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_suffix(".lock")):
            if (entry := _read(place)) is not None:  # another process has built the entry meanwhile
                return entry
            entry = build()
            _write(place, *entry, private)
            return _read(place) or entry
    except (OSError, NotImplementedError) as error:
        _note(f"note: cannot keep parsed data in {place.parent} ({error}); set DPML_CACHE=DIR to save time.")
        return entry or build()


def _read(place: Path) -> Entry | None:
    if not place.is_dir():
        return None
    try:
        described = json.loads(unseal((place / "facts.json").read_bytes()) or "")
        paths = [place / f"{name}.npy" for name in described["arrays"]]
        if described["place"] != place.name or described["crc"] != _crc(paths):
            raise ValueError(f"{place} is damaged")
        return {path.stem: _map(path) for path in paths}, described["facts"]
    except (OSError, ValueError, KeyError, EOFError):
        shutil.rmtree(place, ignore_errors=True)
        return None


def _map(path: Path) -> NDArray[Any]:
    mode: Any = "r" if path.stat().st_size > 128 else None  # an empty array has a header only and cannot be mapped
    return np.asarray(np.load(path, mmap_mode=mode, allow_pickle=False))  # a plain view behaves like any array


def _crc(paths: Iterable[Path]) -> int:
    crc = 0
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                crc = zlib.crc32(chunk, crc)
    return crc


def _write(place: Path, arrays: Arrays, facts: Facts, private: bool) -> None:
    with tempfile.TemporaryDirectory(prefix=".part-", dir=place.parent) as part:
        unfinished = Path(part) / place.name
        unfinished.mkdir(mode=0o700 if private else 0o755)
        for name, array in arrays.items():
            np.save(unfinished / f"{name}.npy", array, allow_pickle=False)
        crc = _crc(unfinished / f"{name}.npy" for name in arrays)
        described = {"place": place.name, "arrays": list(arrays), "crc": crc, "facts": facts}
        (unfinished / "facts.json").write_text(seal(json.dumps(described, indent=1)), encoding="utf-8")
        if private:
            for path in unfinished.iterdir():
                path.chmod(0o600)
        with suppress(FileExistsError):
            unfinished.replace(place)


@cache
def _note(message: str) -> None:
    print(message, file=sys.stderr)  # once
