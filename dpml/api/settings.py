"""Settings of a run: overrides as on the command line, and Python values; composed with the defaults."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, open_dict

from dpml.config import alike
from dpml.config.build import GROUPS, LISTED, RANGED, check_keys, spread, whole
from dpml.config.compose import PACKAGE, compose, options
from dpml.config.override_errors import Line, unknown_option, user_errors
from dpml.errors import UserError

_PRIVATE = ("data_dir", "mirror", "offline", "results_dir")
Swept = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Settings:
    """Settings: `words` are KEY=VALUE in Hydra's syntax; `values` are Python values by key."""

    words: Sequence[str] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    config_dir: Path | None = None

    @property
    def text(self) -> str:
        """Return the words as one line of a shell."""
        return shlex.join(self.words)

    @property
    def given(self) -> dict[str, Any]:
        """Return all values that are set, by key."""
        return {override.key_or_group: override.value() for override in parsed(self.words)} | dict(self.values)

    def without(self, key: str) -> "Settings":
        """Return all settings except those of one key."""
        words = [word for word in self.words if not word.startswith(f"{key}=")]
        return Settings(words, {name: value for name, value in self.values.items() if name != key}, self.config_dir)

    def composed(self, by: Callable[[list[str]], DictConfig] | None = None) -> DictConfig:
        """Return the configuration: the defaults, changed by the words, then by the values.

        Args:
            by: a function that composes words (`composer`); None: that of this process, or Hydra.
        """
        choices = [f"{group}='{self._option(group)}'" for group in GROUPS if group in self.values]
        line = Line([*self.words, *choices], self.config_dir)
        if by is None and self.config_dir is None and not any(word.startswith(f"{PACKAGE}=") for word in self.words):
            by = of_dpml()  # a user's own files can change meanwhile
        with user_errors(line):
            config = by(list(line.overrides)) if by else compose(line.overrides, self.config_dir)
            for key, value in self.values.items():
                if key not in GROUPS:
                    OmegaConf.update(config, key, value, merge=False)
        return config

    def _option(self, group: str) -> str:
        name = str(self.values[group])
        if name not in options(group, self.config_dir):
            raise UserError(unknown_option(group, name, self.config_dir))
        return name


def is_private(word: str) -> bool:
    """Return whether no number depends on a word: it sets where files are, or how cells are computed."""
    key = word.lstrip("+~").partition("=")[0]
    return key in _PRIVATE or key.replace("/", ".").partition(".")[0] in ("run", "hydra")


def parsed(words: Sequence[str]) -> list[Override]:
    """Return the overrides that Hydra reads from some words."""
    with user_errors(Line(words)):
        return [alike.parsed(word) for word in words]


# ---- a function's arguments


def settings_of(
    overrides: Sequence[str], keys: Mapping[str, Any], config_dir: str | Path | None
) -> tuple[Settings, Swept]:
    """Return a function's overrides and keyword arguments as settings, and the keys that are swept with their values.

    A list is a value of the keys in `LISTED`, and a sweep of any other key.
    """
    for word in overrides:
        if not isinstance(word, str) or not ("=" in word or word.startswith("~")):
            raise UserError(f"an override must be text, 'KEY=VALUE', got {word!r}.")
    values = {key: plain(value, key) for key, value in keys.items()}
    for key, value in values.items():
        if value == []:
            raise UserError(f"{key} must be one value or a list of at least one, got {key}=[].")
    swept = {key: value for key, value in values.items() if isinstance(value, list) and key not in LISTED}
    single = {key: value for key, value in values.items() if key not in swept}
    return Settings(list(overrides), single, None if config_dir is None else Path(config_dir)), swept


def one_setting(
    function: str, overrides: Sequence[str], keys: Mapping[str, Any], config_dir: str | Path | None
) -> Settings:
    """Return the settings of a function that takes one value of every key."""
    settings, swept = settings_of(overrides, keys, config_dir)
    several = {word.key_or_group: word.input_line for word in parsed(settings.words) if word.is_sweep_override()}
    several |= {key: f"{key}={','.join(map(str, values))}" for key, values in swept.items() if len(values) > 1}
    for key, text in several.items():
        raise UserError(f"dpml.{function} takes one {key}, got {text}.")
    return replace(settings, values={**settings.values, **{key: values[0] for key, values in swept.items()}})


def plain(value: Any, key: str) -> Any:
    """Return a value as YAML has it: NumPy's numbers as Python's, paths as text, sequences as lists."""
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


# ---- one job or several


def jobs_of(settings: Settings, swept: Swept) -> Iterator[Settings]:
    """Yield the jobs of a sweep, as `dpml-run -m` makes them: all combinations of the lists of values."""
    choices: list[list[str]] = []
    for word, override in zip(settings.words, parsed(settings.words), strict=True):
        if not override.is_sweep_override():
            choices.append([word])
        elif override.is_discrete_sweep():
            key = override.get_key_element()
            choices.append([f"{key}={value}" for value in override.sweep_string_iterator()])
        else:
            raise UserError(f"{word} has no list of values to sweep over: write {override.key_or_group}=A,B.")
    for words in product(*choices):
        for values in product(*swept.values()):
            chosen = dict(zip(swept, values, strict=True))
            yield Settings(words, {**settings.values, **chosen}, settings.config_dir)


def composer(settings: Settings) -> Callable[[list[str]], DictConfig]:
    """Return a function that composes the words of a sweep's jobs, once for jobs that differ in values only."""
    folder = settings.config_dir
    return alike.Alike(partial(compose, config_dir=folder), lambda group: bool(options(group, folder)))


@cache
def of_dpml() -> Callable[[list[str]], DictConfig]:
    """Return the function that composes words that name options of dpml only, one for this process."""
    return composer(Settings())


def refuse_several(settings: Settings) -> None:
    """Raise UserError if a list of names chooses an option: Hydra would take the last, with keys of the others."""
    given = settings.given
    for group in GROUPS:
        names = given.get(group)
        if isinstance(names, list):
            several = ",".join(map(str, names))
            how = f"for several, dpml-run -m {group}={several}" if len(names) > 1 else f"write {group}={several}"
            raise UserError(f"{group} takes one name, got {group}=[{several}]: {how}.")


def compose_one(settings: Settings, command: str) -> tuple[DictConfig, int | None]:
    """Return the configuration of one setting, and the number of features if `d` is set."""
    refuse_several(settings)
    config = settings.without("d").composed()
    if "algo._target_" in settings.given:  # this class lacks the options of the default class
        with open_dict(config):
            config.algo = {key: value for key, value in config.algo.items() if f"algo.{key}" in settings.given}
    check_keys(config)
    for key in ("eps", "delta", "M", "N", "seed", "draws"):
        given = config[key]
        if OmegaConf.is_list(given) or spread(given, key) is not given:
            raise UserError(f"dpml {command} takes one {key}, got {key}={given}.")
    d = settings.given.get("d")
    return config, None if d is None else whole(d, "d")
