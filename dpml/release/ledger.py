"""The ledger of all releases about a population: one SQLite file; releases are entered *before* noise is drawn.

The entry is on disk when `enter` returns, so a process that is killed later leaves at worst an entry without a release.
Such an entry counts, because it is unknown what was seen. Processes that enter at the same time wait for each other.

What is spent on a *party* adds up only over releases of the same parties. Their identity is an HMAC of a digest of
which party has which rows, or of the parties' public keys, under a random key of the ledger, so that nobody can check a
guess of the rows without reading the ledger.

Rows are only ever added. Each has a checksum of itself and of the previous row, and the last one is also stored
separately: a ledger with a damaged or missing row allows no release. A ledger prevents mistakes of honest people. It
gives no protection against its owner, who can put back an old copy.
"""

import hashlib
import hmac
import json
import math
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from dpml.errors import UserError
from dpml.files import create_atomically
from dpml.privacy import Guarantee, worst
from dpml.privacy.accountant import Accountant
from dpml.privacy.guarantee import HELD
from dpml.privacy.safe import written

Unit = Literal["sample", "party"]

Audience = Literal["release", "worst"]
"""The observer: one who sees only what is published, or one with the worst view of each release."""

_OPEN: list["Ledger"] = []
"""The ledger of the `with` blocks of this process, once for each."""

_PATIENCE = 30.0  # seconds to wait for another process that is entering a release
_VERSION = 1
_TABLES = f"""
PRAGMA user_version = {_VERSION};
CREATE TABLE event (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('release', 'published')),
    time TEXT NOT NULL,
    content TEXT NOT NULL,
    checksum TEXT NOT NULL
);
CREATE TABLE last (number INTEGER NOT NULL, checksum TEXT NOT NULL);
INSERT INTO last VALUES (0, '');
"""


@dataclass(frozen=True)
class Cap:
    """The maximum total of all releases of a ledger for one unit, in the worst view of each, at one delta.

    It is proven also where a release's budget was chosen by results of earlier ones if all are Gaussian (`accountant`).
    """

    eps: float
    delta: float
    unit: Unit = "sample"

    def __post_init__(self) -> None:
        if not (self.eps > 0 and 0 < self.delta < 1):
            raise UserError(
                "ledger.cap must be a positive number and ledger.delta one strictly between 0 and 1, "
                f"got ledger.cap={self.eps!r} and ledger.delta={self.delta!r}."
            )


@dataclass(frozen=True)
class LedgerEntry:
    """A release in the ledger.

    Attributes:
        number: 1, 2, ... in the order in which they were entered.
        time: when, in UTC, in ISO 8601 format.
        setting: the requested setting, as on the command line.
        unit: what each guarantee protects, a sample or a party.
        guarantees: what is proven of every view, or declared; the basis tells which, and what is for real numbers.
        parties: the parties' identity; None: it is not known.
        model: SHA-256 of the published file, entered before it is written; None: none was, or it is not known.
    """

    number: int
    time: str
    setting: str
    guarantees: tuple[Guarantee, ...]
    parties: str | None = None
    model: str | None = None

    @property
    def unit(self) -> Unit:
        return self.guarantees[0].unit

    def seen_by(self, audience: Audience) -> Guarantee:
        """Return the guarantee against an audience; if there is none for the release alone, the worst of all views."""
        alone = [guarantee for guarantee in self.guarantees if guarantee.view == "release"]
        return alone[0] if audience == "release" and alone else worst(self.guarantees)


@dataclass(frozen=True)
class Ledger:
    """The ledger in a file; the first entry creates the file.

    In a `with` block every `fit` of an estimator of dpml that has no ledger of its own is entered into it, also in
    other threads, and in processes that are given an estimator to fit. A process has one such ledger at a time.

    Args:
        path: of the file.
        cap: the largest eps, at `delta`, that all releases together may reach for one record; None: no new cap.
        delta: of `cap`.
    """

    path: Path
    cap: float | None = None
    delta: float = 1e-5

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.cap is not None:
            Cap(self.cap, self.delta)

    def __enter__(self) -> Self:
        if any(each != self for each in _OPEN):
            raise UserError(
                f"the ledger {_OPEN[0].path} is open in another block: give the estimators of {self.path} their own, "
                "ledger=dpml.Ledger(path)."
            )
        _OPEN.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.remove(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "path": self.path.absolute()}  # another process may be in another folder

    def enter(
        self, setting: str, guarantees: Sequence[Guarantee], cap: Cap | None = None, parties: str | None = None
    ) -> LedgerEntry:
        """Enter a release whose noise is not drawn yet; the entry is on disk when this returns.

        Args:
            setting: the requested setting.
            guarantees: the proven guarantees of the release, for every view; at least one, all of the same unit.
            cap: applies from now on, together with all earlier caps: the smallest for each unit counts.
            parties: a digest of which party has which rows, or of the parties' public keys; never of names. None: it
                is not known. It is used only where the release protects parties.
        """
        with self._transaction() as (connection, content):
            entry, values = self._allowed(content, setting, guarantees, cap, parties)
            content.append(connection, "release", entry.time, values)
        return entry

    def require_room(
        self, setting: str, guarantees: Sequence[Guarantee], cap: Cap | None = None, parties: str | None = None
    ) -> None:
        """Raise UserError if `enter` would refuse this now; nothing is entered."""
        self._allowed(self._read(), setting, guarantees, cap, parties)

    def _allowed(
        self,
        content: "_Content",
        setting: str,
        guarantees: Sequence[Guarantee],
        cap: Cap | None,
        parties: str | None,
    ) -> tuple[LedgerEntry, dict[str, Any]]:
        proven = tuple(guarantee for guarantee in guarantees if guarantee.basis in HELD)
        if not proven or worst(proven).eps == float("inf"):
            raise UserError("nothing is proven of this release for whoever sees most of it: it cannot be entered.")
        own = cap or (None if self.cap is None else Cap(self.cap, self.delta))
        who, key = None, content.key or secrets.token_hex(32)
        if parties is not None and proven[0].unit == "party":
            who = hmac.new(key.encode(), parties.encode(), "sha256").hexdigest()
        entry = LedgerEntry(len(content.entries) + 1, _now(), setting, proven, who)
        for limit in (*content.caps, *([own] if own else [])):
            self._check(content.entries, entry, limit)
        values = {"setting": setting, "parties": who, "key": key, "cap": asdict(own) if own else None}
        return entry, {**values, "guarantees": [asdict(guarantee) for guarantee in proven]}

    def publish(self, entry: LedgerEntry, model: str) -> None:
        """Record the SHA-256 of the file in which a release is about to be published."""
        with self._transaction() as (connection, content):
            content.append(connection, "published", _now(), {"entry": entry.number, "model": model})

    def entries(self) -> list[LedgerEntry]:
        """All releases, in order; none where there is no ledger."""
        return self._read().entries

    def caps(self) -> list[Cap]:
        """All caps that were set."""
        return self._read().caps

    def spent(self, unit: Unit, audience: Audience) -> Accountant | None:
        """All releases added up (`spent`)."""
        return spent(self.entries(), unit, audience)

    def _check(self, before: Sequence[LedgerEntry], entry: LedgerEntry, cap: Cap) -> None:
        now, then = (spent(entries, cap.unit, "worst") for entries in (before, [*before, entry]))
        if then is None:
            single = any(each.unit == "sample" for each in (*before, entry))
            why = "protects single samples only" if single else "is of parties that may be others"
            raise UserError(
                f"{self.path} has a cap on what is spent on a party, which cannot hold: this release, or an earlier "
                f"one, {why}; use another ledger if other people are concerned."
            )
        reached = then.eps(cap.delta)
        if reached > cap.eps:
            already = now.eps(cap.delta) if now and before else 0.0
            if math.isinf(reached):
                raise UserError(
                    f"the deltas of the releases in {self.path}, with this one, add up to {cap.delta:g} or more, so "
                    "that no eps holds at the cap's delta: give each a smaller delta, or the cap a larger one."
                )
            raise UserError(
                f"this release would bring what {self.path} has spent from eps = {written(already)} to "
                f"{written(reached)} at delta = {cap.delta:g}, above its cap of {cap.eps:g}: "
                "choose a smaller eps, or stop here."
            )

    def _read(self) -> "_Content":
        if not self.path.exists():
            return _Content()
        with self._opened() as connection:
            return _content(connection, self.path)

    @contextmanager
    def _transaction(self) -> Iterator[tuple[sqlite3.Connection, "_Content"]]:
        try:
            if not self.path.exists():
                with suppress(FileExistsError), closing(sqlite3.connect(":memory:")) as connection:
                    connection.executescript(_TABLES)
                    create_atomically(self.path, connection.serialize(), private=True)
        except OSError as error:
            raise UserError(_unusable(self.path, error.strerror)) from error
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")  # other processes wait from here on, before anything is read
            yield connection, _content(connection, self.path)
            connection.execute("COMMIT")  # after an error nothing was changed: closing rolls back

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, timeout=_PATIENCE, isolation_level=None, uri=True)) as connection:
                # a commit and the folder's entry of the journal are on disk before it returns
                connection.execute("PRAGMA synchronous = EXTRA")
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version != _VERSION:
                    raise UserError(
                        f"{self.path} is not a ledger of this dpml (format {version}), or was emptied: restore it from "
                        "a copy, or delete it if nothing was ever released with it."
                    )
                if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
                    raise UserError(_damaged(self.path, "a page of it is damaged"))
                yield connection
        except (sqlite3.Error, ValueError, TypeError, LookupError) as error:  # also of what another program wrote
            raise UserError(_unusable(self.path, error)) from error


def beside(data: Path) -> Path:
    """The path of the ledger of a data file, where none is named: beside the file itself, not beside a link to it."""
    if data.exists() and data.stat().st_nlink > 1:
        raise UserError(
            f"{data} is a file of several names (hard links), each of which would have its own ledger: say --ledger "
            "FILE, the same for all of them."
        )
    names = [data, data.resolve()] if data.is_symlink() else [data]
    places = [name.with_name(f"{name.name}.ledger") for name in names]
    found = [place for place in places if place.exists()]
    if len(found) > 1:
        raise UserError(f"{data} is a link, and {found[0]} and {found[1]} are both its ledger: say --ledger FILE.")
    return found[0] if found else places[-1]


def current() -> Ledger | None:
    """Return the ledger of the process's `with` block, if there is one."""
    return _OPEN[0] if _OPEN else None


def _unusable(path: Path, why: object) -> str:
    return f"the ledger {path} cannot be used: {why}; nothing was released."


def _damaged(path: Path, what: str) -> str:
    return (
        f"the ledger {path} is not as it was written, {what}: restore it from a copy; until then nothing can be "
        "released with it."
    )


def spent(entries: Sequence[LedgerEntry], unit: Unit, audience: Audience) -> Accountant | None:
    """Releases added up, for one unit and audience; None: they have no total.

    A guarantee for a party also holds for each of its samples. The reverse does not hold, nor do guarantees for the
    parties of one release say anything about other parties, whose rows may be the same people's: the rows of one party
    may be spread over all of the others.
    """
    if unit == "party" and len(entries) > 0:
        known = {entry.parties for entry in entries}
        if any(entry.unit == "sample" for entry in entries) or (len(entries) > 1 and (len(known) > 1 or None in known)):
            return None
    total = Accountant()
    for entry in entries:
        total = total.add(entry.seen_by(audience))
    return total


# ---- rows


@dataclass(frozen=True)
class _Content:
    """What the rows say: releases, caps, the key of the parties' identities; and their number and last checksum."""

    entries: list[LedgerEntry] = field(default_factory=list)
    caps: list[Cap] = field(default_factory=list)
    key: str = ""
    rows: int = 0
    checksum: str = ""

    def append(self, connection: sqlite3.Connection, kind: str, time: str, values: dict[str, Any]) -> None:
        """Write one more row."""
        number, text = self.rows + 1, json.dumps(values)
        checksum = _checksum(self.checksum, number, kind, time, text)
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", (number, kind, time, text, checksum))
        connection.execute("UPDATE last SET number = ?, checksum = ?", (number, checksum))


def _content(connection: sqlite3.Connection, path: Path) -> _Content:
    """Read all rows; raise UserError where one is damaged or missing."""
    entries: list[LedgerEntry] = []
    caps: dict[Cap, None] = {}
    key, number, before = "", 0, ""
    rows = connection.execute("SELECT number, kind, time, content, checksum FROM event ORDER BY number")
    for number, (stored, kind, time, text, checksum) in enumerate(rows, 1):
        before = _checksum(before, number, kind, time, text)
        if (stored, checksum) != (number, before):
            raise UserError(_damaged(path, f"from its row {number} on"))
        values = json.loads(text)
        if kind == "published":
            of = values["entry"] - 1
            entries[of] = replace(entries[of], model=values["model"])
            continue
        guarantees = tuple(Guarantee(**guarantee) for guarantee in values["guarantees"])
        who = values["parties"] if "key" in values else None  # up to version 0.2 it was a digest of names
        key = key or values.get("key", "")
        entries.append(LedgerEntry(len(entries) + 1, time, values["setting"], guarantees, who))
        if values["cap"]:  # of version 0.1 without a unit: for that of the release with which it was set
            caps[Cap(**{"unit": guarantees[0].unit, **values["cap"]})] = None
    if connection.execute("SELECT number, checksum FROM last").fetchall() != [(number, before)]:
        raise UserError(_damaged(path, "its last rows are missing"))
    return _Content(entries, list(caps), key, number, before)


def _checksum(before: str, *values: object) -> str:
    return hashlib.sha256(json.dumps([before, *map(str, values)]).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
