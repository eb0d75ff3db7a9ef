"""The data sets that `dataset=NAME` can name: one YAML file each, in conf/dataset or in a folder of the user's own."""

import json
from pathlib import Path

import hydra
from hydra.core.global_hydra import GlobalHydra

from dpml.config.build import instantiate
from dpml.config.compose import initialise
from dpml.data import Source
from dpml.errors import UserError, nearest


def sources(config_dir: Path | None = None) -> dict[str, Source]:
    """Every data set, by name, with the options of its YAML file; those in ``config_dir/dataset`` among them.

    Raises:
        UserError: there is no such folder, or a file in it describes no data set.
    """
    with initialise():
        return {name: _source(name, config_dir) for name in _names(config_dir)}


def source(name: str, config_dir: Path | None = None) -> Source:
    """The data set called `name`.

    Raises:
        UserError: there is none, or its file describes no data set.
    """
    with initialise():
        names = _names(config_dir)
        if name not in names:
            raise UserError(f"unknown data set {name!r}: {nearest(name, names)}")
        return _source(name, config_dir)


def _names(config_dir: Path | None) -> list[str]:
    """The options of `dataset` on Hydra's search path, in alphabetic order."""
    if config_dir is not None and not config_dir.is_dir():
        raise UserError(f"there is no folder {config_dir}: --config-dir takes one that holds dataset/NAME.yaml.")
    loader = GlobalHydra.instance().config_loader()
    return sorted(loader.get_group_options("dataset", config_name="config", overrides=_search_path(config_dir)))


def _source(name: str, config_dir: Path | None) -> Source:
    config = hydra.compose("config", overrides=[*_search_path(config_dir), f"dataset={name}"])
    try:
        source: Source = instantiate(config.dataset, "dataset")
    except UserError as error:
        raise UserError(f"data set {name!r}: {error}") from error
    return source


def _search_path(config_dir: Path | None) -> list[str]:
    """The override that makes Hydra look into `config_dir` too, as `dpml-run --config-dir` does."""
    return (
        []
        if config_dir is None
        else [f"hydra.searchpath=[{json.dumps(f'file://{config_dir.resolve()}', ensure_ascii=False)}]"]
    )
