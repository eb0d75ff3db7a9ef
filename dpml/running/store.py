"""Store the results of each fit (cell) in a file, whose name is made from the settings, the data and the code.

Files are written atomically, and begin with a checksum: the cell of a damaged file is computed again.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpml.errors import UserError
from dpml.files import seal, unseal, write_atomically
from dpml.running.environment import made_with


@dataclass(frozen=True)
class Record:
    """The stored results of a fit, or of a function that computes result rows without fits; or why there are none."""

    numbers: str = ""  # a fit's measurements or a computed block's rows, as text; empty in the result of `Store.glance`
    skipped: str | None = None  # why there are no numbers
    seconds: float = 0.0  # the CPU time
    refused: Mapping[int, str] = field(default_factory=dict)  # as in `Measured`
    code: str = ""  # the checksum of the code that computed the numbers
    made_with: Mapping[str, str] = field(default_factory=made_with)  # the software versions, which results show


@dataclass(frozen=True)
class Store:
    """Results: KEY-CODE.json (hash of settings and data, hash of code) per finished fit, log KEY.txt per failed fit."""

    root: Path

    def glance(self, key: str, code: str) -> Record | None:
        """Return a stored record without its measurements (`numbers`), or None if its file is missing or damaged."""
        content = self._content(key, code)
        if content is None:
            return None
        record = Record(**json.loads(content.partition("\n")[0]))
        refused = {int(number): reason for number, reason in record.refused.items()}  # JSON has no integer keys
        return replace(record, refused=refused)

    def numbers(self, key: str, code: str) -> str:
        """Return a fit's measurements, or a function's rows, as stored text. Raise UserError if the file is damaged."""
        numbers = (self._content(key, code) or "").partition("\n")[2]
        if not numbers:
            raise UserError(f"{self._path(key, code)} is damaged: give the same command again to recompute it.")
        return numbers

    def write(self, key: str, record: Record) -> None:
        path = self._path(key, record.code)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = json.dumps(asdict(replace(record, numbers="")))
        write_atomically(path, seal(f"{path.name}\n{head}\n{record.numbers}"))
        self.log(key).unlink(missing_ok=True)

    def fail(self, key: str, log: str) -> Path:
        """Store the full log of a failed fit, and return the path of the log; the next command tries the fit again."""
        path = self.log(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, log)
        return path

    def log(self, key: str) -> Path:
        """Return the path of the log of a fit (cell), which exists if the last attempt failed."""
        return self.root / key[:2] / f"{key}.txt"

    def _content(self, key: str, code: str) -> str | None:
        path = self._path(key, code)
        try:
            name, _, content = (unseal(path.read_bytes()) or "").partition("\n")
        except FileNotFoundError:
            return None
        return content if name == path.name else None  # otherwise the file is damaged, or was renamed

    def _path(self, key: str, code: str) -> Path:
        return self.root / key[:2] / f"{key}-{code}.json"


def digest(values: Any) -> str:
    """Return the SHA-256 of plain values, written as sorted JSON without spaces."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    name = f"{value.__module__}.{value.__qualname__}"
    if "<" in name:
        raise UserError(f"{name} cannot be imported by its name: define it with def at the top level of its module.")
    return name
