"""The code that a number depends on, as a checksum: a result cached under an old checksum is computed again."""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

_OURS = __name__.partition(".")[0]
# no number depends on these: the list of public names, the version, error sentences, file writing, code checksums, and
# where files and parsed arrays lie, whose contents have checksums of their own
_IDLE = {
    _OURS,
    *(f"{_OURS}.{name}" for name in ("version", "errors", "atomic", "code")),
    *(f"{_OURS}.data.sources.{name}" for name in ("cache", "download", "files")),
}


@cache
def digest(*names: str) -> str:
    """The SHA-256 of modules and of all that they import, directly or indirectly, from dpml or from their own folders.

    The checksum covers the abstract syntax, so comments, docstrings and layout do not change it. Imports inside
    functions and under TYPE_CHECKING are followed as well; imports of other distributions are not.

    Args:
        names: dotted names of modules. A module without a file (defined at a prompt, for example) counts as its name
            alone.
    """
    lines = "".join(f"{name} {content}\n" for name, content in sorted(reached(*names).items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def reached(*names: str) -> dict[str, str]:
    """The modules whose code is in the `digest` of some, and the checksum of each; empty where it has no file."""
    waiting = sorted(names)
    seen: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if name not in seen and name not in _IDLE:
            path = _path(name)
            content, imports = _read(path, name) if path else ("", ())
            seen[name] = content
            waiting += [other for other in imports if _followed(other, names)]
    return seen


def _followed(name: str, starts: tuple[str, ...]) -> bool:
    """Whether a module belongs to dpml or lies in the same folder as one of the modules in `starts`."""
    root = name.partition(".")[0]
    return root == _OURS or _folder(root) in {_folder(start.partition(".")[0]) for start in starts} - {None}


@cache
def _folder(root: str) -> Path | None:
    """The folder that holds a top-level module or package; None for a folder of installed distributions."""
    spec = PathFinder.find_spec(root)
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    folder = Path(spec.origin).parent.parent if spec.submodule_search_locations else Path(spec.origin).parent
    standard = Path(ast.__file__).parent
    return None if "site-packages" in folder.parts or folder == standard else folder


@cache
def _path(name: str) -> Path | None:
    """The source file of a module, located by its path, so that nothing is imported."""
    root, *rest = name.split(".")
    if root == _OURS:  # also from inside site-packages
        folder: Path | None = Path(__file__).parent.parent
    else:
        folder = _folder(root)
    if folder is None:
        return None
    base = folder.joinpath(root, *rest)
    candidates = base.with_name(f"{base.name}.py"), base / "__init__.py"
    return next((path for path in candidates if path.is_file()), None)


@cache
def _read(path: Path, name: str) -> tuple[str, tuple[str, ...]]:
    """The SHA-256 of a module's abstract syntax without docstrings, and the modules that it imports."""
    tree = ast.parse(path.read_bytes())
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imports = tuple(_imported(tree, package))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not _is_text(part)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imports


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a string without effect: a docstring, or one after an attribute."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """The dotted names of all modules that a module names in its import statements."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) + 1 - node.level], *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if _path(inner) else base  # a name may be a submodule of the package, or an attribute in it
