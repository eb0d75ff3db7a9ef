"""The plan of one command: finished, skipped and waiting cells, each of them once."""

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import pandas as pd

from dpml import code
from dpml.arrays import blocks
from dpml.config.build import GROUPS
from dpml.data import Files, Source, checksum
from dpml.errors import UserError, nearest
from dpml.running.cell import Cell, Measured, digest_of
from dpml.running.computed import Computed
from dpml.running.expansion import Point
from dpml.running.rows import joined, tabulate
from dpml.running.store import DamagedError, Record, Store, digest

ENGINES = ("auto", "serial", "processes", "dask")
_TOGETHER = 1000  # cells whose tables are joined at once
Status = Literal["cached", "skipped", "to run", "done", "failed"]


@dataclass(frozen=True)
class Options:
    """How cells are computed (the keys under `run`). None of them changes a number."""

    dry: bool = False
    force: str | Sequence[str] | None = None
    only: str | None = None
    on_error: str = "continue"
    engine: str = "auto"
    workers: int = 1
    address: str | None = None

    def __post_init__(self) -> None:
        if self.only not in (None, "failed"):
            raise UserError(f"run.only must be failed or null, got run.only={self.only}.")
        if self.on_error not in ("continue", "raise"):
            raise UserError(f"run.on_error must be continue or raise, got run.on_error={self.on_error}.")
        if self.engine not in ENGINES:
            raise UserError(f"unknown run.engine={self.engine!r}: {nearest(self.engine, ENGINES)}")
        if self.workers < 1:
            raise UserError(f"run.workers must be at least 1, got run.workers={self.workers}.")

    @property
    def forced(self) -> list[str]:
        """The algorithms whose cells are computed again."""
        return [self.force] if isinstance(self.force, str) else list(self.force or ())


@dataclass(frozen=True)
class Task:
    """The request of one run, one job of a sweep, or one experiment: points, and blocks that functions compute."""

    name: str
    points: Sequence[Point]
    computed: Sequence[Computed] = ()
    whole: bool = False  # all of its cells are computed, or none

    @property
    def settings(self) -> list[str]:
        """The settings that were set or vary and are in no standard column, as on the command line: ``algo.lam``."""
        keys = dict.fromkeys(key for point in self.points for key in point.settings)
        return [key for key in keys if key.partition(".")[0] in (*GROUPS, "adversary") and "." in key]


class Tables(NamedTuple):
    """The rows and the guarantees of a task, with their block's name in the first column, and the origins of data."""

    rows: pd.DataFrame
    guarantees: pd.DataFrame
    provenance: list[Mapping[str, Any]]


@dataclass
class Entry:
    """A cell of the plan and its status. Cells with the same key share one entry."""

    point: Point
    key: str
    identity: Mapping[str, Any]
    status: Status
    reason: str = ""
    record: Record | None = None
    damaged: bool = False

    @property
    def finished(self) -> bool:
        """Whether it has numbers."""
        return self.record is not None and self.record.skipped is None and self.status in ("cached", "done")


@dataclass(frozen=True)
class Plan:
    """The tasks of one command; `entries` has each cell once, by key, in the order of computation."""

    store: Store
    tasks: Sequence[Task]
    points: Mapping[str, Sequence[tuple[Point, Entry]]]
    entries: Mapping[str, Entry]

    def counts(self) -> Counter[str]:
        """The number of cells in each state."""
        return Counter(entry.status for entry in self.entries.values())

    def waiting(self) -> list[Entry]:
        """The cells that have to be computed."""
        return [entry for entry in self.entries.values() if entry.status == "to run"]

    def of(self, task: Task) -> list[Entry]:
        """The entries of one task, each once."""
        return list({entry.key or id(entry): entry for _, entry in self.points[task.name]}.values())

    def optional(self, entry: Entry) -> bool:
        """Whether some task with this cell can omit it."""
        return id(entry) in self._optional

    @cached_property
    def _optional(self) -> set[int]:
        return {id(entry) for task in self.tasks if not task.whole for _, entry in self.points[task.name]}

    def estimate(self, among: Iterable[Entry] | None = None) -> float | None:
        """Estimated seconds for waiting cells in sequence, based on the finished cells; None if there are none.

        `among`: only of these; None: all.
        """
        times = defaultdict(list)
        for entry in self.entries.values():
            if entry.record and entry.record.skipped is None:
                for kind in _alike(entry):
                    times[kind].append(entry.record.seconds)
        total = 0.0
        for entry in self.waiting() if among is None else among:
            if entry.status != "to run":
                continue
            known = next((times[kind] for kind in _alike(entry) if kind in times), None)
            if known is None:
                return None
            total += sum(known) / len(known)
        return total

    def refused(self, task: Task) -> list[str]:
        """The budgets that a task's finished cells lack because no noise can be calibrated for them, with reasons."""
        sentences = []
        for entry in self.of(task):
            if entry.finished and entry.record and entry.point.cell:
                for number, reason in entry.record.refused.items():
                    budget = entry.point.cell.budgets[number]
                    sentences.append(f"eps={budget.eps:g} delta={budget.delta}: {reason}")
        return list(dict.fromkeys(sentences))

    def versions(self, task: Task) -> dict[str, str]:
        """The versions that a task's numbers were computed with; several if some are older than others."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        kept = [entry.record for entry in self.of(task) if entry.finished]
        for made in (*kept, *(block.kept(self.store) for block in task.computed)):
            for name, version in (made.made_with if made else {}).items():
                found[name].add(version)
        return {name: " and ".join(sorted(found[name])) for name in sorted(found)}

    def measured(self, entry: Entry) -> Measured:
        """The numbers of a finished cell."""
        assert entry.record is not None
        try:
            return entry.record.measured or self.store.read(entry.key, entry.record)
        except DamagedError as error:
            raise UserError(f"{error} Give the same command again to compute it again.") from None

    def tables(self, task: Task) -> Tables:
        """The tables of a task's finished cells.

        Rows of computed blocks follow those of cells. A combination that occurs twice in a block appears once.
        """
        once = {
            (point.block, entry.key): (point.block, point.cell, entry)
            for point, entry in self.points[task.name]
            if point.cell is not None and entry.finished
        }
        cells, settings = list(once.values()), task.settings
        rows: list[pd.DataFrame] = []
        guarantees: list[pd.DataFrame] = []
        provenance: dict[str, Mapping[str, Any]] = {}  # each once
        for some in blocks(len(cells), most=_TOGETHER):  # a part takes more memory than its rows
            parts = [tabulate(cell, self.measured(entry), settings, block) for block, cell, entry in cells[some]]
            provenance |= {json.dumps(part.provenance, sort_keys=True): part.provenance for part in parts}
            for tables, table in zip((rows, guarantees), joined(parts), strict=True):
                tables.append(table)
        for block in task.computed:
            table = block.rows(self.store)
            table.insert(0, "block", block.block)
            rows.append(table)
        nothing = pd.DataFrame(columns=["block", "calibration"])
        both = [pd.concat(tables, ignore_index=True) if tables else nothing for tables in (rows, guarantees)]
        return Tables(both[0], both[1], list(provenance.values()))

    def listing(self, tasks: Sequence[Task]) -> str:
        """Some tasks as CSV: one line per cell and block."""
        pairs = [(task.name, point, entry) for task in tasks for point, entry in self.points[task.name]]
        keys = list(dict.fromkeys(key for _, point, _ in pairs for key in point.settings))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["task", "block", *keys, "status", "seconds", "reason", "key"])
        for task in tasks:
            for block in task.computed:
                writer.writerow([task.name, block.block, *("" for _ in keys), "computed", "", block.target, block.key])
        for name, point, entry in pairs:
            seconds = f"{entry.record.seconds:.3f}" if entry.record else ""
            settings = [point.settings.get(key, "") for key in keys]
            writer.writerow([name, point.block, *settings, entry.status, seconds, entry.reason, entry.key])
        return text.getvalue()


def _alike(entry: Entry) -> list[tuple[Any, ...]]:
    cell = entry.point.cell
    assert cell is not None
    algorithm, data = cell.algorithm, repr(cell.dataset)
    return [(data, algorithm.name, algorithm.variant), (algorithm.name, algorithm.variant), (data,), ()]


def make_plan(tasks: Iterable[Task], store: Store, options: Options) -> Plan:
    """Determine which cells are finished, which cannot be computed, and which are waiting."""
    tasks = list(tasks)
    looked_up = _LookedUp()
    points: dict[str, list[tuple[Point, Entry]]] = {}
    entries: dict[str, Entry] = {}
    for task in tasks:
        pairs = points.setdefault(task.name, [])
        for point in task.points:
            entry = _entry(point, store, options, looked_up)
            # entries without a cell are distinguished by their settings
            key = entry.key or digest([task.name, point.block, {k: str(v) for k, v in point.settings.items()}])
            pairs.append((point, entries.setdefault(key, entry)))
    names = {point.cell.algorithm.name for task in tasks for point in task.points if point.cell}
    for name in options.forced:
        if name not in (*names, "all"):
            raise UserError(f"run.force={name} is no algorithm of this command: {nearest(name, [*names, 'all'])}")
    # cells that share data are computed together, so that the data are loaded once
    order = sorted(entries, key=lambda key: _data_key(entries[key]))
    return Plan(store, tasks, points, {key: entries[key] for key in order})


def _entry(point: Point, store: Store, options: Options, looked_up: "_LookedUp") -> Entry:
    if point.cell is None:
        return Entry(point, "", {}, "skipped", point.reason or "")
    try:
        identity = point.cell.identity(looked_up.checksum(point.cell.dataset, point.cell.files))
    except UserError as error:
        return Entry(point, "", {}, "skipped", str(error))
    key = digest(identity)
    record, damaged = None, False
    try:
        record = store.glance(key, looked_up.code(point.cell))
    except DamagedError:
        damaged = True
    entry = Entry(point, key, identity, "cached", record=record, damaged=damaged)
    if record and record.skipped is not None:
        entry.status, entry.reason = "skipped", record.skipped
    if record is None or {point.cell.algorithm.name, "all"} & set(options.forced):
        entry.status, entry.reason = "to run", ""
    if entry.status == "to run" and options.only == "failed" and not store.log(key).exists():
        entry.status, entry.reason = ("cached", "") if record else ("skipped", "has not failed (run.only=failed)")
    return entry


class _LookedUp:
    """What the cells of a plan share, looked up once: checksums of data sets and of code."""

    def __init__(self) -> None:
        self._known: dict[tuple[Source, Files], str | UserError | None] = {}
        self._codes: dict[frozenset[str], str] = {}

    def code(self, cell: Cell) -> str:
        """Return the checksum of the code of a cell."""
        names = code.named(cell)
        if names not in self._codes:
            self._codes[names] = cell.code
        return self._codes[names]

    def checksum(self, dataset: Source, files: Files) -> str | None:
        """Return the checksum of a data set; a missing file is missing for all its cells."""
        here = dataset, files
        if here not in self._known:
            try:
                self._known[here] = digest_of(dataset, checksum(dataset, files))
            except UserError as error:
                self._known[here] = error
        known = self._known[here]
        if isinstance(known, UserError):
            raise known
        return known


def _data_key(entry: Entry) -> tuple[Any, ...]:
    cell = entry.point.cell
    return (repr(cell.dataset), cell.N or 0, cell.seed, cell.M) if cell else ("", 0, 0, 0)
