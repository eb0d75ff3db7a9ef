"""Files that appear whole or not at all, and that notice when they are not as they were written."""

import glob
import hashlib
import os
import platform
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO

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
