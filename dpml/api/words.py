"""Arguments of the API's functions as the words of a command line, so that settings have a single syntax."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from dpml.cli.mistakes import sentence
from dpml.cli.overrides import Line
from dpml.errors import UserError

LISTS = ("eps", "delta", "M", "N", "seed", "metrics")
"""Keys that take a list; a list of any other key's values is a sweep over them."""

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")  # text that needs no quotes
_SPECIAL = ("null", "true", "false", "inf", "nan")


def words_of(overrides: Sequence[str], keys: Mapping[str, Any]) -> list[str]:
    """Overrides and keyword arguments as words, KEY=VALUE.

    A list of the key's values stays a list for those in `LISTS`, and is a sweep for the others: ``algo=capefm,conv``.

    Raises:
        UserError: an override is not text of this form, or a value cannot be written on the command line.
    """
    for word in overrides:
        if not isinstance(word, str) or not ("=" in word or word.startswith("~")):
            raise UserError(f"an override must be text, 'KEY=VALUE', got {word!r}.")
    words = list(overrides)
    for key, value in keys.items():
        swept = _listed(value) and key not in LISTS
        if _listed(value) and len(value) == 0:
            raise UserError(f"{key} must be one value or a list of at least one, got {key}=[].")
        words.append(f"{key}={','.join(written(one, key) for one in (value if swept else [value]))}")
    return words


def written(value: Any, key: str) -> str:
    """A value in Hydra's syntax.

    Raises:
        UserError: Hydra has no syntax for it.
    """
    value = plain(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | Path):
        text = str(value)
        if _PLAIN.fullmatch(text) and text.lower() not in _SPECIAL:
            return text
        return QuotedString(text, Quote.single).with_quotes()
    if _listed(value):
        return f"[{','.join(written(one, key) for one in value)}]"
    raise UserError(f"{key} must be a number, text, True, False, None, or a list of them, got {value!r}.")


def plain(value: Any) -> Any:
    """A NumPy number as a Python number; anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def jobs_of(words: Sequence[str]) -> list[list[str]]:
    """The jobs of a sweep, as `dpml-run -m` makes them: the product of all lists of values in the words.

    Raises:
        UserError: a sweep has no list of values.
    """
    choices: list[list[str]] = []
    for word, override in zip(words, parsed(words), strict=True):
        if not override.is_sweep_override():
            choices.append([word])
        elif override.is_discrete_sweep():
            key = override.get_key_element()
            choices.append([f"{key}={value}" for value in override.sweep_string_iterator()])
        else:
            raise UserError(f"{word} has no list of values to sweep over: write {override.key_or_group}=A,B.")
    return [list(job) for job in product(*choices)]


def one_job(words: Sequence[str], function: str) -> None:
    """Raise UserError when a function of one setting is given several values."""
    for override in parsed(words):
        if override.is_sweep_override():
            key = override.key_or_group
            raise UserError(f"dpml.{function} takes one {key}, got {override.input_line}.")


def parsed(words: Sequence[str]) -> list[Override]:
    """The overrides that Hydra reads from some words.

    Raises:
        UserError: it cannot read one of them.
    """
    with user_errors(words):
        return OverridesParser.create().parse_overrides(list(words))


@contextmanager
def user_errors(words: Sequence[str], config_dir: Path | None = None) -> Iterator[None]:
    """Turn Hydra's errors about `words` into a UserError of one sentence, with the nearest valid name."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        message = sentence(error, Line(words, config_dir))
        if message is None:
            raise
        raise UserError(message) from None


def _listed(value: Any) -> bool:
    return isinstance(value, list | tuple | range | np.ndarray)
