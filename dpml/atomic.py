"""Files that appear whole or not at all."""

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
