"""Write files atomically and with checksums, read plain values from YAML and JSON, and find dpml's own folders."""

import hashlib
import json
import math
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from dpml.errors import UserError

_PACKAGE = Path(__file__).resolve().parent
_TWICE = "a key occurs twice"
_OTHER_BASE = re.compile(r"[-+]?(0[0-7_]+|[1-9][0-9_]*(:[0-5]?[0-9])+|[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*)$")
"""Numbers that YAML 1.1 reads in base 8 or 60."""


def shipped_folder(name: str) -> Path:
    """Return the path of dpml's folder ``conf`` or ``experiments``, inside the package or next to the package."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def write_atomically(path: Path, content: str | bytes, private: bool = False) -> None:
    """Write a file so that neither a crash nor a concurrent reader ever finds it half written.

    Only the owner can read a `private` file. A killed process may leave its temporary file ``.NAME-...``.
    """
    with _unfinished(path, Path.replace, private) as write:
        write(content)


def create_atomically(path: Path, content: str | bytes, private: bool = False) -> None:
    """Write a new file atomically; raise FileExistsError if the file exists or another process creates it first.

    The file system must have hard links. Only the owner can read a `private` file.
    """
    with _unfinished(path, lambda partial, path: path.hardlink_to(partial), private) as write:
        write(content)


def check_writable(path: Path) -> None:
    """Raise UserError if `path` exists already, or if no file can be written there."""
    _check_absent(path)
    try:
        with _unfinished(path, lambda partial, path: None, private=True):
            pass
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None


@contextmanager
def reserved(path: Path) -> Iterator[Callable[[str], None]]:
    """Reserve the name of a new file, and yield a function that writes the file's content to the disk.

    When the `with` block ends, the file gets its name; if the block fails, the file is removed. Meanwhile no other
    process can reserve the name. Content that is not longer than before needs no more room on disk.
    """
    check_writable(path)
    with ExitStack() as stack:
        try:
            write = stack.enter_context(_unfinished(path, Path.replace, end="new"))
        except FileExistsError:
            raise UserError(
                f"another process is writing {path}, or was killed while writing: choose another name, or delete "
                f"{path.with_name(f'.{path.name}-new')}."
            ) from None
        _check_absent(path)  # another process may have created it in the meantime
        yield write


def _check_absent(path: Path) -> None:
    if path.exists():
        raise UserError(f"{path} is there already, and dpml does not overwrite it: choose another name.")


@contextmanager
def _unfinished(
    path: Path, publish: Callable[[Path, Path], object], private: bool = False, end: str = ""
) -> Iterator[Callable[[str | bytes], None]]:
    partial = path.with_name(f".{path.name}-{end or uuid.uuid4().hex}")
    with _naming(path):
        mode = 0o600 if private else 0o666
        file = FileIO(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")
    try:
        with file:
            yield lambda content: _write(file, content, path)
        with _naming(path):
            publish(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _write(file: FileIO, content: str | bytes, path: Path) -> None:
    rest = memoryview(content.encode() if isinstance(content, str) else content)
    with _naming(path):
        file.seek(0)
        while rest:
            rest = rest[file.write(rest) :]
        file.truncate()
        os.fsync(file.fileno())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)  # Python names the temporary file, or no file if the disk is full
        raise


def seal(content: str) -> str:
    """Return a text with its checksum in an additional first line."""
    return f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}"


def unseal(content: bytes) -> str | None:
    """Return a text without its checksum, or None if the text has changed since the checksum was computed."""
    checksum, _, rest = content.partition(b"\n")
    return rest.decode() if checksum.decode("latin-1") == hashlib.sha256(rest).hexdigest() else None


CHECKSUM = "checksum"
"""The key under which a JSON object stores the checksum of the rest of the object."""


def seal_object(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with an additional key `checksum`, which holds the checksum of the other keys."""
    return {**content, CHECKSUM: _checksum(content)}


def unseal_object(content: bytes) -> dict[str, Any] | None:
    """Return a JSON object without its checksum, or None if a value has changed since the checksum was computed."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(whole, dict):
        return None
    checksum = whole.pop(CHECKSUM, None)
    return whole if checksum == _checksum(whole) else None


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def read_mapping(path: Path, what: str, deepest: int, largest: float = math.inf) -> dict[Any, Any]:
    """Read the mapping in a YAML or JSON file; error messages call the expected content `what`.

    The file may have at most `largest` bytes, and in YAML at most `deepest` levels of lists and mappings.
    """
    import yaml  # slow to load

    safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader takes a tenth of the time

    class Once(safe):  # type: ignore[misc]  # PyYAML has no types
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            pairs = len(node.value)  # before "<<" adds the pairs of another mapping
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            if not pairs == len(node.value) == len(mapping):
                raise yaml.constructor.ConstructorError(problem=_TWICE, problem_mark=node.start_mark)
            return mapping

    raw = path.read_bytes()
    if len(raw) > largest:
        raise UserError(f"{path} is too large to be {what}: it has more than {largest:,} bytes.")
    try:
        text = raw.decode("utf-8-sig")
        if path.suffix == ".json":
            content = from_json(text)
        else:
            _check_events(yaml.parse(text, Loader=safe), path, what, deepest)
            content = yaml.load(text, Loader=Once)
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: also for an invalid date
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(f"{where} is not valid YAML or JSON: {getattr(error, 'problem', None) or error}.") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} must have lines KEY: VALUE to be {what}.")
    return content


def _check_events(events: Iterable[Any], path: Path, what: str, deepest: int) -> None:
    """Raise UserError if YAML has an alias, is nested too deep, or has a number in base 8 or 60."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if name == "AliasEvent" or depth > deepest + 2:  # the document and the stream are levels, too
            raise UserError(f"{path} has an alias (*NAME), or is nested too deep to be {what}.")
        if name == "ScalarEvent" and event.implicit[0] and _OTHER_BASE.match(event.value):
            raise UserError(
                f"{path}, line {event.start_mark.line + 1}: YAML reads {event.value} as a number of base 8 or 60: "
                "write it in base 10, or put quotes around it."
            )


def to_json(schema: str, **values: Any) -> str:
    """Return plain values as JSON with the name of their schema, NaN as null, and infinity as 1e999."""
    text, plain = json.dumps({"schema": schema, **values}, indent=2), {"Infinity": "1e999", "NaN": "null"}
    return re.sub(r'"(?:[^"\\]|\\.)*"|Infinity|NaN', lambda match: plain.get(match[0], match[0]), text)


def from_json(text: str) -> Any:
    """Return the content of a JSON text; raise ValueError if the text is not valid JSON or a key occurs twice."""
    content = json.loads(text, object_pairs_hook=_once)
    json.dumps(content, ensure_ascii=False).encode()  # raises ValueError if a string has half a surrogate pair
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError(_TWICE)
    return dict(pairs)
