"""The data sets that `dataset=NAME` can name: one YAML file each, in conf/dataset."""

from typing import Any

import hydra
from omegaconf import OmegaConf

from dpml import where
from dpml.data import Source
from dpml.errors import UserError, nearest


def sources() -> dict[str, Source]:
    """Every data set, by name, with the options of its YAML file."""
    found = {}
    for path in sorted(where.folder("conf").joinpath("dataset").iterdir(), key=lambda path: path.name):
        name, _, kind = path.name.rpartition(".")
        if kind == "yaml":
            options: Any = OmegaConf.to_container(OmegaConf.create(path.read_text(encoding="utf-8")))
            target = hydra.utils.get_class(options.pop("_target_"))
            values = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
            found[name] = target(**values)
    return found


def source(name: str) -> Source:
    """The data set called `name`.

    Raises:
        UserError: there is none.
    """
    known = sources()
    if name not in known:
        raise UserError(f"unknown data set {name!r}: {nearest(name, known)}")
    return known[name]
