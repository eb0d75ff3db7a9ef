"""Find the raw files of data sets, verify their content, and download missing ones with pooch."""

import bz2
import gzip
import json
import lzma
import os
import struct
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from filelock import FileLock

from dpml.data.info import Info, Raw
from dpml.data.sources import cache
from dpml.errors import UserError
from dpml.files import seal, unseal, write_atomically

SUFFIXES = {"": b"", ".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh"}
"""Compression suffixes that a raw file may have, and the first bytes of such a file."""

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_CHUNK = 1 << 20
_TIMEOUT = 30  # seconds without receiving a byte
_LARGEST = 1 << 30  # bytes of an unpacked file: over four times the largest file of any data set


@dataclass(frozen=True)
class Content:
    """The checksum and the number of lines of the uncompressed content of a file."""

    sha256: str
    lines: int


@dataclass(frozen=True)
class Files:
    """The folders of raw files: the read-only folder `data_dir` (or DPML_DATA), and the user's cache.

    A missing file is unpacked from an archive in the data set's folder, or downloaded from `mirror` (or DPML_MIRROR) or
    from its publisher, unless `offline` (or DPML_OFFLINE=1) is set. New files go to the cache, or to the folder `into`.
    """

    data_dir: str | None = None
    mirror: str | None = None
    offline: bool = False
    into: str | None = None

    @property
    def chosen(self) -> Path | None:
        name = self.data_dir or os.environ.get("DPML_DATA")
        return Path(name).expanduser() if name else None

    @property
    def root(self) -> Path:  # for data sets of users
        return self.chosen or cache.root()

    @property
    def target(self) -> Path:
        return Path(self.into).expanduser() if self.into else cache.root()

    @property
    def roots(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((self.root, self.target, cache.root())))

    def find(self, info: Info, filename: str) -> Path:
        """Return the path of a raw file of a data set; download the file first if it is missing."""
        return self.local(info, filename) or self._fetched(info, filename)

    def local(self, info: Info, filename: str) -> Path | None:
        """Return the path of a raw file that is on disk, plain or compressed; None if the file is missing."""
        usual = [root / place for root in self.roots for place in places(info, filename)]
        depths = [(folder, depth) for folder in self._folders(info) for depth in ("*", "*/*")]
        unpacked = (path for folder, depth in depths for path in sorted(folder.glob(f"{depth}/{filename}")))
        return next((path for path in chain(usual, unpacked) if path.is_file()), None)

    def _folders(self, info: Info) -> list[Path]:
        return [root / name for root in self.roots for name in dict.fromkeys([info.name, *info.folders])]

    def _saved(self, info: Info, raw: Raw) -> Iterator[str]:
        # an archive in the data set's folders may be the publisher's, or an archive inside it: for each archive, yields
        # the addresses that the file has in the first case (such as INNER!MEMBER) and in the second (MEMBER)
        parts = [url.split("!")[1:] for url in raw.urls]
        inside = dict.fromkeys("!".join(each[start:]) for each in parts for start in range(len(each)))
        for folder in self._folders(info):
            for path in sorted(folder.glob("*")):
                if path.is_file() and path.name.endswith(ARCHIVES):
                    yield from (f"{path.resolve().as_uri()}!{part}" for part in inside)

    def verified(self, info: Info) -> dict[str, tuple[Path, str]]:
        """Return a dict from the raw file names of a data set to pairs (path, verified checksum)."""
        verified = {}
        for raw in info.files:
            path = self.find(info, raw.name)
            content = known_content(path) or fresh_content(path)
            problem = difference(raw, path, content)
            if problem:
                raise UserError(
                    f"{path} is not the official {raw.name} of dataset={info.name}: {problem}; "
                    f"move it away, then download the official file with: dpml data get {info.name}"
                )
            verified[raw.name] = (path, content.sha256)
        return verified

    def _fetched(self, info: Info, filename: str) -> Path:
        if not cache.WRITES.get():
            raise self._missing(info, filename, "A dry run downloads nothing: ")
        mirror = self.mirror or os.environ.get("DPML_MIRROR")
        offline = self.offline or os.environ.get("DPML_OFFLINE", "").lower() not in ("", "0", "false", "no")
        wanted = []
        for raw in (raw for raw in info.files if self.local(info, raw.name) is None):
            far = raw.urls
            if mirror:
                far = tuple(f"{mirror.rstrip('/')}/{place.as_posix()}" for place in places(info, raw.name))
            urls = (*self._saved(info, raw), *(() if offline else far))
            if urls:
                wanted.append(replace(raw, urls=urls))
            elif raw.name == filename:
                forbidden = offline and far
                raise self._missing(info, filename, "Offline mode forbids downloads: " if forbidden else "")
        fetch(info, wanted, self.target / info.name)
        path = self.local(info, filename)
        assert path is not None
        return path

    def _missing(self, info: Info, filename: str, why: str) -> UserError:
        folders = " nor in ".join(str(root / info.name) for root in self.roots)
        return UserError(
            f"dataset={info.name} needs the file {filename}, which is not in {folders}, plain or as .gz, .xz or .bz2. "
            f"{why}{info.how_to_get} Put the file into a folder named above, or set data_dir=DIR to the file's folder."
        )


def places(info: Info, filename: str) -> Iterator[Path]:
    """Yield the possible paths of a raw file, relative to a data folder or to a mirror."""
    for name in dict.fromkeys([info.name, *info.folders, "."]):
        for suffix in SUFFIXES:
            yield Path(name) / f"{filename}{suffix}"


def compression(path: Path) -> str:
    """Return the compression suffix, such as .gz, that the first bytes of a file imply, whatever the file's name is."""
    with path.open("rb") as file:
        start = file.read(6)
    return next((suffix for suffix, magic in SUFFIXES.items() if magic and start.startswith(magic)), "")


def open_raw(path: Path) -> IO[bytes]:
    """Open a plain or compressed file to read its uncompressed content."""
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open, "": open}
    content: IO[bytes] = openers[compression(path)](path, "rb")
    return content


def read_content(path: Path) -> Content:
    """Read a whole file, and return the checksum and the number of lines of its uncompressed content."""
    digest, lines, last, size = sha256(), 0, b"\n", 0
    try:
        with open_raw(path) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                lines += chunk.count(b"\n")
                last = chunk[-1:]
                size += len(chunk)
                if size > _LARGEST:
                    raise UserError(f"{path} exceeds {_LARGEST >> 20:,} MiB, so it cannot be a file of a data set.")
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise UserError(f"{path} is damaged or incomplete ({error}): delete it, and download it again.") from error
    return Content(digest.hexdigest(), lines + (last != b"\n"))


def difference(raw: Raw, path: Path, content: Content) -> str:
    """Describe how a file's checksum differs from the published or (if none) the first recorded one; "" if equal."""
    if content.sha256 in raw.sha256:
        return ""
    if raw.sha256:
        return f"its sha256 is {content.sha256[:16]}... instead of {raw.sha256[0][:16]}..."
    if raw.lines not in (None, content.lines):
        return f"it has {content.lines:,} lines instead of {raw.lines:,}"
    first = _record(path).get("first", content.sha256)
    if first != content.sha256:
        return f"it has changed since its sha256 {first[:16]}... was recorded in {_record_path(path)}"
    return ""


def fetch(info: Info, wanted: Sequence[Raw], folder: Path) -> None:
    """Download the files `wanted` into `folder`; try each file's addresses in order until the content is right.

    Afterwards, each file is complete and verified, or absent. Concurrent processes download a file only once.
    """
    names = {name for raw in wanted for url in raw.urls for name in url.split("!")[1:]}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.parent / ".lock")
        with lock, tempfile.TemporaryDirectory(prefix=".part-", dir=folder.parent) as part:
            for raw in wanted:
                if any((folder / f"{raw.name}{end}").is_file() for end in SUFFIXES):
                    continue  # another process has downloaded the file meanwhile
                print(f"Fetching {raw.name} of dataset={info.name}", file=sys.stderr)
                _keep(info, raw, folder, Path(part), names)
    except OSError as error:
        raise UserError(
            f"cannot write the files of dataset={info.name} into {folder}: {error.strerror or error}; set DPML_CACHE "
            "to a writable folder."
        ) from error


def _keep(info: Info, raw: Raw, folder: Path, part: Path, names: Collection[str]) -> None:
    problems: dict[str, str] = {}
    for address in raw.urls:
        path = Path(raw.name)
        try:
            path = _content(address, part, names)
            content = read_content(path)
            problem = difference(raw, path, content)
        except UserError as error:
            problem = " ".join(str(error).replace(str(path), raw.name).split()).removesuffix(".")
        if problem:
            server = urlsplit(address).netloc or unquote(address).rpartition("!")[0].rpartition("/")[2]
            problems[server] = f"{server}: {problem}" if server else problem
            continue
        if not raw.sha256:
            print(
                f"note: {raw.name} has no published checksum. Its size is right, and its sha256 {content.sha256} is "
                "recorded: dpml compares the file with it from now on.",
                file=sys.stderr,
            )
        place = folder / f"{raw.name}{compression(path)}"
        place.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(0o644)  # as temporary files are private
        path.replace(place)
        return
    raise UserError(
        f"cannot fetch {raw.name} of dataset={info.name}: {'; '.join(problems.values())}. "
        f"Try again later, set mirror=URL to a copy of the data, or put the file into {folder}."
    )


def _content(address: str, part: Path, names: Collection[str]) -> Path:
    # downloads the file at URL; for URL!MEMBER, downloads the archive and unpacks all files `names` at once
    archive, inside, member = address.rpartition("!")
    if not inside:
        return _download(address, part)
    folder = part / f"{sha256(archive.encode()).hexdigest()}.unpacked"
    if not folder.exists():
        path = _content(archive, part, names)
        try:
            _unpack(path, folder, tuple(f"/{name}" for name in names))
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError,
                RuntimeError, ValueError, IndexError) as error:  # fmt: skip
            raise UserError(f"the archive cannot be read ({error})") from error
    found = [path for path in sorted(folder.rglob("*")) if path.as_posix().endswith(f"/{member}")]
    if not found:
        raise UserError(f"the archive does not contain {member}")
    return found[0]


def _unpack(archive: Path, folder: Path, ends: tuple[str, ...]) -> None:
    folder.mkdir()
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as box:
            names = [name for name in box.namelist() if f"/{name}".endswith(ends)]
            box.extractall(folder, [name for name in names if not name.startswith("__MACOSX/")])
        return
    with tarfile.open(archive) as tape:
        for item in tape:
            if item.isfile() and f"/{item.name}".endswith(ends):
                tape.extract(item, folder, filter="data")


def _download(url: str, part: Path) -> Path:
    if url.startswith("file:"):  # an archive that was saved by hand
        return Path(url2pathname(urlsplit(url).path))
    import pooch  # slow to load, and rarely needed
    import requests

    pooch.get_logger().setLevel("ERROR")  # pooch would print the checksums of archives
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=_TIMEOUT)
    try:  # pooch skips files that exist already
        return Path(pooch.retrieve(url, None, sha256(url.encode()).hexdigest(), part, downloader=downloader))
    except requests.ConnectionError:
        raise UserError("no network connection") from None
    except (requests.RequestException, ValueError) as error:
        raise UserError(str(error)) from None


def _record_path(path: Path) -> Path:
    return cache.root() / "checksums" / f"{sha256(str(path.resolve()).encode()).hexdigest()[:16]}.json"


def stamp(path: Path) -> tuple[int, int, int, int]:
    """Return the size, times and inode of a file, which change when the file changes."""
    status = path.stat()  # tools can reset a file's modification time, but not the change time of its inode
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def known_content(path: Path) -> Content | None:
    """Return a file's recorded checksum and number of lines; None if the file has changed since the recording."""
    record = _record(path)
    current = record.get("stamp") == list(stamp(path))
    return Content(record["sha256"], record["lines"]) if current else None


def fresh_content(path: Path) -> Content:
    """Read a whole public file, and record its checksum and number of lines, which are valid until the file changes."""
    before = stamp(path)  # if the file changes during reading, it is read again next time
    content = read_content(path)
    first = _record(path).get("first", content.sha256)  # the checksum when this file was first read
    record = asdict(content) | {"path": str(path.resolve()), "stamp": before, "first": first}
    if not cache.WRITES.get():
        return content
    with suppress(OSError):  # without a record, the checksum is computed again next time
        _record_path(path).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_record_path(path), seal(json.dumps(record)))
    return content


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(unseal(_record_path(path).read_bytes()) or "")
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("path") == str(path.resolve()) else {}
