"""Mistakes in settings that Hydra or OmegaConf finds, as one sentence."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from dpml.config.build import GROUPS, KEYS, LISTED, unknown_key
from dpml.config.compose import PACKAGE, compose, options
from dpml.errors import UserError, nearest

_CHOSEN = (*GROUPS, PACKAGE)  # by name


class Line(NamedTuple):
    """The input of Hydra: overrides, and the user's own folder of options. Hydra's errors contain neither."""

    overrides: Sequence[str]
    config_dir: Path | None = None


@contextmanager
def user_errors(line: Line) -> Iterator[None]:
    """Turn Hydra's errors about `line` into a UserError of one sentence, with the nearest valid name."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        message = sentence(error, line)
        if message is None:
            raise
        raise UserError(message) from None


def sentence(error: Exception, line: Line) -> str | None:
    """Return the meaning of an exception of Hydra's and the remedy, or None for any other exception."""
    if isinstance(error, ValueError) and str(error).startswith("Config group override must be"):
        return _of_groups(line)
    if not isinstance(error, HydraException | OmegaConfBaseException):
        return None
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _of_option(error.missing_cfg_file, error.options or (), line)
    if isinstance(error, OverrideParseException):
        return _of_word(error.override, line)
    if isinstance(error, ConfigAttributeError | ConfigKeyError):
        return _of_key(str(error.full_key), line)
    if isinstance(error, ConfigCompositionException):  # only its text names the key
        unknown = re.search(r"Could not (?:override|append|delete|add) '([^']+)'", str(error))
        if unknown:
            return _of_groups(line) if unknown[1] in _CHOSEN else _of_key(unknown[1], line)
        several = re.search(r"Ambiguous value for argument '([^']+)'", str(error))
        if several:
            key, _, values = several[1].partition("=")
            listed = f", or write a list, {key}=[{values}]" if key in LISTED and ".." not in values else ""
            return f"{several[1]!r} has several values: add -m to dpml-run to sweep over them{listed}."
    return " ".join(str(error).split()).removesuffix(".") + "."


def _of_word(word: str | None, line: Line) -> str:
    chosen = next((group for group in GROUPS if word in options(group, line.config_dir)), None)
    how = "KEY=VALUE, with quotes around special characters" if chosen is None else f"{chosen}={word}"
    return f"cannot read the override {word!r}: write {how}."


def _of_option(path: str, fallback: Sequence[str], line: Line) -> str:
    """Return the sentence for an unknown option GROUP/NAME, either of which may contain slashes."""
    groups = [word.partition("=")[0].lstrip("+") for word in line.overrides]
    group = next((key for key in groups if path.startswith(f"{key}/")), path.rpartition("/")[0])
    return unknown_option(group, path.removeprefix(f"{group}/"), line.config_dir, fallback)


def _of_groups(line: Line) -> str:
    """Return the sentence for a group with a value that is not a name, or that is used as a key."""
    for word in line.overrides:
        group, _, name = word.lstrip("+").partition("=")
        if group in _CHOSEN and name not in options(group, line.config_dir):
            return unknown_option(group, name, line.config_dir)
    return f"{', '.join(_CHOSEN)} are chosen by name, GROUP=NAME."


def unknown_option(group: str, name: str, config_dir: Path | None, fallback: Sequence[str] = ()) -> str:
    """Return the sentence for an unknown option; `fallback` are the choices in a group of Hydra's own."""
    choices = (options(group, config_dir) if group else []) or fallback
    return f"unknown {group or 'configuration'} {name!r}" + (f": {nearest(name, choices)}" if choices else ".")


def _of_key(key: str, line: Line) -> str:
    group, dot, _ = key.rpartition(".")
    node = _group(group, line) if dot else None
    if group == "dataset" and _is_csv_option(key.removeprefix("dataset.")):
        return f"unknown key {key!r}: it is an option of dataset=csv, so add dataset=csv."
    if node is None:
        message = unknown_key(key, nearest(key, KEYS))
    else:
        names = [name for name in map(str, node) if name != "_target_"]
        message = unknown_key(key, nearest(key.removeprefix(f"{group}."), names, f"{group}."), node.get("_target_"))
    if dot and any(word.startswith(f"{PACKAGE}=") for word in line.overrides):
        # Hydra checks the keys of the default options, not of the options that an experiment's blocks choose
        message = f"{message.removesuffix('.')} Where the experiment's own options have it, write +{key}=VALUE."
    return message


def _is_csv_option(name: str) -> bool:
    from dpml.data.sets.csv import CSV  # here, as it loads pandas

    return name in {each.name for each in fields(CSV)}


def _group(group: str, line: Line) -> DictConfig | None:
    """Return the keys of a group by this line's choices, or None if there are none or the line has another mistake."""
    choices = [word for word in line.overrides if word.partition("=")[0] in _CHOSEN]
    try:
        node = OmegaConf.select(compose(choices, line.config_dir, hydra_too=True), group)
    except Exception:
        return None
    return node if isinstance(node, DictConfig) else None
