"""Errors and warnings for users: one clear sentence instead of a traceback."""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any


class UserError(Exception):
    """A mistake that the user can correct. The message says what is wrong, which key, and what is allowed."""


class PrivacyWarning(UserWarning):
    """Private rows influenced a result that no budget accounts for, or less is proven than was requested."""


def nearest(name: str, allowed: Iterable[str], before: str = "") -> str:
    """Return the end of an error sentence about an unknown name: the closest allowed name, or all allowed names.

    Each name is shown with the prefix `before`, as it must be typed.
    """
    choices = sorted(allowed)
    spellings = {re.sub("[-_]", "", choice.lower()): choice for choice in choices}  # users mix these up
    close = get_close_matches(re.sub("[-_]", "", name.lower()), spellings, n=1)
    if close:
        return f"did you mean {before + spellings[close[0]]!r}?"
    return f"choose one of {', '.join(before + choice for choice in choices)}." if choices else "there is none."


def refuse_unknown(kind: str, names: Iterable[Any], allowed: Collection[Any], where: str) -> None:
    """Raise UserError for the first name of this `kind` that is not allowed."""
    for name in names:
        if name not in allowed:
            raise UserError(f"unknown {kind} {name!r} in {where}: {nearest(str(name), map(str, allowed))}")
