"""Every command of start, your data, the concepts, the how-to guides and the tutorials, run as it is printed."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from harness import written_from_page
from pages import DOCS, blocks, flat, words

PAGES = [
    DOCS / "start.md",
    DOCS / "own_data.md",
    DOCS / "concepts.md",
    *(page for folder in ("howto", "tutorials") for page in DOCS.glob(f"{folder}/*.md")),
]
NAMES = sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def with_commands(kind: str) -> list[str]:
    pages = {name: blocks((DOCS / name).read_text(encoding="utf-8")) for name in NAMES}
    return [name for name, page in pages.items() if any((b.language, b.comment) == ("bash", kind) for b in page)]


def said_in_passing(start: str) -> list[str]:
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "privacy").glob("*.md")]
    return sorted({said for page in pages for said in re.findall(rf"`({start}[^`]*)`", page)})


@pytest.fixture
def run_line(run_command, tmp_path, monkeypatch, capsys) -> Callable[[str], str]:
    """Run a line in this process, which is fast: what it prints."""

    def run(line: str) -> str:
        _, (program, *rest) = words(line)
        if program == "python":
            monkeypatch.chdir(tmp_path)
            capsys.readouterr()
            runpy.run_path(str(tmp_path / rest[0]))
            return capsys.readouterr().out
        with monkeypatch.context() as patch:
            if program == "dpml-run":  # its figure takes longer than the run, and the pages show none
                patch.setattr("dpml.reporting.figures.plot", lambda *arguments: [])
            done = run_command(program, *rest)
        assert done.code == 0 or (rest[0], done.code) == ("check", 1), f"{line}\n{done.err}"  # a claim is unproven
        return done.out

    return run


@pytest.fixture(autouse=True)
def own_modules(tmp_path):
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def in_a_shell(line: str, folder: Path) -> str:
    environment, rest = words(line)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    modules = os.pathsep.join(filter(None, [environment.pop("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]))
    own = {"PATH": path, "PYTHONPATH": modules, "DPML_OFFLINE": "1", "DPML_CACHE": f"{folder}/cache", "COLUMNS": "120"}
    done = subprocess.run(rest, cwd=folder, env={**os.environ, **own, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def follow(name: str, folder: Path, run: Callable[[str], str], kinds: tuple[str, ...]) -> None:
    """Write a page's files, run its commands of some kinds, and compare what they print with what the page says."""
    page = blocks((DOCS / name).read_text(encoding="utf-8"))
    written_from_page(name, folder)
    printed = ""
    for block in page:
        if block.language == "bash":
            printed = "".join(run(line) for line in block.commands) if block.comment in kinds else ""
        elif block.language == "text" and printed:
            lines = [flat(line) for line in printed.splitlines()]
            for line in map(flat, block.body.splitlines()):
                assert any(line in other for other in lines), f"{name}: not printed: {line}\n{printed}"


LONG = "tutorials/algorithm.md", "howto/plug_ins.md", "howto/resume.md", "howto/sweeps.md"


@pytest.mark.slow_cases("concepts.md", "howto/commands.md", "start.md", "tutorials/figure.md", *LONG)
@pytest.mark.parametrize("name", [name for name in with_commands("") if name != "own_data.md"])
def test_commands_print_what_the_page_says(name, tmp_path, run_line) -> None:
    follow(name, tmp_path, run_line, ("",))


@pytest.mark.slow
def test_a_file_becomes_the_accuracy_that_the_page_says_and_a_release(tmp_path, run_line) -> None:
    for name in ("own_data.md", "release.md"):  # which uses the files of the first
        follow(name, tmp_path, run_line, ("",))
    (path,) = tmp_path.glob("results/**/rows.csv")
    rows = pd.read_csv(path, keep_default_na=False)
    accuracy = rows.loc[rows["metric"] == "accuracy", "value"].mean()
    assert f"test accuracy {accuracy:.3f} ± " in (DOCS / "own_data.md").read_text(encoding="utf-8")
    assert set(rows["private_preprocessing"]) == {""}


@pytest.mark.slow
@pytest.mark.parametrize(("sensitivity", "verdict"), [(1.0, "BUG"), (2.0, "consistent")])
def test_the_algorithm_of_the_tutorial_can_be_broken_as_it_says(run_command, tmp_path, sensitivity, verdict) -> None:
    """Half of the sensitivity is a bug; half of the noise alone proves less."""
    written_from_page("tutorials/algorithm.md", tmp_path)
    program = tmp_path / "centroid.py"
    code = program.read_text(encoding="utf-8")
    program.write_text(code.replace("sensitivity=2.0, noise=2.0 /", f"sensitivity={sensitivity}, noise=1.0 /"))
    words = ["--config-dir", "conf", "algo=centroid", "M=1", "eps=1", "delta=1e-5", "draws=20000", "--json"]
    (finding,) = json.loads(run_command("dpml", "audit", *words).out)["views"]
    assert finding["verdict"] == verdict


@pytest.mark.slow
@pytest.mark.parametrize("name", with_commands("slow"))
def test_slow_commands_run(name, tmp_path) -> None:
    follow(name, tmp_path, lambda line: in_a_shell(line, tmp_path), ("", "slow"))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(said, marks=[pytest.mark.slow] if "algo=psgd" in said else [])
        for said in said_in_passing("dpml guarantee algo")
    ],
)
def test_guarantees_that_a_proof_names_are_computed(command, run_line) -> None:
    run_line(command)
