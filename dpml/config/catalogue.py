"""Find data sets by name: each has a YAML file in conf/dataset or in the user's own folder."""

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from dpml.config.build import instantiate
from dpml.config.compose import check_option, compose, options
from dpml.data import Source
from dpml.errors import UserError
from dpml.files import shipped_folder

READERS = {"csv"}
"""Options of `dataset` that read a file of the user's: they are not data sets that can be listed."""


def sources(config_dir: Path | None = None) -> dict[str, Source]:
    """Return every data set except `READERS` by name, including those in ``config_dir/dataset``."""
    return {name: source(name, config_dir) for name in options("dataset", config_dir) if name not in READERS}


def source(name: str, config_dir: Path | None = None) -> Source:
    """Return the data set called `name`."""
    check_option("dataset", name, config_dir)
    shipped = shipped_folder("conf") / f"dataset/{name}.yaml"
    # Hydra is slow, so it reads only the files from outside dpml
    shipped_node: Any = OmegaConf.to_container(OmegaConf.load(shipped)) if shipped.is_file() else None
    node = shipped_node or compose([f"dataset={name}"], config_dir).values["dataset"]
    try:
        dataset: Source = instantiate(node, "dataset")
    except UserError as error:
        raise UserError(f"data set {name!r}: {error}") from None
    return dataset
