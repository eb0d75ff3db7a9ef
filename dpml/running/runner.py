"""From an experiment file to its results: plan the cells, compute what is missing, write what is made of them."""

import csv
import hashlib
import io
import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dpml import __version__, where
from dpml.atomic import write_atomically
from dpml.data import Files, Source
from dpml.errors import UserError, nearest
from dpml.privacy import Calibration
from dpml.running.cell import Cell, Measured
from dpml.running.environment import environment
from dpml.running.executors import Failure, compute
from dpml.running.spec import Expansion, Experiment, Point
from dpml.running.store import Record, Store, digest, key_of

Status = Literal["cached", "skipped", "to run", "done", "failed"]


@dataclass(frozen=True)
class Options:
    """How an experiment is run (the keys under `run`). None of them changes a number."""

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

    def forces(self, cell: Cell) -> bool:
        """Whether the user wants this cell computed again."""
        names = [self.force] if isinstance(self.force, str) else self.force or []
        return cell.algorithm.name in names or "all" in names


@dataclass
class Entry:
    """A cell of the plan and what has become of it. Cells of several blocks with one key are one entry."""

    point: Point
    key: str
    identity: Mapping[str, Any]
    status: Status
    reason: str = ""
    record: Record | None = None

    @property
    def finished(self) -> bool:
        """Whether there are numbers."""
        return self.record is not None and self.record.skipped is None and self.status in ("cached", "done")


@dataclass(frozen=True)
class Plan:
    """All points of an experiment; `entries` has each cell once, by key, in the order to compute them."""

    store: Store
    experiment: Experiment
    points: Sequence[tuple[Point, Entry]]
    entries: Mapping[str, Entry]

    def counts(self) -> Counter[str]:
        """How many cells are in which state."""
        return Counter(entry.status for entry in self.entries.values())

    def waiting(self) -> list[Entry]:
        """What is to be computed."""
        return [entry for entry in self.entries.values() if entry.status == "to run"]

    def estimate(self) -> float | None:
        """Seconds that the waiting cells would take one after the other, by those that are done; None if none is."""
        times = defaultdict(list)
        for entry in self.entries.values():
            if entry.record and entry.record.skipped is None:
                for kind in _alike(entry):
                    times[kind].append(entry.record.seconds)
        total = 0.0
        for entry in self.waiting():
            known = next((times[kind] for kind in _alike(entry) if kind in times), None)
            if known is None:
                return None
            total += sum(known) / len(known)
        return total

    def measured(self, entry: Entry) -> Measured:
        """The numbers of a finished cell."""
        assert entry.record is not None
        return entry.record.measured or self.store.read(entry.key)

    def table(self) -> str:
        """The plan as CSV: one line per cell and block."""
        keys = list(dict.fromkeys(key for point, _ in self.points for key in point.settings))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["block", *keys, "status", "seconds", "reason", "key"])
        for block in self.experiment.computed:
            writer.writerow([block.block, *("" for _ in keys), "computed", "", block.target, block.key])
        for point, entry in self.points:
            seconds = f"{entry.record.seconds:.3f}" if entry.record else ""
            settings = [point.settings.get(key, "") for key in keys]
            writer.writerow([point.block, *settings, entry.status, seconds, entry.reason, entry.key])
        return text.getvalue()


def _alike(entry: Entry) -> list[tuple[Any, ...]]:
    """Cells that may take about as long, the most alike first."""
    cell = entry.point.cell
    assert cell is not None
    algorithm, data = cell.algorithm, repr(cell.dataset)
    return [(data, algorithm.name, algorithm.variant), (algorithm.name, algorithm.variant), (data,), ()]


def make_plan(experiment: Experiment, points: Iterable[Point], store: Store, options: Options) -> Plan:
    """What is done, what cannot be, and what is to do."""
    checksum = _Checksums(store)
    found: list[tuple[Point, Entry]] = []
    entries: dict[str, Entry] = {}
    for point in points:
        entry = _entry(point, store, options, checksum)
        # what has no cell is told apart by its settings
        key = entry.key or digest([point.block, dict(point.settings)])
        entry = entries.setdefault(key, entry)
        found.append((point, entry))
    names = {point.cell.algorithm.name for point, _ in found if point.cell}
    for name in [options.force] if isinstance(options.force, str) else options.force or []:
        if name not in (*names, "all"):
            raise UserError(f"run.force={name} is no algorithm of this experiment: {nearest(name, [*names, 'all'])}")
    # what shares data is computed together, so that they are loaded once
    order = sorted(entries, key=lambda key: _data_key(entries[key]))
    return Plan(store, experiment, found, {key: entries[key] for key in order})


def _entry(point: Point, store: Store, options: Options, checksum: Callable[[Source, Files], str | None]) -> Entry:
    if point.cell is None:
        return Entry(point, "", {}, "skipped", point.reason or "")
    try:
        identity = point.cell.identity(checksum(point.cell.dataset, point.cell.files))
    except UserError as error:
        return Entry(point, "", {}, "skipped", str(error))
    key = key_of(identity)
    record = store.glance(key)
    entry = Entry(point, key, identity, "cached", record=record)
    if record and record.skipped is not None:
        entry.status, entry.reason = "skipped", record.skipped
    if record is None or options.forces(point.cell):
        entry.status, entry.reason = "to run", ""
    if entry.status == "to run" and options.only == "failed" and not store.failed(key):
        entry.status, entry.reason = ("cached", "") if record else ("skipped", "has not failed (run.only=failed)")
    return entry


class _Checksums:
    """`Store.checksum`, asked once for every data set; a file that is missing is missing for all its cells."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Source, str | UserError | None] = {}

    def __call__(self, dataset: Source, files: Files) -> str | None:
        if dataset not in self._known:
            try:
                self._known[dataset] = self._store.checksum(dataset, files)
            except UserError as error:
                self._known[dataset] = error
        found = self._known[dataset]
        if isinstance(found, UserError):
            raise found
        return found


def _data_key(entry: Entry) -> tuple[Any, ...]:
    cell = entry.point.cell
    return (repr(cell.dataset), cell.N or 0, cell.seed, cell.M) if cell else ("", 0, 0, 0)


def run_experiment(config: DictConfig, words: Sequence[str]) -> int:
    """Run the experiment of a composed configuration; `words` are the command line's overrides. The exit status.

    Raises:
        UserError: the experiment file or an override is wrong, or nothing of it can be computed here.
    """
    name = next(word.split("=", 1)[1] for word in words if word.startswith("experiment="))
    experiment = Experiment.of(name, OmegaConf.to_container(config.experiment, resolve=True))  # type: ignore[arg-type]
    return reproduce(experiment, Expansion.of(config, words), _run_options(config), Path(config.results_dir), words)


def reproduce(
    experiment: Experiment, expansion: Expansion, options: Options, results: Path, words: Sequence[str]
) -> int:
    """Plan, compute and write an experiment under `results`; `words` say in the outputs how it was asked for."""
    name = experiment.name
    store = Store(results / ".cells")
    points = expansion.points(experiment)
    experiment = replace(experiment, title=_filled(experiment, points))
    plan = make_plan(experiment, points, store, options)
    console, errors = Console(highlight=False), Console(stderr=True, highlight=False)
    _announce(plan, options, console)
    if options.dry:
        print(plan.table(), end="")
        return 0
    _require_something_to_show(plan)
    command = "dpml-run " + shlex.join(words)
    try:
        finished = _carry_out(plan, store, options, errors)
    except KeyboardInterrupt:
        errors.print(f"interrupted: what is done is kept; go on with: {command}", style="yellow", soft_wrap=True)
        return 130
    base = results / name
    base.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(base.with_name(f"{base.name}_plan.csv"), plan.table())
    if not finished:
        errors.print(f"stopped at the first failure (run.on_error=raise); go on with: {command}", soft_wrap=True)
        return 1
    _require_something_to_show(plan)
    for path in _write_outputs(plan, results, _public(words)):
        console.print(f"written: {path}", soft_wrap=True)
    failed = plan.counts()["failed"]
    if failed:
        again = f"{command} run.only=failed"
        errors.print(f"dpml-run: {failed} cells failed; to try only them again: {again}", style="red", soft_wrap=True)
    return 1 if failed else 0


def _filled(experiment: Experiment, points: Sequence[Point]) -> str:
    """The title, with the data sets that the panels are really about in the place of ``{dataset}``."""
    shown = {panel.block for panel in experiment.panels}
    titles = dict.fromkeys(p.cell.dataset.info.title for p in points if p.cell and p.block in shown)
    return experiment.title.replace("{dataset}", ", ".join(titles))


def _require_something_to_show(plan: Plan) -> None:
    """Raise UserError when every cell is skipped, or every cell that a panel shows."""
    shown = {panel.block for panel in plan.experiment.panels}
    if any(not shown or block.block in shown for block in plan.experiment.computed):
        return
    entries = [entry for point, entry in plan.points if not shown or point.block in shown]
    if all(entry.status in ("skipped", "failed") for entry in entries):
        reasons = {entry.reason for entry in entries if entry.reason}
        raise UserError(
            f"nothing of experiment={plan.experiment.name} can be computed here: "
            f"{min(reasons, default='it has no cells.')}"
        )


def _run_options(config: DictConfig) -> Options:
    given: dict[str, Any] = OmegaConf.to_container(config.run, resolve=True)  # type: ignore[assignment]
    names = [f.name for f in fields(Options)]
    for key in given:
        if key not in names:
            raise UserError(f"unknown key 'run.{key}': {nearest(key, names)}")
    return Options(**given)


def _announce(plan: Plan, options: Options, console: Console) -> None:
    """The plan in a few lines: how many cells are in which state, why some are skipped, and how long it may take."""
    counts = plan.counts()
    to_run = counts["to run"]
    line = f"{plan.experiment.name}: {counts['cached']} cached, {to_run} to run"
    if plan.experiment.computed:
        line += f", {len(plan.experiment.computed)} computed blocks"
    if counts["skipped"]:
        line += f", {counts['skipped']} skipped"
    if to_run:
        seconds = plan.estimate()
        line += " (no estimate: nothing like it was run before)" if seconds is None else (
            f" (about {_duration(seconds / (1 if options.engine == 'serial' else max(1, options.workers)))})"
        )  # fmt: skip
    console.print(line, style="bold", soft_wrap=True)
    for reason, number in Counter(e.reason for e in plan.entries.values() if e.status == "skipped").items():
        console.print(f"skipped {number}: {reason}", style="yellow", markup=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _carry_out(plan: Plan, store: Store, options: Options, errors: Console) -> bool:
    """Compute what is waiting, and write each cell down as it comes. False: stopped after a failure."""
    waiting = {id(entry.point.cell): entry for entry in plan.waiting()}
    if not waiting:
        return True
    cells = [entry.point.cell for entry in waiting.values() if entry.point.cell]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("left:"))
    with Progress(*columns, TimeRemainingColumn(), console=errors, transient=True) as progress:
        task = progress.add_task("cells", total=len(waiting))
        outcomes = compute(cells, options.engine, options.workers, options.address)
        try:
            for cell, outcome in outcomes:
                entry = waiting[id(cell)]
                if isinstance(outcome, Failure):
                    log = store.fail(entry.key, outcome.log)
                    entry.status, entry.reason = "failed", outcome.line
                    said = f"failed: {_describe(entry)}: {outcome.line} (see {log})"
                    progress.console.print(said, style="red", markup=False, soft_wrap=True)
                    if options.on_error == "raise":
                        return False
                else:
                    store.write(entry.key, entry.identity, outcome)
                    entry.record = outcome
                    entry.status = "done" if outcome.skipped is None else "skipped"
                    entry.reason = outcome.skipped or ""
                    if outcome.skipped:
                        said = f"skipped: {_describe(entry)}: {outcome.skipped}"
                        progress.console.print(said, style="yellow", markup=False, soft_wrap=True)
                progress.advance(task)
        finally:
            outcomes.close()  # type: ignore[attr-defined]
    return True


def _describe(entry: Entry) -> str:
    return " ".join(f"{key}={value}" for key, value in entry.point.settings.items())


def _public(words: Sequence[str]) -> str:
    """The command that makes the same numbers anywhere: without folders and without how it was run."""
    private = ("data_dir=", "results_dir=", "run.", "hydra")
    return "dpml-run " + shlex.join(word for word in words if not word.startswith(private))


def _write_outputs(plan: Plan, results: Path, command: str) -> list[Path]:
    """Write everything that is made from the cells, unless it is there already, made from the same."""
    base = results / plan.experiment.name
    manifest = base.with_suffix(".json")
    stamp = _stamp(plan, command)
    try:
        known = json.loads(manifest.read_bytes())
        same = known["stamp"] == stamp and all(
            hashlib.sha256((base.parent / file).read_bytes()).hexdigest() == made
            for file, made in known["files"].items()
        )
    except (OSError, ValueError, KeyError, AttributeError):
        same = False
    if same:
        return []
    from dpml.reporting import (
        artifacts as outputs,  # draws and counts: not needed, and slow to load, when everything is there
    )

    made = outputs.write(plan, base, command)
    about = {
        "stamp": stamp,
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made.files},
        **made.about,
        "environment": environment(),
    }
    write_atomically(manifest, json.dumps(about, indent=1) + "\n")
    return [*made.files, manifest, *outputs.write_ledger(results)]


def _stamp(plan: Plan, command: str) -> str:
    """What the outputs are made from: the cells, the experiment's file, and the code that draws and counts."""
    package = Path(__file__).parents[1]
    sources = [*sorted((package / "reporting").glob("*.py")), *sorted((package / "papers").glob("*/*.py"))]
    sources += sorted(where.folder("experiments").glob(f"{Path(plan.experiment.name).parent}/*.csv"))
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    cells = [[point.block, entry.key, entry.status in ("cached", "done"), entry.reason] for point, entry in plan.points]
    computed = [block.key for block in plan.experiment.computed]
    return digest([__version__, code, command, repr(plan.experiment), cells, computed])


def calibrations(plan: Plan) -> list[Calibration]:
    """The calibrations that were computed, each of which has figures and tables of its own."""
    found = (entry.point.cell.algorithm.calibration for _, entry in plan.points if entry.point.cell)
    return list(dict.fromkeys(found))
