"""Files that appear whole or not at all."""

import os
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a crash, never meets half of it."""
    part = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
