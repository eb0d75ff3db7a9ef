"""Mistakes in Hydra overrides, as one sentence."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dpml.config.build import KEYS
from dpml.config.compose import compose, options
from dpml.errors import nearest

_GROUPS = ("dataset", "partition", "algo", "experiment")


class Line(NamedTuple):
    """The input that Hydra got: overrides, and the user's own folder of options. Hydra's errors contain neither."""

    overrides: Sequence[str]
    config_dir: Path | None = None


def sentence(error: Exception, line: Line | None) -> str | None:
    """The meaning of a Hydra exception and the remedy; None for any other one. `line` None: this process's own."""
    if isinstance(error, HydraException | OmegaConfBaseException):
        return _of_configuration(error, line or _command_line())
    if isinstance(error, ValueError) and str(error).startswith("Config group override must be"):
        return _of_groups(line or _command_line())
    return None


def _of_configuration(error: Exception, line: Line) -> str:
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _of_option(error.missing_cfg_file, error.options or (), line)
    if isinstance(error, OverrideParseException):
        return f"cannot read the override {error.override!r}: write KEY=VALUE, with quotes around special characters."
    if isinstance(error, ConfigCompositionException):
        unknown = re.search(r"Could not (?:override|append|delete|add) '([^']+)'", str(error))
        if unknown:
            return _of_groups(line) if unknown[1] in _GROUPS else _of_key(unknown[1], line)
        several = re.search(r"Ambiguous value for argument '([^']+)'", str(error))
        if several:
            return f"{several[1]!r} has several values: add -m to sweep over them, or write a list, KEY=[A,B]."
    return " ".join(str(error).split()).removesuffix(".") + "."


def _of_option(path: str, beside: Sequence[str], line: Line) -> str:
    """There is no option GROUP/NAME, either of which may contain slashes; `beside` are the options that exist."""
    groups = [word.partition("=")[0].lstrip("+") for word in line.overrides]
    group = next((key for key in groups if path.startswith(f"{key}/")), path.rpartition("/")[0])
    return _unknown(group, path.removeprefix(f"{group}/"), beside, line)


def _of_groups(line: Line) -> str:
    """A group got a value that is not a name, or a group was used as if it were a key."""
    for word in line.overrides:
        group, _, name = word.lstrip("+").partition("=")
        if group in _GROUPS and name not in options(group, line.config_dir):
            return _unknown(group, name, (), line)
    return f"{', '.join(_GROUPS)} are chosen by name, GROUP=NAME."


def _unknown(group: str, name: str, beside: Sequence[str], line: Line) -> str:
    known = (options(group, line.config_dir) if group else []) or beside
    return f"unknown {group or 'configuration'} {name!r}" + (f": {nearest(name, known)}" if known else ".")


def _of_key(key: str, line: Line) -> str:
    sentence = f"unknown key {key!r}: {nearest(key, _keys_beside(key, line))}"
    if "." in key and any(word.startswith("experiment=") for word in line.overrides):
        # Hydra knows only the keys of the default options, not of the options that an experiment's blocks choose
        sentence = f"{sentence.removesuffix('.')} Where the experiment's own options have it, write +{key}=VALUE."
    return sentence


def _keys_beside(key: str, line: Line) -> list[str]:
    """The keys of the group that contains `key`, composed from this command line's choices, or the top-level keys."""
    group, dot, _ = key.rpartition(".")
    if not dot:
        return KEYS
    choices = [word for word in line.overrides if word.partition("=")[0] in _GROUPS]
    try:
        node = OmegaConf.select(compose(choices, line.config_dir, hydra_too=True), group)
        return [f"{group}.{name}" for name in node if name != "_target_"]
    except Exception:  # a second mistake on the same line: use the top-level keys
        return KEYS


def _command_line() -> Line:
    """The overrides that this process was started with."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd", type=Path)
    known, words = parser.parse_known_args(sys.argv[1:])
    # the words of a command, such as `data partition`, are not overrides
    return Line([word for word in words if "=" in word and not word.startswith("-")], known.config_dir)
