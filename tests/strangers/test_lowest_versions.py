"""The lowest versions that pyproject.toml allows are enough: a run, a figure, the report, a file, releases."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BOUNDS = "columns: {x: {low: 0, high: 60}, c: [a, b, c]}\nclasses: ['no', 'yes']\nlabel: y\n"


def lowest() -> list[str]:
    """Every direct dependency at the lowest version that is allowed."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = [re.match(r"([\w-]+)>=([\d.]+)", line) for line in content["project"]["dependencies"]]
    return [f"{each[1]}=={each[2]}" for each in found if each]


def test_every_dependency_has_a_lowest_version() -> None:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert len(lowest()) == len(content["project"]["dependencies"])


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lowest versions have no wheels for a newer Python")
def test_the_lowest_versions_are_enough(tmp_path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "venv"], cwd=tmp_path, check=True)
    commands = tmp_path / "venv" / "bin"
    subprocess.run([commands / "pip", "install", "--quiet", *lowest(), str(ROOT)], cwd=tmp_path, check=True)
    for name in ("f", "g", "h"):
        rows = "".join(f"{i}.5;{'abc'[i % 3]};{['no', 'yes'][i // 30]}\n" for i in range(60))
        (tmp_path / f"{name}.csv").write_text(f"x;c;y\n{rows}")
    (tmp_path / "b.yaml").write_text(BOUNDS)
    file = "dataset=csv dataset.path=f.csv dataset.label=y dataset.bounds=b.yaml"
    for command in (
        "dpml-run algo=capefm eps=0.1",
        "dpml-run experiment=imtiaz2019/fig5 results_dir=res",
        "dpml report res",
        "dpml data describe f.csv --label y",
        f"dpml release {file} eps=1 delta=1e-4 -o m.json",
        "dpml predict m.json f.csv",
        "dpml verify m.json",
        "dpml federate try f.csv g.csv h.csv --bounds b.yaml --release -o n.json --set algo=ssp eps=1 delta=1e-4",
        "dpml audit algo=dpgd eps=1 delta=1e-5 draws=1000",
    ):
        name, *words = command.split()
        environment = os.environ | {"DPML_CACHE": str(tmp_path / "cache"), "PYTHONPATH": ""}
        done = subprocess.run([commands / name, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
