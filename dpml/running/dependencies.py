"""What a number depends on besides its settings and data: observed where it is computed, compared where it is planned.

A cell or block depends on

- the modules of its configured objects (of every class, function and dotted path in their fields), and all that these
  import: dpml's own and the user's by their content, libraries by their versions (`dpml.code`);
- what the user's modules import and read while they run, also at import, as Python's audit events tell: a module by a
  name that was computed, a file with constants. These count for every number that the module has to do with.

Files that dpml reads are not among them: data have checksums, which are part of the key. Not seen are files that a C
library or another process opens, environment variables, and a module that other code had imported before.
"""

import hashlib
import os
import platform
import re
import site
import stat
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, cached_property, lru_cache
from itertools import islice
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

from dpml import code
from dpml.version import __version__

Stamp = tuple[int, int, int, int]
ABSENT = "absent"
UNKNOWN = ""
"""In place of a checksum: it was read as something else before, or nobody can tell. It agrees with nothing."""


@dataclass(frozen=True)
class Dependencies:
    """What a number depends on: own modules, libraries by the name they are imported by, and files.

    Attributes:
        modules: by name, the checksum of the bytes, and of the tokens.
        libraries: NAME VERSION.
        files: by path, or MODULE:PATH for one that lies beside that module; a checksum, or `ABSENT`.
    """

    modules: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_plain(cls, content: Mapping[str, Any]) -> "Dependencies":
        """Those that were stored as plain values."""
        modules = {name: tuple(known) for name, known in content.get("modules", {}).items()}
        return cls(modules, content.get("libraries", {}), content.get("files", {}))

    @property
    def versions(self) -> dict[str, str]:
        """The versions of libraries by the name of their distribution."""
        return {name: version for name, version, *_ in map(str.split, self.libraries.values())}

    @cached_property
    def digest(self) -> str:
        """The checksum of what is compared; the bytes of a module are a short cut only."""
        tokens = {name: tokens for name, (_, tokens) in self.modules.items()}
        text = repr([sorted(part.items()) for part in (tokens, self.libraries, self.files)])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def made_with() -> dict[str, str]:
    """The versions that are recorded and not compared."""
    return {"dpml": __version__, "python": platform.python_version()}


# ---- where it is computed


def observed(*parts: Any) -> Dependencies:
    """What depends on these objects, after it was computed in this process.

    Args:
        parts: configured objects, dotted paths, or lists and mappings of them.
    """
    roots = {"__main__" if name == "__mp_main__" else name for part in parts for name in named(part)}
    return _observed(frozenset(roots), _heard[0])


@lru_cache
def _observed(roots: frozenset[str], heard: int) -> Dependencies:
    """What depends on some modules, after a number of events: most cells of a process have the same."""
    names = _names()
    further = {asker: {names[path] for path in (*paths,) if path in names} for asker, paths in (*_opened.items(),)}
    found = code.reached(*sorted(roots), further=lambda name: further.get(name, ()))
    modules = {name: (content.raw, content.tokens) for name, content in found.modules.items()}
    for name in modules:
        path = code.located(name)
        if path is not None and not _is_as_loaded(path):
            modules[name] = (UNKNOWN, UNKNOWN)
    return Dependencies(modules, found.libraries, _files(modules, roots))


def _names() -> dict[str, str]:
    """The names of the modules that are there, by their files."""
    modules = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    return {file: name for name, file in modules if isinstance(file, str)}


def forget() -> None:
    """Look at everything anew: modules were loaded again."""
    _observed.cache_clear()
    _is_as_loaded.cache_clear()
    code.forget()


def named(part: Any) -> Iterator[str]:
    """The modules that an object names: those of its class and bases, and of all that is in it."""
    if isinstance(part, str):
        words = re.split(r"[.:]", part)
        if len(words) > 1 and all(word.isidentifier() for word in words):
            prefixes = (".".join(words[:count]) for count in range(len(words), 0, -1))
            yield from islice((name for name in prefixes if name in sys.modules), 1)
    elif isinstance(part, Mapping):
        yield from named([*part, *part.values()])
    elif isinstance(part, list | tuple | set | frozenset):
        for item in part:
            yield from named(item)
    else:
        kind = part if isinstance(part, type | FunctionType) else type(part)
        bases = kind.__mro__ if isinstance(kind, type) else (kind,)
        yield from {base.__module__ for base in bases} - {"builtins"}
        if is_dataclass(part) and kind is not part:
            yield from named([getattr(part, f.name) for f in fields(part)])


def _files(modules: Mapping[str, Any], roots: Set[str]) -> dict[str, str]:
    """The files that own modules have read, and the libraries among the roots."""
    tops = {name.partition(".")[0] for name in roots} - {_OURS}  # whose packs count by their own modules
    sources = {str(code.located(name)) for name in modules}
    found = {}
    for name in tuple(_opened):
        if name in modules or name.partition(".")[0] in tops:
            for path in _opened[name] - sources - _written[name]:
                checksum = _as_read(path)
                if checksum is not None:
                    found[_relative(path, name)] = checksum
    return found


def _relative(path: str, name: str) -> str:
    """A path as it is stored: beside a module, it may move together with it."""
    source = code.located(name)
    if source is not None and Path(path).is_relative_to(source.parent):
        return f"{name}:{Path(path).relative_to(source.parent).as_posix()}"
    return path


@cache
def _is_as_loaded(path: Path) -> bool:
    """Whether a module's files were, when their content was first asked for, what had been loaded."""
    return all(_first.get(file) in (None, _stamp(file)) for file in (str(path), _beside(str(path))))


def _as_read(path: str) -> str | None:
    """The checksum of a file that was read; None for one that was there for a while only."""
    now, then = _stamp(path), _first[path]
    if now is None:
        return ABSENT if then is None else None
    return checksum_of(path, now) if now == then else UNKNOWN


@cache
def checksum_of(path: str, stamp: Stamp) -> str:
    """The checksum of a file that has these dates."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:32]
    except OSError:
        return UNKNOWN


# ---- what Python tells while it runs: audit events, https://docs.python.org/3/library/audit_events.html

_first: dict[str, Stamp | None] = {}  # the dates of a file when this process first read it; None: there was none
_opened: defaultdict[str, set[str]] = defaultdict(set)  # module -> files that it had read or executed
_heard = [0]  # how many events have added to them
_written: defaultdict[str, set[str]] = defaultdict(set)  # module -> files that it had written: they are its own

_NO_FILE = (0, 0, 0, 0)  # in place of the dates of a folder or a device
_OURS = __name__.partition(".")[0]
_HOME = f"{Path(__file__).parents[1]}{os.sep}"
_SITES = tuple(
    f"{folder}{os.sep}"
    for folder in {
        *site.getsitepackages(),
        site.getusersitepackages(),
        *map(sysconfig.get_path, ("purelib", "platlib")),
    }
)
_INSTALLED = (*code.STANDARD, *_SITES, *(f"{os.sep}{name}{os.sep}" for name in ("proc", "sys", "dev")))


def _listen(event: str, args: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = args
        if isinstance(path, str | bytes | os.PathLike) and (askers := _askers(sys._getframe(1))):
            _on_open(str(Path(os.fsdecode(path)).absolute()), flags, askers)
    elif event == "exec" and getattr(args[0], "co_name", "") == "<module>":
        path = args[0].co_filename
        if path.endswith(".py") and not path.startswith(_INSTALLED):
            for file in (path, _beside(path)):
                stamp = _stamp(file)
                if _first.setdefault(file, stamp) != stamp:  # loaded again
                    _first[file] = stamp
                    forget()
            _heard[0] += 1
            for asker in () if path.startswith(_HOME) else _askers(sys._getframe(1)):
                _opened[asker].add(path)  # a module, if it can be imported by a name


def _beside(path: str) -> str:
    """The YAML file that is a part of a module (`dpml.code`), if there is one."""
    return f"{path.removesuffix('.py')}.yaml"


def _on_open(path: str, flags: int, askers: list[str]) -> None:
    if path.startswith(_INSTALLED):
        return
    known = _opened
    if flags & (os.O_WRONLY | os.O_TRUNC | os.O_CREAT):
        known = _written
    else:
        stamp = _stamp(path)
        if stamp == _NO_FILE:
            return
        if _first.setdefault(path, stamp) != stamp:
            _first[path] = _NO_FILE  # read as two different contents, and nobody knows which of them counts
    for asker in askers:
        known[asker].add(path)
    _heard[0] += 1


def _askers(frame: FrameType | None) -> list[str]:
    """The modules on whose behalf something is read: those from here out to the one of dpml that runs them.

    Nothing that dpml reads for itself has one.
    """
    found: dict[str, None] = {}
    while frame is not None:
        name, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
        if not found and name == "importlib._bootstrap_external" and frame.f_code.co_name == "get_data":
            break  # the file of a module
        if name.partition(".")[0] == _OURS and not name.startswith(f"{_OURS}.packs."):
            if not name.startswith(f"{_OURS}.data.") or name.startswith(f"{_OURS}.data.sources"):
                break
        elif name and (file.startswith(_SITES) or not file.startswith(("<frozen", *code.STANDARD))):
            found[name] = None
        frame = frame.f_back
    return list(found)


def _stamp(path: str) -> Stamp | None:
    """Values that reveal a change of a file without reading it; None if there is no such file."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return _NO_FILE
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


for _module in list(sys.modules.values()):
    _file = getattr(_module, "__file__", None)
    if isinstance(_file, str) and not _file.startswith(_INSTALLED):
        _first |= {_path: _stamp(_path) for _path in (_file, _beside(_file))}
sys.addaudithook(_listen)


# ---- where it is planned


class Present:
    """What there is now; every module, library and file is looked at once."""

    def __init__(self) -> None:
        self._modules: dict[str, code.Checksums] = {}
        self._library = cache(code.library)  # not for the whole process, in which a library may be installed anew
        self._files: dict[str, str] = {}

    def changes(self, dependencies: Dependencies) -> list[str]:
        """The names of all that is not as it was; nothing if a number with these dependencies would be the same."""
        modules = [name for name, known in dependencies.modules.items() if not self._has(name, code.Checksums(*known))]
        other = [known for root, known in dependencies.libraries.items() if self._library(root) != known]
        libraries = [" ".join(known.split()[:2]) for known in other]
        files = [key for key, known in dependencies.files.items() if known == UNKNOWN or self._file(key) != known]
        return [*modules, *libraries, *files]

    def _has(self, name: str, known: code.Checksums) -> bool:
        if known.raw == UNKNOWN:
            return False
        if name not in self._modules:
            path = code.source(name)
            raw = code.checksum(path.read_bytes() + code.beside(path)) if path else UNKNOWN
            self._modules[name] = code.Checksums(raw, "")
        now = self._modules[name]
        if now.raw not in (known.raw, UNKNOWN) and not now.tokens:  # takes longer, and is seldom needed
            path = code.source(name)
            now = code.checksums(path.read_bytes(), path.suffix, code.beside(path)) if path else now
            self._modules[name] = now
        return now.raw == known.raw or now.tokens == known.tokens

    def _file(self, key: str) -> str:
        if key not in self._files:
            module, _, beside = key.partition(":")
            source = code.source(module) if beside and not Path(key).is_absolute() else None
            path = str(source.parent / beside) if source else key
            stamp = _stamp(path)
            # a device has no end
            self._files[key] = ABSENT if stamp is None else UNKNOWN if stamp == _NO_FILE else checksum_of(path, stamp)
        return self._files[key]
