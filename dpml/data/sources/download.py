"""Download raw files. Each file arrives complete and verified, or not at all; concurrent downloads are safe.

No server can block a run for ever or fill a disk: each transfer has a deadline and a size limit, sent or unpacked.

Pooch is not used: the published checksums are of uncompressed files inside archives, which it cannot verify before it
puts a file in its place, and it would see a deadline only after a whole chunk has arrived.
"""

import lzma
import struct
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from dpml.data.info import Info, Raw
from dpml.data.sources.cache import locked, part_prefix, sweep
from dpml.errors import UserError
from dpml.screen import Screen

if TYPE_CHECKING:
    import requests

T = TypeVar("T")

_TRIES = 2  # attempts per address, when the transfer breaks
_TIMEOUT = 30  # seconds without a byte
_DEADLINE = 3600  # seconds for one transfer: 65 kB/s are enough for the largest archive
LARGEST = 1 << 30  # bytes of one file or archive, sent or unpacked: over four times the largest of any data set
_TAPE = 16 * LARGEST  # bytes of everything that is unpacked on the way to a file in a tar archive
_CHUNK = 1 << 16


def fetch(info: Info, wanted: Iterable[Raw], folder: Path, accept: Callable[[Raw, Path], str]) -> None:
    """Fetch the files `wanted` into `folder`, each from the first of its addresses that has the right content.

    Args:
        info: The data set they belong to.
        wanted: The files to fetch.
        folder: The target folder; created if it does not exist.
        accept: Returns the compression suffix of a fetched file, or raises UserError when its content is wrong.

    Raises:
        UserError: a file is not available, or `folder` is not writable. Correct files are kept, all others are removed.
    """
    created = [path for path in (folder, folder.parent) if not path.exists()]
    try:
        with locked(folder / ".lock") as held:
            folder.mkdir(parents=True, exist_ok=True)
            if held:
                sweep(folder)
            with tempfile.TemporaryDirectory(prefix=part_prefix(), dir=folder) as part:
                _Transfer(info, folder, Path(part), accept).run(list(wanted))
    except OSError as error:
        raise UserError(
            f"cannot write the files of dataset={info.name} into {folder}: {error.strerror or error}; "
            f"set DPML_DATA or data_dir=DIR to a folder that can be written."
        ) from error
    finally:
        for path in created:  # those that are still empty
            with suppress(OSError):
                path.rmdir()


class _Transfer:
    """One call of `fetch`, under its lock: an archive that several files share is transferred and read once."""

    def __init__(self, info: Info, folder: Path, part: Path, accept: Callable[[Raw, Path], str]) -> None:
        self.info, self.folder, self.part, self.accept = info, folder, part, accept
        self.unpacked: dict[str, dict[str, Path] | _FailedError] = {}

    def run(self, wanted: list[Raw]) -> None:
        missing = [raw for raw in wanted if not self._arrived(raw)]
        problems: dict[str, str] = {}
        for rank in range(max((len(raw.urls) for raw in missing), default=0)):
            addresses = [url for raw in missing for url in raw.urls]
            for raw in [raw for raw in missing if rank < len(raw.urls)]:
                address = raw.urls[rank]
                server = urlsplit(address).netloc or unquote(address).rpartition("!")[0].rpartition("/")[2]
                try:
                    self._keep(raw, self._path(address, addresses))
                    missing.remove(raw)
                except _FailedError as error:
                    if str(error) != _NOT_THERE or server not in problems:
                        problems[server] = str(error)
        if missing:
            raise self._failure(missing, problems)

    def _arrived(self, raw: Raw) -> bool:
        """Whether another process fetched the file while this process waited for the lock."""
        return any((self.folder / f"{raw.name}{suffix}").is_file() for suffix in ("", ".gz", ".xz", ".bz2"))

    def _keep(self, raw: Raw, path: Path) -> None:
        """Move a fetched file to its place if its content is right."""
        try:
            suffix = self.accept(raw, path)
        except UserError as error:
            raise _FailedError(str(error).replace(str(path), raw.name).removesuffix(".")) from None
        place = self.folder / f"{raw.name}{suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(0o644)  # it is private until now, like all temporary files
        path.replace(place)

    def _path(self, address: str, addresses: list[str]) -> Path:
        """The file at an address, which may lie in an archive; of that archive all `addresses` are unpacked."""
        archive, inside, member = address.rpartition("!")
        if not inside:
            return self._download(address)
        if archive not in self.unpacked:
            inner = [each.removeprefix(f"{archive}!") for each in addresses if each.startswith(f"{archive}!")]
            try:
                members = {each.partition("!")[0] for each in inner}
                self.unpacked[archive] = _extract(self._path(archive, addresses), members, self.part)
            except _FailedError as error:
                self.unpacked[archive] = error
        unpacked = self.unpacked[archive]
        if isinstance(unpacked, _FailedError):
            raise unpacked
        if member not in unpacked:
            raise _FailedError(f"its archive does not hold {member}")
        return unpacked[member]

    def _download(self, url: str) -> Path:
        if url.startswith("file:"):  # an archive that was saved by hand
            return Path(url2pathname(urlsplit(url).path))
        import requests  # imported here because it is slow to import and rarely needed
        import urllib3

        target = _new_file(self.part)
        for _ in range(_TRIES):
            try:
                with _Bar(url) as bar:
                    _stream(url, target, bar)
                return target
            except requests.HTTPError as error:
                status = error.response.status_code if error.response is not None else 0
                reason = _NOT_THERE if status == 404 else f"the server answered {status}"
                if status < 500:
                    break
            except urllib3.exceptions.HTTPError:  # while the content arrives
                reason = f"the transfer broke off ({_TRIES} tries)"
            except requests.ConnectTimeout:
                reason = _UNREACHABLE
                break
            except requests.Timeout:
                reason = f"no answer within {_TIMEOUT} s"
            except requests.ConnectionError as error:
                if "RemoteDisconnected" not in str(error):
                    reason = _UNREACHABLE
                    break
                reason = f"the server hung up without an answer ({_TRIES} tries)"
            except (requests.RequestException, ValueError) as error:
                reason = f"{url} is not an address that can be fetched ({error})"
                break
        raise _FailedError(reason)

    def _failure(self, left: list[Raw], problems: dict[str, str]) -> UserError:
        names = ", ".join(raw.name for raw in left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
        which = f"cannot fetch {names} of dataset={self.info.name}"
        mend = f"set mirror=URL to another place, or put it there yourself as {self.folder / left[0].name}"
        if all(problem == _UNREACHABLE for problem in problems.values()):
            return UserError(f"{which}: no network connection to {' or '.join(problems)}; go online, {mend}.")
        reasons = "; ".join(f"{where}: {problem}" if where else problem for where, problem in problems.items())
        return UserError(f"{which}: {reasons}. Nothing of it was kept; try again later, {mend}.")


_UNREACHABLE = "no connection"
_NOT_THERE = "it is not there (404)"


class _FailedError(Exception):
    """An address that could not be used, with the reason."""


def _stream(url: str, target: Path, bar: "_Bar") -> None:
    """Download the content of `url` into a file, in chunks as they arrive."""
    import requests

    deadline, arrived = time.monotonic() + _DEADLINE, 0
    hooks = {"response": _close_redirect}
    with requests.get(url, stream=True, timeout=_TIMEOUT, hooks=hooks) as response, target.open("wb") as file:
        response.raise_for_status()
        announced = int(response.headers.get("Content-Length", 0))
        bar.begin(announced)
        # `read1` returns the available bytes: waiting for a whole chunk could take longer than the deadline
        while announced <= LARGEST and (chunk := response.raw.read1(_CHUNK, decode_content=True)):
            arrived += len(chunk)
            if arrived > LARGEST:
                break
            if time.monotonic() > deadline:
                raise _FailedError(f"the transfer took more than {_DEADLINE / 60:.0f} minutes")
            file.write(chunk)
            bar.advance(len(chunk))
    if max(announced, arrived) > LARGEST:
        raise _FailedError(f"it is larger than {decimal(LARGEST)}, which no file of a data set is")


def _close_redirect(response: "requests.Response", **_: object) -> None:
    """Leave the content of an answer that names another address, which Requests would read into memory, to its end."""
    if response.is_redirect:
        response.close()


def _extract(archive: Path, members: set[str], folder: Path) -> dict[str, Path]:
    """Extract the `members` that exist from a zip or tar archive in one pass, into files in `folder`."""
    extracted: dict[str, Path] = {}
    entries = _entries(archive)
    while len(extracted) < len(members) and (entry := _read(lambda: next(entries, None))) is not None:
        path, content = entry
        member = _member(path, members - extracted.keys())
        if member is not None:
            extracted[member] = _copy(content, folder)
    return extracted


def _read(step: Callable[[], T]) -> T:
    """One step of reading an archive; converts every error of the archive into one type of failure.

    Damaged streams raise errors of their compression (bz2: plain OSErrors), encrypted entries RuntimeErrors, those
    of an unknown method NotImplementedErrors.
    """
    try:
        return step()
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        raise _FailedError(f"its archive is damaged ({error})") from error
    except (OSError, EOFError, RuntimeError, NotImplementedError, ValueError, IndexError, struct.error) as error:
        raise _FailedError(f"its archive cannot be read ({error})") from error


def _entries(archive: Path) -> Iterator[tuple[str, Callable[[], IO[bytes] | None]]]:
    """The path of each file in a zip or tar archive, and a function to open it before the next iteration."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as box:
            for entry in box.infolist():
                yield entry.filename, partial(box.open, entry)
        return
    with tarfile.open(archive, "r|*") as tape:
        for item in tape:
            if item.offset_data + item.size > _TAPE:
                raise _FailedError(f"its archive unpacks to more than {decimal(_TAPE)}")
            if item.isfile():
                yield item.name, partial(tape.extractfile, item)


def _member(path: str, members: Iterable[str]) -> str | None:
    """The element of `members` that a path in an archive matches; members may lie in a folder inside it."""
    if path.startswith("__MACOSX/"):
        return None
    return next((member for member in members if path == member or path.endswith(f"/{member}")), None)


def _copy(content: Callable[[], IO[bytes] | None], folder: Path) -> Path:
    """Copy a file in an archive to a new file in `folder`."""
    target, size = _new_file(folder), 0
    source = _read(content)
    assert source is not None  # only files get here
    with source, target.open("wb") as file:
        while chunk := _read(lambda: source.read(_CHUNK)):
            size += len(chunk)
            if size > LARGEST:
                raise _FailedError(f"its archive unpacks to more than {decimal(LARGEST)}")
            file.write(chunk)
    return target


def _new_file(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder)) / "content"


class _Bar:
    """A progress bar; without a terminal, one line that names the file being fetched."""

    def __init__(self, url: str) -> None:
        console = Screen(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self.progress = Progress(
            *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
        )
        self.url = url
        self.task = self.progress.add_task(f"{url.rpartition('/')[2]} from {urlsplit(url).netloc}", total=None)

    def __enter__(self) -> "_Bar":
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def begin(self, size: int) -> None:
        """Set the expected number of bytes; 0 if it is unknown."""
        self.progress.update(self.task, total=size or None)
        if self.progress.disable:
            print(f"Fetching {self.url}" + (f" ({decimal(size)})" if size else ""), file=sys.stderr)

    def advance(self, size: int) -> None:
        """Report this number of further bytes received."""
        self.progress.update(self.task, advance=size)
