"""Find data sets by name: each has a YAML file in conf/dataset or in the user's own folder."""

from pathlib import Path

from dpml.config.build import instantiate
from dpml.config.compose import option, options
from dpml.data import Source
from dpml.errors import UserError

READERS = {"csv"}
"""Options of `dataset` that read a file of the user's: they are not data sets that can be listed."""


def sources(config_dir: Path | None = None) -> dict[str, Source]:
    """Return all data sets by name: the data sets of dpml, and the user's data sets in ``config_dir/dataset``."""
    return {name: source(name, config_dir) for name in options("dataset", config_dir) if name not in READERS}


def source(name: str, config_dir: Path | None = None) -> Source:
    """Return the data set called `name`."""
    node = option("dataset", name, config_dir)
    try:
        dataset: Source = instantiate(node, "dataset")
    except UserError as error:
        raise UserError(f"data set {name!r}: {error}") from None
    return dataset
