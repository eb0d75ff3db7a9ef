"""Files of plain values in YAML or JSON: no key twice, no reference to anything, nothing that is code."""

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpml.errors import UserError

_TWICE = "a key occurs twice"
_OTHER_BASE = re.compile(r"[-+]?(0[0-7_]+|[1-9][0-9_]*(:[0-5]?[0-9])+|[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*)$")
"""What YAML 1.1 reads in base 8 or 60, which few expect."""


def read_mapping(path: Path, what: str, deepest: int, largest: float = math.inf) -> dict[Any, Any]:
    """The mapping in a YAML file, or in JSON if its name ends so.

    Args:
        path: of the file.
        what: what it should be, as it completes "to be ...".
        deepest: lists and mappings in each other, in YAML.
        largest: in bytes.

    Raises:
        OSError: the file cannot be read.
    """
    import yaml  # slow to load

    safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C takes a tenth of the time

    class Once(safe):  # type: ignore[misc]  # PyYAML has no types
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            pairs = len(node.value)  # before "<<" puts in those of another
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            if not pairs == len(node.value) == len(found):
                raise yaml.constructor.ConstructorError(problem=_TWICE, problem_mark=node.start_mark)
            return found

    raw = path.read_bytes()
    if len(raw) > largest:
        raise UserError(f"{path} is too large to be {what}.")
    try:
        text = raw.decode("utf-8-sig")
        if path.suffix == ".json":
            content = from_json(text)
        else:
            _check_events(yaml.parse(text, Loader=safe), path, what, deepest)
            content = yaml.load(text, Loader=Once)
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # also of a date that is none
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(f"{where}: it is not YAML or JSON: {getattr(error, 'problem', None) or error}.") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} must have lines KEY: VALUE to be {what}.")
    return content


def _check_events(events: Iterable[Any], path: Path, what: str, deepest: int) -> None:
    """Raise UserError for an alias, for what is nested too deep, and for numbers of base 8 or 60."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if name == "AliasEvent" or depth > deepest + 2:  # in the document, in the stream
            raise UserError(f"{path} has an alias (*NAME), or is nested too deep to be {what}.")
        if name == "ScalarEvent" and event.implicit[0] and _OTHER_BASE.match(event.value):
            raise UserError(
                f"{path}, line {event.start_mark.line + 1}: YAML reads {event.value} as a number of base 8 or 60: "
                "write it in base 10, or put quotes around it."
            )


def to_json(values: Any) -> str:
    """Plain values as JSON, which has no infinity: it is 1e999, which every parser reads as one."""
    text = json.dumps(values, indent=2)
    return re.sub(r'"(?:[^"\\]|\\.)*"|Infinity', lambda found: found[0] if found[0][0] == '"' else "1e999", text)


def from_json(text: str) -> Any:
    """The content of JSON.

    Raises:
        ValueError: it is none, a key occurs twice, of which readers take the first or the last, or half a surrogate
            pair, which no file can have.
    """
    content = json.loads(text, object_pairs_hook=_once)
    json.dumps(content, ensure_ascii=False).encode()
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError(_TWICE)
    return dict(pairs)
