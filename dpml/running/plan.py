"""Plans: the finished, skipped and waiting cells of experiments, and the results of the finished ones."""

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from dpml import code
from dpml.arrays import blocks
from dpml.config.build import GROUPS
from dpml.data import Files, Source, checksum
from dpml.errors import UserError, nearest
from dpml.running.cell import Cell, Measured, digest_of
from dpml.running.expansion import Point
from dpml.running.rows import joined, tabulate
from dpml.running.spec import Experiment
from dpml.running.store import DamagedError, Store, digest

_TOGETHER = 1000  # cells whose tables are joined at once


@dataclass(frozen=True)
class Options:
    """How cells are computed (the keys under `run`). None of them changes a number."""

    dry: bool = False
    force: str | Sequence[str] | None = None
    only: Literal["failed"] | None = None
    on_error: Literal["continue", "raise"] = "continue"
    engine: Literal["auto", "serial", "processes", "dask"] = "auto"
    workers: int = 1
    address: str | None = None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UserError(f"run.workers must be at least 1, got run.workers={self.workers}.")

    @property
    def forced(self) -> list[str]:
        """The algorithms whose cells are computed again."""
        return [self.force] if isinstance(self.force, str) else list(self.force or ())


@dataclass(frozen=True)
class Results:
    """What came out of an experiment.

    Attributes:
        experiment: what was asked.
        rows: one number per row, with the block's name as first column.
        guarantees: one view and basis per row, with the block's name as first column.
        provenance: where the data come from, each data set once.
        skipped: the number of cells without numbers, by reason.
        published: the paper's points (`charts.read_published`).
    """

    experiment: Experiment
    rows: pd.DataFrame
    guarantees: pd.DataFrame
    provenance: Sequence[Mapping[str, Any]] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    published: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True)
class Plan:
    """What is computed for an experiment: a point for every combination of its settings.

    `reference` are CPU seconds per cell by block, as measured on another machine.
    """

    experiment: Experiment
    points: Sequence[Point]
    store: Store
    reference: Mapping[str, float] = field(default_factory=dict)

    @property
    def cells(self) -> list[Point]:
        """The points with different numbers, each once."""
        return list({point.key: point for point in self.points}.values())

    def left_out(self) -> list[str]:
        """Why there are no numbers for some settings: skipped cells, and budgets of finished ones without noise."""
        sentences = [point.reason for point in self.cells if point.status == "skipped"]
        for point in self.cells:
            if point.finished and point.record and point.cell:
                for number, reason in point.record.refused.items():
                    budget = point.cell.budgets[number]
                    sentences.append(f"eps={budget.eps:g} delta={budget.delta}: {reason}")
        return list(dict.fromkeys(sentences))

    def versions(self) -> dict[str, str]:
        """The versions that its numbers were computed with; several if some are older than others."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        kept = [point.record for point in self.cells if point.finished]
        for made in (*kept, *(block.kept(self.store) for block in self.experiment.computed)):
            for name, version in (made.made_with if made else {}).items():
                found[name].add(version)
        return {name: " and ".join(sorted(found[name])) for name in sorted(found)}

    def seconds(self) -> dict[str, float]:
        """The CPU seconds of every block: of its finished cells, or of its function."""
        spent: defaultdict[str, float] = defaultdict(float)
        for point in {(point.block, point.key): point for point in self.points}.values():
            spent[point.block] += point.record.seconds if point.record else 0.0
        for block in self.experiment.computed:
            written = block.kept(self.store)
            spent[block.block] += written.seconds if written else 0.0
        return {block: float(f"{seconds:.3g}") for block, seconds in spent.items()}

    def results(self) -> Results:
        """The results of the finished cells and of computed blocks.

        Rows of computed blocks follow those of cells. A combination that occurs twice in a block appears once.
        """
        once = {(point.block, point.key): point for point in self.points if point.finished}
        cells = [(point.block, point.cell, point) for point in once.values() if point.cell]
        # the settings that were set or vary and are in no standard column, as on the command line: algo.lam
        keys = dict.fromkeys(key for point in self.points for key in point.settings)
        settings = [key for key in keys if key.partition(".")[0] in (*GROUPS, "adversary") and "." in key]
        rows: list[pd.DataFrame] = []
        guarantees: list[pd.DataFrame] = []
        provenance: dict[str, Mapping[str, Any]] = {}
        for some in blocks(len(cells), most=_TOGETHER):  # a part takes more memory than its rows
            tables = [tabulate(cell, self._measured(point), settings, block) for block, cell, point in cells[some]]
            provenance |= {json.dumps(table.provenance, sort_keys=True): table.provenance for table in tables}
            for whole, table in zip((rows, guarantees), joined(tables), strict=True):
                whole.append(table)
        for block in self.experiment.computed:
            table = block.rows(self.store)
            table.insert(0, "block", block.block)
            rows.append(table)
        nothing = pd.DataFrame(columns=["block", "calibration"])
        both = [pd.concat(tables, ignore_index=True) if tables else nothing for tables in (rows, guarantees)]
        skipped = Counter(_reason(point) for point in self.cells if not point.finished)
        return Results(self.experiment, both[0], both[1], list(provenance.values()), skipped)

    def _measured(self, point: Point) -> Measured:
        assert point.record is not None
        try:
            return point.record.measured or self.store.read(point.key, point.record)
        except DamagedError as error:
            raise UserError(f"{error} Give the same command again to compute it again.") from None


def _reason(point: Point) -> str:
    """Why a cell has no numbers, without the path of this machine's data folder."""
    reason = point.reason
    for root in point.cell.files.roots if point.cell else ():
        reason = reason.replace(str(root), "data_dir")
    return reason


# ---- several plans


def make_plans(
    asked: Iterable[tuple[Experiment, Sequence[Point], Mapping[str, float]]], store: Store, options: Options
) -> list[Plan]:
    """Determine which cells are finished, which cannot be computed, and which are waiting.

    Args:
        asked: experiments, each with its points and the CPU seconds that a cell of each block took elsewhere.
        store: the finished cells.
        options: which cells are computed again.
    """
    plans = [Plan(experiment, points, store, reference) for experiment, points, reference in asked]
    look_up = _LookUp(store, options)
    for plan in plans:
        for point in plan.points:
            look_up(point)
            if not point.key:
                known = {key: str(value) for key, value in point.settings.items()}
                point.key = digest([plan.experiment.label, point.block, known])
    names = {point.cell.algorithm.name for plan in plans for point in plan.points if point.cell}
    for name in options.forced:
        if name not in (*names, "all"):
            raise UserError(f"run.force={name} is no algorithm of this command: {nearest(name, [*names, 'all'])}")
    return plans


def unique(plans: Iterable[Plan]) -> dict[str, list[Point]]:
    """The points of some plans by key, in the order of computation: points of one key have the same numbers."""
    found: dict[str, list[Point]] = {}
    for plan in plans:
        for point in plan.points:
            found.setdefault(point.key, []).append(point)
    # cells that share data are computed together, so that the data are loaded once
    return dict(sorted(found.items(), key=lambda item: _data_key(item[1][0])))


def estimate(plans: Sequence[Plan]) -> float | None:
    """Estimated CPU seconds of the waiting cells, from similar finished ones or `Plan.reference`; None if unknown."""
    times = defaultdict(list)
    waiting: dict[str, tuple[Point, float | None]] = {}
    for plan in plans:
        for point in plan.points:
            if point.status == "to run":
                waiting.setdefault(point.key, (point, plan.reference.get(point.block)))
            if point.record and point.record.skipped is None:
                for kind in _alike(point):
                    times[kind].append(point.record.seconds)
    total = 0.0
    for point, reference in waiting.values():
        known = next((times[kind] for kind in _alike(point) if kind in times), None)
        if known is None and reference is None:
            return None
        total += sum(known) / len(known) if known else reference or 0.0
    return total


def _alike(point: Point) -> list[tuple[Any, ...]]:
    cell = point.cell
    assert cell is not None
    algorithm, data = cell.algorithm, repr(cell.dataset)
    return [(data, algorithm.name, algorithm.variant), (algorithm.name, algorithm.variant), (data,), ()]


def listing(plans: Sequence[Plan]) -> str:
    """Some plans as CSV: one line per cell and block."""
    points = [(plan.experiment.label, point) for plan in plans for point in plan.points]
    keys = list(dict.fromkeys(key for _, point in points for key in point.settings))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["experiment", "block", *keys, "status", "seconds", "reason", "key"])
    for plan in plans:
        for block in plan.experiment.computed:
            blank = ["" for _ in keys]
            writer.writerow([plan.experiment.label, block.block, *blank, "computed", "", block.target, block.key])
    for label, point in points:
        seconds = f"{point.record.seconds:.3f}" if point.record else ""
        settings = [point.settings.get(key, "") for key in keys]
        writer.writerow([label, point.block, *settings, point.status, seconds, point.reason, point.key])
    return text.getvalue()


class _LookUp:
    """Looks up points in the store; what cells share, the checksums of data sets and of code, it looks up once."""

    def __init__(self, store: Store, options: Options) -> None:
        self._store, self._options = store, options
        self._data: dict[tuple[Source, Files], str | UserError | None] = {}
        self._codes: dict[tuple[Any, ...], str] = {}

    def __call__(self, point: Point) -> None:
        """Set the key, the status and the record of a point."""
        if point.cell is None:
            return
        try:
            point.identity = point.cell.identity(self._checksum(point.cell.dataset, point.cell.files))
        except UserError as error:
            point.skip(str(error))
            return
        point.key = digest(point.identity)
        try:
            point.record = self._store.glance(point.key, self._code(point.cell))
        except DamagedError:
            point.damaged = True
        point.status = "to run"
        if point.record and not {point.cell.algorithm.name, "all"} & set(self._options.forced):
            point.status = "cached"
            if point.record.skipped is not None:
                point.skip(point.record.skipped)
        if point.status == "to run" and self._options.only == "failed" and not self._store.log(point.key).exists():
            point.status, point.reason = ("cached", "") if point.record else ("skipped", "has not failed")

    def _code(self, cell: Cell) -> str:
        parts = id(cell.dataset), cell.partition, id(cell.algorithm), cell.metrics
        if parts not in self._codes:
            names = code.named(cell)
            self._codes[parts] = self._codes.get((names,)) or cell.code
            self._codes[names,] = self._codes[parts]
        return self._codes[parts]

    def _checksum(self, dataset: Source, files: Files) -> str | None:
        """Return the checksum of a data set; a missing file is missing for all its cells."""
        here = dataset, files
        if here not in self._data:
            try:
                self._data[here] = digest_of(dataset, checksum(dataset, files))
            except UserError as error:
                self._data[here] = error
        known = self._data[here]
        if isinstance(known, UserError):
            raise known
        return known


def _data_key(point: Point) -> tuple[Any, ...]:
    cell = point.cell
    return (repr(cell.dataset), cell.N or 0, cell.seed, cell.M) if cell else ("", 0, 0, 0)
