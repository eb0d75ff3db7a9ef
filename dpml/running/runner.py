"""Compute fits (cells) in this process, in joblib's workers, or on a Dask cluster, and store the results.

Only this process writes to disk. The numbers do not depend on the number of workers, bit for bit. But the rounding of
cells that are computed together (`released_in_step`) depends on which of them a command computes.
"""

import importlib
import json
import logging
import os
import signal
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from dpml.algorithms import Release
from dpml.errors import UserError
from dpml.optim import NotConvergedError
from dpml.running.cell import Cell, Measured, digest_of, limit_blas, measure, released_in_step, step_key
from dpml.running.computed import Computed
from dpml.running.expansion import Point
from dpml.running.plan import Options, Plan, estimate, unique
from dpml.running.store import Record, Store
from dpml.screen import Screen

PATIENCE = 20.0  # seconds to wait for a scheduler


@dataclass(frozen=True)
class Failure:
    """The reason why a `Job` (such as a fit) failed: one line, and the full log."""

    line: str
    log: str


Job = Cell | Computed
Outcome = Record | Failure
Outcomes = Generator[tuple[int, Outcome], None, None]  # pairs of a job's number and outcome
Batch = list[tuple[int, Job]]
"""Jobs that one worker carries out together, with their numbers."""


def attempt_batch(batch: Batch) -> list[tuple[int, Outcome]]:
    """Compute a batch of jobs, together if possible or else one by one; return pairs (job's number, job's outcome)."""
    start = time.thread_time()
    releases: Sequence[Release | None] = [None] * len(batch)
    cells = [job for _, job in batch if isinstance(job, Cell) and step_key(job)]
    if cells:
        with suppress(Exception):  # after an error, each cell is computed alone, and reports its own error
            releases = released_in_step(cells)
    seconds = (time.thread_time() - start) / len(batch)
    return [(number, attempt(job, release, seconds)) for (number, job), release in zip(batch, releases, strict=True)]


def attempt(job: Job, release: Release | None = None, seconds: float = 0.0) -> Outcome:
    """Compute a fit, or a block that a function computes; return the record of results, or why the job failed.

    A UserError skips the cell. `release`, if given, was computed together with other cells, in `seconds` of CPU time.
    """
    start = time.thread_time() - seconds
    try:
        if isinstance(job, Computed):
            return job.computed()
        measured = measure(job, release)
        return Record(measured.text(), None, time.thread_time() - start, measured.refused, job.code)
    except NotConvergedError as error:
        return Failure(str(error), f"{error}\n")
    except Exception as error:
        if isinstance(error, UserError) and isinstance(job, Cell):
            return Record("", str(error), time.thread_time() - start, code=job.code)
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


def compute(jobs: Sequence[Job], workers: int, address: str | None = None) -> Outcomes:
    """Yield the number and the outcome of each job as it finishes; `address` is the scheduler of a Dask cluster."""
    together: dict[Any, Batch] = {}
    for number, job in enumerate(jobs):
        key = step_key(job) if isinstance(job, Cell) else None
        together.setdefault(key or number, []).append((number, job))
    batches: Sequence[Batch] = list(together.values())
    outcomes: Any = (attempt_batch(batch) for batch in batches)
    if address:
        outcomes = _on_cluster(batches, address)
    elif workers > 1:
        outcomes = _in_processes(batches, workers)
    with closing(outcomes):
        for batch in outcomes:
            yield from batch


def _in_worker(batch: Batch, parent: int | None = None) -> list[tuple[int, Outcome]]:
    """Compute a batch in a worker process, which exits soon after the process `parent` has ended."""
    limit_blas()  # permanently: a worker of Dask may run several jobs in threads
    if parent not in (None, os.getpid()):  # with one worker, joblib works in this process
        _end_with(parent)
    return attempt_batch(batch)


def _in_processes(batches: Sequence[Batch], workers: int) -> Generator[list[tuple[int, Outcome]], None, None]:
    import joblib  # slow to load

    tasks = (joblib.delayed(_in_worker)(batch, os.getpid()) for batch in batches)
    with _ctrl_c_ignored():  # the workers inherit this: a terminal sends Ctrl-C to them as well
        results = joblib.Parallel(workers, "loky", return_as="generator_unordered")(tasks)
    try:
        for result in results:  # noqa: UP028 - `yield from` would close `results` with a warning
            yield result
    except BrokenProcessPool:
        raise UserError(
            "a worker process died (out of memory?). Finished cells are kept: give the same command again to go on."
        ) from None
    finally:
        with warnings.catch_warnings(action="ignore"):  # joblib warns that tasks were cancelled
            results.close()


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # Python handles signals in the main thread only
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@cache
def _end_with(parent: int | None) -> None:
    """Make this worker exit soon after its parent was killed; joblib would keep the worker alive for minutes."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_cluster(batches: Sequence[Batch], address: str) -> Generator[list[tuple[int, Outcome]], None, None]:
    """Compute batches on a Dask cluster without joblib's Dask backend, which waits for ever if Dask gives up a job."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise UserError("run.address needs Dask: pip install '.[cluster]' in a clone of dpml.") from None
    for name in logging.root.manager.loggerDict:  # silence Dask: one sentence reports a lost worker, below
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"no Dask scheduler answers at run.address={address}: {error}") from error
    with client:
        try:
            for future in distributed.as_completed(client.map(_in_worker, batches, pure=False)):
                # a finished future may be pending again: its worker died with the result, which is being recomputed
                yield future.result()
                future.release()
        except Exception as error:  # an error of Dask, because `attempt` raises nothing
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise UserError(
                f"the Dask cluster failed: {reason} Finished cells are kept: give the same command again to go on."
            ) from error


def announce(plans: Sequence[Plan], options: Options, console: Screen) -> None:
    """Print how many fits (cells) have each status, why fits are skipped, and the estimated time."""
    for plan in plans if options.dry and len(plans) > 1 else ():
        console.print(f"{plan.experiment.label}: {_counted([plan], options.workers)}", soft_wrap=True)
    names = [plan.experiment.label for plan in plans]
    line = f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}: {_counted(plans, options.workers)}"
    console.print(line, style="bold", soft_wrap=True)
    points = [points[0] for points in unique(plans).values()]
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
    """Compute the results that plans still wait for, and store each result as soon as it is computed."""
    store = plans[0].store
    computed = {block.key: block for plan in plans for block in plan.experiment.computed if not block.kept(store)}
    waiting = [points for points in unique(plans).values() if points[0].status == "to run"]
    jobs: list[Job] = [*computed.values(), *(points[0].cell for points in waiting if points[0].cell)]
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
    if not record.numbers or point.cell is None or not hasattr(point.cell.dataset, "checksum"):
        return False  # data without a checksum do not come from a file that can change
    checksum = json.loads(record.numbers)["provenance"].get("sha256")
    return digest_of(point.cell.dataset, checksum) != point.checksum
