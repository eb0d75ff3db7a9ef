"""The checksum of the code behind a number: every formula is in it, and what makes no number is not."""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import dpml
from dpml import code
from dpml.api.jobs import ask
from dpml.api.settings import Settings
from dpml.running.cell import Cell
from dpml.running.computed import Computed

PACKAGE = Path(dpml.__file__).parent
PLUG_IN = "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Mine:\n    of: object = None\n"


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """A function: the checksum of a job's code after a file below the test's folder was changed or added."""
    monkeypatch.setattr(code, "_BEGUN", math.inf)  # this process has written the files itself
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def changed(job, file=None, text="OTHER = 1\n"):
        if file:
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((path.read_text() if path.exists() else "") + text)
        code._checksum.cache_clear()
        return job.code if isinstance(job, Cell | Computed) else code.digest([], code.named(job))

    yield changed
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    code._checksum.cache_clear()


@pytest.fixture
def copy(tmp_path, monkeypatch, changed):
    """The same with a copy of the package."""
    shutil.copytree(PACKAGE, tmp_path / "dpml", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "_HOME", tmp_path / "dpml")
    return changed


@pytest.fixture(scope="module")
def cell():
    (point,) = ask(Settings(["algo=capefm"])).plans[0].points
    return point.cell


BLOCK = Computed("audit", "dpml.audit.table.rows", {})
FILES = [part if part.endswith(".py") else f"{part}/__init__.py" for part in code.NUMBERS]
FILES += ["privacy/discrete/__init__.py", "algorithms/quadratic/functional_mechanism.py", "data/sets/wdbc.yaml"]


def test_what_makes_numbers_counts_and_what_reports_them_does_not(copy, cell):
    before, block = copy(cell), copy(BLOCK)
    for file in ("reporting/tables.py", "cli/main.py", "api/functions.py", "version.py"):
        assert (copy(cell, f"dpml/{file}"), copy(BLOCK)) == (before, block)
    assert copy(cell, "dpml/audit/neighbours.py") == before
    assert copy(BLOCK) != block
    found = [before, *(copy(cell, f"dpml/{file}", "\n\nOTHER = 1\n") for file in FILES)]
    assert len(set(found)) == len(found)


def test_a_moved_folder_is_the_same_code_and_other_libraries_are_not(copy, cell, tmp_path, monkeypatch):
    before = copy(cell)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(code, "_HOME", (tmp_path / "dpml").rename(tmp_path / "elsewhere/dpml"))
    assert copy(cell) == before
    monkeypatch.setattr(code, "versions", lambda: {"numpy": "0.1"})
    assert copy(cell) != before


def test_a_plug_in_counts_with_its_folder_or_with_its_package(changed):
    changed(BLOCK, "alone.py", PLUG_IN)
    changed(BLOCK, "spaced/deep/plugs.py", PLUG_IN)
    from alone import Mine
    from spaced.deep.plugs import Mine as Packaged

    packaged = changed(Packaged())
    found = [changed(Mine()), *(changed(Mine(), file) for file in ("alone.py", "helper.py", "alone.yaml"))]
    assert len(set(found)) == 4
    for file in ("constants.txt", "other.yaml", "below/module.py"):
        assert changed(Mine(), file) == found[-1]
    assert changed(Packaged()) == packaged != changed(Packaged(), "spaced/helper.py")


def test_what_a_field_or_an_argument_names_counts(changed):
    changed(BLOCK, "alone/plugs.py", PLUG_IN)
    changed(BLOCK, "named/functions.py", "def one():\n    return 1\n")
    from alone.plugs import Mine
    from named.functions import one

    for value in (one, ["named.functions.one"], {"a": [{"target": "named.functions:one"}]}):
        before = changed(Mine(value))
        assert changed(Mine(value), "named/functions.py") != before
    job = Computed("a", "alone.plugs.Mine", {"of": "named.functions.one"})
    assert changed(job) != changed(job, "named/functions.py")


def test_what_the_process_may_have_loaded_otherwise_is_never_known(changed, monkeypatch):
    """A file that was changed after it began, and what was defined at a prompt."""
    changed(BLOCK, "late.py", PLUG_IN)
    from late import Mine

    assert changed(Mine()) == changed(Mine())
    monkeypatch.setattr(code, "_BEGUN", (Path(sys.modules["late"].__file__)).stat().st_ctime - 1)
    assert changed(Mine()) != changed(Mine())
    module = type(sys)("at_a_prompt")
    monkeypatch.setitem(sys.modules, "at_a_prompt", module)
    exec("class Mine:\n    pass\n", vars(module))
    assert changed(module.Mine) != changed(module.Mine)


@pytest.mark.slow
def test_an_old_number_is_never_shown_for_a_new_formula(tmp_path, run_command):
    """End to end: the accuracy is turned round in a copy of the package, which is run after this one."""
    for name in ("conf", "experiments"):
        source = PACKAGE / name if (PACKAGE / name).is_dir() else PACKAGE.parent / name
        shutil.copytree(source, tmp_path / name)
    shutil.copytree(PACKAGE, tmp_path / "dpml")  # with what is compiled, for what stays as it is
    metrics = tmp_path / "dpml/running/metrics.py"
    formula = "right.sum(axis=0) / len(y)"
    metrics.write_text(metrics.read_text("utf-8").replace(formula, f"1 - {formula}"), encoding="utf-8")
    program = "from dpml.cli import dpml_run; dpml_run()"

    def copied(folder):
        words = [sys.executable, "-c", program, "algo=nonpriv", f"hydra.run.dir={folder}"]
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout

    assert "0 cached, 1 to run" in run_command("dpml-run", "algo=nonpriv", "hydra.run.dir=a").out
    assert "0 cached, 1 to run" in copied("b")
    assert "1 cached, 0 to run" in run_command("dpml-run", "algo=nonpriv", "hydra.run.dir=a").out
    assert "1 cached, 0 to run" in copied("b")
    accuracy, inverted = (
        rows.loc[rows["metric"] == "accuracy", "value"].iloc[0]
        for rows in (pd.read_csv(tmp_path / folder / "rows.csv") for folder in "ab")
    )
    assert inverted == pytest.approx(1 - accuracy)
