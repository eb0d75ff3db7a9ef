"""What is recorded where a number is computed, at the limits: what nobody can know is not taken for known."""

import importlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from harness import plan, run

from dpml import code
from dpml.errors import UserError
from dpml.running import dependencies
from dpml.running.dependencies import Dependencies, Present, observed
from dpml.running.environment import provenance
from dpml.running.store import DamagedError, Record, Store, digest

KEY = "ab" * 32


@pytest.mark.skipif(not (Path(__file__).parents[2] / ".git").exists(), reason="no checkout")
def test_the_commit_is_that_of_dpml_though_git_is_told_of_another_checkout(monkeypatch, tmp_path) -> None:
    """Hooks of git tell it of theirs."""
    found = provenance()["git"]
    assert len(found["commit"]) == 40
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    assert provenance()["git"] == found


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A function: it writes a module of a test's own, and imports it."""
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def own(name, content):
        (tmp_path / f"{name}.py").write_text(content)
        importlib.invalidate_caches()
        sys.modules.pop(name, None)
        made.append(name)
        return importlib.import_module(name)

    yield own
    for name in made:
        sys.modules.pop(name, None)
    dependencies.forget()


def changes(found):
    return Present().changes(found)


def test_a_module_that_changed_after_it_was_loaded_is_not_known(own, tmp_path):
    """The number is that of the old code, which is gone."""
    own("edited", "VALUE = 1\n")
    (tmp_path / "edited.py").write_text("VALUE = 22\n")
    found = observed("edited.VALUE")
    assert found.modules == {"edited": ("", "")}
    assert changes(found) == ["edited"]


def test_a_yaml_file_beside_a_module_counts_as_the_module_does(own, tmp_path):
    (tmp_path / "stated.yaml").write_text("one: 1\n")
    own("stated", "VALUE = 1\n")
    found = observed("stated.VALUE")
    assert changes(found) == []
    (tmp_path / "stated.yaml").write_text("one: 22\n")
    assert changes(found) == ["stated"]
    dependencies.forget()
    assert observed("stated.VALUE").modules == {"stated": ("", "")}, "the number is that of the old content"


def test_a_module_that_was_loaded_again_counts_with_its_new_content(own):
    own("reloaded", "VALUE = 1\n")
    first = observed("reloaded.VALUE")
    own("reloaded", "VALUE = 22\n")
    second = observed("reloaded.VALUE")
    assert first.digest != second.digest
    assert changes(first) == ["reloaded"]
    assert changes(second) == []


def test_a_module_that_changes_later_counts_as_it_was_loaded(own, tmp_path):
    own("kept", "VALUE = 1\n")
    first = observed("kept.VALUE")
    (tmp_path / "kept.py").write_text("VALUE = 22\n")
    assert observed("kept.VALUE") == first
    assert changes(first) == ["kept"]


def test_a_file_that_was_read_as_two_contents_is_not_known(own, tmp_path):
    reader = own("two_contents", "from pathlib import Path\n\ndef read(path):\n    return Path(path).read_text()\n")
    path = tmp_path / "constant.txt"
    for content in ("1", "22"):
        path.write_text(content)
        reader.read(path)
    found = observed("two_contents.read")
    assert found.files == {"two_contents:constant.txt": ""}
    assert changes(found) == ["two_contents:constant.txt"]


def test_files_of_its_own_do_not_count(own, tmp_path):
    """A plug-in that keeps something, and what is there for a while only."""
    source = """
from pathlib import Path
from tempfile import TemporaryFile, NamedTemporaryFile

def keep(folder):
    (folder / "kept.txt").write_text("1")
    with NamedTemporaryFile("w") as file:
        Path(file.name).read_text()
    Path("/proc/self/stat").read_text()
    return (folder / "kept.txt").read_text()
"""
    own("keeping", source).keep(tmp_path)
    assert observed("keeping.keep").files == {}


def test_what_a_program_reads_for_itself_does_not_count_for_what_it_calls(own, tmp_path):
    """But what it writes counts, if a plug-in reads it."""
    (tmp_path / "read.txt").write_text("1")
    reader = own("called", "from pathlib import Path\n\ndef read(path):\n    return Path(path).read_text()\n")
    (tmp_path / "other.txt").write_text("1")
    (tmp_path / "other.txt").read_text()
    reader.read(tmp_path / "read.txt")
    assert list(observed("called.read").files) == ["called:read.txt"]


def test_what_was_defined_at_a_prompt_is_never_known(monkeypatch):
    module = type(sys)("at_a_prompt")
    monkeypatch.setitem(sys.modules, "at_a_prompt", module)
    exec("class Mine:\n    pass\n", vars(module))
    found = observed(module.Mine)
    assert changes(found) == ["at_a_prompt"]


def test_the_dates_of_a_folder_of_modules_do_not_matter(own, tmp_path):
    own("dated", "VALUE = 1\n")
    found = observed("dated.VALUE")
    os.utime(tmp_path / "dated.py", ns=(1, 1))
    assert changes(found) == []


@pytest.mark.parametrize("metadata", ["built.egg-info", "built-1.0.dist-info"])
def test_what_a_build_leaves_beside_its_source_makes_no_library_of_it(own, tmp_path, metadata):
    """An editable install: the version stays, and the content changes."""
    name = "PKG-INFO" if metadata.endswith("egg-info") else "METADATA"
    (tmp_path / metadata).mkdir()
    (tmp_path / metadata / name).write_text("Metadata-Version: 2.1\nName: built\nVersion: 1.0\n")
    own("built", "VALUE = 1\n")
    assert observed("built.VALUE").libraries == {}
    assert code.library("numpy") == f"numpy {importlib.import_module('numpy').__version__}"


def test_a_library_that_a_field_names_brings_those_that_it_requires():
    importlib.import_module("sklearn.linear_model")
    assert {"sklearn", "scipy", "numpy", "joblib"} <= set(observed("sklearn.linear_model.LogisticRegression").libraries)


def test_versions_are_recorded_with_the_numbers_and_shown_together(tmp_path):
    assert run(tmp_path, dry=False, content=SMALL) == 0
    found = plan(tmp_path, SMALL)
    (task,) = found.tasks
    assert found.versions(task)["numpy"] == importlib.import_module("numpy").__version__
    assert found.versions(task)["python"] == ".".join(map(str, sys.version_info[:3]))
    entry = next(iter(found.entries.values()))
    older = entry.record.dependencies
    entry.record = replace(
        entry.record, dependencies=replace(older, libraries=older.libraries | {"numpy": "numpy 1.26.2"})
    )
    assert found.versions(task)["numpy"].startswith("1.26.2 and ")


SMALL = {
    "title": "Small", "source": "nobody, 2000", "panels": [], "grid": {"a": {"N": 50, "eps": 1.0, "seed": [0, 1]}},
    "settings": {"dataset": "synthetic", "dataset.d": 2, "algo": "nonpriv", "M": 2, "draws": 1}, "metrics": ["loss"],
}  # fmt: skip


def test_the_plan_says_what_has_changed(own, tmp_path, capsys):
    own("changing_metric", "def one(weights, parties, loss, lam):\n    return weights[:, 0]\n")
    content = SMALL | {"metrics": ["changing_metric.one"]}
    assert run(tmp_path / "results", content) == 0
    assert "changed" not in capsys.readouterr().out
    (tmp_path / "changing_metric.py").write_text("def one(weights, parties, loss, lam):\n    return weights[:, 1]\n")
    assert run(tmp_path / "results", content, dry=True) == 0
    assert "2 kept cells are computed again for what has changed: changing_metric\n" in capsys.readouterr().out


def test_versions_lie_beside_each_other(tmp_path):
    """What was computed before a change is there again after it is undone."""
    store, first, second = Store(tmp_path), Dependencies(files={"/a": "absent"}), Dependencies(files={"/b": "absent"})
    store.write(KEY, {}, Record(None, "one", dependencies=first))
    store.write(KEY, {}, Record(None, "two", dependencies=second))
    (tmp_path / "b").write_text("")
    there = Dependencies(files={str(tmp_path / "b"): "absent"})
    store.write(KEY, {}, Record(None, "three", dependencies=there))
    assert len(list(tmp_path.glob("*/*/result-*.json"))) == 3
    (tmp_path / f"dependencies/{first.digest}.json").unlink()
    assert Store(tmp_path).glance(KEY).skipped == "two"
    (tmp_path / f"dependencies/{second.digest}.json").write_text("scribble")
    with pytest.raises(DamagedError, match="dependencies"):
        Store(tmp_path).glance(KEY)


def test_cells_of_another_version_are_computed_again(tmp_path):
    """It kept them by other names, and did not say what they depend on."""
    assert run(tmp_path, SMALL) == 0
    for path in tmp_path.glob(".cells/*/*/result-*.json"):
        path.rename(path.with_name("result.json"))
    assert plan(tmp_path, SMALL).counts() == {"to run": 2}


def test_a_function_without_a_name_is_refused():
    assert digest({"call": digest}) == digest({"call": "dpml.running.store.digest"})
    with pytest.raises(UserError, match="write a function with def"):
        digest({"call": lambda x: x})


def test_a_broken_audit_hook_breaks_no_program():
    """Python would raise its error where a file is opened."""
    for args in ((3, "r", 0), (None, None, 0), (b"a\xff\0b", "r", 0), ("a" * 5000, "r", 0)):
        dependencies._listen("open", args)
