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
    """Write a file atomically: after a crash, or for a concurrent reader, it is never half written.

    If it is `private`, only its owner may read it. The next writer removes the temporary file of a killed process.
    """
    _publish(path, content, Path.replace, private)


def check_writable(path: Path) -> None:
    """Raise UserError unless a new file can be written at `path`: it does not exist, and its folder takes files."""
    if path.exists():
        raise UserError(f"{path} is there already: choose another name, a published model is not overwritten.")
    try:
        partial, file = _new_partial(path, 0o600)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None
    file.close()
    partial.unlink()


def create_atomically(path: Path, content: str | bytes, private: bool = False) -> None:
    """Write a file atomically that must not exist yet: of several processes one succeeds.

    If it is `private`, only its owner may read it.

    Raises:
        FileExistsError: it exists.
        OSError: it cannot be written, or the file system has no hard links.
    """
    _publish(path, content, lambda partial, path: path.hardlink_to(partial), private)


@contextmanager
def reserved(path: Path) -> Iterator[Callable[[str], None]]:
    """Reserve the name of a new file; yield a function that writes all of its content to the disk.

    The file gets the name when the block ends, with what was written last, and is removed if the block fails. Until
    then no other process can reserve the name. Content that is no longer than what was written before needs no more
    room on the disk. A process that is killed leaves a temporary file, which the next one removes.
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
    """Yield a temporary file beside `path` and a function that writes it; publish it under that name at the end."""
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
    """Name in an error the path that the user knows; the error of a full disk has no file name at all."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)
        raise


def _new_partial(path: Path, mode: int) -> tuple[Path, FileIO]:
    """A temporary file beside `path`, open and locked until it is closed."""
    while True:
        # unique also among processes with the same process id: two containers on one volume
        partial = path.with_name(f".{path.name}-{MACHINE}-{uuid.uuid4().hex}")
        file = FileIO(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), "wb")
        _hold(file.fileno(), wait=True)
        if partial.exists():  # otherwise it was swept before it was locked
            return partial, file
        file.close()


def _hold(number: int, wait: bool) -> bool:
    """Lock an open file; return whether it succeeded. It fails if another process has it or locks are unsupported."""
    if not fcntl:
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(path: Path) -> None:
    """Remove the temporary files that killed processes left for `path`: those that no process has locked."""
    for left in path.parent.glob(f".{glob.escape(path.name)}-{MACHINE}-{'?' * 32}"):
        with suppress(OSError), left.open("rb+") as file:
            if _hold(file.fileno(), wait=False):
                left.unlink()


def seal(content: str) -> str:
    """The content preceded by its checksum, for a file that begins with the checksum of the rest."""
    return f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}"


def unseal(content: bytes) -> str | None:
    """The sealed content; None if it has changed since it was written."""
    checksum, _, rest = content.partition(b"\n")
    return rest.decode() if checksum.decode("latin-1") == hashlib.sha256(rest).hexdigest() else None


CHECKSUM = "checksum"
"""The key under which a JSON object stores the checksum of the rest of the object."""


def seal_object(content: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values followed by their checksum: JSON that people and other programs can read directly."""
    return {**content, CHECKSUM: _checksum(content)}


def unseal_object(content: bytes, older: bool = False) -> dict[str, Any] | None:
    """The values that were sealed; None if there are none, or if they have changed since they were written.

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
