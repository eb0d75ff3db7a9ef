"""A Dask scheduler that is killed while a command uses it: one sentence, and another goes on from what was finished."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from failing import go, prepare

from dpml.running import runner
from dpml.running.executors import compute

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    # Dask's own threads and sockets, and the connection to a scheduler that we kill, are not ours to tidy up
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
CLUSTER = """
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1")
    print(cluster.scheduler_address, flush=True)
    input()
"""
SEEDS = f"seed=[{','.join(map(str, range(20)))}]"
WORDS = ["dpml-run", "dataset=synthetic", "N=200", "M=2", "algo=nonpriv", SEEDS, "draws=1", "hydra.run.dir=out"]


def test_a_scheduler_that_is_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    prepare(folder)
    program = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()

        def killing(*arguments):  # type: ignore[no-untyped-def]
            for number, pair in enumerate(compute(*arguments)):
                if number == 0:
                    os.kill(cluster.pid, signal.SIGKILL)
                yield pair

        with monkeypatch.context() as patch:
            patch.setattr(runner, "compute", killing)
            status, _, err = go(folder, [*WORDS, f"run.address={address}"])
    assert status == 2
    said = err + capfd.readouterr().err  # what the library's log says is not redirected
    assert "Traceback" not in said
    assert " - distributed" not in said
    assert said.count("dpml-run: error: ") == 1
    assert "dpml-run: error: the Dask scheduler was lost: what is finished is kept" in err
    assert not list(folder.glob("results/.cells/*/*/error.txt"))
    kept = len(list(folder.glob("results/.cells/*/*/result-*.json")))
    assert kept
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as another:
        assert another.stdout is not None
        status, out, _ = go(folder, [*WORDS, f"run.address={another.stdout.readline().strip()}"])
        another.communicate("\n")
    assert status == 0
    assert f"{kept} cached, {20 - kept} to run" in out
    resumed = (folder / "out/rows.csv").read_bytes()
    prepare(folder)
    assert go(folder, WORDS)[0] == 0  # in this process, from the start
    assert (folder / "out/rows.csv").read_bytes() == resumed
