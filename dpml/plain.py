"""Files of plain values in YAML or JSON, without duplicate keys, references or code."""

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpml.errors import UserError

_TWICE = "a key occurs twice"
_OTHER_BASE = re.compile(r"[-+]?(0[0-7_]+|[1-9][0-9_]*(:[0-5]?[0-9])+|[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*)$")
"""Numbers that YAML 1.1 reads in base 8 or 60."""


def read_mapping(path: Path, what: str, deepest: int, largest: float = math.inf) -> dict[Any, Any]:
    """Read the mapping in a YAML file, or in a JSON file if its name ends in .json.

    Args:
        path: the file.
        what: the expected content, as it completes "to be ..." in an error message.
        deepest: the largest depth of nested lists and mappings, in YAML.
        largest: the largest size in bytes.

    Raises:
        OSError: the file cannot be read.
    """
    import yaml  # slow to load

    safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C takes a tenth of the time

    class Once(safe):  # type: ignore[misc]  # PyYAML has no types
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            pairs = len(node.value)  # before "<<" adds the pairs of another mapping
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            if not pairs == len(node.value) == len(mapping):
                raise yaml.constructor.ConstructorError(problem=_TWICE, problem_mark=node.start_mark)
            return mapping

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
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: also for an invalid date
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(f"{where}: it is not YAML or JSON: {getattr(error, 'problem', None) or error}.") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} must have lines KEY: VALUE to be {what}.")
    return content


def _check_events(events: Iterable[Any], path: Path, what: str, deepest: int) -> None:
    """Raise UserError for an alias, for content nested too deep, and for numbers in base 8 or 60."""
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


def to_json(values: Any) -> str:
    """Return plain values as JSON. JSON has no infinity: it is written as 1e999, which parsers read as infinity."""
    text = json.dumps(values, indent=2)
    return re.sub(r'"(?:[^"\\]|\\.)*"|Infinity', lambda match: match[0] if match[0][0] == '"' else "1e999", text)


def from_json(text: str) -> Any:
    """Return the content of a JSON text.

    Raises:
        ValueError: the text is not JSON, a key occurs twice, or a string has half a surrogate pair.
    """
    content = json.loads(text, object_pairs_hook=_once)
    json.dumps(content, ensure_ascii=False).encode()
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError(_TWICE)
    return dict(pairs)
