"""Read what the keys of an option mean from the docstring of its class."""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):$")
_ENTRY = re.compile(r"(\w[\w, ]*): ")


@dataclass(frozen=True)
class Docstring:
    """A docstring in parts: the text without sections, and the description of each argument or attribute."""

    text: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


def parse(content: str | None) -> Docstring:
    """Split a docstring in Google's style into its parts."""
    text: list[str] = []
    arguments: dict[str, str] = {}
    section = ""
    name = ""
    for line in inspect.cleandoc(content or "").splitlines():
        if heading := SECTION.match(line):
            section, name = heading[1], ""
        elif section and line.strip() and not line.startswith(" "):
            section = ""
            text += ["", line]
        elif not section:
            text.append(line)
        elif section in ("Args", "Attributes"):
            entry = _ENTRY.match(line[4:])
            if entry:
                name = entry[1]
                line = line[4 + entry.end() :]
            if name:
                arguments[name] = f"{arguments.get(name, '')} {line.strip()}".strip()
    return Docstring("\n".join(text).strip(), arguments)


def meaning(target: type, key: str) -> str:
    """Return the description of a field from the docstring of its class or a base class, with null for None."""
    for base in inspect.getmro(target):
        for names, text in parse(vars(base).get("__doc__")).arguments.items():
            if key in re.split(r",\s*", names):
                return re.sub(r"\bNone\b", "null", text)
    return ""


def meanings(group: str, target: type, keys: Iterable[str]) -> Iterator[str]:
    """Yield a paragraph for each key of an option, as `dpml-run --help` shows it."""
    for key in keys:
        text = f"{group}.{key}: {meaning(target, key)}".replace("`", "")
        yield textwrap.fill(text, 110, subsequent_indent="    ", break_long_words=False)
