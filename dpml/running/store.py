"""The store of results: one folder per cell, named by its settings and data, never by a clock.

Its numbers are in ``result-CODE.json``, named by the checksum of the code that made them (`dpml.code`). So numbers of
several versions of the code lie side by side, and those of the code here are read.

A file is written to a temporary name and renamed, so a reader, another run or a crash never sees a half-written file,
and two runs that compute the same cell do no harm: they write the same numbers. Every file begins with the checksum of
the rest, so that a damaged file is detected, and computed again.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpml.atomic import seal, unseal, write_atomically
from dpml.errors import UserError
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
    """The results under `root`: ``root/<first two of the key>/<key>/`` has results, or error.txt of a failure.

    It is for one command, which reads what it has stored, whatever the code of the process that made it.
    """

    root: Path
    _stored: dict[str, str] = field(default_factory=dict, repr=False, compare=False)  # the code by the key

    def folder(self, key: str) -> Path:
        """The folder of a cell's files."""
        return self.root / key[:2] / key

    def glance(self, key: str, code: str) -> Record | None:
        """Return the record of a finished cell without its numbers; None if this code has not made it.

        Raises:
            DamagedError: the record does not match its checksum.
        """
        code = self.version(key, code)
        content = self.content(key, "result.json", code)
        if content is None:
            return None
        head = json.loads(content.partition("\n")[0])
        return Record(None, head["skipped"], head["seconds"], _numbered(head["refused"]), code, head["made_with"])

    def read(self, key: str, record: Record) -> Measured:
        """The numbers of a finished cell, by its record.

        Raises:
            DamagedError: there are no numbers, or they do not match their checksum.
        """
        lines = (self.content(key, "result.json", record.code) or "").splitlines()
        if len(lines) < 2:
            raise DamagedError(f"{self.folder(key)} holds no numbers.")
        return _measured(json.loads(lines[1]))

    def write(self, key: str, identity: Mapping[str, Any], record: Record) -> None:
        """Store a finished cell, and delete the log of an earlier failure."""
        head = {"cell": identity, "seconds": record.seconds, "skipped": record.skipped}
        head |= {"refused": dict(record.refused), "made_with": dict(record.made_with)}
        lines = [head, _values(record.measured)] if record.measured else [head]
        self.keep(key, "result.json", "".join(f"{json.dumps(line, default=_name)}\n" for line in lines), record.code)
        (self.folder(key) / "error.txt").unlink(missing_ok=True)

    def fail(self, key: str, log: str) -> Path:
        """Store the full log of a failure; the cell is tried again next time."""
        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "error.txt", log)
        return folder / "error.txt"

    def failed(self, key: str) -> bool:
        """Whether the cell's last attempt failed."""
        return (self.folder(key) / "error.txt").exists()

    def keep(self, key: str, name: str, content: str, code: str) -> None:
        """Store a file of a cell or block, which this code has made."""
        path = self._path(key, name, code)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, seal(f"{key} {code}\n{content}"))
        self._stored[key] = code

    def version(self, key: str, code: str) -> str:
        """Return which code's files of a cell or block count: what this command has stored, else that of `code`."""
        return self._stored.get(key, code)

    def content(self, key: str, name: str, code: str) -> str | None:
        """Return the content of a file that was stored with `keep`; None if there is none.

        Raises:
            DamagedError: the file does not match its checksum.
        """
        path = self._path(key, name, code)
        head, _, content = (_unsealed(path) or "").partition("\n")
        if head and head != f"{key} {code}":
            raise DamagedError(f"{path} holds something else.")
        return content if head else None

    def _path(self, key: str, name: str, code: str) -> Path:
        stem, _, suffix = name.partition(".")
        return self.folder(key) / f"{stem}-{code}.{suffix}"


def _unsealed(path: Path) -> str | None:
    try:
        content = unseal(path.read_bytes())
    except FileNotFoundError:
        return None
    if content is None:
        raise DamagedError(f"{path} is damaged.")
    return content


def digest(values: Any) -> str:
    """The SHA-256 of plain values, as sorted JSON without spaces: the key of a cell, from its identity."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), default=_name)
    return hashlib.sha256(text.encode()).hexdigest()


def _name(value: Any) -> str:
    name = f"{value.__module__}.{value.__qualname__}"
    if "<" in name:
        raise UserError(f"{name} has no name of its own: write a function with def, at the top of its module.")
    return name


def _values(measured: Measured) -> dict[str, Any]:
    return {
        "problem": asdict(measured.problem),
        # the repr of a float reads back as the same bits
        "metrics": {name: values.tolist() for name, values in measured.metrics.items()},
        "guarantees": [[asdict(guarantee) for guarantee in given] for given in measured.guarantees],
        "provenance": dict(measured.provenance),
        "sizes": list(measured.sizes),
        "refused": dict(measured.refused),
    }


def _measured(values: Mapping[str, Any]) -> Measured:
    return Measured(
        Problem(**values["problem"]),
        {name: np.array(table, dtype=float) for name, table in values["metrics"].items()},
        [[Guarantee(**guarantee) for guarantee in given] for given in values["guarantees"]],
        values["provenance"],
        tuple(values["sizes"]),
        _numbered(values["refused"]),
    )


def _numbered(reasons: Mapping[str, str]) -> dict[int, str]:
    return {int(number): reason for number, reason in reasons.items()}  # JSON has no integer keys
