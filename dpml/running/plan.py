"""Plan experiments: find out which fits (cells) are finished, skipped or waiting, and collect finished results."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any

import pandas as pd

from dpml import code
from dpml.config.build import GROUPS
from dpml.data import Files, Source, checksum
from dpml.errors import UserError, nearest
from dpml.options import at_least
from dpml.running.cell import Cell, Measured, digest_of
from dpml.running.expansion import Point
from dpml.running.rows import joined, tabulate
from dpml.running.spec import Experiment
from dpml.running.store import Store, digest


@dataclass(frozen=True)
class Options:
    """The options run.dry, run.force, run.workers and run.address of a command, which do not change any result."""

    dry: bool = False
    force: str | Sequence[str] | None = None
    workers: Annotated[int, at_least(1)] = 1
    address: str | None = None


@dataclass(frozen=True)
class Results:
    """The results of an experiment."""

    experiment: Experiment
    rows: pd.DataFrame  # one number per row; the first column is the name of the block
    guarantees: pd.DataFrame  # one guarantee (view and basis) per row; the first column is the name of the block
    provenance: Sequence[Mapping[str, Any]] = ()  # the origin of each data set, without repetitions
    skipped: Mapping[str, int] = field(default_factory=dict)  # the number of cells without numbers, by reason
    published: pd.DataFrame = field(default_factory=pd.DataFrame)  # the paper's points (`charts.read_published`)


@dataclass(frozen=True)
class Plan:
    """The work that an experiment needs: a list of all combinations of its settings, with their status."""

    experiment: Experiment
    points: Sequence[Point]
    store: Store
    reference: Mapping[str, float] = field(default_factory=dict)  # CPU seconds of a cell by block, estimated

    @property
    def cells(self) -> list[Point]:
        """Return one combination of settings for each fit (cell), because several combinations can share a fit."""
        return list({point.key: point for point in self.points}.values())

    def left_out(self) -> list[str]:
        """Return why some settings have no numbers: the reasons of skipped fits and of refused budgets."""
        sentences = [point.reason for point in self.cells if point.status == "skipped"]
        for point in self.cells:
            if point.finished and point.record and point.cell:
                for number, reason in point.record.refused.items():
                    budget = point.cell.budgets[number]
                    sentences.append(f"eps={budget.eps:g} delta={budget.delta}: {reason}")
        return list(dict.fromkeys(sentences))

    def versions(self) -> dict[str, str]:
        """Return the software versions that computed the numbers; several versions are joined by *and*."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        kept = [point.record for point in self.cells if point.finished]
        for made in (*kept, *(block.kept(self.store) for block in self.experiment.computed)):
            for name, version in (made.made_with if made else {}).items():
                found[name].add(version)
        return {name: " and ".join(sorted(found[name])) for name in sorted(found)}

    def seconds(self) -> dict[str, float]:
        """Return the CPU seconds that each block of an experiment took, summed over the block's fits."""
        spent: defaultdict[str, float] = defaultdict(float)
        for point in {(point.block, point.key): point for point in self.points}.values():
            spent[point.block] += point.record.seconds if point.record else 0.0
        for block in self.experiment.computed:
            written = block.kept(self.store)
            spent[block.block] += written.seconds if written else 0.0
        return {block: float(f"{seconds:.3g}") for block, seconds in spent.items()}

    def results(self) -> Results:
        """Return tables of all results: of finished fits (each fit once), and of functions that compute rows."""
        once = {(point.block, point.key): point for point in self.points if point.finished}
        # settings without a standard column, named as on the command line, such as algo.lam
        keys = dict.fromkeys(key for point in self.points for key in point.settings)
        settings = [key for key in keys if key.partition(".")[0] in (*GROUPS, "adversary") and "." in key]
        parts = []
        for point in once.values():
            if point.cell and point.record:
                measured = Measured.of_text(self.store.numbers(point.key, point.record.code))
                parts.append(tabulate(point.cell, measured, settings, point.block))
        rows = guarantees = pd.DataFrame(columns=["block", "calibration"])
        if parts:
            rows, guarantees = joined(parts)
        tables = [rows] if parts else []
        for block in self.experiment.computed:
            tables.append(block.rows(self.store))
            tables[-1].insert(0, "block", block.block)
        if tables:
            rows = pd.concat(tables, ignore_index=True)
        provenance = {json.dumps(part.provenance, sort_keys=True): part.provenance for part in parts}
        skipped = Counter(_reason(point) for point in self.cells if not point.finished)
        return Results(self.experiment, rows, guarantees, list(provenance.values()), skipped)


def _reason(point: Point) -> str:
    reason = point.reason
    for root in point.cell.files.roots if point.cell else ():
        reason = reason.replace(str(root), "data_dir")
    return reason


def look_up(plans: Sequence[Plan], options: Options) -> None:
    """Find out which fits (cells) of experiments are finished, which cannot be computed, and which are waiting."""
    checksum_of, code_of = cache(_checksum), cache(partial(code.digest, code.NUMBERS))
    forced = [options.force] if isinstance(options.force, str) else options.force or ()
    modules: dict[Any, frozenset[str]] = {}
    for plan in plans:
        for point in plan.points:
            if cell := point.cell:
                parts = id(cell.dataset), id(cell.algorithm), cell.partition, cell.metrics  # which many cells share
                if parts not in modules:
                    modules[parts] = code.named(cell)
                point.checksum, point.reason = checksum_of(cell.dataset, cell.files)  # type: ignore[arg-type]
                _look_up(point, cell, plan.store, code_of(modules[parts]), forced)
            if not point.key:
                settings = {key: str(value) for key, value in point.settings.items()}
                point.key = digest([plan.experiment.label, point.block, settings])
    names = {point.cell.algorithm.name for plan in plans for point in plan.points if point.cell}
    for name in forced:
        if name not in (*names, "all"):
            raise UserError(f"run.force={name} is not an algorithm of this command: {nearest(name, [*names, 'all'])}")


def _look_up(point: Point, cell: Cell, store: Store, made_by: str, forced: Sequence[str]) -> None:
    if point.reason:
        point.skip(point.reason)
        return
    point.key = digest(cell.identity(point.checksum))
    point.record = store.glance(point.key, made_by)
    if point.record and not {cell.algorithm.name, "all"} & set(forced):
        point.status = "cached"
        if point.record.skipped is not None:
            point.skip(point.record.skipped)


def _checksum(dataset: Source, files: Files) -> tuple[str | None, str]:
    try:
        return digest_of(dataset, checksum(dataset, files)), ""
    except UserError as error:
        return None, str(error)


def unique(plans: Iterable[Plan]) -> dict[str, list[Point]]:
    """Map the key of each fit, in computation order, to the combinations of settings that need this same fit."""
    found: dict[str, list[Point]] = {}
    for plan in plans:
        for point in plan.points:
            found.setdefault(point.key, []).append(point)
    # cells that share data are computed together, so that the data are loaded once
    return dict(sorted(found.items(), key=lambda item: _data_key(item[1][0])))


def estimate(plans: Sequence[Plan]) -> float | None:
    """Estimate the CPU seconds of fits still to run from times of finished fits or published times; None if unknown."""
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
    """Return plans as CSV: a line per combination of settings, or per function that computes rows without fits."""
    settings = dict.fromkeys(key for plan in plans for point in plan.points for key in point.settings)
    lines: list[dict[str, Any]] = []
    for plan in plans:
        label = {"experiment": plan.experiment.label}
        for block in plan.experiment.computed:
            lines.append(label | {"block": block.block, "status": "computed", "reason": block.target, "key": block.key})
        for point in plan.points:
            shown = {name: getattr(point, name) for name in ("block", "status", "reason", "key")}
            seconds = f"{point.record.seconds:.3f}" if point.record else ""
            lines.append({**label, **point.settings, **shown, "seconds": seconds})
    columns = ["experiment", "block", *settings, "status", "seconds", "reason", "key"]
    return pd.DataFrame(lines, columns=columns, dtype=object).to_csv(index=False)


def _data_key(point: Point) -> tuple[Any, ...]:
    cell = point.cell
    return (repr(cell.dataset), cell.N or 0, cell.seed, cell.M) if cell else ("", 0, 0, 0)
