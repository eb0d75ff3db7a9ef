"""Hydra's own sweeper and launcher, but jobs that differ in values only are composed once (`config.alike`).

`register` puts ours in the place of Hydra's sweeper, under its name. It does as that does if anything is asked for that
only Hydra's launcher does: another launcher, a callback, environment variables, a working folder or a log of each job.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from dpml.config.alike import Alike, parsed

_REPLACED = "hydra._internal.core_plugins.basic_sweeper"
_CHOSEN = ["basic", "disabled", "disabled"]  # of Hydra's options, unless the user chooses others
_CALLBACKS = ["sweep_folder"]  # in conf/config.yaml
_SUBDIR = "${hydra:job.num}"  # there, too


def register() -> None:
    """Have Hydra sweep by its own sweeper with the methods of `Planning`.

    They are put together anew every time: whoever makes Hydra look for plug-ins runs its modules again, and so makes
    other classes of them. Hydra takes the class by its name, `Sweeper` of this module.
    """
    known = Plugins.instance().class_name_to_class
    kind = type("Sweeper", (Planning, import_module(_REPLACED).BasicSweeper), {"__module__": __name__})
    globals()["Sweeper"] = known[f"{_REPLACED}.BasicSweeper"] = kind


class Planning:
    """A launcher that plans jobs instead of running them; in front of Hydra's own sweeper."""

    launcher: Any

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        settings = {"hydra_context": hydra_context, "task_function": task_function, "config": config}
        super().setup(**settings)  # type: ignore[misc]
        if _is_plain(config.hydra):
            self.launcher = Planned()
            self.launcher.setup(hydra_context=hydra_context, task_function=task_function, config=config)

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Compose every job, before the first one runs: of planned jobs, none runs before all are composed."""
        if not isinstance(self.launcher, Planned):
            super().validate_batch_is_legal(batch)  # type: ignore[misc]


def _is_plain(settings: Any) -> bool:
    job, chosen = settings.job, settings.runtime.choices
    ours = [chosen[f"hydra/{group}"] for group in ("launcher", "job_logging", "hydra_logging")] == _CHOSEN
    asked = [job.chdir, job.env_set, job.env_copy, settings.verbose]
    return ours and not any(asked) and list(settings.callbacks) == _CALLBACKS


class Planned(Launcher):
    """Calls the task function with the configuration of every job and a function that writes the job's ``.hydra``."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        loader = hydra_context.config_loader
        given: Any = OmegaConf.to_container(config.hydra.overrides.hydra)
        self._add: Any = task_function
        self._compose = Alike(
            partial(loader.load_sweep_config, config),
            lambda key: bool(loader.get_group_options(key, None, config.hydra.job.config_name, given)),
        )
        self._without_hydra = Alike(lambda words: _split(self._compose(words))[1], self._compose.is_group)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        setup_globals()
        for number, words in enumerate(job_overrides, initial_job_idx):
            with self._settings(self._compose(words, shared=True), words, number):
                self._add(self._without_hydra(words), partial(self._keep, words, number))
        return []

    @contextmanager
    def _settings(self, config: DictConfig, words: Sequence[str], number: int) -> Iterator[None]:
        """Number a job in its configuration, whose part of Hydra is what ``${hydra:KEY}`` and `HydraConfig` give."""
        before = HydraConfig.instance().cfg
        HydraConfig.instance().cfg = config  # type: ignore[assignment]
        own = config.hydra
        try:
            with read_write(own), open_dict(own):
                own.overrides.task = list(words)
                own.job.id = own.job.num = number
                own.job.override_dirname = _dirname(words, own.job.config.override_dirname)
                given = OmegaConf.to_container(own.sweep)["subdir"]  # type: ignore[call-overload, index]
                subdir = number if given == _SUBDIR else own.sweep.subdir  # reading it takes longer than all above
                own.runtime.output_dir = str(Path(str(own.sweep.dir), str(subdir)).absolute())
            yield
        finally:
            HydraConfig.instance().cfg = before

    def _keep(self, words: Sequence[str], number: int) -> None:
        config = self._compose(words)
        with self._settings(config, words, number):
            if config.hydra.output_subdir is None:
                return
            folder = Path(config.hydra.runtime.output_dir) / config.hydra.output_subdir
            folder.mkdir(parents=True, exist_ok=True)
            hydra, own = _split(config)
            for name, part in (("config", own), ("hydra", hydra), ("overrides", hydra.hydra.overrides.task)):
                (folder / f"{name}.yaml").write_text(OmegaConf.to_yaml(part), "utf-8")


def _split(config: DictConfig) -> tuple[DictConfig, DictConfig]:
    hydra = OmegaConf.masked_copy(config, "hydra")
    with read_write(config), open_dict(config):
        del config["hydra"]
    return hydra, config


def _dirname(words: Sequence[str], form: Any) -> str:
    named = sorted(word for word in words if parsed(word).key_or_group not in form.exclude_keys)
    return str(form.item_sep).join(named).replace("=", str(form.kv_sep))
