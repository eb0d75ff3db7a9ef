"""Files of plain values in YAML or JSON: no key twice, no reference to anything, nothing that is code."""

import json
from pathlib import Path
from typing import Any

from dpml.errors import UserError

_DEEPEST = 12  # lists and mappings in each other
_LARGEST = 1 << 24  # bytes


def read_mapping(path: Path, what: str) -> dict[Any, Any]:
    """The mapping in a YAML file, or in JSON if its name ends so; `what` completes "to be ...".

    Raises:
        OSError: the file cannot be read.
        UserError: it is too large, too deep or no mapping, has an alias, or a key of it occurs twice.
    """
    import yaml  # slow to load

    raw = path.read_bytes()
    if len(raw) > _LARGEST:
        raise UserError(f"{path} is too large to be {what}.")
    try:
        text = raw.decode("utf-8-sig")
        if path.suffix == ".json":
            content = json.loads(text, object_pairs_hook=once)
        else:
            depth = 0
            for event in yaml.parse(text, Loader=yaml.SafeLoader):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST:
                    raise UserError(f"{path} has an alias (*NAME), or is nested too deep to be {what}.")
            _keys_once(yaml.compose(text, Loader=yaml.SafeLoader))
            content = yaml.safe_load(text)
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # also of a date that is none
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(f"{where}: it is not YAML or JSON: {getattr(error, 'problem', None) or error}.") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} must have lines KEY: VALUE to be {what}.")
    return content


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of JSON's pairs.

    Raises:
        ValueError: a key occurs twice: readers differ in which value they take.
    """
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _keys_once(node: Any) -> None:
    from yaml import MappingNode, SequenceNode

    if isinstance(node, MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key.value, str):
                if key.value in seen:
                    raise ValueError(f"the key {key.value[:60]!r} occurs twice, line {key.start_mark.line + 1} is one")
                seen.add(key.value)
            _keys_once(value)
    elif isinstance(node, SequenceNode):
        for each in node.value:
            _keys_once(each)
