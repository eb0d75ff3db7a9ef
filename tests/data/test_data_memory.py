"""Memory of large data sets and files, each load in a process of its own. Slow: run with -m slow."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to measure memory"),
]

LOAD = """
import json, re, sys
from pathlib import Path
import numpy as np
from dpml.data import Files
from dpml.data.sets.csv import CSV
data = CSV(path=sys.argv[1], label="label").load(Files(), None, np.random.default_rng(0))
# the process's own peak in GiB; what getrusage says includes that of the process that started this one
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 2**20
print(json.dumps([peak, *data.X.shape, *data.X_test.shape]))
"""


def test_a_million_rows_of_fifty_columns(tmp_path):
    rng, rows = np.random.default_rng(0), 100_000
    colours = np.array(["red", "green", "blue", "yellow", "black"])
    block = {f"x{j}": rng.standard_normal(rows) for j in range(25)}
    block |= {f"i{j}": rng.integers(0, 1000, rows) for j in range(15)}
    block |= {f"c{j}": rng.choice(colours, rows) for j in range(8)}
    block |= {"member": rng.choice(["yes", "no"], rows), "label": rng.choice(["<=50K", ">50K"], rows)}
    head, _, body = pd.DataFrame(block).to_csv(index=False).partition("\n")
    path = tmp_path / "large.csv"
    with path.open("w") as file:
        file.write(f"{head}\n")
        file.writelines(body for _ in range(10))
    for _ in range(2):  # the second from the cache
        done = subprocess.run([sys.executable, "-c", LOAD, path], capture_output=True, text=True, check=True)
        peak, *shape = json.loads(done.stdout)
        assert shape == [800_000, 82, 200_000, 82]
        assert peak < 2


MAPPED = """
import re, sys, threading
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
import numpy as np
from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.data import Dataset, Info
from dpml.data.partition import Equal
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget
from dpml.running.cell import Cell, measure

@dataclass(frozen=True)
class Mapped:
    info: ClassVar[Info] = Info(name="mapped", title="Rows in a file", task="binary", citation="made up")
    rows: int = int(sys.argv[1])
    def size(self, N):
        return self.rows, 100
    def load(self, files, N, rng):
        X = np.load("X.npy", mmap_mode="r")
        return Dataset("mapped", "binary", X, np.load("y.npy"), np.array(X[:1000]), np.load("y.npy")[:1000])

data, rng = Mapped(), np.random.default_rng(0)
X, y = np.lib.format.open_memmap("X.npy", "w+", np.float64, (data.rows, 100)), np.empty(data.rows)
for start in range(0, data.rows, 1 << 16):
    block = rng.standard_normal((min(1 << 16, data.rows - start), 100))
    X[start : start + len(block)] = block / (1.001 * np.linalg.norm(block, axis=1, keepdims=True))
    y[start : start + len(block)] = np.where(block[:, 0] + rng.logistic(size=len(block)) > 0, 1.0, -1.0)
del X
np.save("y.npy", y)
del y
peak, over = 0, threading.Event()
def watch():
    global peak
    while not over.wait(0.01):  # what belongs to the process alone; the system takes pages of mapped files back
        peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
watcher = threading.Thread(target=watch)
watcher.start()
measure(Cell(data, Equal(), SufficientStatistics(LOSSES["logistic"]), 10, None, 0, (Budget(1.0, 1e-5),), 1))
over.set()
watcher.join()
print(peak / 2**20)
"""


def test_ten_million_mapped_rows_of_a_hundred_features(tmp_path):
    """8 GB in a file, and as much again where the rows are put in order."""
    command = [sys.executable, "-c", MAPPED, "10_000_000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.2
