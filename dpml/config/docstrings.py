"""Read the meaning of an option's keys from the docstring of the option's class."""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator

import docstring_parser


def parse(content: str | None) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring in Google's style, and the description of each argument or attribute."""
    found = docstring_parser.parse(content or "", docstring_parser.DocstringStyle.GOOGLE)
    return found.description or "", {each.arg_name: " ".join((each.description or "").split()) for each in found.params}


def meaning(target: type, key: str) -> str:
    """Return the description of a field from the docstring of its class or of a base class."""
    for base in inspect.getmro(target):
        for names, text in parse(vars(base).get("__doc__"))[1].items():
            if key in re.split(r",\s*", names):
                return re.sub(r"\bNone\b", "null", text)
    return ""


def meanings(group: str, target: type, keys: Iterable[str]) -> Iterator[str]:
    """Yield a paragraph of help for each key of an option, as `dpml-run --help` shows it."""
    for key in keys:
        text = f"{group}.{key}: {meaning(target, key)}".replace("`", "")
        yield textwrap.fill(text, 110, subsequent_indent="    ", break_long_words=False)
