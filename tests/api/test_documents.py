"""docs/api.md and docs/examples/nine_steps.py, run as they are printed."""

import re
import warnings
from pathlib import Path

import pytest

import dpml

DOCS = Path(__file__).parents[2] / "docs"
API = (DOCS / "api.md").read_text(encoding="utf-8")
TUTORIAL = DOCS / "examples" / "nine_steps.py"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DPML_OFFLINE", "1")
    monkeypatch.setenv("MPLBACKEND", "agg")


def test_the_page_names_all_that_is_public():
    assert set(re.findall(r"`dpml\.(\w+)`", API)) - {"audit"} == set(dpml.__all__)


@pytest.mark.slow
def test_the_tutorial_runs_from_top_to_bottom():
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(TUTORIAL.read_text(encoding="utf-8"), TUTORIAL.name, "exec"), names)
    accuracy, total = names["accuracy"], names["total"]
    assert accuracy.shape == (5, 3)
    assert accuracy.loc[10].min() > 0.85
    assert 2.1 < total < 2.2
