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

from platformdirs import user_cache_path

from dpml.atomic import seal, unseal, write_atomically
from dpml.data.info import Info, Raw
from dpml.data.sources import cache, download
from dpml.errors import UserError

SUFFIXES = {"": b"", ".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh"}
"""Compression suffixes that a raw file may have, and the first bytes of such a file."""

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Content:
    """A file's uncompressed content: checksum, number of lines, and number of values on its first line."""

    sha256: str
    lines: int
    fields: int


@dataclass(frozen=True)
class Files:
    """The location of data files: `data_dir`, else the environment variable DPML_DATA, else the user's cache folder.

    Missing files are unpacked from archives in the set's folder that were saved by hand, else downloaded to that
    folder, from `mirror` (or DPML_MIRROR) if one is set, else from their publisher, unless `offline` (or
    DPML_OFFLINE=1) forbids it. A mirror has the same layout as a data folder.
    """

    data_dir: str | None = None
    mirror: str | None = None
    offline: bool = False

    @property
    def chosen(self) -> Path | None:
        """The folder, if one is named."""
        name = self.data_dir or os.environ.get("DPML_DATA")
        return Path(name).expanduser() if name else None

    @property
    def root(self) -> Path:
        return self.chosen or user_cache_path("dpml").expanduser()

    def find(self, info: Info, filename: str) -> Path:
        """The path of one of a data set's files; the file is downloaded first if it is missing.

        It may lie in ``root/<name>/``, in another of the set's `folders`, or in ``root`` itself, plain or compressed;
        also in a folder there that was unpacked from its archive by hand.

        Raises:
            UserError: the file is missing and not available; the message gives the file, the places searched, and how
                to get it.
        """
        path = self.local(info, filename)
        if path is None:
            self._fetch(info, filename)
            path = self.local(info, filename)
        if path is None:
            raise self._missing(info, filename, "")
        return path

    def local(self, info: Info, filename: str) -> Path | None:
        """The path of a file that is already on disk, or None."""
        found = (path for place in places(info, filename) if (path := self.root / place).is_file())
        return next(found, None) or next(self._unpacked(info, filename), None)

    def _unpacked(self, info: Info, filename: str) -> Iterator[Path]:
        """The file in an archive's own folders: ``har/UCI HAR Dataset/train/X_train.txt``."""
        for folder in dict.fromkeys([info.name, *info.folders]):
            for depth in ("*", "*/*"):
                yield from sorted(path for path in (self.root / folder).glob(f"{depth}/{filename}") if path.is_file())

    def _saved(self, info: Info, raw: Raw) -> Iterator[str]:
        """Where the file would be in the archives in the set's folder: addresses, as those of its publisher."""
        inside = dict.fromkeys(part for url in raw.urls for part in _inside(url))
        for folder in dict.fromkeys([info.name, *info.folders]):
            for path in sorted((self.root / folder).glob("*")):
                if path.is_file() and path.name.endswith(ARCHIVES):
                    yield from (f"{path.resolve().as_uri()}!{part}" for part in inside)

    def verified(self, info: Info) -> dict[str, tuple[Path, str]]:
        """Path and checksum (of the uncompressed content) of each of a data set's files, by name.

        A checksum is computed once per file, and recorded until the file or its dates change (`_stamp`).

        Raises:
            UserError: a file is not available, or is not the official file.
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
        download.fetch(info, wanted, self.root / info.name, _accept)

    def _missing(self, info: Info, filename: str, why: str) -> UserError:
        folders = dict.fromkeys([info.name, *info.folders, "."])
        looked = " nor ".join(str(self.root / folder / filename) for folder in folders)
        return UserError(
            f"dataset={info.name} needs the file {filename}, which is neither {looked} (also tried with .gz, .xz "
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
    """Read a whole file: its checksum, its lines, and the number of values on the first line, split by `separator`.

    Raises:
        UserError: it is a damaged archive, or is larger than any data set's file.
    """
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
                if size > download.LARGEST:
                    raise UserError(
                        f"{path} holds more than {download.LARGEST >> 20:,} MiB, which no data set's file does."
                    )
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
    """The recorded content of a file, or else the result of `fresh_content`."""
    return known_content(path) or fresh_content(path, separator)


def fresh_content(path: Path, separator: str | None = None) -> Content:
    """Read a whole file (`read_content`), and record the result until the file changes."""
    before = stamp(path)  # a file that changes while it is being read is read again next time
    content = read_content(path, separator)
    if not cache.kept():
        return content
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
