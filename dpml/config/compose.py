"""Compose a configuration from files such as conf/algo/capefm.yaml, which Hydra loads, and from user settings."""

import pickle
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf

from dpml import packs
from dpml.config import experiments
from dpml.config.build import GROUPS, KEYS, LISTED, completed
from dpml.config.experiments import PACKAGE, natural
from dpml.config.words import word_of
from dpml.errors import UserError, nearest
from dpml.files import shipped_folder

VERSION_BASE: dict[str, Any] = {"version_base": "1.3"} if hydra.__version__.startswith("1.3.") else {}
"""Hydra 1.3 warns if this argument is missing, and Hydra 1.4 warns if it is there."""


@lru_cache(maxsize=4096)
def parsed(word: str) -> Override:
    """Parse a command-line argument KEY=VALUE as one of Hydra's overrides."""
    try:
        return OverridesParser.create().parse_overrides([word])[0]
    except OverrideParseException:
        chosen = next((group for group in GROUPS if word in options(group)), None)
        how = "KEY=VALUE, with quotes around special characters" if chosen is None else f"{chosen}={word}"
        raise UserError(f"cannot read the override {word!r}: write {how}.") from None


def options(group: str, config_dir: Path | None = None) -> list[str]:
    """Return the names of all options of a group such as `algo`, from dpml, papers' folders and `config_dir`."""
    if group == PACKAGE:
        return sorted(experiments.names(config_dir), key=natural)
    folders = [folder / group for folder in (shipped_folder("conf"), *_added(config_dir))]
    files = [(folder, path) for folder in folders for path in folder.rglob("*.yaml")]
    return sorted({path.relative_to(folder).with_suffix("").as_posix() for folder, path in files}, key=natural)


def _added(config_dir: Path | None) -> list[Path]:
    if config_dir is None:
        return packs.options()
    if not config_dir.is_dir():
        raise UserError(f"--config-dir={config_dir} is not a folder.")
    if (folder := str(config_dir.resolve())) not in sys.path:
        sys.path.append(folder)
    return [*packs.options(), config_dir]


def unknown_option(group: str, name: str, choices: Collection[str]) -> str:
    """Return the error message about an unknown option of a group."""
    return f"unknown {group or 'configuration'} {name!r}" + (f": {nearest(name, choices)}" if choices else ".")


def check_option(group: str, name: str, config_dir: Path | None = None) -> None:
    """Raise UserError if a group of options has no option called `name`."""
    known = options(group, config_dir)
    if name not in known:
        raise UserError(unknown_option(group, name, known))


def option(group: str, name: str, config_dir: Path | None = None) -> dict[str, Any]:
    """Return the content of a file such as conf/algo/capefm.yaml, merged with the files in its ``defaults`` list."""
    node: Any = OmegaConf.load(_file(group, name, config_dir))
    if "defaults" in node:
        node = compose([f"+{group}@_option={name}"], config_dir).whole["_option"]
    content: Any = OmegaConf.to_container(node, resolve=True)
    return dict(content)


def brief(group: str, name: str, config_dir: Path | None = None) -> str:
    """Return the comment in the first line of an option's file, which describes the option, or an empty text."""
    line = _file(group, name, config_dir).read_text(encoding="utf-8").partition("\n")[0]
    return line.removeprefix("#").strip() if line.startswith("#") else ""


def _file(group: str, name: str, config_dir: Path | None) -> Path:
    check_option(group, name, config_dir)
    folders = (shipped_folder("conf"), *_added(config_dir))
    return next(path for folder in folders if (path := folder / group / f"{name}.yaml").is_file())


class Composed(NamedTuple):
    """A composed configuration."""

    values: dict[str, Any]  # plain values of all keys, without Hydra's own settings
    whole: DictConfig  # the configuration with Hydra's own settings


def compose(overrides: Iterable[str], config_dir: Path | None = None) -> Composed:
    """Compose the configuration of `dpml-run` from settings KEY=VALUE with one value each."""
    words = [parsed(word) for word in overrides]
    for word in words:
        if word.is_sweep_override():
            key, _, several = str(word.input_line).partition("=")
            listed = f", or write a list, {key}=[{several}]" if key in LISTED and ".." not in several else ""
            raise UserError(f"'{key}={several}' has several values: add -m to dpml-run to sweep over them{listed}.")
    chosen = [word for word in words if _is_choice(word, config_dir)]
    for word in chosen:
        if word.key_or_group in GROUPS:
            check_option(word.key_or_group, str(word.get_value_element_as_str()).strip("'\""), config_dir)
    inputs, added = tuple(str(word.input_line) for word in chosen), _added(config_dir)
    # only dpml's own files are cached: files of packs and users can change between two calls
    config: DictConfig = _by_hydra([search_path(added), *inputs]) if added else pickle.loads(_kept(inputs))
    # set a class (algo._target_) first: it replaces all keys of its group, such as algo.lam
    for word in sorted(words, key=lambda word: not word.key_or_group.endswith("._target_")):
        key = word.key_or_group
        if word.is_delete():
            del _holder(config, key)[key.rpartition(".")[2]]
        elif word not in chosen:
            set_value(config, key, word.value(), word.is_add() or word.is_force_add())
    own: Any = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    values: Any = OmegaConf.to_container(own, resolve=True)
    return Composed(values, config)


def _is_choice(word: Override, config_dir: Path | None) -> bool:
    key = word.key_or_group
    if word.is_delete() or "." in key:
        return False
    return key in GROUPS or "/" in key or word.package is not None or (word.is_add() and bool(options(key, config_dir)))


@lru_cache(maxsize=64)
def _kept(words: tuple[str, ...]) -> bytes:
    return pickle.dumps(_by_hydra(words))  # a deep copy takes six times as long as reading a pickle


def search_path(folders: Iterable[Path]) -> str:
    """Return the Hydra override that adds folders to the places where Hydra looks for options."""
    return word_of("hydra.searchpath", [f"file://{folder.resolve()}" for folder in folders])


def _by_hydra(words: Sequence[str]) -> DictConfig:
    with _initialised(), user_errors():
        config = hydra.compose("config", list(words), return_hydra_config=True)
    OmegaConf.set_struct(config, False)
    OmegaConf.set_readonly(config.hydra, False)
    for group in GROUPS:
        if isinstance(config.get(group), DictConfig):
            config[group] = completed(config[group])
    return config


@contextmanager
def _initialised() -> Iterator[None]:
    theirs = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(shipped_folder("conf")), **VERSION_BASE):
            yield
    finally:
        GlobalHydra.instance().hydra = theirs


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn an error of Hydra into a UserError with one sentence."""
    try:
        yield
    except HydraException as error:
        message = " ".join(str(error).split()).removesuffix(".") + "."
        if isinstance(error, MissingConfigException) and error.missing_cfg_file:
            group, _, name = error.missing_cfg_file.rpartition("/")
            message = unknown_option(group, name, error.options or ())
        raise UserError(message) from None


def set_value(config: DictConfig, key: str, value: Any, add: bool) -> None:
    """Set the value of a key; unless `add` is true, raise UserError if the configuration does not have the key."""
    if not add:
        _holder(config, key)
    group, _, last = key.partition(".")
    if group in GROUPS and last == "_target_":
        config[group] = completed(OmegaConf.create({last: value}))
    else:
        OmegaConf.update(config, key, value, merge=isinstance(value, dict), force_add=True)


def _holder(config: DictConfig, key: str) -> DictConfig:
    node: Any = config
    holder, names = config, key.split(".")
    for depth, name in enumerate(names):
        if not isinstance(node, DictConfig) or name not in node:
            raise UserError(_unknown(node, key, name, ".".join(names[:depth])))
        holder, node = node, node[name]
    return holder


def _unknown(node: Any, key: str, name: str, parent: str) -> str:
    if parent == "dataset":
        from dpml.data.sets.csv import CSV  # loads pandas

        if name in {each.name for each in fields(CSV)}:
            return f"unknown key {key!r}: it is an option of dataset=csv, so add dataset=csv."
    if not parent:
        return f"unknown key {key!r}: {nearest(key, KEYS)}"
    names = [str(each) for each in node if each != "_target_"] if isinstance(node, DictConfig) else []
    return f"unknown key {key!r}: {nearest(name, names, f'{parent}.')}"
