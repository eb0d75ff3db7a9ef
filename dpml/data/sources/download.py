"""Download raw files with pooch, and unpack the archives they come in. A file arrives complete and verified, or not."""

import lzma
import shutil
import struct
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from filelock import FileLock

from dpml.data.info import Info, Raw
from dpml.errors import UserError

_TRIES = 2  # attempts per address, when the transfer breaks
_TIMEOUT = 30  # seconds without a byte
_UNREACHABLE = "no connection"

Accept = Callable[[Raw, Path], str]


def fetch(info: Info, wanted: Sequence[Raw], folder: Path, accept: Accept) -> None:
    """Fetch the files `wanted` into `folder`, each from the first of its addresses that has the right content.

    `accept` returns the compression suffix of a fetched file, or raises UserError if its content is wrong. Two
    processes that fetch the same files fetch them once.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.parent / ".lock")
        with lock, tempfile.TemporaryDirectory(prefix=".part-", dir=folder.parent) as part:
            suffixes = ("", ".gz", ".xz", ".bz2")  # another process may have fetched it meanwhile
            missing = [raw for raw in wanted if not any((folder / f"{raw.name}{end}").is_file() for end in suffixes)]
            if missing:
                print(f"Fetching {missing[0].name} of dataset={info.name}{_more(len(missing) - 1)}", file=sys.stderr)
            transfer = _Transfer(Path(part), [url for raw in missing for url in raw.urls])
            reasons = {raw.name: _keep(raw, folder, transfer, accept) for raw in missing}
    except OSError as error:
        raise UserError(
            f"cannot write the files of dataset={info.name} into {folder}: {error.strerror or error}; set DPML_CACHE "
            "to a folder that can be written."
        ) from error
    failed = {name: reason for name, reason in reasons.items() if reason}
    if failed:
        problems = {place: problem for reason in failed.values() for place, problem in reason.items()}
        raise _failure(info, list(failed), problems, folder)


def _keep(raw: Raw, folder: Path, transfer: "_Transfer", accept: Accept) -> dict[str, str]:
    # the problem of every server, if no address has the file
    problems: dict[str, str] = {}
    for address in raw.urls:
        try:
            path = transfer.path_of(address)
            place = folder / f"{raw.name}{accept(raw, path)}"
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
