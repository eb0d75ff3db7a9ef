"""From settings to cells: lists are crossed, equal objects are built once, many draws become several cells."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

import hydra
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from dpml.algorithms import Algorithm
from dpml.config.alike import parsed
from dpml.config.build import (
    GROUPS,
    budget,
    build_adversary,
    build_algorithm,
    build_partition,
    files,
    grid,
    instantiate,
    optional,
    text,
    whole,
)
from dpml.data import Files, Source
from dpml.errors import UserError
from dpml.running.cell import Cell
from dpml.running.metrics import named
from dpml.running.spec import SETTINGS, Experiment, is_computed, parts

DRAWS = 10_000  # per cell at most, so that a run of many draws shows progress, can be interrupted, and fits into memory

_SHARED = ("eps", "delta")  # one fit serves all values of these
_CROSSED = ("N", "M", "seed")  # of a plain run


@dataclass(frozen=True)
class Point:
    """One combination of a block's settings: its cell, or a sentence with the reason why there is none."""

    block: str
    settings: Mapping[str, Any]
    cell: Cell | None
    reason: str | None = None


@dataclass(frozen=True)
class Expansion:
    """Turns blocks of settings into points, on top of a composed configuration; `overrides` override blocks."""

    config: Mapping[str, Any]
    overrides: Mapping[str, Any]
    _built: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_config(cls, config: DictConfig, words: Iterable[str]) -> "Expansion":
        """Build an expansion from the composed configuration and the command line's `words`."""
        chosen = {word.key_or_group: word.value() for word in map(parsed, words)}
        plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
        return cls(plain, {key: value for key, value in chosen.items() if key.split(".")[0] in SETTINGS})

    def without(self, key: str) -> "Expansion":
        """The same expansion without one override."""
        return replace(self, overrides={name: value for name, value in self.overrides.items() if name != key})

    @cached_property
    def files(self) -> Files:
        """The location of the data, as a path that is valid in every worker."""
        configured = files(self.config)
        return replace(configured, data_dir=str(configured.chosen.resolve()) if configured.chosen else None)

    def run(self) -> list[Point]:
        """The points of the configuration itself, as one block."""
        shared = {key: self.config[key] for key in _SHARED}
        axes = {key: _values(self.config[key], key) for key in _CROSSED}
        points = []
        for combination in product(*axes.values()):
            settings = dict(zip(axes, combination, strict=True))
            points += [Point("run", {**self.overrides, **settings}, cell) for cell in self._cells(settings, shared, {})]
        return points

    def experiment(self, experiment: Experiment) -> list[Point]:
        """Every combination of every block of an experiment, in the file's order."""
        overrides = {key: value for key, value in self.overrides.items() if key != "metrics"}  # set by the file
        blocks = [
            (name, {**_kept({**experiment.settings, **part}, overrides), **overrides})
            for name, block in experiment.grid.items()
            if not is_computed(block)
            for part in parts(block)
        ]
        options = _options(
            {(group, name) for _, block in blocks for group in GROUPS for name in _list(block.get(group, ()))}
        )
        further = [name for name in experiment.shown_metrics if "." in name]
        points = []
        for name, block in blocks:
            axes = {key: _values(value, key) for key, value in block.items() if key not in (*_SHARED, "metrics")}
            shared = {key: block.get(key, self.config[key]) for key in _SHARED}
            metrics = _list(block.get("metrics", further))
            for combination in product(*axes.values()):
                settings = dict(zip(axes, combination, strict=True))
                try:
                    cells = list(self._cells({"metrics": metrics, **settings}, shared, options))
                except UserError as error:
                    points.append(Point(name, settings, None, str(error)))
                else:
                    points += [Point(name, settings, cell) for cell in cells]
        return points

    def _cells(
        self, settings: Mapping[str, Any], shared: Mapping[str, Any], options: Mapping[tuple[str, str], Any]
    ) -> Iterator[Cell]:
        config = {**self.config, **{key: value for key, value in settings.items() if key in SETTINGS}}
        for group in GROUPS:
            if group in settings:
                if (group, settings[group]) not in options:
                    raise UserError(f"there is no {group}={settings[group]} here yet.")
                config[group] = dict(options[group, settings[group]])
            config[group] = {**config[group], **_under(group, settings)}
        adversary = {**config["adversary"], **_under("adversary", settings)}
        dataset: Source = self._once("dataset", config["dataset"])
        algorithm = self._algorithm(config, dataset)
        budgets = product(*(_values(shared[key], key) for key in _SHARED))
        metrics = tuple(_list(config["metrics"] or ()))
        for path in metrics:
            named(text(path, "metrics"))  # raises an error if it is not callable
        draws = whole(config["draws"], "draws")
        cell = Cell(
            dataset=dataset,
            partition=build_partition(self._once("partition", config["partition"]), algorithm),
            algorithm=algorithm,
            M=whole(config["M"], "M"),
            N=optional(whole)(config["N"], "N"),
            seed=whole(config["seed"], "seed"),
            budgets=tuple(budget(eps, delta) for eps, delta in budgets),
            draws=min(draws, DRAWS),
            adversary=build_adversary(adversary),
            metrics=metrics,
            files=self.files,
        )
        yield cell
        for first in range(DRAWS, draws, DRAWS):
            yield replace(cell, first=first, draws=min(draws - first, DRAWS))

    def _algorithm(self, config: Mapping[str, Any], dataset: Source) -> Algorithm:
        node = {key: config[key] for key in ("algo", "loss", "calibration")}
        name = json.dumps([node, dataset.info.task])
        if name not in self._built:
            self._built[name] = build_algorithm(node, dataset)
        algorithm: Algorithm = self._built[name]
        return algorithm

    def _once(self, key: str, node: Mapping[str, Any]) -> Any:
        name = json.dumps([key, node])
        if name not in self._built:
            self._built[name] = instantiate(node, key)
        return self._built[name]


_composed: WeakKeyDictionary[Any, dict[tuple[str, str], dict[str, Any]]] = WeakKeyDictionary()  # by their Hydra


def _options(wanted: set[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the options of configuration groups; options that do not exist are left out."""
    loader = GlobalHydra.instance().config_loader()
    options = _composed.setdefault(GlobalHydra.instance().hydra, {})
    new = sorted(wanted - options.keys())
    names = {group: loader.get_group_options(group) for group in {group for group, _ in new}}  # reads the folder
    known = [(group, name) for group, name in new if name in names[group]]
    if known:
        words = [f"+{group}@_options.{group}.{name}={name}" for group, name in known]
        config = hydra.compose("config", overrides=words)
        options |= {
            (group, name): OmegaConf.to_container(config._options[group][name], resolve=True)  # type: ignore[misc]
            for group, name in known
        }
    return options


def _kept(settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's settings without those of its data set, if another data set takes its place."""
    return {key: value for key, value in settings.items() if "dataset" not in overrides or "dataset." not in key}


def _under(group: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key.split(".", 1)[1]: value for key, value in settings.items() if key.startswith(f"{group}.")}


def _values(value: Any, key: str) -> list[Any]:
    """One value, or the values of a list or a range without duplicates: the same setting twice is one setting."""
    items = grid(value, key, lambda item, _: item)
    try:
        return list(dict.fromkeys(items))  # there may be a hundred thousand seeds
    except TypeError:  # lists have no hash
        return [item for number, item in enumerate(items) if item not in items[:number]]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
