"""Memory of the large data sets, each load in a process of its own. Slow: run with -m slow."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to measure memory"),
]

LOAD = """
import json, re, sys
from pathlib import Path
import numpy as np
from dpml.config import catalogue
from dpml.data import Files
source = catalogue.source(sys.argv[1])
data = source.load(Files(sys.argv[2], offline=True), None, np.random.default_rng(0))
# the process's own peak in GiB; what getrusage says includes that of the process that started this one
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 2**20
print(json.dumps([peak, *data.X.shape, *data.X_test.shape]))
"""


def load(name: str, folder: Path) -> list[float]:
    """GiB, and the shapes of both parts."""
    command = [sys.executable, "-c", LOAD, name, str(folder)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_kdd(raw):
    for _ in range(2):  # the second from the cache
        peak, *shape = load("kddcup99", raw)
        assert shape == [494_021, 118, 311_029, 118]
        assert peak < 2


def test_url(tmp_path):
    """Files of the official size class: about 115 features a row, 15 of them real, 40 rare ones out of 3.2 million."""
    numbers, features = np.random.default_rng(1), 3_231_961
    for day in range(20):
        rows = 16_000 if day == 0 else 20_000
        real = numbers.random((rows, 15))
        common = (600 * numbers.random((rows, 60)) ** 1.5).astype(int) + 100
        rare = (features * numbers.random((rows, 40)) ** 3).astype(int) + 1
        labels = numbers.choice(["-1", "+1"], rows)
        with (tmp_path / f"Day{day}.svm").open("w") as file:
            for i in range(rows):
                ids = np.union1d(common[i], rare[i])
                values = [f"{k + 1}:{value:.6g}" for k, value in enumerate(real[i])]
                file.write(" ".join([labels[i], *values, *(f"{k}:1" for k in ids[ids > 20])]) + "\n")
    for _ in range(2):
        peak, *shape = load("url", tmp_path)
        assert shape == [196_000, 50, 200_000, 50]
        assert peak < 4
