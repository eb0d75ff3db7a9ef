"""What a user sees when something they asked for cannot be done: one clear sentence, no traceback."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake the user can mend. The message says what is wrong, which key, and what is allowed."""


class PrivacyWarning(UserWarning):
    """Something that private rows went into is counted by no budget, or less is proven than was asked for."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """The end of an error sentence about an unknown name: the closest valid name, or all of them."""
    choices = sorted(allowed)
    close = get_close_matches(name, choices, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"choose one of {', '.join(choices)}."
