"""The store of results: one file for each cell, named by its settings, its data and its code, never by a clock.

So the numbers of several versions of the code lie side by side, and those of the code here are read. A file is written
to a temporary name and renamed: a reader, another run or a crash never sees a half-written file, and two runs that
compute the same cell write the same numbers. Every file begins with the checksum of the rest, so a damaged file is
detected, and its cell is computed again.
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
from dpml.privacy import Guarantee, Problem
from dpml.running.cell import Measured


class DamagedError(Exception):
    """A file of the store does not match its checksum."""


@dataclass(frozen=True)
class Record:
    """A finished cell: its measurements, or the reason why these settings cannot be used; and its CPU seconds.

    `measured` is None for a skipped cell, and in the result of `Store.glance`. `refused` is as in `Measured`.
    `code` is the checksum of the code that made it, and `made_with` are the versions shown with it.
    """

    measured: Measured | None
    skipped: str | None = None
    seconds: float = 0.0
    refused: Mapping[int, str] = field(default_factory=dict)
    code: str = ""
    made_with: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Store:
    """The results under `root`: KEY-CODE.json of a finished cell or block, KEY.txt of a cell that failed."""

    root: Path

    def glance(self, key: str, code: str) -> Record | None:
        """Return the record of a finished cell without its numbers; None if this code has not made it."""
        content = self.content(key, code)
        if content is None:
            return None
        head = json.loads(content.partition("\n")[0])
        refused = {int(number): reason for number, reason in head["refused"].items()}  # JSON has no integer keys
        return Record(None, head["skipped"], head["seconds"], refused, code, head["made_with"])

    def read(self, key: str, record: Record) -> Measured:
        """Return the numbers of a finished cell, by its record.

        Raises:
            DamagedError: there are no numbers, or they do not match their checksum.
        """
        lines = (self.content(key, record.code) or "").splitlines()
        if len(lines) < 2:
            raise DamagedError(f"{self._path(key, record.code)} holds no numbers.")
        values = json.loads(lines[1])
        metrics = {name: np.array(table, dtype=float) for name, table in values["metrics"].items()}
        guarantees = [[Guarantee(**guarantee) for guarantee in given] for given in values["guarantees"]]
        sizes = values["sizes"][0], values["sizes"][1]
        return Measured(Problem(**values["problem"]), metrics, guarantees, values["provenance"], sizes, record.refused)

    def write(self, key: str, identity: Mapping[str, Any], record: Record) -> None:
        """Store a finished cell, and delete the log of an earlier failure."""
        lines = [{"cell": identity} | asdict(replace(record, measured=None))]
        lines += [asdict(record.measured)] if record.measured else []
        self.keep(key, record.code, "".join(f"{json.dumps(line, default=_plain)}\n" for line in lines))
        self.log(key).unlink(missing_ok=True)

    def fail(self, key: str, log: str) -> Path:
        """Store the full log of a failure and return its path; the cell is tried again next time."""
        path = self.log(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, log)
        return path

    def log(self, key: str) -> Path:
        """Return where the log of a cell is, if its last attempt failed."""
        return self.root / key[:2] / f"{key}.txt"

    def keep(self, key: str, code: str, content: str) -> None:
        """Store the results of a cell or block, which this code has made."""
        path = self._path(key, code)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, seal(f"{path.name}\n{content}"))

    def content(self, key: str, code: str) -> str | None:
        """Return what was stored with `keep`; None if there is nothing.

        Raises:
            DamagedError: the file does not match its checksum, or was renamed.
        """
        path = self._path(key, code)
        try:
            name, _, content = (unseal(path.read_bytes()) or "").partition("\n")
        except FileNotFoundError:
            return None
        if name != path.name:
            raise DamagedError(f"{path} is damaged.")
        return content

    def _path(self, key: str, code: str) -> Path:
        return self.root / key[:2] / f"{key}-{code}.json"


def digest(values: Any) -> str:
    """The SHA-256 of plain values, as sorted JSON without spaces: the key of a cell, from its identity."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()  # the repr of a float reads back as the same bits
    name = f"{value.__module__}.{value.__qualname__}"
    if "<" in name:
        raise UserError(f"{name} has no name of its own: write a function with def, at the top of its module.")
    return name
