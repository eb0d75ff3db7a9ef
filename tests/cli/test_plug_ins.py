"""Options from a folder of one's own, in every command that takes them: the algorithm of docs/howto/plug_ins.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from harness import written_from_page

import dpml


@pytest.fixture
def mean_model(tmp_path: Path) -> str:
    """The page's algorithm in a folder of options, whose name needs quoting."""
    written_from_page("howto/plug_ins.md", tmp_path)
    (tmp_path / "conf").rename(tmp_path / "it's mine, x")
    return "it's mine, x"


def test_an_audit_by_its_releases_alone(run_command, mean_model) -> None:
    words = ["audit", "--config-dir", mean_model, "algo=mean_model", "eps=1", "draws=50000", "--json"]
    done = run_command("dpml", *words)
    assert done.code == 0, done.err
    (finding,) = json.loads(done.out)["views"]
    assert (finding["verdict"], finding["declared"], finding["proven"]) == ("consistent", 1.0, None)
    assert finding["power"] > 0.8


@pytest.mark.usefixtures("mean_model")
def test_an_installed_pack(tmp_path) -> None:
    """A distribution with an entry point: its experiment and its algorithm need no --pack and no --config-dir."""
    files = {
        "dpml_mypaper-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: dpml-mypaper\nVersion: 1\n",
        "dpml_mypaper-1.dist-info/entry_points.txt": "[dpml.packs]\nmypaper = dpml_mypaper.mypaper2026\n",
        "dpml_mypaper/mypaper2026/card.yaml": "title: Mine\n",
        "dpml_mypaper/mypaper2026/methods.py": (tmp_path / "mean_model.py").read_text(),
        "dpml_mypaper/mypaper2026/conf/algo/mine.yaml": "_target_: dpml.packs.mypaper2026.methods.MeanModel\n",
        "dpml_mypaper/mypaper2026/fig1.yaml": "{title: t, source: s, metrics: [loss], settings: {algo: [mine, fm]}}",
    }
    for name, text in files.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [sys.executable, "-c", "from dpml.cli import dpml_run; dpml_run()", "experiment=mypaper2026/fig1"]
    places = os.pathsep.join([str(tmp_path / "site"), str(Path(__file__).parents[2])])
    subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": places})
    rows = dpml.rows(tmp_path / "results/mypaper2026/fig1")
    assert set(rows.loc[rows["algo"] == "mean_model", "proven_eps"]) == {np.inf}  # declared only


READING = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpml.data import Dataset, Info, sha256


@dataclass(frozen=True)
class Reading:
    info: ClassVar[Info] = Info(name="reading", title="Rows of a file", task="binary", citation="nobody")

    def size(self, N):
        return N or 60, 2

    def load(self, files, N, rng):
        path = files.root / "rows.npy"
        rows = np.load(path)
        X, y = rows[:, :2], rows[:, 2]
        return Dataset("reading", "binary", X, y, X, y, {"source": "rows.npy", "preprocessing": [], STATED})
"""


@pytest.mark.slow
@pytest.mark.parametrize("stated", ["", "'sha256': sha256(path.read_bytes())"])
def test_a_data_set_of_ones_own_is_that_of_its_folder(run_command, tmp_path, stated) -> None:
    module = f"reading_{len(stated)}"
    (tmp_path / "own/dataset").mkdir(parents=True)
    (tmp_path / "own/dataset/reading.yaml").write_text(f"_target_: {module}.Reading\n")
    (tmp_path / f"{module}.py").write_text(READING.replace("STATED", stated))
    shares = {"one": 0.75, "other": 0.6}
    for name, share in shares.items():
        (tmp_path / name).mkdir()
        rows = np.full((60, 3), 0.5)
        rows[:, 2] = np.where(np.arange(60) < 60 * share, 1, -1)
        np.save(tmp_path / name / "rows.npy", rows)
    words = ["--config-dir", "own", "dataset=reading", "algo=constant", "draws=1", "results_dir=out"]
    for folder in shares:
        run_command("dpml-run", *words, f"data_dir={folder}")
    tables = (tmp_path / "out").glob("runs/*/*/rows.csv")
    rows = pd.concat(map(pd.read_csv, sorted(tables)))
    assert rows[rows["metric"] == "accuracy"]["value"].tolist() == list(shares.values())
