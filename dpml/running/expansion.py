"""Expand lists of settings into fits (cells): one per combination, or several if there are many noise draws."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

from dpml.config.build import (
    GROUPS,
    budget,
    build_algorithm,
    build_partition,
    files,
    grid,
    imported,
    instantiate,
    made,
    value_of,
)
from dpml.config.compose import option
from dpml.data import Files
from dpml.errors import UserError
from dpml.options import convert
from dpml.privacy import Adversary, Budget
from dpml.running.cell import Cell
from dpml.running.spec import SETTINGS, Experiment, is_computed, parts
from dpml.running.store import Record

DRAWS = 10_000  # at most per cell: a run of more draws then shows progress, can be interrupted, and fits into memory
Status = Literal["cached", "skipped", "to run", "done", "failed"]
_SHARED = ("eps", "delta")  # all values of these keys share one cell (fit)


@dataclass
class Point:
    """A combination of settings with its status, and either its fit (`cell`) or the `reason` why it has no fit."""

    block: str
    settings: Mapping[str, Any]
    cell: Cell | None
    reason: str = ""
    key: str = ""
    checksum: str | None = None  # of the data
    status: Status = "to run"
    record: Record | None = None

    @property
    def finished(self) -> bool:
        return self.record is not None and self.record.skipped is None and self.status in ("cached", "done")

    def skip(self, reason: str) -> None:
        self.status, self.reason = "skipped", reason


@dataclass(frozen=True)
class Expansion:
    """Expand lists of settings to all combinations."""

    config: Mapping[str, Any]  # the values of all other settings
    chosen: Mapping[str, str] = field(default_factory=dict)  # the name of the chosen option of each group
    config_dir: Path | None = None
    _built: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def files(self) -> Files:
        """Return the folder and mirror of data sets. The folder has an absolute path, so every worker can use it."""
        configured = files(self.config)
        return replace(configured, data_dir=str(configured.chosen.resolve()) if configured.chosen else None)

    def points(self, experiment: Experiment, overrides: Mapping[str, Any], check: bool = False) -> list[Point]:
        """Return all combinations of settings; with `check`, skip the combinations whose noise cannot be calibrated."""
        shown = [name for name in experiment.shown_metrics if "." in name]
        points = []
        for name, block in _blocks(experiment, overrides):
            axes = {key: _values(value, key) for key, value in block.items() if key not in (*_SHARED, "metrics")}
            shared = (_values(block.get(key, self.config[key]), key) for key in _SHARED)
            budgets = list(dict.fromkeys(budget(eps, delta) for eps, delta in product(*shared)))
            metrics = block.get("metrics", shown)
            metrics = _values(metrics, "metrics") if metrics else []
            for path in metrics:
                imported(convert(path, str, "metrics"), f"metrics={path}")  # raises an error if it is not callable
            for combination in product(*axes.values()):
                settings = dict(zip(axes, combination, strict=True))
                try:
                    cells = self.cells(settings, budgets, metrics)
                    if check:
                        self._check(cells[0])
                    points += [Point(name, settings, cell) for cell in cells]
                except UserError as error:
                    points.append(Point(name, settings, None, str(error), status="skipped"))
        return points

    def cells(self, settings: Mapping[str, Any], budgets: Sequence[Budget], metrics: Sequence[str] = ()) -> list[Cell]:
        """Return the cell (fit) of one combination of settings, or several cells if it has over DRAWS noise draws."""
        config = {**self.config, **{key: settings[key] for key in SETTINGS if key in settings and key not in GROUPS}}
        for group in (*GROUPS, "adversary"):
            name = settings.get(group) if group in GROUPS else None
            if name not in (None, self.chosen.get(group)):
                config[group] = self._once(group, name, partial(option, group, str(name), self.config_dir))
            under = {key.removeprefix(f"{group}."): settings[key] for key in settings if key.startswith(f"{group}.")}
            config[group] = {**config[group], **under}
        dataset = self._once("dataset", config["dataset"], lambda: instantiate(config["dataset"], "dataset"))
        node = [config["algo"], config["loss"], config["calibration"], dataset.info.task]
        algorithm = self._once("algo", node, lambda: build_algorithm(config, dataset))
        dealt = [config["partition"], getattr(algorithm, "auxiliary", 0.0)]
        rule = self._once(
            "partition", dealt, lambda: build_partition(instantiate(config["partition"], "partition"), algorithm)
        )
        draws = value_of(config, "draws")
        cell = Cell(
            dataset=dataset,
            partition=rule,
            algorithm=algorithm,
            M=value_of(config, "M"),
            N=value_of(config, "N"),
            seed=value_of(config, "seed"),
            budgets=tuple(budgets),
            draws=min(draws, DRAWS),
            adversary=self._once(
                "adversary", config["adversary"], lambda: made(Adversary, config["adversary"], "adversary")
            ),
            metrics=tuple(metrics),
            files=self.files,
        )
        firsts = range(DRAWS, draws, DRAWS)
        return [cell, *(replace(cell, first=first, draws=min(draws - first, DRAWS)) for first in firsts)]

    def _check(self, cell: Cell) -> None:
        seed = cell.seed if cell.partition.drawn else None
        kind = [id(cell.dataset), id(cell.algorithm), repr(cell.partition), cell.M, cell.N, repr(cell.adversary), seed]
        self._once("check", kind, cell.check)

    def _once(self, group: str, node: Any, build: Callable[[], Any]) -> Any:
        name = group + json.dumps(node)
        if name not in self._built:
            self._built[name] = build()
        return self._built[name]


def _blocks(experiment: Experiment, overrides: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    other = "dataset." if "dataset" in overrides else " "  # options of one data set do not apply to another one
    for name, block in experiment.grid.items():
        for part in () if is_computed(block) else parts(block):
            own = {**experiment.settings, **part}.items()
            yield name, {**{key: value for key, value in own if not key.startswith(other)}, **overrides}


def _values(value: Any, key: str) -> list[Any]:
    return list({repr(item): item for item in grid(value, key)}.values())
