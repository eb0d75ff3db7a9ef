"""docs/release.md does what it says, with the files of docs/own_data.md: from four clinics to a prediction."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "release.md").read_text(encoding="utf-8")
DATA = (DOCS / "own_data.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.mark.slow
def test_four_clinics_from_file_to_prediction(run_command, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    subprocess.run([sys.executable, "-c", blocks("python", DATA)[0]], check=True)
    (tmp_path / "clinics.yaml").write_text(blocks("yaml", DATA)[0])
    release, show, predict, ledger = (shlex.split(block) for block in blocks("bash"))
    done = run_command(*release)
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert "4 parties add it, of whom 1 may collude" in said
    assert run_command(*show).code == 0
    assert run_command(*predict, "-o", "p.csv").code == 0
    right = pd.read_csv("p.csv")["prediction"] == pd.read_csv("clinics.csv")["health"]
    assert right.mean() > 0.7
    assert run_command(*ledger).code == 0
    more = run_command(*[word.replace("eps=1", "eps=20") for word in release[:-1]], "second.json")
    assert "above its cap of 3" in more.err
