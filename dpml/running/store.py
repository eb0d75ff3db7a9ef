"""The store of results: one folder per cell, named by what its numbers depend on, never by a clock.

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
from dpml.privacy import Guarantee, Problem
from dpml.running.cell import Measured


class DamagedError(Exception):
    """A file of the store does not match its checksum."""


@dataclass(frozen=True)
class Record:
    """A finished cell: its measurements, or the reason why these settings cannot be used; and its CPU seconds.

    `measured` is None for a skipped cell, and in the result of `Store.glance`. `refused` is as in `Measured`.
    """

    measured: Measured | None
    skipped: str | None = None
    seconds: float = 0.0
    refused: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Store:
    """The results under `root`: ``root/<first two of the key>/<key>/`` has result.json, or error.txt of a failure."""

    root: Path

    def folder(self, key: str) -> Path:
        """The folder of a cell's files."""
        return self.root / key[:2] / key

    def glance(self, key: str) -> Record | None:
        """The record of a finished cell without its numbers; None if there is none.

        Raises:
            DamagedError: there is a record that does not match its checksum.
        """
        lines = self._lines(key)
        return self._head(key, lines) if lines else None

    def read(self, key: str) -> Measured:
        """The numbers of a finished cell.

        Raises:
            DamagedError: there are no numbers, or they do not match their checksum.
        """
        lines = self._lines(key)
        if lines is None or len(lines) < 2:
            raise DamagedError(f"{self.folder(key)} holds no numbers.")
        return _measured(json.loads(lines[1]))

    def write(self, key: str, identity: Mapping[str, Any], record: Record) -> None:
        """Store a finished cell, and delete the log of an earlier failure."""
        head = {"key": key, "cell": identity, "seconds": record.seconds, "skipped": record.skipped}
        head["refused"] = dict(record.refused)
        lines = [head, _values(record.measured)] if record.measured else [head]
        self.write_text(key, "result.json", "".join(f"{json.dumps(line)}\n" for line in lines))
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

    def read_text(self, key: str, name: str) -> str | None:
        """A file that was stored with `write_text`; None if there is none.

        Raises:
            DamagedError: the file does not match its checksum.
        """
        path = self.folder(key) / name
        try:
            content = unseal(path.read_bytes())
        except FileNotFoundError:
            return None
        if content is None:
            raise DamagedError(f"{path} is damaged.")
        return content

    def write_text(self, key: str, name: str, content: str) -> None:
        """Store a file with its checksum in the first line."""
        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, seal(content))

    def _lines(self, key: str) -> list[str] | None:
        content = self.read_text(key, "result.json")
        return None if content is None else content.splitlines()

    def _head(self, key: str, lines: list[str]) -> Record:
        head = json.loads(lines[0])
        if head["key"] != key:
            raise DamagedError(f"{self.folder(key)} holds another cell.")
        return Record(None, head["skipped"], head["seconds"], _numbered(head["refused"]))


def digest(values: Any) -> str:
    """The SHA-256 of plain values, as sorted JSON without spaces: the key of a cell, from its identity."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


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
    """Convert string keys to integers: JSON has no integer keys."""
    return {int(number): reason for number, reason in reasons.items()}
