"""Find the raw files of data sets, verify their content, and download missing ones with pooch."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import shutil
import struct
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
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
_TRIES = 2  # attempts per address, when the transfer breaks
_TIMEOUT = 30  # seconds without a byte
_UNREACHABLE = "no connection"
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

    Missing files are unpacked from archives that were saved in the set's folder, else downloaded, into the cache or the
    folder `into`: from `mirror` (or DPML_MIRROR), which has the layout of a data folder, or from their publisher,
    unless `offline` (or DPML_OFFLINE=1) forbids it.
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
        if self.local(info, filename) is None:
            self._fetch(info, filename)
        path = self.local(info, filename)
        if path is None:
            raise self._missing(info, filename, "")
        return path

    def local(self, info: Info, filename: str) -> Path | None:
        """Return the path of a file that is already on disk, or None."""
        usual = [root / place for root in self.roots for place in places(info, filename)]
        # in an archive's own folders: har/UCI HAR Dataset/train/X_train.txt
        depths = [(folder, depth) for folder in self._folders(info) for depth in ("*", "*/*")]
        unpacked = (path for folder, depth in depths for path in sorted(folder.glob(f"{depth}/{filename}")))
        return next((path for path in chain(usual, unpacked) if path.is_file()), None)

    def _folders(self, info: Info) -> list[Path]:
        return [root / name for root in self.roots for name in dict.fromkeys([info.name, *info.folders])]

    def _saved(self, info: Info, raw: Raw) -> Iterator[str]:
        """Yield where the file would be in the archives in the set's folders: addresses, as those of its publisher."""
        # where it is inside its archive, and inside the innermost one: INNER!MEMBER and MEMBER
        parts = [url.split("!")[1:] for url in raw.urls]
        inside = dict.fromkeys("!".join(each[start:]) for each in parts for start in range(len(each)))
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
            content = known_content(path) or fresh_content(path, raw.separator)
            problem = difference(raw, content) or change(raw, path, content)
            if problem:
                raise UserError(
                    f"{path} is not the official {raw.name} of dataset={info.name}: {problem}; "
                    f"move it away, then get the right one with: dpml data get {info.name}"
                )
            verified[raw.name] = (path, content.sha256)
        return verified

    def _fetch(self, info: Info, filename: str) -> None:
        if not cache.WRITES.get():
            raise self._missing(info, filename, "A dry run fetches nothing: ")
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
                raise self._missing(info, filename, "Offline mode forbids fetching it: " if forbidden else "")
        fetch(info, wanted, self.target / info.name)

    def _missing(self, info: Info, filename: str, why: str) -> UserError:
        folders = " nor in ".join(str(root / info.name) for root in self.roots)
        return UserError(
            f"dataset={info.name} needs the file {filename}, which is not in {folders} (also tried with .gz, .xz "
            f"and .bz2). {why}{info.how_to_get} Put it there, or set data_dir=DIR to the folder that holds it."
        )


def places(info: Info, filename: str) -> Iterator[Path]:
    """Yield the possible paths of a file, relative to a data folder or a mirror."""
    for name in dict.fromkeys([info.name, *info.folders, "."]):
        for suffix in SUFFIXES:
            yield Path(name) / f"{filename}{suffix}"


def compression(path: Path) -> str:
    """Return the compression suffix that a file's first bytes imply: the content decides, not the name."""
    with path.open("rb") as file:
        start = file.read(6)
    return next((suffix for suffix, magic in SUFFIXES.items() if magic and start.startswith(magic)), "")


def open_raw(path: Path) -> IO[bytes]:
    """Open the uncompressed content of a file for reading."""
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open, "": open}
    content: IO[bytes] = openers[compression(path)](path, "rb")
    return content


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
    """Return how a file's content differs from the expected content; empty if it does not differ."""
    if content.sha256 in raw.sha256:
        return ""
    if raw.sha256:
        return f"its sha256 is {content.sha256[:16]}... instead of {raw.sha256[0][:16]}..."
    for what, is_, expected in (("lines", content.lines, raw.lines), ("columns", content.fields, raw.fields)):
        if expected is not None and is_ != expected:
            return f"it has {is_:,} {what} instead of {expected:,}"
    return ""


def change(raw: Raw, path: Path, content: Content) -> str:
    """Return how a file without a published checksum differs from its first recorded content, or nothing."""
    before = _record(path).get("first", content.sha256)
    if raw.sha256 or before == content.sha256:
        return ""
    return f"it has changed since its sha256 {before[:16]}... was recorded in {_record_path(path)}"


def _accept(raw: Raw, path: Path) -> str:
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


# ---- downloads


def fetch(info: Info, wanted: Sequence[Raw], folder: Path) -> None:
    """Fetch the files `wanted` into `folder`, each from the first of its addresses that has the right content.

    A file arrives complete and verified, or not. Two processes that fetch the same files fetch them once.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.parent / ".lock")
        with lock, tempfile.TemporaryDirectory(prefix=".part-", dir=folder.parent) as part:
            suffixes = SUFFIXES  # another process may have fetched it meanwhile
            missing = [raw for raw in wanted if not any((folder / f"{raw.name}{end}").is_file() for end in suffixes)]
            if missing:
                print(f"Fetching {missing[0].name} of dataset={info.name}{_more(len(missing) - 1)}", file=sys.stderr)
            transfer = _Transfer(Path(part), [url for raw in missing for url in raw.urls])
            reasons = {raw.name: _keep(raw, folder, transfer) for raw in missing}
    except OSError as error:
        raise UserError(
            f"cannot write the files of dataset={info.name} into {folder}: {error.strerror or error}; set DPML_CACHE "
            "to a folder that can be written."
        ) from error
    failed = {name: reason for name, reason in reasons.items() if reason}
    if failed:
        problems = {place: problem for reason in failed.values() for place, problem in reason.items()}
        raise _failure(info, list(failed), problems, folder)


def _keep(raw: Raw, folder: Path, transfer: "_Transfer") -> dict[str, str]:
    # the problem of every server, if no address has the file
    problems: dict[str, str] = {}
    for address in raw.urls:
        try:
            path = transfer.path_of(address)
            place = folder / f"{raw.name}{_accept(raw, path)}"
        except (_FailedError, UserError) as error:
            said = str(error) if isinstance(error, _FailedError) else str(error).replace(str(path), raw.name)
            server = urlsplit(address).netloc or unquote(address).rpartition("!")[0].rpartition("/")[2]
            problems[server] = said.removesuffix(".")
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(0o644)  # temporary files are private
        path.replace(place)
        return {}
    return problems


def _failure(info: Info, names: list[str], problems: dict[str, str], folder: Path) -> UserError:
    which = f"cannot fetch {', '.join(names[:3])}{_more(len(names) - 3)} of dataset={info.name}"
    mend = f"set mirror=URL to another place, or put it there yourself as {folder / names[0]}"
    if all(problem == _UNREACHABLE for problem in problems.values()):
        return UserError(f"{which}: no network connection to {' or '.join(problems)}; go online, {mend}.")
    reasons = "; ".join(f"{where}: {problem}" if where else problem for where, problem in problems.items())
    return UserError(f"{which}: {reasons}. Try again later, {mend}.")


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


class _FailedError(Exception): ...


class _Transfer:
    """Downloads and unpacked files by address: an archive that several files share is transferred and read once."""

    def __init__(self, part: Path, addresses: Sequence[str]) -> None:
        self.part, self.addresses = part, addresses
        self.outcomes: dict[str, Path | _FailedError] = {}

    def path_of(self, address: str) -> Path:
        """Return the file at an address, ``URL`` or ``URL!MEMBER`` of an archive; raise _FailedError if it has none."""
        if address not in self.outcomes:
            archive, inside, _ = address.rpartition("!")
            try:
                self.outcomes |= self._members(archive) if inside else {address: _download(address, self._new())}
            except _FailedError as error:
                self.outcomes[address] = error
        outcome = self.outcomes[address]
        if isinstance(outcome, _FailedError):
            raise outcome
        return outcome

    def _members(self, archive: str) -> dict[str, Path | _FailedError]:
        # unpack every member that an address names, in one pass
        inner = (each.removeprefix(f"{archive}!") for each in self.addresses if each.startswith(f"{archive}!"))
        members = {each.partition("!")[0] for each in inner}
        absent = {f"{archive}!{name}": _FailedError(f"its archive does not hold {name}") for name in members}
        found: dict[str, Path] = {}
        try:
            for name, content in _entries(self.path_of(archive)):
                member = next((each for each in members - found.keys() if f"/{name}".endswith(f"/{each}")), None)
                if member is not None and not name.startswith("__MACOSX/"):
                    found[member] = self._new()
                    with content() as source, found[member].open("wb") as target:
                        shutil.copyfileobj(source, target)
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError,
                RuntimeError, ValueError, IndexError) as error:  # fmt: skip
            raise _FailedError(f"its archive cannot be read ({error})") from error
        return absent | {f"{archive}!{name}": path for name, path in found.items()}

    def _new(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.part)) / "content"


def _entries(archive: Path) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
    # the path of each file, and a function that opens it before the next iteration
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as box:
            for name in box.namelist():
                yield name, partial(box.open, name)
        return
    with tarfile.open(archive) as tape:
        for item in tape:
            if item.isfile():
                yield item.name, partial(tape.extractfile, item)  # type: ignore[misc]


def _download(url: str, target: Path) -> Path:
    if url.startswith("file:"):  # an archive that was saved by hand
        return Path(url2pathname(urlsplit(url).path))
    import pooch  # slow to load, and rarely needed
    import requests

    pooch.get_logger().setLevel("ERROR")  # it reports checksums, of archives
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=_TIMEOUT)
    for _ in range(_TRIES):
        try:
            return Path(pooch.retrieve(url, None, target.name, target.parent, downloader=downloader))
        except requests.HTTPError as error:
            status = 0 if error.response is None else error.response.status_code
            reason = "it is not there (404)" if status == 404 else f"the server answered {status}"
            if status < 500:
                break
        except requests.Timeout:
            reason = f"no answer within {_TIMEOUT} s"
        except requests.exceptions.ChunkedEncodingError:
            reason = f"the transfer broke off ({_TRIES} tries)"
        except requests.ConnectionError:
            reason = _UNREACHABLE
        except (requests.RequestException, ValueError) as error:
            reason = f"{url} is not an address that can be fetched ({error})"
            break
    raise _FailedError(reason)


# ---- recorded checksums


def _record_path(path: Path) -> Path:
    return cache.root() / "checksums" / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}.json"


def stamp(path: Path) -> tuple[int, int, int, int]:
    """Return values that reveal a change of the file without reading it; they are only compared."""
    status = path.stat()  # tools can reset the modification time of the content, but not the change time of the inode
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def known_content(path: Path) -> Content | None:
    """Return the recorded content of a file, if the file has not changed since."""
    record = _record(path)
    current = record.get("stamp") == list(stamp(path))
    return Content(record["sha256"], record["lines"], record["fields"]) if current else None


def fresh_content(path: Path, separator: str | None = None) -> Content:
    """Read a whole public file (`read_content`), and record the result until the file changes."""
    before = stamp(path)  # a file that changes while it is being read is read again next time
    content = read_content(path, separator)
    first = _record(path).get("first", content.sha256)  # of when this file was first read
    record = asdict(content) | {"path": str(path.resolve()), "stamp": before, "first": first}
    if not cache.WRITES.get():
        return content
    with suppress(OSError):  # then it is computed again next time
        _record_path(path).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_record_path(path), seal(json.dumps(record)))
    return content


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(unseal(_record_path(path).read_bytes()) or "")
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("path") == str(path.resolve()) else {}
