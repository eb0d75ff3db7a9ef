"""The data sets of `dataset=NAME`: one YAML file each, in conf/dataset or in the user's own folder."""

from pathlib import Path

from hydra.errors import MissingConfigException
from omegaconf import OmegaConf

from dpml.config.build import instantiate
from dpml.config.compose import compose, existing, options
from dpml.data import Source
from dpml.errors import UserError, nearest
from dpml.files import shipped_folder

READERS = {"csv"}
"""Options of `dataset` that read a file named on the command line: without one, there is no data set to list."""


def sources(config_dir: Path | None = None) -> dict[str, Source]:
    """Return every data set except `READERS` by name, including those in ``config_dir/dataset``."""
    return {name: source(name, config_dir) for name in options("dataset", config_dir) if name not in READERS}


def source(name: str, config_dir: Path | None = None) -> Source:
    """Return the data set called `name`."""
    file = f"dataset/{name}.yaml"
    ours, theirs = shipped_folder("conf") / file, config_dir and existing(config_dir) / file
    try:
        if ours.is_file() and not (theirs and theirs.is_file()):  # Hydra would give the same, slowly
            config = OmegaConf.create({"dataset": OmegaConf.load(ours)})
        else:
            config = compose([f"dataset={name}"], config_dir)
    except MissingConfigException:
        raise UserError(f"unknown data set {name!r}: {nearest(name, options('dataset', config_dir))}") from None
    try:
        dataset: Source = instantiate(config.dataset, "dataset")
    except UserError as error:
        raise UserError(f"data set {name!r}: {error}") from error
    return dataset
