"""Files that appear whole or not at all, and that notice when they are not as they were written."""

import hashlib
import os
import uuid
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a crash, never meets half of it."""
    # unique also among processes with the same number: two containers on one volume
    partial = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        with partial.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)  # what the user knows; a full disk has no name at all
        raise
    finally:
        partial.unlink(missing_ok=True)


def seal(content: str) -> str:
    """The content of a file that begins with the checksum of the rest."""
    return f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}"


def unseal(content: bytes) -> str | None:
    """What was sealed; None when it is not as it was written."""
    checksum, _, rest = content.partition(b"\n")
    return rest.decode() if checksum.decode("latin-1") == hashlib.sha256(rest).hexdigest() else None
