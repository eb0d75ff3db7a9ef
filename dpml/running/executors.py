"""Compute jobs (cells and computed blocks) in this process, in joblib's workers, or on a Dask cluster.

Workers load the data themselves and return records. Only this process writes to disk. The numbers do not depend on the
place or on the number of workers, bit for bit. One exception: the rounding of cells that are computed together, in
step, depends on which cells are waiting.
"""

import importlib
import logging
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from dpml.algorithms import Release
from dpml.errors import UserError
from dpml.optim import NotConvergedError
from dpml.running.cell import Cell, limit_blas, measure, released_in_step, step_key
from dpml.running.computed import Computed
from dpml.running.store import Record

PATIENCE = 20.0  # seconds to wait for a scheduler
LOST = "Finished cells are kept: give the same command again to go on."


@dataclass(frozen=True)
class Failure:
    """The reason why a cell failed: one line, and the full log."""

    line: str
    log: str


Job = Cell | Computed
Outcome = Record | Failure
Outcomes = Generator[tuple[int, Outcome], None, None]  # with the number of the job
Batch = list[tuple[int, Job]]
"""Jobs that one worker carries out together, with their numbers."""


def attempt_batch(batch: Batch) -> list[tuple[int, Outcome]]:
    """Return the outcome of every job. Cells are computed together, in step; if that fails, each is computed alone."""
    start = time.thread_time()
    releases: Sequence[Release | None] = [None] * len(batch)
    cells = [job for _, job in batch if isinstance(job, Cell) and step_key(job)]
    if cells:
        with suppress(Exception):  # each cell is then computed alone, and reports its own error
            releases = released_in_step(cells)
    seconds = (time.thread_time() - start) / len(batch)
    return [(number, attempt(job, release, seconds)) for (number, job), release in zip(batch, releases, strict=True)]


def attempt(job: Job, release: Release | None = None, seconds: float = 0.0) -> Outcome:
    """Compute a cell or a block. Return its record, or the reason why it failed.

    A UserError means that the cell is skipped. Any other error is a failure. The time is the CPU time of this thread,
    which does all the work. `release` was computed in step, and took the CPU time `seconds`.
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
    """Yield (number of the job, outcome) in the order in which the jobs finish.

    They run in `workers` processes, or on the Dask cluster whose scheduler is at `address`, tcp://HOST:PORT.
    """
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
    """Compute a batch in another process, which exits soon after the process `parent` has ended."""
    limit_blas()  # permanently: a worker of Dask may run several jobs in threads
    if parent not in (None, os.getpid()):  # with one worker, joblib works in this process
        _end_with(parent)
    return attempt_batch(batch)


def _in_processes(batches: Sequence[Batch], workers: int) -> Generator[list[tuple[int, Outcome]], None, None]:
    """Yield the outcomes of batches from joblib's workers, which end when the generator is closed."""
    import joblib  # slow to load

    tasks = (joblib.delayed(_in_worker)(batch, os.getpid()) for batch in batches)
    with _ctrl_c_ignored():  # the workers inherit this: a terminal sends Ctrl-C to them as well
        results = joblib.Parallel(workers, "loky", return_as="generator_unordered")(tasks)
    try:
        for result in results:  # noqa: UP028 - `yield from` would close `results` with a warning
            yield result
    except BrokenProcessPool:
        raise UserError(f"a worker process died (out of memory?). {LOST}") from None
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
    """Make this worker exit soon after its parent was killed; joblib would let it wait for jobs for minutes."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_cluster(batches: Sequence[Batch], address: str) -> Generator[list[tuple[int, Outcome]], None, None]:
    """Compute on a Dask cluster, which reschedules the jobs of a dead worker.

    joblib's own backend for Dask waits for ever when Dask gives up a job.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise UserError("run.address needs Dask: pip install '.[cluster]' in a clone of dpml.") from None
    for name in logging.root.manager.loggerDict:  # a lost worker is reported in one sentence, below
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
            raise UserError(f"the Dask cluster failed: {reason} {LOST}") from error
