"""What the tests of releases share."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A file t.csv of 400 rows in the working folder, and what is publicly known of its columns in t.yaml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=np.where(X[:, 0] > 0, "yes", "no"))
    table.to_csv("t.csv", index=False)
    Path("t.yaml").write_text("columns:\n  a: {low: -1, high: 1}\n  b: {low: -1, high: 1}\nclasses: ['no', 'yes']\n")
    return table
