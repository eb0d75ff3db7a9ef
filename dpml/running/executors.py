"""Engines for cells and computed blocks: this process, local worker processes, or a Dask cluster.

Every engine takes jobs, which are small, and yields the outcome of each as soon as it is known. Workers load the data
themselves and return numbers, or for a block the text of its rows, and the checksum of their code. Only this process
writes to disk, so the machines need to share no disk except the data. The numbers are bit-identical for every engine
and number of workers.
"""

import importlib
import logging
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from dpml.errors import UserError
from dpml.optim import NotConvergedError
from dpml.running.cell import Cell, limit_blas, measure
from dpml.running.computed import Computed, Written
from dpml.running.environment import made_with
from dpml.running.store import Record

PATIENCE = 20.0  # seconds to wait for a scheduler
ATTEMPTS = 3  # a job with which this many workers died has failed, and is not tried again


@dataclass(frozen=True)
class Failure:
    """The reason why a cell failed: one line, and the full log."""

    line: str
    log: str


WORTH = 2**20  # bytes; less is done before a process has imported what it needs

A = TypeVar("A")
B = TypeVar("B")
Job = Cell | Computed
Outcome = Record | Failure | Written


def attempt(job: Job) -> Outcome:
    """Run a job: returns the rows of a block, or the measurements of a cell."""
    return _measured(job) if isinstance(job, Cell) else _written(job)


def _written(block: Computed) -> Written | Failure:
    try:
        return block.written()
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


def _measured(cell: Cell) -> Record | Failure:
    """Measure a cell; its time is CPU seconds of one thread, as wall-clock time depends on other processes."""
    start = time.thread_time()
    try:
        measured = measure(cell)
        seconds = time.thread_time() - start
        return Record(measured, None, seconds, measured.refused, cell.code, made_with())
    except NotConvergedError as error:
        return Failure(str(error), f"{error}\n")
    except UserError as error:
        seconds = time.thread_time() - start
        return Record(None, str(error), seconds, code=cell.code, made_with=made_with())
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


def start(engine: str, workers: int, address: str | None) -> ProcessPoolExecutor | None:
    """Local worker processes for `compute`, which get ready while the jobs are planned; None for other engines."""
    if engine not in ("auto", "processes") or workers < 2 or address:
        return None
    pool = _pool(workers)
    try:
        with _signals_held():
            for _ in range(workers):
                pool.submit(_ready)
    except BaseException:
        stop(pool)  # Ctrl-C: nobody else would
        raise
    return pool


def _ready() -> None:
    """What a worker does first: to be called, it imports this module, and with it all that cells need."""


def stop(pool: ProcessPoolExecutor) -> None:
    """End the processes of a pool, whatever they are doing."""
    for process in list((pool._processes or {}).values()):
        process.terminate()
    # wait for the pool's own thread: at exit it would race with the interpreter for the pipe between them
    pool.shutdown(wait=True, cancel_futures=True)


def _pool(workers: int) -> ProcessPoolExecutor:
    # spawned, not forked: a fork copies locks that BLAS threads may hold
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_end_with_parent)


def in_order(work: Callable[[A], B], items: Sequence[A], sizes: Sequence[int]) -> Iterator[B]:
    """`work` of every item, in their order, in as many local processes as there are cores; the largest begin first.

    Args:
        work: a function of a module.
        items: what it is called with.
        sizes: of the items, in bytes; where all together have less than `WORTH`, this process does the work.
    """
    workers = min(os.cpu_count() or 1, len(items))
    if workers < 2 or sum(sizes) < WORTH:
        yield from map(work, items)
        return
    with _pool(workers) as pool:
        try:
            with _signals_held():
                order = sorted(range(len(items)), key=lambda number: -sizes[number])
                results = {number: pool.submit(work, items[number]) for number in order}
            yield from (results[number].result() for number in range(len(items)))
        except BrokenProcessPool:
            raise UserError("a worker process died (out of memory?): nothing more was computed.") from None
        except BaseException:
            stop(pool)  # Ctrl-C, or an error: do not wait for the others
            raise


def compute(  # many parameters: where and by whom jobs are run
    jobs: Iterable[Job], engine: str, workers: int, address: str | None, pool: ProcessPoolExecutor | None = None
) -> Iterator[tuple[Job, Outcome]]:
    """Run `jobs` and yield (job, outcome) in the order in which they finish.

    Args:
        jobs: the jobs to run.
        engine: serial, processes, dask; auto is serial for one worker and processes for more.
        workers: number of processes; an existing Dask cluster has its own workers.
        address: of the scheduler of that cluster, tcp://HOST:PORT; None starts a cluster on this machine.
        pool: processes that were started for these jobs, and perhaps for further ones (`start`): who did so ends them.
    """
    if engine == "auto":
        engine = "dask" if address else "processes" if workers > 1 else "serial"
    jobs = list(jobs)
    if engine == "serial":
        return ((job, attempt(job)) for job in jobs)
    return _processes(jobs, workers, pool) if engine == "processes" else _dask(jobs, workers, address)


def _processes(
    jobs: list[Job], workers: int, started: ProcessPoolExecutor | None = None
) -> Iterator[tuple[Job, Outcome]]:
    """Local processes. When one dies, the pool is created again and its unfinished jobs are run again.

    It is unknown which of the jobs in flight killed the worker: each of them is run again alone, so that no job fails
    because of another.
    """
    waiting = dict.fromkeys(range(len(jobs)), 0)  # number of the job -> workers that died with it
    while waiting:
        suspects = [number for number, deaths in waiting.items() if deaths]
        numbers, at_once = (suspects, 1) if suspects else (list(waiting), workers + 1)
        with nullcontext(started) if started else _pool(min(workers, at_once, len(numbers))) as pool:
            started = None
            running: dict[Future[Outcome], int] = {}
            try:
                for number, outcome in _as_completed(pool, jobs, numbers, running, at_once):
                    del waiting[number]
                    yield jobs[number], outcome
            except BrokenProcessPool:
                for number in running.values():
                    waiting[number] += 1
                for number in [number for number, deaths in waiting.items() if deaths >= ATTEMPTS]:
                    del waiting[number]
                    line = f"{ATTEMPTS} worker processes died while computing it (out of memory?)"
                    yield jobs[number], Failure(line, line + "\n")
            except BaseException:
                stop(pool)  # Ctrl-C: do not wait for jobs in flight
                raise


def _as_completed(
    pool: ProcessPoolExecutor, jobs: list[Job], numbers: list[int], running: dict[Future[Outcome], int], at_once: int
) -> Iterator[tuple[int, Outcome]]:
    """Yield outcomes in the order of completion; few jobs are in flight, so few are suspect when a worker dies."""
    queue = iter(numbers)
    while True:
        while len(running) < at_once and (number := next(queue, None)) is not None:
            with _signals_held():
                running[pool.submit(attempt, jobs[number])] = number
        if not running:
            return
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            outcome = done.result()
            yield running.pop(done), outcome


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM while a worker may be started: one that is told half of its task prints a traceback.

    A terminal sends Ctrl-C to all processes, also to workers that are still importing; the main process ends them, so
    they never receive it: they inherit the signal mask. The handlers cover what arrives through another thread.
    """
    if threading.current_thread() is not threading.main_thread():  # Python handles signals in the main thread only
        yield
        return
    came: list[int] = []
    held = (signal.SIGINT, signal.SIGTERM)
    usual = {number: signal.signal(number, lambda number, _: came.append(number)) for number in held}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in usual.items():
            signal.signal(number, handler or signal.SIG_DFL)
        for late in came:  # also after an exception, which would hide it
            signal.raise_signal(late)


def _end_with_parent() -> None:
    """Make a worker end when the main process is killed, instead of waiting for the next job for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _dask(jobs: list[Job], workers: int, address: str | None) -> Iterator[tuple[Job, Outcome]]:
    """Compute on a Dask cluster at `address`, or on a local one, which uses TLS with a certificate of its own."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise UserError("run.engine=dask needs Dask: pip install '.[cluster]' in a clone of dpml.") from None
    for name in logging.root.manager.loggerDict:  # what is lost is said in one sentence, below
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    cluster: Any = address
    try:
        if address is None:
            # any process that reaches a scheduler can run code as its user: the certificate keeps other users out
            own = {
                "host": "127.0.0.1",
                "dashboard_address": "127.0.0.1:0",
                "security": distributed.Security.temporary(),
            }
            cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, **own)
        client = distributed.Client(cluster, timeout=PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"no Dask scheduler answers at run.address={address}: {error}") from error
    try:
        numbers = {client.submit(_attempt_there, job, pure=False): i for i, job in enumerate(jobs)}
        for future in distributed.as_completed(numbers):
            try:
                # a finished future may be pending again: its worker died with the result, which is being recomputed
                outcome: Outcome = future.result()
            except (distributed.CancelledError, distributed.comm.CommClosedError):  # not by this process
                raise UserError(
                    "the Dask scheduler was lost: what is finished is kept, so give the same command again."
                ) from None
            except Exception as error:
                log = "".join(traceback.format_exception(error))
                outcome = Failure(f"{type(error).__name__}: {error}".splitlines()[0], log)
            yield jobs[numbers[future]], outcome
            future.release()
    finally:
        client.close()
        if address is None:
            cluster.close()


def _attempt_there(job: Job) -> Outcome:
    # a worker of an existing cluster may run several jobs in threads, so the limit of one BLAS thread is set
    # permanently
    limit_blas()
    return attempt(job)
