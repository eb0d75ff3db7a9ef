"""From settings to cells: lists are crossed, equal objects are built once, many draws become several cells."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal

from dpml.algorithms import Algorithm
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
from dpml.running.store import Record

DRAWS = 10_000  # per cell at most, so that a run of many draws shows progress, can be interrupted, and fits into memory
Status = Literal["cached", "skipped", "to run", "done", "failed"]
_SHARED = ("eps", "delta")  # one fit serves all values of these
Option = tuple[str, str]
"""The group and the name of an option."""


@dataclass
class Point:
    """One combination of a block's settings: its cell, or the `reason` why there is none, and what is known of it.

    Points with the same `key` have the same numbers.
    """

    block: str
    settings: Mapping[str, Any]
    cell: Cell | None
    reason: str = ""
    key: str = ""
    identity: Mapping[str, Any] = field(default_factory=dict)
    status: Status = "to run"
    record: Record | None = None
    damaged: bool = False

    @property
    def finished(self) -> bool:
        """Whether it has numbers."""
        return self.record is not None and self.record.skipped is None and self.status in ("cached", "done")

    def skip(self, reason: str) -> None:
        """Say why it cannot be computed."""
        self.status, self.reason = "skipped", reason


@dataclass(frozen=True)
class Expansion:
    """Turns blocks of settings into points, on top of a plain configuration, by the content of options."""

    config: Mapping[str, Any]
    options: Mapping[Option, Mapping[str, Any]]
    _built: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def files(self) -> Files:
        """The location of the data, as a path that is valid in every worker."""
        configured = files(self.config)
        return replace(configured, data_dir=str(configured.chosen.resolve()) if configured.chosen else None)

    def points(self, experiment: Experiment, overrides: Mapping[str, Any]) -> list[Point]:
        """Every combination of every block of an experiment, in the file's order."""
        further = [name for name in experiment.shown_metrics if "." in name]
        points = []
        for name, block in _blocks(experiment, overrides):
            axes = {key: _values(value, key) for key, value in block.items() if key not in (*_SHARED, "metrics")}
            shared = {key: block.get(key, self.config[key]) for key in _SHARED}
            metrics = _list(block.get("metrics", further))
            for combination in product(*axes.values()):
                settings = dict(zip(axes, combination, strict=True))
                try:
                    cells = list(self._cells({"metrics": metrics, **settings}, shared))
                except UserError as error:
                    points.append(Point(name, settings, None, str(error), status="skipped"))
                else:
                    points += [Point(name, settings, cell) for cell in cells]
        return points

    def _cells(self, settings: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[Cell]:
        config = {**self.config, **{key: value for key, value in settings.items() if key in SETTINGS}}
        for group in GROUPS:
            if group in settings:
                if (group, settings[group]) not in self.options:
                    raise UserError(f"there is no {group}={settings[group]} here yet.")
                config[group] = dict(self.options[group, settings[group]])
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


def options_of(experiment: Experiment, overrides: Mapping[str, Any]) -> set[Option]:
    """The options that an experiment names."""
    blocks = [block for _, block in _blocks(experiment, overrides)]
    return {(group, name) for block in blocks for group in GROUPS for name in _list(block.get(group, ()))}


def _blocks(experiment: Experiment, overrides: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    other = "dataset." if "dataset" in overrides else " "  # the file's keys are those of its own data set
    for name, block in experiment.grid.items():
        for part in () if is_computed(block) else parts(block):
            own = {**experiment.settings, **part}.items()
            yield name, {**{key: value for key, value in own if not key.startswith(other)}, **overrides}


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
