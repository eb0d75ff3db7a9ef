"""Where the results of cells lie: one folder per cell, named by what its numbers depend on, never by a clock.

A record is written to a temporary name and renamed, so a reader, another run or a crash never meets half of one, and
two runs that compute the same cell do no harm: they write the same numbers.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpml.atomic import write_atomically
from dpml.data import Files, Source
from dpml.errors import UserError
from dpml.privacy import Guarantee, Problem
from dpml.running.cell import Measured
from dpml.seeds import generator


@dataclass(frozen=True)
class Record:
    """A finished cell: what was measured, or the reason why these settings cannot be used; and how long it took.

    `measured` is None for a skipped cell, and where a record was only glanced at.
    """

    measured: Measured | None
    skipped: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Store:
    """The cells under `root`: ``root/<first two of the key>/<key>/result.json``, or error.txt for the last failure."""

    root: Path

    def folder(self, key: str) -> Path:
        """Where a cell's files lie."""
        return self.root / key[:2] / key

    def glance(self, key: str) -> Record | None:
        """Whether a cell is finished: its record without the numbers; None when there is none that can be read."""
        try:
            with (self.folder(key) / "result.json").open("rb") as file:
                about = json.loads(file.readline())
            return Record(None, about["skipped"], about["seconds"]) if about["key"] == key else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def read(self, key: str) -> Measured:
        """The numbers of a finished cell.

        Raises:
            UserError: they cannot be read.
        """
        path = self.folder(key) / "result.json"
        try:
            with path.open("rb") as file:
                file.readline()
                return _measured(json.loads(file.readline()))
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"{path} is damaged: delete it and run the experiment again.") from None

    def write(self, key: str, identity: Mapping[str, Any], record: Record) -> None:
        """Keep a finished cell, and forget that it ever failed."""
        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        about = {"key": key, "cell": identity, "seconds": record.seconds, "skipped": record.skipped}
        lines = [about, _values(record.measured)] if record.measured else [about]
        write_atomically(folder / "result.json", "".join(f"{json.dumps(line)}\n" for line in lines))
        (folder / "error.txt").unlink(missing_ok=True)

    def fail(self, key: str, log: str) -> Path:
        """Keep the full account of a failure; the cell is tried again next time."""
        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "error.txt", log)
        return folder / "error.txt"

    def failed(self, key: str) -> bool:
        """Whether the cell's last attempt failed."""
        return (self.folder(key) / "error.txt").exists()

    def checksum(self, dataset: Source, files: Files) -> str | None:
        """The checksum of a data set's files, read again only when a file's size or time has changed.

        Raises:
            UserError: a file is missing or damaged.
        """
        stamp = self.root / "data" / f"{digest([repr(dataset), str(files.root.resolve())])}.json"
        try:
            known = json.loads(stamp.read_bytes())
            if all(_state(Path(path)) == state for path, state in known["files"].items()):
                return known["sha256"]
        except (OSError, ValueError, KeyError, AttributeError):
            pass  # not seen before, or a file has gone
        watched = _Watched(**vars(files))
        checksum = dataset.load(watched, None, generator(0, "data")).provenance.get("sha256")
        stamp.parent.mkdir(parents=True, exist_ok=True)
        states = {str(path): _state(path) for path in watched.seen}
        write_atomically(stamp, json.dumps({"sha256": checksum, "files": states}))
        return checksum


@dataclass(frozen=True)
class _Watched(Files):
    """Files that remember which of them a data set has asked for."""

    seen: list[Path] = field(default_factory=list, compare=False)

    def find(self, *arguments: Any, **options: Any) -> Path:
        path = super().find(*arguments, **options)
        self.seen.append(path)
        return path


def _state(path: Path) -> list[int]:
    facts = path.stat()
    return [facts.st_size, facts.st_mtime_ns]


def key_of(identity: Mapping[str, Any]) -> str:
    """The name of a cell: the SHA-256 of its identity."""
    return digest(identity)


def digest(values: Any) -> str:
    """The SHA-256 of plain values, as sorted JSON without spaces."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _values(measured: Measured) -> dict[str, Any]:
    return {
        "problem": asdict(measured.problem),
        # repr of a float reads back as the same bits
        "metrics": {name: values.tolist() for name, values in measured.metrics.items()},
        "guarantees": [[asdict(guarantee) for guarantee in given] for given in measured.guarantees],
        "provenance": dict(measured.provenance),
    }


def _measured(values: Mapping[str, Any]) -> Measured:
    return Measured(
        Problem(**values["problem"]),
        {name: np.array(table, dtype=float) for name, table in values["metrics"].items()},
        [[Guarantee(**guarantee) for guarantee in given] for given in values["guarantees"]],
        values["provenance"],
    )
