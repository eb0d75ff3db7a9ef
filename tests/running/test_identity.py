"""The code of a cell: every formula that its numbers come from is in it, and no comment is."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hydra
import pandas as pd
import pytest

import dpml
from dpml import code
from dpml.config.compose import initialise
from dpml.running.dependencies import named
from dpml.running.expansion import Expansion

PACKAGE = Path(dpml.__file__).parent

FORMULAS = {
    "metrics": ("running/metrics.py", "right.sum(axis=0) / len(y)", "1 - right.sum(axis=0) / len(y)"),
    "loss": ("optim/losses.py", "Task", "Kind"),
    "partition": ("data/partition.py", "np.floor(exact)", "np.ceil(exact)"),
    "noise": ("privacy/noise.py", "rng.laplace(size=shape)", "2 * rng.laplace(size=shape)"),
    "accounting": ("privacy/gdp.py", "return", "return 2 *"),
    "preprocessing": ("data/preprocess.py", "import numpy as np", "import numpy as np\n\nOTHER = 1"),
    "data set": ("data/sets/wdbc.py", "return Dataset(", "y = -y\n        return Dataset("),
    "measuring": ("running/cell.py", 'generator(seed, "partition")', 'generator(seed + 1, "partition")'),
    "streams": ("seeds.py", "crc32", "adler32"),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package, and its module `code`, which reads each content of a file once: that takes longest."""
    folder = tmp_path_factory.mktemp("copy") / "dpml"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    spec = importlib.util.spec_from_file_location("dpml.code", folder / "code.py")
    copied = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copied)
    read, known = copied.read.__wrapped__, {}

    def once(path, name):
        content = path.read_bytes(), name
        if content not in known:
            known[content] = read(path, name)
        return known[content]

    copied.read = once
    return folder, copied


@pytest.fixture(scope="module")
def point():
    with initialise():
        (point,) = Expansion.from_config(hydra.compose("config", ["algo=capefm"]), []).run()
    return point


@pytest.fixture
def key(copy, point):
    """A function: the checksum of a cell's code, that of a copy, after `old` was replaced by `new` in a file."""
    folder, copied = copy
    originals = {}

    def key(file=None, old="", new=""):
        if file:
            path = folder / file
            content = path.read_text(encoding="utf-8")
            assert old in content, f"{file} has no {old!r}"
            originals.setdefault(path, content)
            path.write_text(content.replace(old, new, 1), encoding="utf-8")
        for function in (copied.digest, copied.located):
            function.cache_clear()
        return copied.digest(*sorted(set(named(point.cell))))

    yield key
    for path, content in originals.items():
        path.write_text(content, encoding="utf-8")


@pytest.mark.parametrize("what", FORMULAS)
def test_a_changed_formula_changes_the_key(key, what):
    before = key()
    assert key(*FORMULAS[what]) != before


def test_a_changed_solver_changes_the_key(key):
    before = key()
    solver = next(path for path in ("optim/quadratic.py", "optim/solvers.py") if (PACKAGE / path).is_file())
    assert key(solver, "import numpy as np\n", "import numpy as np\n\nTOLERANCE = 1\n") != before


def test_a_changed_algorithm_changes_the_key(key):
    before = key()
    with initialise():
        target = hydra.compose("config", ["algo=capefm"]).algo._target_
    module = "/".join(target.split(".")[1:-1])
    assert key(f"{module}.py", "import", "import zlib\nimport") != before


def test_comments_docstrings_and_what_does_not_make_numbers_change_nothing(key):
    before = key()
    assert key("privacy/noise.py", "import numpy as np\n", "import numpy as np  # arrays\n") == before
    assert key("running/metrics.py", '"""The quality', '"""About the quality') == before
    for path in ("reporting/tables.py", "running/runner.py", "cli/console.py", "errors.py", "data/sources/cache.py"):
        assert key(path, "import ", "import zlib\nimport ") == before


@pytest.mark.slow
def test_an_old_number_is_never_shown_for_a_new_formula(tmp_path, run_command):
    """End to end: the accuracy is turned round in a copy of the package, which is run after this one."""
    for name in ("conf", "experiments"):
        source = PACKAGE / name if (PACKAGE / name).is_dir() else PACKAGE.parent / name
        shutil.copytree(source, tmp_path / name)
    shutil.copytree(PACKAGE, tmp_path / "dpml")  # with what is compiled, for what stays as it is
    metrics = tmp_path / "dpml" / "running" / "metrics.py"
    original = metrics.read_text(encoding="utf-8")

    metrics.write_text(original.replace(*FORMULAS["metrics"][1:]), encoding="utf-8")
    assert "0 cached, 1 to run" in run_command("dpml-run", "algo=nonpriv", "hydra.run.dir=a").out
    program = "from dpml.cli import dpml_run; dpml_run()"
    done = subprocess.run(
        [sys.executable, "-c", program, "algo=nonpriv", "hydra.run.dir=b"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "0 cached, 1 to run" in done.stdout
    accuracy, inverted = (
        rows.loc[rows["metric"] == "accuracy", "value"].iloc[0]
        for rows in (pd.read_csv(tmp_path / folder / "rows.csv") for folder in "ab")
    )
    assert inverted == pytest.approx(1 - accuracy)


def test_what_all_cells_share_imports_no_algorithm():
    """Otherwise a change of one algorithm would have every cell of every other computed again."""
    ours = {name for name in code.reached("dpml.running.cell").modules if name.startswith("dpml.algorithms.")}
    assert not ours
