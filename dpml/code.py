"""The code behind a number: the modules with their contents, and the libraries with their versions.

A YAML file beside a module, of the same name, is a part of it. A module is *own code*, whose content counts, if it is
dpml's or the user's: on PYTHONPATH, in the working folder, in a package of any kind, installed from a clone. It belongs
to a *library*, which counts by its version, if a distribution with that module is installed in the folder that the
module lies in. The standard library does not count, and so no version of Python changes a checksum.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import io
import os
import re
import sys
import sysconfig
import tokenize
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from threading import Lock

_OURS = __name__.partition(".")[0]
_HOME = Path(__file__).parent
_PARSER = Lock()  # Python 3.11 raises SystemError where two threads parse at once
# no number depends on these: the list of public names, the version, error sentences, file writing, checksums of code,
# where files and parsed arrays lie, whose contents have checksums of their own
_IDLE = {
    _OURS,
    *(f"{_OURS}.{name}" for name in ("version", "errors", "atomic", "code", "packs")),
    *(f"{_OURS}.data.sources.{name}" for name in ("cache", "download", "files")),
}
# nor on the versions of these: the limit on threads, configuration, and ciphers, whose results are standards
_IDLE_LIBRARIES = ("threadpoolctl", "hydra", "omegaconf", "cryptography")
# distributions that are not called like their modules; others are looked up, which takes a tenth of a second
_NAMES = {"sklearn": "scikit-learn", "hydra": "hydra-core", "yaml": "pyyaml"}


@dataclass(frozen=True)
class Checksums:
    """The checksums of a module: of its bytes, and of its tokens without comments, docstrings and layout."""

    raw: str
    tokens: str


@dataclass(frozen=True)
class Code:
    """What some modules reach: own modules by name, and libraries, NAME VERSION, by the name they are imported by."""

    modules: dict[str, Checksums] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)


@cache
def digest(*names: str) -> str:
    """The SHA-256 of modules and of all that they import, directly or indirectly."""
    code = reached(*names)
    lines = [f"{name} {content.tokens}\n" for name, content in sorted(code.modules.items())]
    lines += [f"{name} {version}\n" for name, version in sorted(code.libraries.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def forget() -> None:
    """Look at everything anew, because modules have changed while this process runs, and were loaded again."""
    for function in (digest, located, _is_standard, _library, _distributions, read):
        function.cache_clear()


def reached(*names: str, further: Callable[[str], Iterable[str]] = lambda name: ()) -> Code:
    """Modules and all that they import, directly or indirectly: also inside functions, but not under TYPE_CHECKING.

    A library is not looked into, except that those in `names` bring along the libraries that they require.

    Args:
        names: dotted names of modules. One that is not found is left out, and one without a file (defined at a prompt,
            for example) has the content "", which is never equal to another.
        further: for the name of a module, others that it depends on.
    """
    code, seen, waiting = Code(), set(), sorted(names)
    while waiting:
        name = waiting.pop()
        root = name.partition(".")[0]
        if name in seen or name in _IDLE or root in _IDLE_LIBRARIES or _is_standard(root):
            continue
        seen.add(name)
        waiting += further(name)
        version = _library(root)
        if version is not None:
            code.libraries[root] = version
            if name in names:
                code.libraries.update(_required(version.partition(" ")[0]))
            continue
        waiting.append(name.rpartition(".")[0] or name)  # a package is imported before what is in it
        path = located(name)
        if path is not None:
            content, imports = read(path, name)
            code.modules[name] = content
            waiting += imports
        elif name in sys.modules and not hasattr(sys.modules[name], "__path__"):
            code.modules[name] = Checksums("", "")
    return code


# ---- where a module comes from

_FOLDERS = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(ast.__file__).parent)}
STANDARD = tuple(f"{folder}{os.sep}" for folder in _FOLDERS)
"""The folders of the standard library; those of installed distributions may be in them."""


@cache
def _is_standard(root: str) -> bool:
    """Whether a top-level module is of the standard library: its name may have been taken by one in front of it."""
    spec = _spec(root) if root in sys.stdlib_module_names else None
    return spec is not None and (not spec.has_location or str(spec.origin).startswith(STANDARD))


def source(name: str) -> Path | None:
    """The file of a module; None if it has none, as a package without ``__init__.py``. Nothing is imported."""
    root, *rest = name.split(".")
    if root == _OURS:
        base = _HOME.joinpath(*rest)
        inside = next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)
        if inside or rest[:1] != ["packs"]:  # whose folders lie elsewhere
            return inside
    spec = _spec(name)
    if spec is None or not spec.origin or not spec.has_location:
        return None
    path = Path(spec.origin)
    return path if path.is_file() else None


located = cache(source)
"""The same, as it was when this process first asked."""


def _spec(name: str) -> ModuleSpec | None:
    """How a module was found, or would be found."""
    module = sys.modules.get(name)
    if module is not None:
        spec: ModuleSpec | None = getattr(module, "__spec__", None)
        file = getattr(module, "__file__", None)
        if spec is None and file:  # a program, which Python runs as __main__
            spec = importlib.util.spec_from_file_location(name, file)
        return spec
    package, _, _ = name.rpartition(".")
    try:
        if not package:
            return importlib.util.find_spec(name)
        parent = _spec(package)
        places = parent.submodule_search_locations if parent else None
        return PathFinder.find_spec(name, places) if places else None
    except (ImportError, ValueError, AttributeError):
        return None


def library(root: str) -> str | None:
    """The distribution that a top-level module is installed from, NAME VERSION; None for own code, or if not found.

    One of Python files only, as pip recorded them, has the checksum of that record in addition: it may have been built
    anew from a changed folder, under the same version. What is compiled differs between machines, for the same version.
    """
    folder = None if root == _OURS else _folder(root)
    if folder is None:
        return None
    found = _distribution(_NAMES.get(root, root), folder)
    if found is None and _is_site(folder):
        known = _distributions().get(root, ())
        found = next((one for other in known if (one := _distribution(other, folder))), None)
    if found is None:
        return None
    record = found.read_text("RECORD")
    if record is None and not _is_site(folder):
        return None  # what a build left beside its source
    content = ""
    if record and "Root-Is-Purelib: true" in (found.read_text("WHEEL") or ""):
        lines = sorted(line for line in record.splitlines() if ",sha256=" in line and ".dist-info/" not in line)
        content = " " + hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return f"{found.metadata['Name']} {found.version}{content}"


_library = cache(library)


def _folder(root: str) -> Path | None:
    """The folder that a top-level module or package lies in."""
    spec = _spec(root)
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ())
    if places:  # of several folders, one may be the user's
        return Path(places[0]).parent if len(places) == 1 else None
    return Path(spec.origin).parent if spec.origin and spec.has_location else None


def _is_site(folder: Path) -> bool:
    return folder.name in ("site-packages", "dist-packages")


def _distribution(name: str, folder: Path) -> importlib.metadata.Distribution | None:
    """The distribution of a name that is installed in a folder."""
    return next(iter(importlib.metadata.distributions(name=name, path=[str(folder)])), None)


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def _required(name: str) -> dict[str, str]:
    """The libraries that a distribution requires, directly or indirectly."""
    modules = {other: root for root, others in _distributions().items() for other in others}
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        try:
            lines = importlib.metadata.requires(waiting.pop()) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for line in lines:
            needed = re.match(r"[\w.-]+", line)
            root = modules.get(needed[0]) if needed and "extra ==" not in line else None
            if root and root not in {_OURS, *found} and (version := _library(root)):
                found[root] = version
                waiting.append(version.partition(" ")[0])
    return found


# ---- what is in a file


@cache
def read(path: Path, name: str) -> tuple[Checksums, tuple[str, ...]]:
    """The content of a module's file, and the names of the modules that it imports."""
    content = path.read_bytes()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    statements = _statements_of_import(content) if path.suffix == ".py" else ()
    return checksums(content, path.suffix, beside(path)), tuple(dict.fromkeys(_imported(statements, package)))


def beside(path: Path) -> bytes:
    """The content of the YAML file beside a module's file; empty if there is none."""
    file = path.with_suffix(".yaml")
    return file.read_bytes() if path.suffix == ".py" and file.is_file() else b""


@cache  # what a file depends on may change, and is forgotten; what some bytes say does not
def checksums(content: bytes, suffix: str = ".py", more: bytes = b"") -> Checksums:
    """The checksums of a file and `more` beside it; one that is no program in Python has no tokens but its bytes."""
    text = content
    if suffix == ".py":
        with suppress(SyntaxError, ValueError, tokenize.TokenError):
            text = "\n".join(_statements(content)).encode()
    return Checksums(checksum(content + more), checksum(text + more))


def checksum(content: bytes) -> str:
    """The checksum of some bytes: 128 bits of the SHA-256."""
    return hashlib.sha256(content).hexdigest()[:32]


def _statements(content: bytes) -> Iterator[str]:
    """The logical lines of a program, token by token, without comments and without strings that do nothing."""
    words: list[str] = []
    only_text = True
    for kind, word in _tokens(content):
        if kind in (tokenize.INDENT, tokenize.DEDENT):
            yield tokenize.tok_name[kind]
        elif kind != tokenize.NEWLINE:
            words.append(word)
            only_text &= kind == tokenize.STRING and word.lower().lstrip("rub")[:1] in ("'", '"')  # f"{f()}" calls f
        else:
            if not only_text:
                yield "\0".join(words)
            words, only_text = [], True


def _tokens(content: bytes) -> Iterator[tuple[int, str]]:
    """Tokens, the same in every version of Python: since 3.12 an f-string is several."""
    lines = content.decode(tokenize.detect_encoding(io.BytesIO(content).readline)[0]).splitlines(keepends=True)
    depth, begin = 0, (0, 0)
    for token in tokenize.tokenize(io.BytesIO(content).readline):
        kind = tokenize.tok_name[token.type]
        if kind in ("FSTRING_START", "TSTRING_START"):
            begin, depth = begin if depth else token.start, depth + 1
        elif kind in ("FSTRING_END", "TSTRING_END"):
            depth -= 1
            if not depth:
                yield tokenize.STRING, _between(lines, begin, token.end)
        elif not depth and kind not in ("COMMENT", "NL", "ENCODING", "ENDMARKER"):
            yield token.type, token.string


def _between(lines: list[str], begin: tuple[int, int], end: tuple[int, int]) -> str:
    text = lines[begin[0] - 1 : end[0]]
    text[-1] = text[-1][: end[1]]
    text[0] = text[0][begin[1] :]
    return "".join(text)


Import = tuple[str, int, tuple[str, ...]]
"""A statement of import: the module, from how far above, and the names from it; none for a module by itself."""


@cache
def _statements_of_import(content: bytes) -> tuple[Import, ...]:
    """Those of a program; of none, if it is not one, as whoever imports it is told."""
    try:
        with _PARSER:
            tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return ()
    return tuple(_found(tree))


def _found(node: ast.AST) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, 0, ()) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield child.module or "", child.level, tuple(alias.name for alias in child.names)
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            yield from _found(ast.Module(child.orelse, []))
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _found(child)


def _imported(statements: Iterable[Import], package: str) -> Iterator[str]:
    """The dotted names of the modules in statements of import."""
    for base, level, names in statements:
        if level:
            parents = package.split(".")
            base = ".".join([*parents[: len(parents) + 1 - level], *([base] if base else [])])
        yield base
        # a name may be a submodule of the package, or an attribute in it
        yield from (f"{base}.{name}" for name in names if _is_inside(f"{base}.{name}"))


def _is_inside(name: str) -> bool:
    if name.startswith(f"{_OURS}."):
        return source(name) is not None
    root = name.partition(".")[0]
    return not _is_standard(root) and _library(root) is None and _spec(name) is not None
