"""The Dask engine on a loopback cluster: the same bits as one process, and nothing lost with a worker that dies."""

import os
import signal
import warnings

import hydra
import pytest

from dpml.config.compose import initialise
from dpml.errors import UserError
from dpml.running.cell import measure
from dpml.running.executors import Failure, compute
from dpml.running.expansion import Expansion
from dpml.running.plan import Options
from dpml.running.spec import Experiment

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
    with initialise():
        expansion = Expansion.from_config(hydra.compose("config"), [])
        points = expansion.experiment(Experiment.from_content("mine/cluster", CONTENT))
    return [point.cell for point in points]


def bits(measured):
    return {name: values.tobytes() for name, values in measured.metrics.items()}


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_loses_nothing_and_changes_no_bit():
    work = cells()
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        victim = next(iter(cluster.workers.values())).pid
        found = {}
        for cell, outcome in compute(work, "dask", 2, cluster.scheduler_address):
            if not found:
                os.kill(victim, signal.SIGKILL)
            assert not isinstance(outcome, Failure), outcome.log
            found[id(cell)] = bits(outcome.measured)
    assert len(found) == len(work) == 36
    assert found == {id(cell): bits(measure(cell)) for cell in work}


@pytest.mark.slow
def test_a_worker_that_joins_takes_work_and_changes_no_bit():
    """One worker begins, is killed and comes back; another joins. The cells are slow enough for both to get some."""
    with initialise():
        expansion = Expansion.from_config(hydra.compose("config"), [])
        content = CONTENT | {"grid": {"eps": {"algo": "dpgd", "algo.rounds": 300, "N": 4000, "seed": list(range(60))}}}
        work = [point.cell for point in expansion.experiment(Experiment.from_content("mine/cluster", content))]
    found, at_work = {}, set()
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        victim = next(iter(cluster.workers.values())).pid
        for cell, outcome in compute(work, "dask", 1, cluster.scheduler_address):
            if not found:
                os.kill(victim, signal.SIGKILL)
                cluster.scale(2)
            at_work |= {worker.name for worker in cluster.scheduler.workers.values() if worker.processing}
            assert not isinstance(outcome, Failure), outcome.log
            found[id(cell)] = bits(outcome.measured)
    assert len(at_work) >= 2
    assert found == {id(cell): bits(measure(cell)) for cell in work}


def test_a_cluster_that_is_there_gives_the_same_bits():
    work = cells()[:4]
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
    ) as there:
        found = {
            id(cell): bits(outcome.measured) for cell, outcome in compute(work, "auto", 1, there.scheduler_address)
        }
    assert found == {id(cell): bits(measure(cell)) for cell in work}


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
    assert [bits(found[cell].measured) for cell in work] == [bits(measure(cell)) for cell in work]


def test_a_scheduler_that_does_not_answer_is_one_sentence(monkeypatch):
    monkeypatch.setattr("dpml.running.executors.PATIENCE", 0.5)
    with pytest.raises(UserError, match=r"no Dask scheduler answers at run\.address=tcp://127\.0\.0\.1:9"):
        list(compute(cells()[:1], "dask", 1, "tcp://127.0.0.1:9"))


@pytest.mark.parametrize(
    ("engine", "workers", "sentence"), [("ray", 1, r"unknown run\.engine='ray'"), ("auto", 0, r"run\.workers")]
)
def test_mistakes(engine, workers, sentence):
    with pytest.raises(UserError, match=sentence):
        Options(engine=engine, workers=workers)
