"""Carries out a plan: computes missing cells, stores each cell as it finishes, reports progress."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dpml.running.cell import Cell, digest_of
from dpml.running.computed import Computed, Written
from dpml.running.executors import Failure, compute
from dpml.running.plan import Entry, Options, Plan
from dpml.running.store import Record
from dpml.screen import Screen

_log = logging.getLogger("dpml")
_LINES = 8  # of a plan's outline


def announce(plan: Plan, options: Options, console: Screen) -> None:
    """Print the plan in a few lines: the number of cells in each state, why some are skipped, the estimated time."""
    counts = plan.counts()
    line = f"{', '.join(task.name for task in plan.tasks[:3])}{', ...' if len(plan.tasks) > 3 else ''}: "
    line += f"{counts['cached']} cached, {counts['to run']} to run"
    blocks = sum(len(task.computed) for task in plan.tasks)
    if blocks:
        line += f", {blocks} computed blocks"
    line += f", {counts['skipped']} skipped" if counts["skipped"] else ""
    if counts["to run"]:
        seconds = plan.estimate()
        line += " (no estimate yet)" if seconds is None else f" (about {_duration(seconds, options)})"
    console.print(line, style="bold", soft_wrap=True)
    _log.info(line)
    damaged = sum(entry.damaged for entry in plan.entries.values())
    damaged += sum(block.damaged(plan.store) for task in plan.tasks for block in task.computed)
    if damaged:
        console.print(f"{damaged} kept cells are damaged and are computed again", style="yellow", soft_wrap=True)
    skipped = [entry for entry in plan.entries.values() if entry.status == "skipped" and plan.optional(entry)]
    for reason, number in Counter(entry.reason for entry in skipped).items():
        console.print(f"skipped {number}: {reason}", style="yellow", soft_wrap=True)


def outline(plan: Plan, options: Options) -> list[str]:
    """The plan as a table of at most `_LINES` lines below its head: by algorithm, or by experiment."""
    several = len(plan.tasks) > 1 and not all(task.whole for task in plan.tasks)
    groups: dict[str, dict[int, Entry]] = {task.name: {} for task in plan.tasks if several}
    for task in plan.tasks:
        for point, entry in plan.points[task.name]:
            name = task.name if several else str(point.settings.get("algo", "-"))
            groups.setdefault(name, {})[id(entry)] = entry
        groups |= {f"computed {block.block}": {} for block in task.computed if not several}
    lines = [_outlined(name, list(found.values()), plan, options) for name, found in groups.items()]
    head = ("experiment" if several else "algorithm", "cells", "cached", "to run", "skipped", "time")
    rest, shown = len(lines) - _LINES, [head, *lines[:_LINES]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in shown]
    return [*text, f"and {rest} more"] if rest > 0 else text


def _outlined(name: str, entries: Sequence[Entry], plan: Plan, options: Options) -> tuple[str, ...]:
    if not entries:
        return name, *("",) * 4, "a function"
    states = Counter(entry.status for entry in entries)
    seconds = plan.estimate(entries) if states["to run"] else 0.0
    time = "?" if seconds is None else f"about {_duration(seconds, options)}" if seconds else ""
    return name, str(len(entries)), *(str(states[key]) for key in ("cached", "to run", "skipped")), time


def _duration(seconds: float, options: Options) -> str:
    seconds /= 1 if options.engine == "serial" else options.workers
    if seconds < 1:
        return "a second"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def carry_out(plan: Plan, options: Options, errors: Screen) -> bool:
    """Compute the waiting jobs, and store each cell and block as it finishes. False: stopped after a failure.

    Blocks come first, because one may take as long as many cells. A failed block is handled by the reader of its rows.

    Raises:
        KeyboardInterrupt: the user wants to stop; what is finished is kept.
    """
    blocks = {block.key: block for task in plan.tasks for block in task.computed if not block.kept(plan.store)}
    cells = [(entry, entry.point.cell) for entry in plan.waiting() if entry.point.cell]
    asked: list[Computed | Entry] = [*blocks.values(), *(entry for entry, _ in cells)]
    jobs: list[Cell | Computed] = [*blocks.values(), *(cell for _, cell in cells)]
    if not jobs:
        return True
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("left:"))
    stop, alone = False, len(jobs) == 1  # a single job shows no progress
    with (
        Progress(*columns, TimeRemainingColumn(), console=errors, transient=True, disable=alone) as progress,
        closing(compute(jobs, options.engine, options.workers, options.address)) as outcomes,
    ):
        bar = progress.add_task("cells", total=len(jobs))
        for number, outcome in outcomes:
            progress.advance(bar)
            one = asked[number]
            if isinstance(one, Entry) and not isinstance(outcome, Written):
                _keep(plan, one, outcome, errors)
                stop = one.status == "failed" and options.on_error == "raise"
            elif isinstance(one, Computed) and isinstance(outcome, Written):
                one.keep(plan.store, outcome)
            if stop:
                break
    return not stop


def _keep(plan: Plan, entry: Entry, outcome: Record | Failure, console: Screen) -> None:
    if not isinstance(outcome, Failure) and _of_other_data(entry, outcome):
        line = "the data have changed since the command began: give it again"
        outcome = Failure(line, f"{line}\n")
    if isinstance(outcome, Failure):
        log = plan.store.fail(entry.key, outcome.log)
        entry.status, entry.reason = "failed", outcome.line
        line = f"failed: {describe(entry.point.settings)}: {outcome.line} (see {log})"
        console.print(line, style="red", soft_wrap=True)
        _log.error(line)
        return
    if outcome.skipped is not None and not plan.optional(entry):
        entry.status, entry.reason = "skipped", outcome.skipped  # an error in this run's settings: nothing is stored
        return
    if outcome.measured and entry.point.cell and getattr(entry.point.cell.dataset, "own", False):
        kept = {key: said for key, said in outcome.measured.provenance.items() if key not in ("source", "sha256")}
        outcome = replace(outcome, measured=replace(outcome.measured, provenance=kept))
    plan.store.write(entry.key, entry.identity, outcome)
    entry.record, entry.status, entry.reason = outcome, "done", ""
    _log.info("%.3f s: %s", outcome.seconds, describe(entry.point.settings))
    if outcome.skipped is not None:
        entry.status, entry.reason = "skipped", outcome.skipped
        line = f"skipped: {describe(entry.point.settings)}: {outcome.skipped}"
        console.print(line, style="yellow", soft_wrap=True)


def _of_other_data(entry: Entry, record: Record) -> bool:
    """Whether the measured data differ from the data in the cell's key: the files changed in the meantime."""
    if record.measured is None or entry.point.cell is None or not hasattr(entry.point.cell.dataset, "checksum"):
        return False  # data without a checksum do not come from a file
    found = digest_of(entry.point.cell.dataset, record.measured.provenance.get("sha256"))
    return bool(found != entry.identity["data"])


def describe(settings: Mapping[str, Any]) -> str:
    """Settings in one line, in the form of the command line."""
    return " ".join(f"{key}={value}" for key, value in settings.items())
