"""Hydra's view of ``conf`` and ``experiments``."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigNode, ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from dpml import where

PACKAGE = "experiment"
"""The key under which an experiment's content is found."""


class _Lazy:
    """A file that is read when Hydra copies the node, and only then: reading all of them takes seconds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __deepcopy__(self, memo: Any) -> Any:
        return OmegaConf.load(self.path)


def register_experiments() -> None:
    """Make ``experiments/PAPER/NAME.yaml`` the option ``experiment=PAPER/NAME``."""
    groups = ConfigStore.instance().repo.setdefault(PACKAGE, {})
    root = where.folder("experiments")
    for path in sorted(root.glob("*/*.yaml")):
        group = groups.setdefault(path.parent.name, {})
        node: Any = _Lazy(path)
        group[path.name] = ConfigNode(path.name, node, f"{PACKAGE}/{path.parent.name}", PACKAGE, "experiments")


def compose(overrides: Iterable[str]) -> DictConfig:
    """The configuration that `dpml-run` would compose from `overrides`."""
    register_experiments()
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(where.folder("conf")), version_base="1.3"):
        return hydra.compose("config", overrides=list(overrides))
