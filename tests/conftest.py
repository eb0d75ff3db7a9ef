"""What the tests share: running the commands in this process, from an empty folder."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import absl.logging
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from dpml import cli

# dp-accounting's logger keeps the stderr it first sees, and Hydra flushes every logger: let it not be pytest's
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__
# a shell that starts the tests in the background ignores Ctrl-C for them, and their commands would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)
# before NumPy and SciPy are loaded, and for the processes of tests too: with small matrices, a second BLAS thread only
# gets in the way
os.environ["OMP_NUM_THREADS"] = "1"
# the same examples on every machine, however slow it is
settings.register_profile("dpml", derandomize=True, deadline=None)
settings.load_profile("dpml")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of a parametrisation that ``slow_cases`` names."""
    for item in items:
        mark = item.get_closest_marker("slow_cases")
        if mark and item.name.partition("[")[2].removesuffix("]") in mark.args:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays: without this the collector of garbage goes through it, again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Examples are in docstrings of dpml, and not looked for in those of tests."""
    return [file for file in (yield) if not isinstance(file, DoctestModule)]


@pytest.fixture(scope="session")
def raw() -> Path:
    """A folder with real data files: DPML_TEST_DATA, or shared/data/raw beside the checkout or further up."""
    named = os.environ.get("DPML_TEST_DATA")
    above = Path(__file__).resolve().parents[1:]
    for folder in [Path(named)] if named else [parent / "shared" / "data" / "raw" for parent in above]:
        if folder.is_dir():
            return folder
    pytest.skip("no real data at hand: set DPML_TEST_DATA")


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working folder, without a data cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DPML_OFFLINE", "1")
    return tmp_path


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run ``dpml-run`` or ``dpml`` with some words, in an empty working folder without a data cache."""
    monkeypatch.setenv("DPML_PACKS", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "120")

    def run(program: str, *words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", [program, *words])
        capsys.readouterr()
        code = 0
        try:
            {"dpml-run": cli.dpml_run, "dpml": cli.dpml}[program]()
        except SystemExit as stop:
            if isinstance(stop.code, str):
                print(stop.code, file=sys.stderr)
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def unsearched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits attack the neighbours that an algorithm names: the search for worse ones takes longer than all else."""
    monkeypatch.setattr("dpml.audit.worse_pair", lambda algorithm, pair, *others: pair)


@pytest.fixture
def sketched() -> Iterator[None]:
    """Files of figures are there, and nothing is drawn in them."""
    from harness import drawn

    with drawn():
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and experiments draw no figure: it takes longer than the run."""
    monkeypatch.setattr("dpml.reporting.figures.plot", lambda *arguments: [])
    monkeypatch.setattr("dpml.reporting.artifacts.plot_experiment", lambda *arguments: ([], ""))
