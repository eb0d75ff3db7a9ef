"""Hydra's readers of configuration, which read what comes with dpml and with Hydra once in a process.

Hydra reads all files anew for every configuration, and copies its readers with all that is registered: a third of the
time. Each reader has the name of Hydra's own, beside which Hydra registers no other: not in the processes of a
launcher, either.
"""

import pickle
from collections.abc import Callable
from typing import Any

from hydra._internal.core_plugins import file_config_source, importlib_resources_config_source, structured_config_source
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig

from dpml import paths
from dpml.config.build import GROUPS, completed

_READ: dict[tuple[object, ...], bytes] = {}  # pickled, because Hydra changes what it is given


def read_once(name: tuple[object, ...], read: Callable[[], Any]) -> Any:
    """A fresh copy of what `read` returned for this name the first time."""
    if name not in _READ:
        _READ[name] = pickle.dumps(read())
    return pickle.loads(_READ[name])


class _Shared(ConfigSource):
    """A reader is a place, which nothing changes: Hydra need not copy it."""

    def __deepcopy__(self, memo: Any) -> "_Shared":
        return self


class FileConfigSource(_Shared, file_config_source.FileConfigSource):
    """Adds to an option what its file leaves to its class."""

    def load_config(self, config_path: str) -> ConfigResult:
        place = paths.folder("conf")
        file = place / self._normalize_file_name(config_path)
        if self.path != str(place) or not file.is_file():
            return self._read(config_path)
        seen = file.stat()
        name = (self.path, self.provider, config_path, seen.st_mtime_ns, seen.st_size)
        found: ConfigResult = read_once(name, lambda: self._read(config_path))
        return found

    def _read(self, config_path: str) -> ConfigResult:
        result = super().load_config(config_path)
        if config_path.partition("/")[0] in GROUPS and isinstance(result.config, DictConfig):
            result.config = completed(result.config)
        return result


class ImportlibResourcesConfigSource(_Shared, importlib_resources_config_source.ImportlibResourcesConfigSource):
    """Reads files of installed packages."""

    def load_config(self, config_path: str) -> ConfigResult:
        read = super().load_config
        found: ConfigResult = read_once((self.path, self.provider, config_path), lambda: read(config_path))
        return found


class StructuredConfigSource(_Shared, structured_config_source.StructuredConfigSource):
    """Reads what is registered."""


READERS: dict[str, type[ConfigSource]] = {
    each.scheme(): each for each in (FileConfigSource, ImportlibResourcesConfigSource, StructuredConfigSource)
}
