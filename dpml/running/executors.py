"""Engines for cells and computed blocks: this process, joblib's worker processes, or a Dask cluster.

Workers load the data themselves and return numbers, or the text of a block's rows, with the checksum of their code.
Only this process writes to disk. The numbers are bit-identical for every engine and number of workers. The numbers of
cells in step depend by rounding on which cells are waiting.
"""

import importlib
import logging
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from dpml.algorithms import Release
from dpml.errors import UserError
from dpml.optim import NotConvergedError
from dpml.running.cell import Cell, limit_blas, measure, released_in_step, step_key
from dpml.running.computed import Computed, Written
from dpml.running.environment import made_with
from dpml.running.store import Record

PATIENCE = 20.0  # seconds to wait for a scheduler
LOST = "Finished cells are kept: give the same command again to go on."


@dataclass(frozen=True)
class Failure:
    """The reason why a cell failed: one line, and the full log."""

    line: str
    log: str


A = TypeVar("A")
B = TypeVar("B")
Job = Cell | Computed
Outcome = Record | Failure | Written
Outcomes = Generator[tuple[int, Outcome], None, None]  # with the number of the job
Batch = list[tuple[int, Job]]
"""Jobs that one worker carries out together, with their numbers."""


def attempt_batch(batch: Batch) -> list[tuple[int, Outcome]]:
    """Return the outcome of every job; cells of a batch are carried out in step, or where that fails each alone."""
    start = time.thread_time()
    releases: Sequence[Release | None] = [None] * len(batch)
    cells = [job for _, job in batch if isinstance(job, Cell) and step_key(job)]
    if cells:
        with suppress(Exception):  # a cell that is carried out alone reports its own reason
            releases = released_in_step(cells)
    seconds = (time.thread_time() - start) / len(batch)
    return [(number, attempt(job, release, seconds)) for (number, job), release in zip(batch, releases, strict=True)]


def attempt(job: Job, release: Release | None = None, seconds: float = 0.0) -> Outcome:
    """Return the rows of a block, or the measurements of a cell with its CPU seconds; or why there are none.

    A UserError is the reason to skip a cell. Any other error is a failure. One thread does all the work, so its time
    does not depend on other processes. `release` was carried out in step, in so many seconds.
    """
    start = time.thread_time() - seconds
    try:
        if isinstance(job, Computed):
            return job.written()
        measured = measure(job, release)
        return Record(measured, None, time.thread_time() - start, measured.refused, job.code, made_with())
    except NotConvergedError as error:
        return Failure(str(error), f"{error}\n")
    except Exception as error:
        if isinstance(error, UserError) and isinstance(job, Cell):
            return Record(None, str(error), time.thread_time() - start, code=job.code, made_with=made_with())
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


def compute(jobs: Sequence[Job], engine: str, workers: int, address: str | None) -> Outcomes:
    """Run `jobs` and yield (number of the job, outcome) in the order in which they finish.

    Args:
        jobs: the jobs to run.
        engine: serial, processes, dask; auto is dask with an address, and processes without one.
        workers: number of processes; an existing Dask cluster has its own workers.
        address: of the scheduler of that cluster, tcp://HOST:PORT; None starts a cluster on this machine.
    """
    together: dict[Any, Batch] = {}
    for number, job in enumerate(jobs):
        key = step_key(job) if isinstance(job, Cell) else None
        together.setdefault(key or number, []).append((number, job))
    batches: Sequence[Batch] = list(together.values())
    found: Any
    if engine == "dask" or (engine == "auto" and address):
        found = _dask(batches, workers, address)
    elif engine == "serial" or workers == 1:
        found = (attempt_batch(batch) for batch in batches)
    else:
        found = in_processes(_in_process, batches, workers)
    with closing(found):
        for outcomes in found:
            yield from outcomes


def _in_process(batch: Batch) -> list[tuple[int, Outcome]]:
    limit_blas()  # permanently: a worker of Dask may run several jobs in threads
    return attempt_batch(batch)


def in_processes(work: Callable[[A], B], items: Sequence[A], workers: int) -> Generator[B, None, None]:
    """Yield `work` of every item from worker processes, in any order. The workers end when the generator is closed."""
    import joblib  # slow to load

    tasks = (joblib.delayed(_in_worker)(work, item, os.getpid()) for item in items)
    with _ctrl_c_ignored():  # the workers inherit this; a terminal sends Ctrl-C to them, too
        results = joblib.Parallel(workers, "loky", return_as="generator_unordered")(tasks)
    try:
        for result in results:  # noqa: UP028 - `yield from` would close `results` with a warning
            yield result
    except BrokenProcessPool:
        raise UserError(f"a worker process died (out of memory?). {LOST}") from None
    finally:
        with warnings.catch_warnings(action="ignore"):  # that tasks were cancelled
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


def _in_worker(work: Callable[[A], B], item: A, parent: int) -> B:
    if os.getpid() != parent:  # with one worker, joblib works in this process
        _end_with(parent)
    return work(item)


@cache
def _end_with(parent: int) -> None:
    """Make this worker end soon after its parent was killed; joblib's workers would wait for jobs for minutes."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _dask(
    batches: Sequence[Batch], workers: int, address: str | None
) -> Generator[list[tuple[int, Outcome]], None, None]:
    """Use the Dask cluster at `address`, or a local one. Dask reschedules the jobs of a dead worker.

    joblib's own backend for Dask waits for ever when Dask gives up a job. A local cluster uses TLS, with a certificate
    that only this run has: any process that reaches a scheduler can run code as its user.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise UserError("run.engine=dask needs Dask: pip install '.[cluster]' in a clone of dpml.") from None
    for name in logging.root.manager.loggerDict:  # a lost worker is reported in one sentence, below
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as opened:
        try:
            cluster: Any = address or opened.enter_context(
                distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    security=distributed.Security.temporary(),
                )
            )
            client = opened.enter_context(distributed.Client(cluster, timeout=PATIENCE))
        except (OSError, TimeoutError, ValueError) as error:
            raise UserError(f"no Dask scheduler answers at run.address={address}: {error}") from error
        try:
            for future in distributed.as_completed(client.map(_in_process, batches, pure=False)):
                # a finished future may be pending again: its worker died with the result, which is being recomputed
                yield future.result()
                future.release()
        except Exception as error:  # of Dask: `attempt` raises nothing
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise UserError(f"the Dask cluster failed: {reason} {LOST}") from error
