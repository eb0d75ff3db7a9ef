"""Hydra's access to ``conf`` and ``experiments``."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.config_store import ConfigNode, ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigSource
from omegaconf import Container, DictConfig, OmegaConf

from dpml import packs
from dpml.config.build import GROUPS, class_of
from dpml.config.docstrings import meanings
from dpml.config.readers import READERS, read_once
from dpml.errors import UserError
from dpml.files import shipped_folder

PACKAGE = "experiment"
"""The key that holds an experiment's content."""


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts fig2 before fig10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


class _LazyNode(ConfigNode):
    """An experiment, or a list of them, read only when Hydra needs it: reading all files takes seconds."""

    def __init__(self, name: str, group: str, make: Callable[[], Container]) -> None:
        self.name, self.group, self.make = name, group, make
        self.package, self.provider = PACKAGE, "experiments"

    def __getattr__(self, name: str) -> Any:
        if name == "node":
            return self.make()
        raise AttributeError(name)

    def __deepcopy__(self, memo: Any) -> "_LazyNode":
        return self  # Hydra copies the whole store more than once


class _Group(dict[str, ConfigNode]):
    """The experiments of a paper. Templates, whose names start with ``_``, are found by name but not listed."""

    def keys(self) -> Any:
        return [name for name in self if not name.startswith("_")]


def register_experiments() -> None:
    """Register ``PAPER/NAME.yaml`` of experiments and packs as ``experiment=PAPER/NAME``, or as a template for them."""
    _register((*shipped_folder("experiments").glob("[!_.]*/"), *packs.known().values()))


@lru_cache(maxsize=1)  # Hydra's store is one for the process
def _register(folders: Iterable[Path]) -> None:
    groups = ConfigStore.instance().repo[PACKAGE] = {}
    names: dict[str, list[str]] = {"all": []}
    files = {path for folder in folders for path in folder.glob("*.yaml") if path.name != packs.CARD}
    for path in sorted(files, key=lambda path: natural(f"{path.parent.name}/{path.stem}")):
        of_paper = groups.setdefault(path.parent.name, _Group())
        of_paper[path.name] = _LazyNode(path.name, f"{PACKAGE}/{path.parent.name}", partial(_experiment, path))
        if not path.name.startswith("_"):  # a template
            for several in (path.parent.name, "all"):
                names.setdefault(several, []).append(f"{path.parent.name}/{path.stem}")
    for several, members in names.items():
        name = f"{several}.yaml"
        groups[name] = _LazyNode(name, PACKAGE, partial(OmegaConf.create, {"experiments": members}))


def _experiment(path: Path) -> Container:
    """Return the content of an experiment's file, read once as many share a template."""
    state = path.stat()
    content: Container = read_once((path, state.st_mtime_ns, state.st_size), partial(_read, path))
    return content


def _read(path: Path) -> Container:
    content = OmegaConf.load(path)
    if not re.search(r"\s\.[A-Za-z_]\w*\.|\[\.[A-Za-z_]\w*\.", path.read_text("utf-8")):
        return content  # conversion takes longer than reading
    return OmegaConf.create(_with_absolute_names(OmegaConf.to_container(content), path.parent.name))


def _with_absolute_names(content: Any, pack: str) -> Any:
    if isinstance(content, dict):
        return {key: _with_absolute_names(value, pack) for key, value in content.items()}
    if isinstance(content, list):
        return [_with_absolute_names(value, pack) for value in content]
    return packs.absolute(content, pack) if isinstance(content, str) else content


def register_options() -> dict[str, type[ConfigSource]]:
    """Register `READERS` with Hydra, and return its readers so far."""
    Plugins.instance()  # makes Hydra register its own
    readers = SourcesRegistry.instance().types
    before = dict(readers)
    readers |= READERS
    OmegaConf.register_new_resolver("dpml.meanings", _meanings, replace=True)
    return before


def _meanings(*, _root_: DictConfig) -> str:
    lines: list[str] = []
    for group in GROUPS:
        node = _root_[group]
        with suppress(UserError):  # the class does not exist
            keys = [key for key in node if key != "_target_"]
            lines += meanings(group, class_of(node.get("_target_"), group), keys)
    return "\n".join(lines).replace("$", "$$")  # Hydra fills in "$"


def experiments_of(config: DictConfig) -> list[str]:
    """Return the experiments selected by ``experiment=PAPER`` or ``experiment=all``; empty for a single experiment."""
    return list(config[PACKAGE].get("experiments", ()))


@contextmanager
def initialise() -> Iterator[None]:
    """Enter a context in which `hydra.compose` finds dpml's configuration; Hydra's state is restored afterwards."""
    register_experiments()
    theirs, their_readers = GlobalHydra.instance().hydra, register_options()
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(shipped_folder("conf")), version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = theirs
        SourcesRegistry.instance().types |= their_readers


def compose(overrides: Iterable[str], config_dir: Path | None = None, hydra_too: bool = False) -> DictConfig:
    """Return the configuration of `dpml-run` for `overrides`, with the user's own options in `config_dir`.

    `hydra_too` keeps Hydra's own settings, under ``hydra``.
    """
    searchpath = []
    if config_dir is not None:
        path = str(existing(config_dir).resolve()).replace("\\", "\\\\").replace("'", "\\'")
        searchpath = [f"hydra.searchpath=['file://{path}']"]
    with initialise():
        return hydra.compose("config", overrides=[*searchpath, *overrides], return_hydra_config=hydra_too)


def existing(config_dir: Path) -> Path:
    """Return the folder of the user's own options, or raise UserError if it does not exist."""
    if not config_dir.is_dir():
        raise UserError(f"--config-dir={config_dir} is not a folder.")
    return config_dir


def options(group: str, config_dir: Path | None = None) -> list[str]:
    """Return the options of a configuration group: those of dpml, and the user's own in `config_dir`."""
    folders = [shipped_folder("conf") / group, *([config_dir / group] if config_dir else [])]
    files = [(folder, path) for folder in folders for path in folder.rglob("*.yaml")]
    names = {path.relative_to(folder).with_suffix("").as_posix() for folder, path in files}
    if group == PACKAGE:
        register_experiments()
        papers = {key: group for key, group in ConfigStore.instance().repo[PACKAGE].items() if isinstance(group, dict)}
        figures = [(paper, Path(file).stem) for paper, group in papers.items() for file in group]
        names |= {"all", *papers, *(f"{paper}/{name}" for paper, name in figures if not name.startswith("_"))}
    return sorted(names, key=natural)
