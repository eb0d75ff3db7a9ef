"""Write values as command-line arguments KEY=VALUE."""

import re
from typing import Any


def word_of(key: str, *values: Any) -> str:
    """Return the argument KEY=VALUE, or KEY=A,B for several values, with quotes where Hydra needs them."""
    return f"{key}={','.join(map(_as_word, values))}"


def _as_word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_as_word, value))}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    if re.fullmatch(r"[A-Za-z_/.][\w/.-]*", text) and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    # Hydra reads a backslash as itself, except before a quote
    escaped = re.sub(r'(\\*)("|$)', lambda match: 2 * match[1] + match[2].replace('"', '\\"'), text)
    return f'"{escaped}"'
