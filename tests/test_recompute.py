"""scripts/recompute.py finds published numbers that the code no longer gives."""

import re
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
recompute = pytest.importorskip("recompute")


def rows(**changes):
    plain = {"block": "b", "algo": ["x", "x", "y"], "eps": [1, 2.0, np.inf], "metric": "loss", "tuned": "fixed"}
    return pd.DataFrame({**plain, "value": [0.5, 2e-3, np.nan], "proven_eps": [1.0, 2.0, np.inf], **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"tuned": "rule", "value": [0.5 * (1 + 1e-9), 2e-3, np.nan]}, ""),
        ({"value": [0.5, 2.1e-3, np.nan]}, "1 of 3 value differ, most 0.0021 for 0.002: "),
        ({"value": [0.5, 2e-3, 0.0]}, "1 of 3 value differ, most 0 for nan: "),
        ({"proven_eps": [1.0, 2.0, 3.0]}, "1 of 3 proven_eps differ, most 3 for inf: "),
        ({"proven_eps": [1.0, 2.0, np.nan]}, "1 of 3 proven_eps differ, most nan for inf: "),
        ({"eps": [1, 3.0, np.inf]}, "1 of 3 rows are not published"),
    ],
)
def test_what_differs_is_said(changes, said):
    found = recompute.compared(rows(**changes), rows())
    assert found.startswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["heikkila2017/row"], "no published rows of heikkila2017/row in .*: did you mean 'heikkila2017/rows'"),
        (["--results", "nowhere"], "there are no published rows in nowhere"),
        (["a/b"], "a/b.json is missing, or was changed"),
    ],
)
def test_what_is_not_published_is_told(tmp_path, capsys, words, said):
    """A check of nothing would pass, and a name that is none was a traceback."""
    results = ROOT / "results"
    if words == ["a/b"]:
        results = tmp_path
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "b_rows.csv.xz").touch()
    with pytest.raises(SystemExit):
        recompute.main(["--data-dir", str(tmp_path), "--results", str(results), *words])
    assert re.search(said, capsys.readouterr().err)


@pytest.mark.slow
def test_published_numbers_are_those_of_the_code(tmp_path, capsys):
    words = ["heikkila2017/rows", "--data-dir", str(tmp_path), "--results", str(ROOT / "results")]
    assert recompute.main([*words, "--cells", "2"]) == 0
    assert capsys.readouterr().out == "heikkila2017/rows: 12 of 1100 rows computed again\n"


def test_what_takes_too_long_is_left_out(monkeypatch):
    monkeypatch.setattr(recompute, "attempt", lambda job: signal.pause())
    assert recompute.within(0.01, None) is None
