"""The Dask engine on a loopback cluster: the same bits as one process, and nothing lost with a worker that dies."""

import os
import signal
import warnings
from pathlib import Path

import pytest
from harness import plan

from dpml.errors import UserError
from dpml.running.cell import measure
from dpml.running.computed import Computed
from dpml.running.executors import compute

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

# Dask's own threads and sockets, and the connection to a worker that we kill, are not ours to tidy up
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

CONTENT = {
    "title": "Cluster",
    "source": "nobody, 2000",
    "settings": {"dataset": "synthetic", "dataset.d": 5, "algo": ["nonpriv", "capefm", "conv"], "M": 3, "draws": 20},
    "grid": {"eps": {"N": [200, 400, 800], "seed": [0, 1], "algo.variant": ["paper", "authors"], "eps": [0.1, 1, 10]}},
}


def cells():
    return [point.cell for point in plan(Path("nowhere"), CONTENT | {"panels": []}).points]


def bits(measured):
    return {name: values.tobytes() for name, values in measured.metrics.items()}


def test_a_cluster_that_is_there_gives_the_same_bits():
    work = cells()[:4]
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
    ) as there:
        found = dict(compute(work, "auto", 1, there.scheduler_address))
    assert [bits(found[number].measured) for number in range(4)] == [bits(measure(cell)) for cell in work]


@pytest.mark.slow
def test_its_own_cluster_loses_nothing_with_a_worker_and_lets_nobody_else_in(monkeypatch):
    """Who reaches a scheduler can run code there: without this run's certificate nobody does, not even over TLS.

    A worker is killed in the middle: nothing is lost, and no bit changes.
    """
    made, work = [], cells()

    class Kept(distributed.LocalCluster):
        def __init__(self, **options):
            super().__init__(**options)
            made.append(self)

    monkeypatch.setattr(distributed, "LocalCluster", Kept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = compute(work, "dask", 2, None)
        found = dict([next(outcomes)])
        assert len(made[0].workers) == 2
        os.kill(next(iter(made[0].workers.values())).pid, signal.SIGKILL)
        address = made[0].scheduler_address
        assert address.startswith("tls://127.0.0.1:")
        strangers = {"no TLS": None, "another certificate": distributed.Security.temporary()}
        for name, security in strangers.items():
            there = address if security else address.replace("tls:", "tcp:")
            with pytest.raises((OSError, TimeoutError)):  # within two seconds
                distributed.Client(there, timeout=2, security=security, name=name)
        found |= dict(outcomes)
    assert [bits(found[number].measured) for number in range(36)] == [bits(measure(cell)) for cell in work]


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "sentence"), [("processes", "a worker process died"), ("dask", "KilledWorker")])
def test_a_job_that_kills_its_worker_is_one_sentence(engine, sentence):
    jobs = [*cells()[:4], Computed("block", "os.abort", {})]
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        pytest.raises(UserError, match=f"{sentence}.*Finished cells are kept: give the same command again"),
    ):
        list(compute(jobs, engine, 2, None))


def test_a_scheduler_that_does_not_answer_is_one_sentence(monkeypatch):
    monkeypatch.setattr("dpml.running.executors.PATIENCE", 0.5)
    with pytest.raises(UserError, match=r"no Dask scheduler answers at run\.address=tcp://127\.0\.0\.1:9"):
        list(compute(cells()[:1], "dask", 1, "tcp://127.0.0.1:9"))
