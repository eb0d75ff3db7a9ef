"""Read the keys of a YAML file, with their values as written and the comments next to them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Key:
    """A key, with dots if it is nested, the text of its value (empty if it has keys itself), and its comment."""

    name: str
    value: str
    comment: str


def keys(path: Path) -> list[Key]:
    """Return every key of a file, in order. A comment continues in the following lines that have only comments."""
    text = path.read_text(encoding="utf-8")
    root = yaml.compose(text)
    return list(_keys(root, text, "")) if isinstance(root, yaml.MappingNode) else []


def heading(path: Path) -> str:
    """Return the comment above the first key."""
    lines = path.read_text(encoding="utf-8").splitlines()
    above = lines[: next(number for number, line in enumerate(lines) if line and not line.startswith("#"))]
    return " ".join(line.lstrip("# ") for line in above if not line.startswith("# @"))


def _keys(node: yaml.MappingNode, text: str, prefix: str) -> Iterator[Key]:
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            yield Key(name, "", _comment(text, key.end_mark.index + 1))
            yield from _keys(value, text, f"{name}.")
        else:
            yield Key(name, text[value.start_mark.index : value.end_mark.index], _comment(text, value.end_mark.index))


def _comment(text: str, end: int) -> str:
    first, *below = text[end:].split("\n")
    found = re.fullmatch(r"\s*#\s*(.*)", first)
    words = [found[1]] if found else []
    for line in below:
        further = re.fullmatch(r"\s+#\s*(.*)", line)
        if not further:
            break
        words.append(further[1])
    return " ".join(words)
