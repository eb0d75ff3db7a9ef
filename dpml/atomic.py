"""Atomic file writes, and checksums that detect a file whose content has changed since it was written."""

import glob
import hashlib
import json
import os
import platform
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from dpml.errors import UserError

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
"""Part of temporary names: machines that share a folder may not see each other's locks, so each sweeps only its own."""


def write_atomically(path: Path, content: str | bytes, private: bool = False) -> None:
    """Write a file so that neither a crash nor a concurrent reader ever finds it half written.

    Only the owner can read a `private` file. The next writer removes the temporary file of a killed process.
    """
    _publish(path, content, Path.replace, private)


def check_writable(path: Path) -> None:
    """Raise UserError if a file at `path` exists already, or cannot be written there."""
    if path.exists():
        raise UserError(f"{path} is there already: choose another name, a published model is not overwritten.")
    try:
        partial, file = _new_partial(path, 0o600)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None
    file.close()
    partial.unlink()


def create_atomically(path: Path, content: str | bytes, private: bool = False) -> None:
    """Write a new file atomically: if several processes try, one succeeds. Only the owner can read a `private` file.

    Raises:
        FileExistsError: the file exists.
        OSError: the file cannot be written, or the file system has no hard links.
    """
    _publish(path, content, lambda partial, path: path.hardlink_to(partial), private)


@contextmanager
def reserved(path: Path) -> Iterator[Callable[[str], None]]:
    """Reserve the name of a new file; yield a function that writes all of its content to the disk.

    When the block ends, the file gets the name and the content that was written last; if the block fails, the file is
    removed. Until then no other process can reserve the name. Content that is no longer than the content before needs
    no more room on the disk. The next process removes the temporary file of a killed one.
    """
    check_writable(path)
    with _temporary(path, 0o666, Path.replace) as (partial, write):
        others = [str(other) for other in path.parent.glob(f".{glob.escape(path.name)}-{'?' * 41}") if other != partial]
        if path.exists() or others:
            remedy = f"; if none is, delete {others[0]}" if others else ""
            raise UserError(f"another process is writing {path}: choose another name{remedy}.")
        yield write


def _publish(path: Path, content: str | bytes, publish: Callable[[Path, Path], object], private: bool = False) -> None:
    with _naming(path), _temporary(path, 0o600 if private else 0o666, publish) as (_, write):
        write(content)


@contextmanager
def _temporary(
    path: Path, mode: int, publish: Callable[[Path, Path], object]
) -> Iterator[tuple[Path, Callable[[str | bytes], None]]]:
    """Yield a temporary file next to `path` and a function that writes it; publish it under that name at the end."""
    _sweep(path)
    partial, file = _new_partial(path, mode)

    def write(content: str | bytes) -> None:
        rest = memoryview(content.encode() if isinstance(content, str) else content)
        with _naming(path):
            file.seek(0)
            while rest:
                rest = rest[file.write(rest) :]
            file.truncate()
            os.fsync(file.fileno())

    try:
        with file:
            yield partial, write
            if fcntl:
                publish(partial, path)  # while the lock is held, so that no other process sweeps it
        if not fcntl:
            publish(partial, path)  # Windows cannot rename an open file
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Give an error the path that the user knows; the error of a full disk has no file name at all."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)
        raise


def _new_partial(path: Path, mode: int) -> tuple[Path, FileIO]:
    """Open a temporary file next to `path`, locked until it is closed."""
    while True:
        # unique also among processes with the same process id: two containers on one volume
        partial = path.with_name(f".{path.name}-{MACHINE}-{uuid.uuid4().hex}")
        file = FileIO(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), "wb")
        _lock(file.fileno(), wait=True)
        if partial.exists():  # otherwise it was swept before it was locked
            return partial, file
        file.close()


def _lock(number: int, wait: bool) -> bool:
    """Lock an open file; return False if another process has the lock or the file system supports none."""
    if not fcntl:
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(path: Path) -> None:
    """Remove temporary files of `path` that no process has locked: their processes were killed."""
    for left in path.parent.glob(f".{glob.escape(path.name)}-{MACHINE}-{'?' * 32}"):
        with suppress(OSError), left.open("rb+") as file:
            if _lock(file.fileno(), wait=False):
                left.unlink()


def seal(content: str) -> str:
    """Return the content, preceded by a line with its checksum."""
    return f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}"


def unseal(content: bytes) -> str | None:
    """Return the sealed content, or None if it has changed since it was written."""
    checksum, _, rest = content.partition(b"\n")
    return rest.decode() if checksum.decode("latin-1") == hashlib.sha256(rest).hexdigest() else None


CHECKSUM = "checksum"
"""The key under which a JSON object stores the checksum of the rest of the object."""


def seal_object(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values followed by their checksum: JSON that people and other programs can read directly."""
    return {**content, CHECKSUM: _checksum(content)}


def unseal_object(content: bytes, older: bool = False) -> dict[str, Any] | None:
    """Return the sealed values, or None if there are none or they have changed since they were written.

    White space between values may differ, so a file that another program has reformatted remains valid. Some kinds of
    file had no checksum in earlier versions: with `older`, a file without a checksum is accepted.
    """
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(whole, dict):
        return None
    if older and CHECKSUM not in whole:
        return whole
    checksum = whole.pop(CHECKSUM, None)
    return whole if checksum == _checksum(whole) else None


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
