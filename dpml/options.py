"""Check options by their declared types, such as ``rounds: Annotated[int, between(1, 100)] = 10``."""

import math
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from numbers import Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from dpml.errors import UserError, nearest


class Bound(NamedTuple):
    """The values that an option allows: the function `holds` tests a value, and the text `words` describes them."""

    words: str
    holds: Callable[[Any], bool]


POSITIVE = Bound("a positive number", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = Bound("a number >= 0", lambda value: 0 <= value < math.inf)
SHARE = Bound("strictly between 0 and 1", lambda value: 0 < value < 1)
_WORDS = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}


def between(low: float, high: float) -> Bound:
    """Return a `Bound` that allows values from `low` to `high`, both included."""
    return Bound(f"from {low:g} to {high:g}", lambda value: low <= value <= high)


def at_least(low: int) -> Bound:
    """Return a `Bound` that allows values of at least `low`."""
    return Bound(f"at least {low}", lambda value: value >= low)


def check_options(part: Any, group: str = "") -> None:
    """Raise UserError if a field of a dataclass has a value that the field's type does not allow."""
    for name, hint in _declared(type(part)).items():  # type: ignore[arg-type]
        convert(getattr(part, name), hint, f"{group}.{name}" if group else name)


@cache
def _declared(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: hints[f.name] for f in fields(kind) if any(map(str(hints[f.name]).count, ("Bound(", "Literal[")))}


def convert(value: Any, hint: Any, key: str) -> Any:
    """Convert a value to the declared type `hint`; raise UserError if the type does not allow the value."""
    if get_origin(hint) is Annotated:
        value = convert(value, hint.__origin__, key)
        for bound in hint.__metadata__:
            if value is not None and not bound.holds(value):
                raise UserError(f"{key} must be {bound.words}, got {key}={_as_typed(value)}.")
        return value
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            example = "" if value is None else f": write {key}=[{_as_typed(value)}]"
            raise UserError(f"{key} must be a list, got {key}={_as_typed(value)}{example}.")
        return tuple(convert(item, get_args(hint)[0], key) for item in value)
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    if value is None and NoneType in kinds:
        return None
    for kind in kinds:
        if get_origin(kind) is Annotated:
            return convert(value, kind, key)
        if get_origin(kind) is Literal:
            check_choice(key, value, get_args(kind))
    kind = next((kind for kind in _WORDS if kind in kinds), None)
    if kind is None or (kind is str and not {*kinds} <= {str, NoneType}):
        return value
    if isinstance(value, bool | str):
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    else:
        small = not isinstance(value, int) or abs(value) < 10**300  # larger integers do not fit into a float
        fits = small and isinstance(value, Real) and (kind is float or (kind is int and value % 1 == 0))
    if not fits:
        quoted = f""": write {key}='"{value}"'""" if kind is str and isinstance(value, int | float) else ""
        raise UserError(f"{key} must be {_WORDS[kind]}, got {key}={_as_typed(value)}{quoted}.")
    return kind(value)


def check_choice(key: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Raise UserError unless the value of the option `key` is among the `allowed` values."""
    if value not in allowed:
        raise UserError(f"{key} cannot be {_as_typed(value)}: {nearest(str(value), map(str, allowed))}")


def _as_typed(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)[:200]
