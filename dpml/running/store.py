"""The store of results: one folder per cell, named by its settings and data, never by a clock.

What else its numbers depend on (`dependencies`) was observed when they were computed, and many cells share it: it is
stored once, as ``dependencies/DIGEST.json``, and the numbers are in ``result-DIGEST.json``. So numbers of several
versions of the code lie beside each other, and those are read that would be the same now.

A file is written to a temporary name and renamed, so a reader, another run or a crash never sees a half-written file,
and two runs that compute the same cell do no harm: they write the same numbers. Every file begins with the checksum of
the rest, so that a damaged file is detected, and computed again.
"""

import hashlib
import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dpml.atomic import seal, unseal, write_atomically
from dpml.errors import UserError
from dpml.privacy import Guarantee, Problem
from dpml.running.cell import Measured
from dpml.running.dependencies import UNKNOWN, Dependencies, Present


class DamagedError(Exception):
    """A file of the store does not match its checksum."""


@dataclass(frozen=True)
class Record:
    """A finished cell: its measurements, or the reason why these settings cannot be used; and its CPU seconds.

    `measured` is None for a skipped cell, and in the result of `Store.glance`. `refused` is as in `Measured`.
    `made_with` are versions that no number depends on.
    """

    measured: Measured | None
    skipped: str | None = None
    seconds: float = 0.0
    refused: Mapping[int, str] = field(default_factory=dict)
    dependencies: Dependencies = field(default_factory=Dependencies)
    made_with: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Store:
    """The results under `root`: ``root/<first two of the key>/<key>/`` has results, or error.txt of a failure.

    It is for one command: what has changed since they were computed is looked up once.
    """

    root: Path
    _present: Present = field(default_factory=Present, repr=False, compare=False)
    _known: dict[str, tuple[Dependencies, list[str]]] = field(default_factory=dict, repr=False, compare=False)
    _likely: dict[Hashable, str] = field(default_factory=dict, repr=False, compare=False)

    def folder(self, key: str) -> Path:
        """The folder of a cell's files."""
        return self.root / key[:2] / key

    def glance(self, key: str, kind: Hashable = None) -> Record | None:
        """The record of a finished cell without its numbers; None if there is none that would be the same now.

        Cells of one `kind` mostly depend on the same: where this is so, the cell's folder need not be listed.

        Raises:
            DamagedError: there is a record that does not match its checksum.
        """
        found = self.current(key, "result.json", kind)
        if found is None:
            return None
        content, dependencies = found
        head = json.loads(content.partition("\n")[0])
        refused = _numbered(head["refused"])
        return Record(None, head["skipped"], head["seconds"], refused, dependencies, head["made_with"])

    def read(self, key: str, record: Record) -> Measured:
        """The numbers of a finished cell, by its record.

        Raises:
            DamagedError: there are no numbers, or they do not match their checksum.
        """
        lines = (self._read(key, "result.json", record.dependencies.digest) or "").splitlines()
        if len(lines) < 2:
            raise DamagedError(f"{self.folder(key)} holds no numbers.")
        return _measured(json.loads(lines[1]))

    def write(self, key: str, identity: Mapping[str, Any], record: Record) -> None:
        """Store a finished cell, and delete the log of an earlier failure."""
        head = {"cell": identity, "seconds": record.seconds, "skipped": record.skipped}
        head |= {"refused": dict(record.refused), "made_with": dict(record.made_with)}
        lines = [head, _values(record.measured)] if record.measured else [head]
        self.keep(
            key, "result.json", "".join(f"{json.dumps(line, default=_name)}\n" for line in lines), record.dependencies
        )
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

    def keep(self, key: str, name: str, content: str, dependencies: Dependencies) -> None:
        """Store a file of a cell or block, which counts as current in this command, and what it depends on."""
        needs = dependencies.digest
        if needs not in self._known or self._known[needs][0] != dependencies:
            self._write(self._place(needs), json.dumps(asdict(dependencies)))
        self._known[needs] = dependencies, []
        self._write(self.folder(key) / _versioned(name, needs), f"{key} {needs}\n{content}")

    def current(self, key: str, name: str, kind: Hashable = None) -> tuple[str, Dependencies] | None:
        """The content of a file that was stored with `keep` and would be the same now; None if there is none.

        Raises:
            DamagedError: the file does not match its checksum, or what it depends on is not known.
        """
        damaged: DamagedError | None = None
        likely = [self._likely[kind]] if kind in self._likely else []
        for needs in chain(likely, self._versions(key, name)):
            dependencies, changes = self._needed(needs)
            try:
                if dependencies is _LOST:
                    raise DamagedError(f"{self._place(needs)} is damaged.")
                content = None if changes else self._read(key, name, needs)
            except DamagedError as error:
                damaged = error
            else:
                if content is not None:
                    self._likely[kind] = needs
                    return content, dependencies
        if damaged is not None:
            raise damaged
        return None

    def changes(self, key: str, name: str) -> list[str]:
        """What has changed since the versions of a file were stored, by name."""
        return [change for needs in self._versions(key, name) for change in self._needed(needs)[1]]

    def _versions(self, key: str, name: str) -> Iterator[str]:
        """The checksums of the dependencies with which a file was stored."""
        start, end = _versioned(name, "\n").split("\n")
        try:
            names = sorted(path.name for path in self.folder(key).iterdir())
        except FileNotFoundError:
            return
        yield from (one[len(start) : -len(end)] for one in names if one.startswith(start) and one.endswith(end))

    def _needed(self, needs: str) -> tuple[Dependencies, list[str]]:
        """Dependencies by their checksum, and what of them has changed."""
        if needs not in self._known:
            try:
                found = Dependencies.of_plain(json.loads(_unsealed(self._place(needs)) or "{}"))
            except DamagedError:
                found = _LOST
            found = found if found.digest == needs else _LOST
            self._known[needs] = found, self._present.changes(found)
        return self._known[needs]

    def _place(self, needs: str) -> Path:
        return self.root / "dependencies" / f"{needs}.json"

    def _read(self, key: str, name: str, needs: str) -> str | None:
        path = self.folder(key) / _versioned(name, needs)
        head, _, content = (_unsealed(path) or "").partition("\n")
        if head and head != f"{key} {needs}":
            raise DamagedError(f"{path} holds something else.")
        return content if head else None

    def _write(self, path: Path, content: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, seal(content))


_LOST = Dependencies(files={"": UNKNOWN})


def _unsealed(path: Path) -> str | None:
    try:
        content = unseal(path.read_bytes())
    except FileNotFoundError:
        return None
    if content is None:
        raise DamagedError(f"{path} is damaged.")
    return content


def _versioned(name: str, needs: str) -> str:
    stem, _, suffix = name.partition(".")
    return f"{stem}-{needs}.{suffix}"


def digest(values: Any) -> str:
    """The SHA-256 of plain values, as sorted JSON without spaces: the key of a cell, from its identity."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), default=_name)
    return hashlib.sha256(text.encode()).hexdigest()


def _name(value: Any) -> str:
    """A class or a function by its name."""
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
    """Convert string keys to integers: JSON has no integer keys."""
    return {int(number): reason for number, reason in reasons.items()}
