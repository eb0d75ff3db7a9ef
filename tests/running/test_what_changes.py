"""What is computed again after a change: all numbers that it could change, and no other.

Changes of thirty kinds are planted one at a time beside numbers that depend on something of every kind.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import planted_changes
import pytest

import dpml
from dpml import code
from dpml.data.csv import csv_rows
from dpml.running import dependencies

ALL = {name.partition(".")[0] for name in planted_changes.PLUG_INS} | {
    "once more", "measured", "fm", "ssp", "csv", "bounded", "audit of fm", "audit of ssp", "block",
}  # fmt: skip
AUDITS = {"audit of fm", "audit of ssp"}
BLOCKS = AUDITS | {"block"}
FM, SSP = {"fm", "audit of fm"}, {"ssp", "csv", "bounded", "audit of ssp"}
OURS = "dpml/"
QUADRATIC = OURS + "algorithms/quadratic"

# what changes: the file, the text and another in its place (no file of its own: None), and what is computed again
CHANGES = {
    "a plug-in of one file": ("own/alone.py", "float(1", "float(2", {"alone", "measured"}),
    "a plug-in in a package": ("own/packed/plugs.py", "float(VALUE)", "float(2)", {"packed"}),
    "what it imports by a relative name": ("own/packed/helper.py", "1", "2", {"packed"}),
    "the package itself": ("own/packed/__init__.py", "", "from . import helper\n\nhelper.VALUE = 3\n", {"packed"}),
    "a plug-in in a package without __init__": ("own/spaced/plugs.py", "float(1)", "float(2)", {"spaced"}),
    "a file in site-packages": ("venv/site-packages/placed.py", "float(1)", "float(2)", {"placed"}),
    "a plug-in that is called like a standard module": ("own/tabnanny.py", "float(1)", "float(2)", {"tabnanny"}),
    "a helper elsewhere on the path": ("elsewhere/helper.py", "1", "2", {"far"}),
    "a module whose name is computed": ("elsewhere/seldom.py", "1", "2", {"late"}),
    "a module in front of another": ("own/seldom.py", None, "VALUE = 2\n", {"late"}),
    "a dotted path in a list": ("own/mine.py", "1", "2", {"listed"}),
    "a dotted path deep in a field": ("own/deep/er.py", "1", "2", {"nested"}),
    "a function in a field": ("own/functions.py", "2 * y", "3 * y", {"calling"}),
    "a file that a plug-in reads": ("own/constants.txt", "1", "2", {"reader"}),
    "a file that it reads at import": ("own/early.txt", "1", "2", {"early"}),
    "a file that it reads once for all cells": ("own/once.txt", "1", "2", {"once", "once more"}),
    "a file that it looked for": ("own/wished.txt", None, "2", {"wishing"}),
    "a program that it loads by its path": ("own/by_path.py", "1", "2", {"loading"}),
    "a metric": ("own/measures.py", "**2", "**4", {"measured"}),
    "the function of a block": ("own/blocks.py", "pd.read_csv(path)", "pd.read_csv(path) * 2", {"block"}),
    "a file that a block reads": ("own/block.csv", "1", "2", {"block"}),
    "the bounds of columns": ("own/bounds.yaml", "7", "9", {"bounded"}),
    "the noise": (OURS + "privacy/noise.py", "rng.laplace(size=shape)", "2 * rng.laplace(size=shape)", FM | SSP),
    "the streams of random numbers": (OURS + "seeds.py", "crc32", "adler32", ALL - {"block"}),
    "dpml's metrics": (OURS + "running/metrics.py", "right.sum(axis=0) /", "1 - right.sum(axis=0) /", ALL - BLOCKS),
    "an algorithm": (QUADRATIC + "/sufficient_statistics.py", "import", "import zlib\nimport", SSP | AUDITS),
    "an unrelated algorithm": (OURS + "algorithms/baselines.py", "import", "import zlib\nimport", set()),
    "the audit": (OURS + "audit/table.py", "DRAWS,", "DRAWS as DRAWS,", AUDITS),
    "what draws figures": (OURS + "reporting/charts.py", "import", "import zlib\nimport", set()),
    "what plans and stores": (OURS + "running/plan.py", "import", "import zlib\nimport", set()),
    "a comment": ("own/alone.py", "as good as any", "this one", set()),
    "a comment of ours": (OURS + "privacy/noise.py", "import numpy as np\n", "import numpy as np  # arrays\n", set()),
    "a docstring": ("own/alone.py", "It releases one number.", "One number.", set()),
    "layout": ("own/far.py", "self, parties, rng", "self,\n        parties,\n        rng", set()),
}  # fmt: skip


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """All jobs, the folder of their code with a copy of dpml, and their store."""
    folder = tmp_path_factory.mktemp("planted_changes")
    planted_changes.write(folder)
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPML_CACHE", str(folder / "data"))
        for place in reversed(planted_changes.search_path(folder)):
            patch.syspath_prepend(place)
        dependencies.forget()
        jobs = planted_changes.jobs(folder)
        assert set(jobs) == ALL
        planted_changes.compute(jobs, folder / "cells")
        shutil.copytree(Path(dpml.__file__).parent, folder / "dpml", ignore=shutil.ignore_patterns("__pycache__"))
        yield folder, jobs
    for name in set(sys.modules) - before:  # plug-ins only: a library that is loaded twice has every class twice
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
    dependencies.forget()


@pytest.fixture
def again(computed, monkeypatch):
    """A function: what is computed again after some files were changed."""
    folder, jobs = computed
    monkeypatch.setattr(code, "_HOME", folder / "dpml")
    originals = {}

    def again(**contents):
        originals.update({folder / name: _content(folder / name) for name in contents})
        planted_changes.put(folder, contents)
        return planted_changes.waiting(jobs, folder / "cells")

    yield again
    for path, content in originals.items():
        path.unlink() if content is None else path.write_bytes(content)


def _content(path):
    return path.read_bytes() if path.exists() else None


def changed(folder, file, old, new):
    if old is None:
        return new
    content = (folder / file).read_text()
    assert old in content, f"{file} has no {old!r}"
    return content.replace(old, new, 1)


def test_nothing_is_computed_twice(again):
    assert again() == set()


@pytest.mark.parametrize("what", CHANGES)
def test_what_depends_on_a_change_is_computed_again_and_nothing_else(again, computed, what):
    file, old, new, expected = CHANGES[what]
    if "in front" in what:
        sys.modules.pop("seldom")  # as in a new process
    assert again(**{file: changed(computed[0], file, old, new)}) == expected


def test_data_of_the_same_size_and_date(again, computed):
    path = computed[0] / "own/rows.csv"
    status = path.stat()
    content = path.read_text().replace("1,1,1", "1,1,0")
    before = path.read_text()
    path.write_text(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    csv_rows.read_rows.cache_clear()
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert again() == {"csv", "bounded"}
    path.write_text(before)
    assert again() == set()


VERSIONS = {
    "a library": (("compiled", "1.0", "1.0.1", False, "one"), {"using"}),
    "a library, built on another machine": (("compiled", "1.0", "1.0", False, "two"), set()),
    "an installed plug-in": (("plugged", "1.0", "1.1", True, "one"), {"plugged"}),
    "an installed plug-in, built anew under the same version": (("plugged", "1.0", "1.0", True, "two"), {"plugged"}),
}


@pytest.mark.parametrize("what", VERSIONS)
def test_versions_of_libraries_count(again, computed, what):
    (name, before, version, pure, record), expected = VERSIONS[what]
    old, new = (computed[0] / f"venv/site-packages/{name}-{number}.dist-info" for number in (before, version))
    kept = old.with_name("kept")
    old.rename(kept)
    try:
        planted_changes.put(computed[0], planted_changes.distribution(name, version, pure, record))
        assert again() == expected
    finally:
        shutil.rmtree(new)
        kept.rename(old)


@pytest.mark.slow
def test_end_to_end_no_old_number_is_shown_and_only_what_changes_is_computed(tmp_path):
    """All changes at once, in new processes, and two worker processes: the numbers are those of an empty store."""
    planted_changes.write(tmp_path)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(planted_changes.search_path(tmp_path)),
        "DPML_DATA": str(tmp_path / "data"),
    }

    def run(results, *workers):
        words = [sys.executable, planted_changes.__file__, str(tmp_path), str(tmp_path / results), *workers]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    first = run("kept", "2")
    assert set(first["computed"]) == ALL
    assert first["versions"]["compiled"] == "1.0"
    expected = set()
    for file, old, new, names in CHANGES.values():
        if not file.startswith(OURS) and names:
            expected |= names
            planted_changes.put(tmp_path, {file: changed(tmp_path, file, old, new)})
    second = run("kept")
    assert set(second["computed"]) == expected
    assert second["numbers"] == run("fresh")["numbers"]
    assert {name for name in ALL if first["numbers"][name] != second["numbers"][name]} == expected
    assert run("kept", "2")["computed"] == []
