"""Files that appear whole or not at all, and that notice when they are not as they were written."""

import glob
import hashlib
import json
import os
import platform
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
"""In temporary names: machines that share a folder may not see each other's locks, and leave each other's files."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a crash, never meets half of it.

    A process that is killed may leave a file of a temporary name: who writes `path` next removes it.
    """
    partial = path
    try:
        _sweep(path)
        partial, file = _new_partial(path)
        with file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
            if fcntl:
                partial.replace(path)  # while it is held, so that nobody sweeps it
        if not fcntl:
            partial.replace(path)  # Windows renames no open file
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)  # what the user knows; a full disk has no name at all
        raise
    finally:
        if partial != path:
            partial.unlink(missing_ok=True)


def _new_partial(path: Path) -> tuple[Path, IO[bytes]]:
    """A temporary file beside `path`, open and held until it is closed."""
    while True:
        # unique also among processes with the same number: two containers on one volume
        partial = path.with_name(f".{path.name}-{MACHINE}-{uuid.uuid4().hex}")
        file = partial.open("xb")
        _hold(file.fileno(), wait=True)
        if partial.exists():  # else it was swept before it was held
            return partial, file
        file.close()


def _hold(number: int, wait: bool) -> bool:
    """Lock an open file, and say whether that succeeded. It fails where another has it or there are no locks."""
    if not fcntl:
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(path: Path) -> None:
    """Remove what killed processes left when they wrote `path`: temporary files that nobody holds."""
    for left in path.parent.glob(f".{glob.escape(path.name)}-{MACHINE}-{'?' * 32}"):
        with suppress(OSError), left.open("rb+") as file:
            if _hold(file.fileno(), wait=False):
                left.unlink()


def seal(content: str) -> str:
    """The content of a file that begins with the checksum of the rest."""
    return f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}"


def unseal(content: bytes) -> str | None:
    """What was sealed; None when it is not as it was written."""
    checksum, _, rest = content.partition(b"\n")
    return rest.decode() if checksum.decode("latin-1") == hashlib.sha256(rest).hexdigest() else None


CHECKSUM = "checksum"
"""The key of a JSON object under which it has the checksum of all else in it."""


def seal_object(content: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values, and their checksum behind them: JSON that people and other programs read as it is."""
    return {**content, CHECKSUM: _checksum(content)}


def unseal_object(content: bytes, older: bool = False) -> dict[str, Any] | None:
    """The values that were sealed; None when there are none, or they are not as they were written.

    White space between them may be another: programs that set JSON out anew change nothing. Of a kind of file that once
    had no checksum, those without one are taken, too, where it is an `older` kind.
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
