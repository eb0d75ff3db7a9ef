"""A Dask cluster on this machine gives the same bits as one process; a worker that dies is one sentence."""

from pathlib import Path

import pytest
from harness import plan

from dpml.errors import UserError
from dpml.running.cell import Measured, measure
from dpml.running.computed import Computed
from dpml.running.runner import compute

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

# Dask's own threads and sockets, and the connection to a worker that we kill, are not ours to tidy up
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def cells():
    return [point.cell for point in plan(Path("nowhere")).cells[1:5]]


def bits(measured):
    return {name: values.tobytes() for name, values in measured.metrics.items()}


def test_a_cluster_that_is_there_gives_the_same_bits():
    work = cells()
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
    ) as there:
        found = dict(compute(work, 1, there.scheduler_address))
    assert [bits(Measured.of_text(found[number].numbers)) for number in range(4)] == [
        bits(measure(cell)) for cell in work
    ]


@pytest.mark.slow
def test_a_job_that_kills_its_worker_is_one_sentence():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=2, dashboard_address="127.0.0.1:0") as local,
        pytest.raises(UserError, match=r"KilledWorker.*Finished cells are kept: give the same command again"),
    ):
        list(compute([*cells(), Computed("block", "os.abort", {})], 2, local.scheduler_address))


def test_a_scheduler_that_does_not_answer_is_one_sentence(monkeypatch):
    monkeypatch.setattr("dpml.running.runner.PATIENCE", 0.5)
    with pytest.raises(UserError, match=r"no Dask scheduler answers at run\.address=tcp://127\.0\.0\.1:9"):
        list(compute(cells(), 1, "tcp://127.0.0.1:9"))
