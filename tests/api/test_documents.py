"""docs/api.md and docs/tutorial.ipynb, run as they are printed."""

import doctest
import json
import re
import warnings
from pathlib import Path

import pytest

import dpml

DOCS = Path(__file__).parents[2] / "docs"
API = (DOCS / "api.md").read_text(encoding="utf-8")
TUTORIAL = DOCS / "tutorial.ipynb"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("DPML_OFFLINE", "1")
    monkeypatch.setenv("MPLBACKEND", "agg")


def test_the_examples_print_what_the_page_says():
    blocks = re.findall(r"```python\n(.*?)```", API, flags=re.DOTALL)
    page = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "api.md", None, 0)
    said = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(page, out=said.append)
    assert result.attempted > 15
    assert not result.failed, "".join(said)


def test_the_page_names_all_that_is_public():
    assert set(re.findall(r"`dpml\.(\w+)`", API)) - {"audit"} == set(dpml.__all__)


def cells(kind):
    book = json.loads(TUTORIAL.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == kind]


def test_the_tutorial_runs_from_top_to_bottom():
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, source in enumerate(cells("code")):
            exec(compile(source, f"{TUTORIAL.name}, code cell {number}", "exec"), names)
    accuracy, total = names["accuracy"], names["total"]
    assert accuracy.shape == (5, 3)
    assert accuracy.loc[10].min() > 0.85
    assert 2.1 < total < 2.2


def test_the_tutorial_is_kept_without_outputs():
    book = json.loads(TUTORIAL.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    for cell in book["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
        assert cell["id"]
