"""The algorithm of docs/howto/plug_ins.md in an installed pack."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from harness import written_from_page

import dpml


def test_an_installed_pack(tmp_path) -> None:
    """A distribution with an entry point: its experiment and its algorithm need no --pack and no --config-dir."""
    written_from_page("howto/plug_ins.md", tmp_path)
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
