"""Define the errors that users see as one clear sentence instead of a traceback."""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any


class UserError(Exception):
    """Report a mistake that the user can correct: the message names the wrong key and the key's allowed values."""


class PrivacyWarning(UserWarning):
    """Warn that no budget accounts for a use of private rows, or that a guarantee is weaker than requested."""


def nearest(name: str, allowed: Iterable[str], before: str = "") -> str:
    """Return a hint for the message about an unknown name: the closest allowed name, or all allowed names."""
    choices = sorted(allowed)
    spellings = {re.sub("[-_]", "", choice.lower()): choice for choice in choices}  # users mix these up
    close = get_close_matches(re.sub("[-_]", "", name.lower()), spellings, n=1)
    if close:
        return f"did you mean {before + spellings[close[0]]!r}?"
    return f"choose one of {', '.join(before + choice for choice in choices)}." if choices else "there is none."


def refuse_unknown(kind: str, names: Iterable[Any], allowed: Collection[Any], where: str) -> None:
    """Raise UserError if one of the `names` is not among the `allowed` names."""
    for name in names:
        if name not in allowed:
            raise UserError(f"unknown {kind} {name!r} in {where}: {nearest(str(name), map(str, allowed))}")
