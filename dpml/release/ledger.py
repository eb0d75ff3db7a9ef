"""Record all releases about some people in an SQLite file, the ledger, before the noise of each release is drawn.

If a process is killed after `enter`, the entry stays and its eps counts, because nobody knows whether anyone has seen
noisy results. Processes that enter releases at the same time wait for each other.

Guarantees for a *party* add up only over releases of the same parties. The ledger recognises parties by an HMAC, under
its own random key, of a digest of their rows or public keys. So nobody without the ledger can test a guess of the rows.

Each row has a checksum of itself and of the previous row, and the last checksum is also stored separately. A ledger
with a damaged or missing row allows no release. It does not protect against its owner, who can restore an old copy.
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
"""The observer for whom eps adds up: somebody who sees published models only, or each release's strongest observer."""

_OPEN: list["Ledger"] = []
"""The ledger of this process's `with` blocks, listed once for each open block."""

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
    """A cap on the total eps of all releases in a ledger, at one delta, against the strongest observer.

    If all releases are Gaussian, the budgets may depend on the results of earlier releases (`dpml.privacy.accountant`).
    """

    eps: float
    delta: float
    unit: Unit = "sample"

    def __post_init__(self) -> None:
        if not (self.eps > 0 and 0 < self.delta < 1):
            raise UserError(
                "ledger.cap must be a positive number, and ledger.delta must lie strictly between 0 and 1, "
                f"got ledger.cap={self.eps!r} and ledger.delta={self.delta!r}."
            )


@dataclass(frozen=True)
class LedgerEntry:
    """An entry of the ledger, which records one release."""

    number: int  # 1, 2, ... in the order of entry
    time: str  # of entry, in UTC, in ISO 8601 format
    setting: str  # the options of the release, as on the command line
    guarantees: tuple[Guarantee, ...]  # one against each observer, proven or declared
    parties: str | None = None  # a keyed digest of which parties these are; None if unknown
    model: str | None = None  # SHA-256 of the published file; None if unknown or not published

    @property
    def unit(self) -> Unit:
        return self.guarantees[0].unit

    def seen_by(self, audience: Audience) -> Guarantee:
        """Return the guarantee against model readers for `audience` "release", else against the strongest observer."""
        alone = [guarantee for guarantee in self.guarantees if guarantee.view == "release"]
        return alone[0] if audience == "release" and alone else worst(self.guarantees)


@dataclass(frozen=True)
class Ledger:
    """A ledger of releases in a file; entering the first release creates the file.

    In a `with` block, each `fit` of a dpml estimator without its own ledger is entered into this ledger, also in other
    threads, and in processes that receive an estimator to fit. A process has one such ledger at a time.

    `cap` is the largest total eps of all releases for one record, at `delta`. None sets no new cap.
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
                f"the ledger {_OPEN[0].path} is open in a `with` block, and a process can have only one such ledger. "
                f"To use {self.path} too, give an estimator ledger=dpml.Ledger(path)."
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
        """Enter a release into the ledger, before noise is drawn; when the method returns, the entry is on disk.

        Args:
            setting: the options of the release, as text.
            guarantees: the proven guarantee against every observer; all for the same unit.
            cap: a further cap on the total eps, which applies to this release and all later releases.
            parties: if parties are protected, a digest of their rows or public keys, never of their names.
        """
        with self._opened() as (connection, content):
            entry, values = self._allowed(content, setting, guarantees, cap, parties)
            content.append(connection, "release", entry.time, values)
        return entry

    def require_room(self, *release: Any) -> None:
        """Raise UserError if the ledger would refuse to enter this release now."""
        self._allowed(self._read(), *release)

    def _allowed(
        self, content: "_Content", setting: str, guarantees: Sequence[Guarantee], cap: Cap | None, parties: str | None
    ) -> tuple[LedgerEntry, dict[str, Any]]:
        proven = tuple(guarantee for guarantee in guarantees if guarantee.basis in HELD)
        if not proven or math.isinf(worst(proven).eps):
            raise UserError(
                "nothing is proven against the strongest observer, so no ledger accepts the release: set another algo."
            )
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
        """Record the SHA-256 of a release's model file, before the file is published."""
        with self._opened() as (connection, content):
            content.append(connection, "published", _now(), {"entry": entry.number, "model": model})

    def entries(self) -> list[LedgerEntry]:
        """Return the entries of all releases, from the first to the last."""
        return self._read().entries

    def caps(self) -> list[Cap]:
        return self._read().caps

    def spent(self, unit: Unit, audience: Audience) -> Accountant | None:
        """Return the joint guarantee of all releases against the observers `audience`, or None if it is unknown."""
        return spent(self.entries(), unit, audience)

    def _check(self, before: Sequence[LedgerEntry], entry: LedgerEntry, cap: Cap) -> None:
        now, then = (spent(entries, cap.unit, "worst") for entries in (before, [*before, entry]))
        if then is None:
            raise UserError(
                f"the ledger {self.path} limits the total eps of every party, so all its releases must protect the "
                "same parties (unit=party): use another ledger for other parties or for single samples."
            )
        reached = then.eps(cap.delta)
        if math.isinf(reached):
            raise UserError(
                f"the cap of {self.path} limits the total eps at delta = {cap.delta:g}. The total would be infinite, "
                "because the deltas of this release and of all releases in the ledger add up to at least this delta: "
                "choose smaller deltas for releases, or a larger delta for the cap."
            )
        if reached > cap.eps:
            already = now.eps(cap.delta) if now and before else 0.0
            raise UserError(
                f"this release would raise the total eps of {self.path} from {written(already)} to {written(reached)} "
                f"at delta = {cap.delta:g}, above its cap of {cap.eps:g}: choose a smaller eps, or make no "
                "more releases."
            )

    def _read(self) -> "_Content":
        if not self.path.exists():
            return _Content()
        with self._opened("BEGIN") as (_, content):
            return content

    @contextmanager
    def _opened(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[tuple[sqlite3.Connection, "_Content"]]:
        """Open the ledger's file for one transaction; yield the connection and the ledger's content."""
        try:
            if not self.path.exists():
                with suppress(FileExistsError), closing(sqlite3.connect(":memory:")) as connection:
                    connection.executescript(_TABLES)
                    create_atomically(self.path, connection.serialize(), private=True)
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, timeout=_PATIENCE, isolation_level=None, uri=True)) as connection:
                # COMMIT returns only when the data, and the journal's entry in the folder, are on disk
                connection.execute("PRAGMA synchronous = EXTRA")
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version != _VERSION:
                    raise UserError(
                        f"{self.path} is empty, or not a ledger of this version of dpml (format {version}): restore it "
                        "from a copy, or delete it if nothing was ever released with it."
                    )
                if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
                    raise _damaged(self.path, "one of its pages is damaged")
                connection.execute(begin)
                yield connection, _content(connection, self.path)
                connection.execute("COMMIT")  # after an error, closing rolls back
        except (sqlite3.Error, OSError, ValueError, TypeError, LookupError) as error:  # or a file of another program
            why = getattr(error, "strerror", None) or error
            raise UserError(f"the ledger {self.path} cannot be used: {why}; nothing was released.") from error


def default_ledger(data: Path) -> Path:
    """Return the path of the default ledger next to a data file, or next to the target if `data` is a link."""
    if data.exists() and data.stat().st_nlink > 1:
        raise UserError(
            f"{data} has several names (hard links), and each name would have its own ledger: give the same "
            "--ledger FILE for all of them."
        )
    names = [data, data.resolve()] if data.is_symlink() else [data]
    places = [name.with_name(f"{name.name}.ledger") for name in names]
    found = [place for place in places if place.exists()]
    if len(found) > 1:
        raise UserError(
            f"{data} is a link, and the link and its target both have a ledger ({found[0]}, {found[1]}): choose one "
            "with --ledger FILE."
        )
    return found[0] if found else places[-1]


def current() -> Ledger | None:
    """Return the ledger whose `with` block is open in this process, or None."""
    return _OPEN[0] if _OPEN else None


def _damaged(path: Path, what: str) -> UserError:
    return UserError(
        f"the ledger {path} has changed since dpml wrote it ({what}), and nothing can be released with it: restore the "
        "ledger from a copy."
    )


def spent(entries: Sequence[LedgerEntry], unit: Unit, audience: Audience) -> Accountant | None:
    """Return the joint guarantee of releases for a sample or party (`unit`) against `audience`, or None if unknown.

    A guarantee for a party also holds for each of its samples. Releases about different parties have no known joint
    guarantee for a party, because rows of the same people may be in several of these parties.
    """
    if unit == "party" and len(entries) > 0:
        known = {entry.parties for entry in entries}
        if any(entry.unit == "sample" for entry in entries) or (len(entries) > 1 and (len(known) > 1 or None in known)):
            return None
    total = Accountant()
    for entry in entries:
        total = total.add(entry.seen_by(audience))
    return total


@dataclass(frozen=True)
class _Content:
    entries: list[LedgerEntry] = field(default_factory=list)
    caps: list[Cap] = field(default_factory=list)
    key: str = ""
    rows: int = 0
    checksum: str = ""

    def append(self, connection: sqlite3.Connection, kind: str, time: str, values: dict[str, Any]) -> None:
        number, text = self.rows + 1, json.dumps(values)
        checksum = _checksum(self.checksum, number, kind, time, text)
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", (number, kind, time, text, checksum))
        connection.execute("UPDATE last SET number = ?, checksum = ?", (number, checksum))


def _content(connection: sqlite3.Connection, path: Path) -> _Content:
    """Return the content of a ledger's file; raise UserError if a row is damaged or missing."""
    entries: list[LedgerEntry] = []
    caps: dict[Cap, None] = {}
    key, number, before = "", 0, ""
    rows = connection.execute("SELECT number, kind, time, content, checksum FROM event ORDER BY number")
    for number, (stored, kind, time, text, checksum) in enumerate(rows, 1):
        before = _checksum(before, number, kind, time, text)
        if (stored, checksum) != (number, before):
            raise _damaged(path, f"from row {number} on")
        values = json.loads(text)
        if kind == "published":
            of = values["entry"] - 1
            entries[of] = replace(entries[of], model=values["model"])
            continue
        guarantees = tuple(Guarantee(**guarantee) for guarantee in values["guarantees"])
        who = values["parties"] if "key" in values else None  # up to version 0.2, `parties` was a digest of names
        key = key or values.get("key", "")
        entries.append(LedgerEntry(len(entries) + 1, time, values["setting"], guarantees, who))
        if values["cap"]:  # a cap of version 0.1 has no unit: use the unit of its release
            caps[Cap(**{"unit": guarantees[0].unit, **values["cap"]})] = None
    if connection.execute("SELECT number, checksum FROM last").fetchall() != [(number, before)]:
        raise _damaged(path, "its last rows are missing")
    return _Content(entries, list(caps), key, number, before)


def _checksum(before: str, *values: object) -> str:
    return hashlib.sha256(json.dumps([before, *map(str, values)]).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
