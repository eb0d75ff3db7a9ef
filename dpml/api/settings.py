"""Represent a command's settings or a function's arguments as command-line arguments KEY=VALUE."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpml.config.build import GROUPS, LISTED, RANGED, check_keys, spread
from dpml.config.compose import Composed, compose, parsed
from dpml.config.words import word_of
from dpml.errors import UserError
from dpml.options import convert

_PRIVATE = ("data_dir", "mirror", "offline", "results_dir")


@dataclass(frozen=True)
class Settings:
    """The settings of a command: arguments KEY=VALUE in Hydra's syntax, and the list of values of each swept key."""

    words: Sequence[str] = ()
    config_dir: Path | None = None
    lists: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @cached_property
    def given(self) -> dict[str, Any]:
        words = [word for word in map(parsed, self.words) if not word.is_delete()]
        return {word.key_or_group: word.value() for word in words}

    def only(self, kept: Callable[[str], bool]) -> "Settings":
        return Settings([word for word in self.words if kept(parsed(word).key_or_group)], self.config_dir)

    def swept(self) -> "Settings":
        """Return settings with sweeps, such as ``M=5,10``, moved from `words` to `lists` (a dict of values by key)."""
        lists: dict[str, Sequence[Any]] = {}
        for word in map(parsed, self.words):
            if word.is_sweep_override():
                key = word.key_or_group
                if not word.is_discrete_sweep():
                    raise UserError(f"a sweep needs a list of values, got {word.input_line}: write {key}=A,B.")
                lists[key] = list(word.sweep_iterator())
        words = [word for word in self.words if not parsed(word).is_sweep_override()]
        return replace(self, words=words, lists=lists)

    def composed(self) -> Composed:
        """Compose the configuration; replace a sweep over data sets, partitions or algorithms by its first value."""
        words = [word for word in self.words if parsed(word).key_or_group.partition(".")[0] not in self.lists]
        words += [word_of(group, self.lists[group][0]) for group in GROUPS if group in self.lists]
        return compose(words, self.config_dir)


def is_private(word: str) -> bool:
    """Return whether a setting KEY=VALUE can change where files are or how fits run, but not the results."""
    key = word.lstrip("+~").partition("=")[0]
    return key in _PRIVATE or key.replace("/", ".").partition(".")[0] in ("run", "hydra")


def settings_of(overrides: Sequence[str], keys: Mapping[str, Any], config_dir: str | Path | None) -> Settings:
    """Turn a function's arguments into settings; a list of values means a sweep, unless the key takes a list."""
    for word in overrides:
        if not isinstance(word, str) or not ("=" in word or word.startswith("~")):
            raise UserError(f"an override must be text, 'KEY=VALUE', got {word!r}.")
    words = [*overrides]
    for key, value in keys.items():
        content = plain(value, key)
        if content == []:
            raise UserError(f"{key} must be one value or a list of at least one value, got {key}=[].")
        sweep = isinstance(content, list) and key not in LISTED
        words.append(word_of(key, *content) if sweep else word_of(key, content))
    return Settings(words, None if config_dir is None else Path(config_dir))


def plain(value: Any, key: str) -> Any:
    """Convert a value to a type that YAML has: NumPy's numbers to Python's, paths to text, and sequences to lists."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, range) and value.step == 1 and len(value) > 1 and key in RANGED and value.start >= 0:
        return f"{value.start}..{value.stop - 1}"
    if isinstance(value, list | tuple | range | np.ndarray):
        return [plain(item, key) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UserError(f"{key} must be a number, text, True, False, None, or a list of them, got {value!r}.")


def compose_one(settings: Settings) -> tuple[dict[str, Any], int | None]:
    """Compose a configuration with one value per key; return it and the number of features d (None: not set)."""
    settings = settings.swept()
    keys = [key for key in settings.given if key in GROUPS or (key in LISTED and key != "metrics")]
    lists = {key: value for key in keys if isinstance(value := spread(settings.given[key], key), list | range)}
    for key, values in (lists | dict(settings.lists)).items():
        raise UserError(f"{key} must have one value only, got {key}={','.join(map(str, values))}.")
    config = settings.only(lambda key: key != "d").composed().values
    check_keys(config)
    d = settings.given.get("d")
    return config, None if d is None else convert(d, int, "d")
