"""Compute one checksum of all source files and library versions on which a number depends.

Even the change of a comment changes the checksum, so no formula can change unnoticed. The checksum covers a YAML file
if a Python file next to it has the same name.
"""

import hashlib
import re
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

DATA = ("arrays.py", "files.py", "seeds.py", "sums.py", "data")
"""The files and folders of dpml that parse and prepare data sets."""
NUMBERS = (*DATA, "privacy", "optim", "protocols", "mechanism", "algorithms", "running")
"""The files and folders of dpml that compute the results of cells."""
UNKNOWN = "unknown-"
"""The prefix of a checksum that equals no other, because the loaded content of a file is not known."""
_LIBRARIES = {"numpy": "numpy", "pandas": "pandas", "scipy": "scipy", "sklearn": "scikit-learn"}
_HOME = Path(__file__).parent
_BEGUN = time.time()


def digest(parts: Iterable[str], names: Iterable[str] = ()) -> str:
    """Return one checksum of the library versions, the source files `parts` of dpml, and the plug-ins called `names`.

    A plug-in is a module, or an object in a module (see `named`). The checksum covers all Python files of its package,
    pack or folder. It begins with `UNKNOWN` if a file was changed after this process began.
    """
    try:
        found = {file for part in parts for file in _below(_HOME / part)}
        found |= {file for name in names for file in _files(name)}
        if all(path.stat().st_ctime <= _BEGUN for _, path in found):
            return _checksum(frozenset(found))
    except FileNotFoundError:  # a module that was defined in a notebook has no file
        pass
    return UNKNOWN + uuid.uuid4().hex


@cache
def versions() -> dict[str, str]:
    """Return the installed versions of NumPy, pandas, SciPy and scikit-learn."""
    return {name: version(name) for name in _LIBRARIES.values()}


def named(part: Any) -> frozenset[str]:
    """Return the modules of an object's class, base classes and field values, and texts such as `a.b` in its fields."""
    if isinstance(part, str):
        return frozenset({part.replace(":", ".")} if re.fullmatch(r"[A-Za-z_]\w*([.:][A-Za-z_]\w*)+", part) else ())
    if isinstance(part, Mapping):
        part = [*part, *part.values()]
    if isinstance(part, list | tuple | set | frozenset):
        return frozenset().union(*map(named, part))
    kind = part if isinstance(part, type | FunctionType) else type(part)
    found = frozenset(base.__module__ for base in (kind.__mro__ if isinstance(kind, type) else (kind,)))
    if is_dataclass(part) and kind is not part:
        found |= named([getattr(part, f.name) for f in fields(part)])
    return found


@cache
def _checksum(found: frozenset[tuple[str, Path]]) -> str:
    lines = sorted(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for name, path in found)
    return hashlib.sha256("\n".join([*lines, *map(str, versions().items())]).encode()).hexdigest()[:32]


def _files(name: str) -> Iterator[tuple[str, Path]]:
    words = name.split(".")
    if words[0] == __package__ and words[1:2] != ["packs"]:
        return
    top = ".".join(words[:3]) if words[0] == __package__ else words[0]
    if top in _LIBRARIES or top in sys.stdlib_module_names:
        return
    found: Any = sys.modules.get(top) or find_spec(top)
    if found is None:  # a text with a dot that does not name a module
        return
    folders = getattr(found, "__path__", None) or getattr(found, "submodule_search_locations", None)
    file = getattr(found, "__file__", None) or getattr(found, "origin", None)
    if not folders and not file:
        raise FileNotFoundError(name)
    for folder in map(Path, folders or []):
        yield from _below(folder)
    if not folders:
        folder = Path(str(file)).parent
        yield from _named_from(folder, folder.glob("*.py"))


def _below(place: Path) -> Iterator[tuple[str, Path]]:
    return _named_from(place, place.rglob("*.py") if place.is_dir() else [place])


def _named_from(place: Path, files: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for path in files:
        for file in (path, path.with_suffix(".yaml")):
            if file.exists():  # an editor's lock file may be a dangling link
                yield str(file.relative_to(place.parent)), file
