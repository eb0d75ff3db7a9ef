"""scripts/recompute.py finds published numbers that the code no longer gives."""

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
    ("changes", "differs"),
    [
        ({}, ""),
        ({"tuned": "rule", "value": [0.5 * (1 + 1e-9), 2e-3, np.nan]}, ""),
        ({"value": [0.5, 2.1e-3, np.nan]}, "1 of 3 value"),
        ({"value": [0.5, 2e-3, 0.0]}, "1 of 3 value"),
        ({"proven_eps": [1.0, 2.0, 3.0]}, "1 of 3 proven_eps"),
        ({"proven_eps": [1.0, 2.0, np.nan]}, "1 of 3 proven_eps"),
        ({"eps": [1, 3.0, np.inf]}, "1 of 3 rows"),
    ],
)
def test_what_differs_is_found(changes, differs):
    found = recompute.compared(rows(**changes), rows())
    assert found.startswith(differs)
    assert bool(found) == bool(differs)


@pytest.mark.parametrize("words", [["heikkila2017/row"], ["--results", "nowhere"]])
def test_a_check_of_nothing_does_not_pass(tmp_path, words):
    with pytest.raises(SystemExit) as stop:
        recompute.main(["--data-dir", str(tmp_path), "--results", str(ROOT / "results"), *words])
    assert stop.value.code


@pytest.mark.slow
def test_published_numbers_are_those_of_the_code(tmp_path, capsys):
    words = ["rajkumar2012/theorem53", "--data-dir", str(tmp_path), "--results", str(ROOT / "results")]
    assert recompute.main([*words, "--cells", "2"]) == 0
    assert capsys.readouterr().out == "rajkumar2012/theorem53: 231 of 1423 rows computed again\n"
