"""Hydra's readers of configuration, which read the files of dpml and of Hydra once in a process.

Hydra reads all files anew for every configuration, and copies its readers: a third of the time. Each reader has the
name of Hydra's own, so that Hydra registers no other reader for it, also in the processes of a launcher.
"""

import pickle
from collections.abc import Callable
from typing import Any

from hydra._internal.core_plugins import file_config_source, importlib_resources_config_source, structured_config_source
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig

from dpml.config.build import GROUPS, completed
from dpml.files import shipped_folder

_READ: dict[tuple[object, ...], bytes] = {}  # pickled, because Hydra changes configurations in place


def read_once(name: tuple[object, ...], read: Callable[[], Any]) -> Any:
    """Return a fresh copy of what `read` returned for this name the first time."""
    if name not in _READ:
        _READ[name] = pickle.dumps(read())
    return pickle.loads(_READ[name])


class _Shared(ConfigSource):
    """A reader that Hydra need not copy, as it does not change."""

    def __deepcopy__(self, memo: Any) -> "_Shared":
        return self


class FileConfigSource(_Shared, file_config_source.FileConfigSource):
    """Adds the defaults of an option's class to the content of its file."""

    def load_config(self, config_path: str) -> ConfigResult:
        place = shipped_folder("conf")
        file = place / self._normalize_file_name(config_path)
        if self.path != str(place) or not file.is_file():
            return self._read(config_path)
        state = file.stat()
        name = (self.path, self.provider, config_path, state.st_mtime_ns, state.st_size)
        result: ConfigResult = read_once(name, lambda: self._read(config_path))
        return result

    def _read(self, config_path: str) -> ConfigResult:
        result = super().load_config(config_path)
        if config_path.partition("/")[0] in GROUPS and isinstance(result.config, DictConfig):
            result.config = completed(result.config)
        return result


class ImportlibResourcesConfigSource(_Shared, importlib_resources_config_source.ImportlibResourcesConfigSource):
    """Reads files of installed packages."""

    def load_config(self, config_path: str) -> ConfigResult:
        read = super().load_config
        result: ConfigResult = read_once((self.path, self.provider, config_path), lambda: read(config_path))
        return result


class StructuredConfigSource(_Shared, structured_config_source.StructuredConfigSource):
    """Reads registered configurations."""


READERS: dict[str, type[ConfigSource]] = {
    each.scheme(): each for each in (FileConfigSource, ImportlibResourcesConfigSource, StructuredConfigSource)
}
