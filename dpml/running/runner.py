"""Carry out plans: compute missing cells, store each cell as it finishes, and show the progress."""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from dpml.running.cell import Cell, Measured, digest_of
from dpml.running.computed import Computed
from dpml.running.executors import Failure, Outcome, compute
from dpml.running.expansion import Point
from dpml.running.plan import Options, Plan, estimate, unique
from dpml.running.store import Record, Store
from dpml.screen import Screen


def announce(plans: Sequence[Plan], options: Options, console: Screen) -> None:
    """Print how many cells have each status, why some are skipped, and the estimated time.

    A dry run of several experiments prints a line for each of them.
    """
    for plan in plans if options.dry and len(plans) > 1 else ():
        console.print(f"{plan.experiment.label}: {_counted([plan], options.workers)}", soft_wrap=True)
    names = [plan.experiment.label for plan in plans]
    line = f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}: {_counted(plans, options.workers)}"
    console.print(line, style="bold", soft_wrap=True)
    points = [points[0] for points in unique(plans).values()]
    damaged = sum(point.damaged for point in points)
    if damaged:
        console.print(f"{damaged} kept cells are damaged and are computed again", style="yellow", soft_wrap=True)
    for reason, number in Counter(point.reason for point in points if point.status == "skipped").items():
        console.print(f"skipped {number}: {reason}", style="yellow", soft_wrap=True)


def _counted(plans: Sequence[Plan], workers: int) -> str:
    counts = Counter(points[0].status for points in unique(plans).values())
    line = f"{counts['cached']} cached, {counts['to run']} to run"
    blocks = sum(len(plan.experiment.computed) for plan in plans)
    line += f", {blocks} computed blocks" if blocks else ""
    line += f", {counts['skipped']} skipped" if counts["skipped"] else ""
    if counts["to run"]:
        seconds = estimate(plans)
        line += " (no estimate yet)" if seconds is None else f" (about {_duration(seconds / workers)})"
    return line


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def carry_out(plans: Sequence[Plan], options: Options, errors: Screen) -> None:
    """Compute the waiting cells and blocks, and store each as it finishes.

    Blocks come first, because one may take as long as many cells. A failed block raises its error when it is read.
    """
    store = plans[0].store
    computed = {block.key: block for plan in plans for block in plan.experiment.computed if not block.kept(store)}
    waiting = [points for points in unique(plans).values() if points[0].status == "to run"]
    jobs: list[Cell | Computed] = [*computed.values(), *(points[0].cell for points in waiting if points[0].cell)]
    if not jobs:
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # slow to load

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("left:"))
    alone = len(jobs) == 1  # a single job shows no progress
    with (
        Progress(*columns, TimeRemainingColumn(), console=errors, transient=True, disable=alone) as progress,
        closing(compute(jobs, options.workers, options.address)) as outcomes,
    ):
        bar = progress.add_task("cells", total=len(jobs))
        for number, outcome in outcomes:
            progress.advance(bar)
            job = jobs[number]
            if isinstance(job, Cell):
                _keep(store, waiting[number - len(computed)], outcome, errors, alone)
            elif isinstance(outcome, Record):
                store.write(job.key, outcome)


def _keep(store: Store, points: Sequence[Point], outcome: Outcome, console: Screen, alone: bool) -> None:
    """Store the outcome of a cell, and set the status of all its points.

    If a command has one cell only (`alone`) and this is skipped, the command fails with the reason.
    """
    first = points[0]
    settings = " ".join(f"{key}={value}" for key, value in first.settings.items() if value is not None)
    if isinstance(outcome, Record) and _of_other_data(first, outcome):
        line = "the data files have changed since the command began: run the command again"
        outcome = Failure(line, f"{line}\n")
    if isinstance(outcome, Failure):
        log = store.fail(first.key, outcome.log)
        console.print(f"failed: {settings}: {outcome.line} (see {log})", style="red", soft_wrap=True)
        for point in points:
            point.status, point.reason = "failed", outcome.line
        return
    if outcome.numbers and first.cell and getattr(first.cell.dataset, "own", False):
        measured = Measured.of_text(outcome.numbers)
        public = {key: value for key, value in measured.provenance.items() if key not in ("source", "sha256")}
        outcome = replace(outcome, numbers=replace(measured, provenance=public).text())
    if not (alone and outcome.skipped is not None):
        store.write(first.key, outcome)
    for point in points:
        point.record, point.status, point.reason = replace(outcome, numbers=""), "done", ""
        if outcome.skipped is not None:
            point.skip(outcome.skipped)
    if outcome.skipped is not None and not alone:
        console.print(f"skipped: {settings}: {outcome.skipped}", style="yellow", soft_wrap=True)


def _of_other_data(point: Point, record: Record) -> bool:
    """Return whether the measured data differ from those in the cell's key, because a file changed in the meantime."""
    if not record.numbers or point.cell is None or not hasattr(point.cell.dataset, "checksum"):
        return False  # data without a checksum do not come from a file
    checksum = json.loads(record.numbers)["provenance"].get("sha256")
    return digest_of(point.cell.dataset, checksum) != point.checksum
