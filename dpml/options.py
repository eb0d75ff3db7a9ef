"""The allowed values of options, declared beside their types: ``rounds: Annotated[int, between(1, 100)] = 10``."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from dpml.errors import UserError, nearest


class Bound(NamedTuple):
    """The allowed values, as an error message says them, and as a test of one value."""

    words: str
    holds: Callable[[Any], bool]


POSITIVE = Bound("a positive number", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = Bound("a number >= 0", lambda value: 0 <= value < math.inf)
SHARE = Bound("strictly between 0 and 1", lambda value: 0 < value < 1)


def between(low: float, high: float) -> Bound:
    """Return the bound low <= value <= high."""
    return Bound(f"from {low:g} to {high:g}", lambda value: low <= value <= high)


def at_least(low: int) -> Bound:
    """Return the bound low <= value."""
    return Bound(f"at least {low}", lambda value: value >= low)


def check_options(kind: Any, values: Mapping[str, Any], group: str = "") -> None:
    """Raise UserError for the first value that the annotations of a class do not allow; None is always allowed.

    A Literal allows its values, and a `Bound` in Annotated those for which it holds. Of a list every item is checked.
    """
    for name, (choices, bounds) in _declared(kind).items():
        value = values.get(name)
        key = f"{group}.{name}" if group else name
        for item in value if isinstance(value, list | tuple) else () if value is None else (value,):
            if choices:
                check_choice(key, item, choices)
            for bound in bounds:
                if not bound.holds(item):
                    raise UserError(f"{key} must be {bound.words}, got {key}={item}.")


def check_choice(key: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Raise UserError unless a value is one of those allowed."""
    if value not in allowed:
        raise UserError(f"unknown {key}={value!r}: {nearest(str(value), map(str, allowed))}")


@cache
def _declared(kind: Any) -> dict[str, tuple[tuple[Any, ...], tuple[Bound, ...]]]:
    """Return the choices and the bounds of every parameter of a class or function that has some."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        parts = tuple(_parts(hint))
        choices = tuple(part for part in parts if not isinstance(part, Bound))
        bounds = tuple(part for part in parts if isinstance(part, Bound))
        if parts:
            found[name] = choices, bounds
    return found


def _parts(hint: Any) -> Iterator[Any]:
    """Yield the values of a Literal and the bounds in Annotated, wherever they are in a type."""
    if get_origin(hint) is Annotated:
        yield from (part for part in hint.__metadata__ if isinstance(part, Bound))
        yield from _parts(hint.__origin__)
    elif get_origin(hint) is Literal:
        yield from get_args(hint)
    else:
        for part in get_args(hint):
            yield from _parts(part)
