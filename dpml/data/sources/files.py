"""The location of raw files, verification of their content, and downloads of missing files."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from dpml.atomic import seal, unseal, write_atomically
from dpml.data.info import Info, Raw
from dpml.data.sources import cache, download
from dpml.errors import UserError

SUFFIXES = {"": b"", ".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh"}
"""Compression suffixes that a raw file may have, and the first bytes of such a file."""

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_CHUNK = 1 << 20
_LARGEST = 1 << 30  # bytes of a file, unpacked: over four times the largest of any data set


@dataclass(frozen=True)
class Content:
    """A file's uncompressed content: checksum, number of lines, and number of values on its first line."""

    sha256: str
    lines: int
    fields: int


@dataclass(frozen=True)
class Files:
    """Where data files lie: in `data_dir` (or DPML_DATA), which is only read, and in the user's cache.

    Missing files are unpacked from archives in the set's folder that were saved by hand, else downloaded, into the
    cache or the folder `into`: from `mirror` (or DPML_MIRROR) if one is set, else from their publisher, unless
    `offline` (or DPML_OFFLINE=1) forbids it. A mirror has the same layout as a data folder.
    """

    data_dir: str | None = None
    mirror: str | None = None
    offline: bool = False
    into: str | None = None

    @property
    def chosen(self) -> Path | None:
        """The folder that `data_dir` or DPML_DATA names."""
        name = self.data_dir or os.environ.get("DPML_DATA")
        return Path(name).expanduser() if name else None

    @property
    def root(self) -> Path:
        """The folder that a data set of the user's reads: the one that is named, else the cache."""
        return self.chosen or cache.root()

    @property
    def target(self) -> Path:
        """The folder that missing files are put into."""
        return Path(self.into).expanduser() if self.into else cache.root()

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders in which files are looked for, in order."""
        return tuple(dict.fromkeys((self.root, self.target, cache.root())))

    def find(self, info: Info, filename: str) -> Path:
        """Return the path of one of a data set's files; the file is downloaded first if it is missing.

        It may lie in ``ROOT/NAME/``, in another of the set's `folders`, or in ``ROOT`` itself, plain or compressed;
        also in a folder there that was unpacked from its archive by hand.
        """
        path = self.local(info, filename)
        if path is None:
            self._fetch(info, filename)
            path = self.local(info, filename)
        if path is None:
            raise self._missing(info, filename, "")
        return path

    def local(self, info: Info, filename: str) -> Path | None:
        """Return the path of a file that is already on disk, or None."""
        found = (path for root in self.roots for place in places(info, filename) if (path := root / place).is_file())
        return next(found, None) or next(self._unpacked(info, filename), None)

    def _unpacked(self, info: Info, filename: str) -> Iterator[Path]:
        """Yield the file in an archive's own folders: ``har/UCI HAR Dataset/train/X_train.txt``."""
        for folder in self._folders(info):
            for depth in ("*", "*/*"):
                yield from sorted(path for path in folder.glob(f"{depth}/{filename}") if path.is_file())

    def _folders(self, info: Info) -> Iterator[Path]:
        for root in self.roots:
            yield from (root / name for name in dict.fromkeys([info.name, *info.folders]))

    def _saved(self, info: Info, raw: Raw) -> Iterator[str]:
        """Yield where the file would be in the archives in the set's folders: addresses, as those of its publisher."""
        inside = dict.fromkeys(part for url in raw.urls for part in _inside(url))
        for folder in self._folders(info):
            for path in sorted(folder.glob("*")):
                if path.is_file() and path.name.endswith(ARCHIVES):
                    yield from (f"{path.resolve().as_uri()}!{part}" for part in inside)

    def verified(self, info: Info) -> dict[str, tuple[Path, str]]:
        """Return path and checksum (of the uncompressed content) of each of a data set's files, by name.

        A checksum is computed once per file, and recorded until the file or its dates change.
        """
        verified = {}
        for raw in info.files:
            path = self.find(info, raw.name)
            content = content_of(path, raw.separator)
            problem = difference(raw, content) or change(raw, path, content)
            if problem:
                raise UserError(
                    f"{path} is not the official {raw.name} of dataset={info.name}: {problem}; "
                    f"move it away, then get the right one with: dpml data get {info.name}"
                )
            verified[raw.name] = (path, content.sha256)
        return verified

    def _fetch(self, info: Info, filename: str) -> None:
        wanted = [raw for raw in info.files if self.local(info, raw.name) is None]
        mirror = self.mirror or os.environ.get("DPML_MIRROR")
        offline = self.offline or os.environ.get("DPML_OFFLINE", "").lower() not in ("", "0", "false", "no")
        addresses = {}
        for raw in wanted:
            far = raw.urls
            if mirror:
                far = tuple(f"{mirror.rstrip('/')}/{place.as_posix()}" for place in places(info, raw.name))
            addresses[raw] = (*self._saved(info, raw), *(() if offline else far))
        wanted = [replace(raw, urls=urls) for raw, urls in addresses.items() if urls]
        if filename not in [raw.name for raw in wanted]:
            forbidden = offline and any(raw.name == filename and (raw.urls or mirror) for raw in addresses)
            raise self._missing(info, filename, "Offline mode forbids fetching it: " if forbidden else "")
        download.fetch(info, wanted, self.target / info.name, _accept)

    def _missing(self, info: Info, filename: str, why: str) -> UserError:
        folders = " nor in ".join(str(root / info.name) for root in self.roots)
        return UserError(
            f"dataset={info.name} needs the file {filename}, which is not in {folders} (also tried with .gz, .xz "
            f"and .bz2). {why}{info.how_to_get} Put it there, or set data_dir=DIR to the folder that holds it."
        )


def _inside(url: str) -> list[str]:
    """Where a file is inside its archive, and inside the innermost one: ``INNER!MEMBER`` and ``MEMBER``."""
    parts = url.split("!")[1:]
    return ["!".join(parts[start:]) for start in range(len(parts))]


def places(info: Info, filename: str) -> Iterator[Path]:
    """The possible paths of a file, relative to a data folder or a mirror."""
    for name in dict.fromkeys([info.name, *info.folders, "."]):
        for suffix in SUFFIXES:
            yield Path(name) / f"{filename}{suffix}"


def compression(path: Path) -> str:
    """The compression suffix according to the file's first bytes: the content decides, not the name."""
    with path.open("rb") as file:
        start = file.read(6)
    return next((suffix for suffix, magic in SUFFIXES.items() if magic and start.startswith(magic)), "")


def open_raw(path: Path) -> IO[bytes]:
    """The uncompressed content of a file, for reading."""
    suffix = compression(path)
    if suffix == ".gz":
        return gzip.open(path)  # type: ignore[return-value]
    if suffix == ".xz":
        return lzma.open(path)
    if suffix == ".bz2":
        return bz2.open(path)
    return path.open("rb")


def read_content(path: Path, separator: str | None = None) -> Content:
    """Read a whole file: its checksum, its lines, and the number of values on the first line, split by `separator`."""
    digest, lines, first, last, size = hashlib.sha256(), 0, b"", b"\n", 0
    try:
        with open_raw(path) as file:
            while chunk := file.read(_CHUNK):
                if not lines and len(first) < _CHUNK:
                    first += chunk
                digest.update(chunk)
                lines += chunk.count(b"\n")
                last = chunk[-1:]
                size += len(chunk)
                if size > _LARGEST:
                    raise UserError(f"{path} holds more than {_LARGEST >> 20:,} MiB, which no data set's file does.")
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise UserError(f"{path} cannot be read to its end ({error}): it is damaged or incomplete.") from error
    values = first.partition(b"\n")[0].split(separator.encode() if separator else None)
    return Content(digest.hexdigest(), lines + (last != b"\n"), len(values))


def difference(raw: Raw, content: Content) -> str:
    """How a file's content differs from the expected content; empty if it does not differ."""
    if raw.sha256:
        if content.sha256 not in raw.sha256:
            return f"its sha256 is {content.sha256[:16]}... instead of {raw.sha256[0][:16]}..."
        return ""
    for what, is_, expected in (("lines", content.lines, raw.lines), ("columns", content.fields, raw.fields)):
        if expected is not None and is_ != expected:
            return f"it has {is_:,} {what} instead of {expected:,}"
    return ""


def change(raw: Raw, path: Path, content: Content) -> str:
    """How a file without a published checksum differs from its first recorded content; empty if it does not."""
    before = first_seen(path)
    if raw.sha256 or before in (None, content.sha256):
        return ""
    assert before is not None
    return f"it has changed since its sha256 {before[:16]}... was recorded in {_record_path(path)}"


def _accept(raw: Raw, path: Path) -> str:
    """The compression suffix of a file that was just fetched; raises UserError when its content is wrong."""
    content = read_content(path, raw.separator)
    problem = difference(raw, content)
    if problem:
        raise UserError(problem)
    if not raw.sha256:
        print(
            f"note: no checksum of {raw.name} is known; its size is as it should be, and its sha256 {content.sha256} "
            f"is recorded: from now on it is compared with that.",
            file=sys.stderr,
        )
    return compression(path)


# ---- recorded checksums


def _record_path(path: Path) -> Path:
    return cache.root() / "checksums" / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}.json"


def stamp(path: Path) -> tuple[int, int, int, int]:
    """Values that reveal a change of the file without reading it; they are only compared, so no clock need be right.

    Copying tools can reset the modification time of the content; the change time of the inode cannot be set.
    """
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def known_content(path: Path) -> Content | None:
    """The recorded content of a file, if the file has not changed since."""
    record = _read_record(path)
    if record and record.get("stamp") == list(stamp(path)):
        return Content(record["sha256"], record["lines"], record["fields"])
    return None


def content_of(path: Path, separator: str | None = None) -> Content:
    """Return the recorded content of a public file, or else the result of `fresh_content`."""
    return known_content(path) or fresh_content(path, separator)


def fresh_content(path: Path, separator: str | None = None) -> Content:
    """Read a whole public file (`read_content`), and record the result until the file changes."""
    before = stamp(path)  # a file that changes while it is being read is read again next time
    content = read_content(path, separator)
    record = asdict(content) | {"path": str(path.resolve()), "stamp": before}
    with suppress(OSError):  # then it is computed again next time
        _record_path(path).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_record_path(path), seal(json.dumps(record | {"first": first_seen(path) or content.sha256})))
    return content


def first_seen(path: Path) -> str | None:
    """The checksum that was recorded when this file was first read, or None."""
    record = _read_record(path)
    return record["first"] if record else None


def _read_record(path: Path) -> dict | None:  # type: ignore[type-arg]
    try:
        record = json.loads(unseal(_record_path(path).read_bytes()) or "")
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("path") == str(path.resolve()) else None
