"""Memory of a large file of one's own, in a process of its own. Slow: run with -m slow."""

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
source = CSV(path=sys.argv[1], label="label")
data = source.load(Files(), None, np.random.default_rng(0))
# the process's own peak in GiB; what getrusage says includes that of the process that started this one
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 2**20
print(json.dumps([peak, *data.X.shape, *data.X_test.shape]))
"""


def load(path: Path) -> list[float]:
    """GiB, and the shapes of both parts."""
    command = [sys.executable, "-c", LOAD, str(path)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_million_rows_of_fifty_columns(tmp_path):
    """25 columns of real numbers, 15 of whole ones, 8 of categories, one of yes and no, and the label."""
    rng, rows = np.random.default_rng(0), 100_000
    block = {f"x{j}": rng.standard_normal(rows) for j in range(25)}
    block |= {f"i{j}": rng.integers(0, 1000, rows) for j in range(15)}
    block |= {
        f"c{j}": np.array(["red", "green", "blue", "yellow", "black"])[rng.integers(0, 5, rows)] for j in range(8)
    }
    block |= {"member": np.array(["yes", "no"])[rng.integers(0, 2, rows)]}
    block |= {"label": np.array(["<=50K", ">50K"])[rng.integers(0, 2, rows)]}
    head, _, body = pd.DataFrame(block).to_csv(index=False).partition("\n")
    path = tmp_path / "large.csv"
    with path.open("w") as file:
        file.write(f"{head}\n")
        file.writelines(body for _ in range(10))
    peak, *shape = load(path)
    assert shape == [800_000, 82, 200_000, 82]
    assert peak < 2
    cached, *again = load(path)
    assert again == shape
    assert cached < 2
