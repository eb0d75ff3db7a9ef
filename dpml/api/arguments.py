"""The arguments of the API's functions as `Settings`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpml.commands.settings import Settings, parsed
from dpml.config.build import LISTED, RANGED
from dpml.errors import UserError

Swept = Mapping[str, Sequence[Any]]


def settings_of(
    overrides: Sequence[str], keys: Mapping[str, Any], config_dir: str | Path | None
) -> tuple[Settings, Swept]:
    """Overrides and keyword arguments as settings, and those of the keys that are swept over, with their values."""
    for word in overrides:
        if not isinstance(word, str) or not ("=" in word or word.startswith("~")):
            raise UserError(f"an override must be text, 'KEY=VALUE', got {word!r}.")
    values = {key: plain(value, key) for key, value in keys.items()}
    for key, value in values.items():
        if value == []:
            raise UserError(f"{key} must be one value or a list of at least one, got {key}=[].")
    # of any other key a list is a sweep
    swept = {key: value for key, value in values.items() if isinstance(value, list) and key not in LISTED}
    single = {key: value for key, value in values.items() if key not in swept}
    return Settings(list(overrides), single, None if config_dir is None else Path(config_dir)), swept


def one_job(
    function: str, overrides: Sequence[str], keys: Mapping[str, Any], config_dir: str | Path | None
) -> Settings:
    """The settings of a function that takes one value of every key."""
    settings, swept = settings_of(overrides, keys, config_dir)
    several = {word.key_or_group: word.input_line for word in parsed(settings.words) if word.is_sweep_override()}
    several |= {key: f"{key}={','.join(map(str, values))}" for key, values in swept.items() if len(values) > 1}
    for key, given in several.items():
        raise UserError(f"dpml.{function} takes one {key}, got {given}.")
    return replace(settings, values={**settings.values, **{key: values[0] for key, values in swept.items()}})


def plain(value: Any, key: str) -> Any:
    """A value as YAML has it: NumPy's numbers as Python's, paths as text, sequences as lists."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, range) and value.step == 1 and len(value) > 1 and key in RANGED and value.start >= 0:
        return f"{value.start}..{value.stop - 1}"
    if isinstance(value, list | tuple | range | np.ndarray):
        return [plain(one, key) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UserError(f"{key} must be a number, text, True, False, None, or a list of them, got {value!r}.")
