"""What the tests share: running the commands in this process, from an empty folder."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import absl.logging
import pytest
from _pytest.doctest import DoctestModule

from dpml import cli

# dp-accounting's logger keeps the stderr it first sees, and Hydra flushes every logger: let it not be pytest's
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__
# a shell that starts the tests in the background ignores Ctrl-C for them, and their commands would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)
# before NumPy and SciPy are loaded, and for the processes of tests too: with small matrices, a second BLAS thread only
# gets in the way
os.environ["OMP_NUM_THREADS"] = "1"


SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text("utf-8").splitlines())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in `slow.txt`."""
    for item in items:
        known = {item.nodeid, item.nodeid.partition("[")[0]} & SLOW
        if known and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.listed)


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


@pytest.fixture(autouse=True, scope="session")
def get_mode() -> Iterator[Callable[..., object]]:
    """Hydra does not repeat itself, because tests compose a hundred times; its own get_mode.

    It would compose everything a first time to see whether hydra.mode is set, make for every file a map of choices that
    only names with ${} in them need, and parse the same interpolations again.
    """
    import omegaconf
    from hydra._internal import defaults_list
    from hydra._internal.hydra import Hydra

    with pytest.MonkeyPatch.context() as patch:
        whole, choices, parse = Hydra.get_mode, defaults_list._create_interpolation_map, cache(omegaconf.base.parse)
        needed = lambda known, files, *more: (  # noqa: E731
            choices(known, files, *more) if any(file.is_interpolation() for file in files) else None
        )
        patch.setattr(Hydra, "get_mode", lambda *at, **of: None)
        patch.setattr(defaults_list, "_create_interpolation_map", needed)
        for module in (omegaconf.base, omegaconf._utils):
            patch.setattr(module, "parse", parse)
        yield whole


@pytest.fixture(scope="session")
def raw() -> Path:
    """A folder with real data files: DPML_TEST_DATA, or shared/data/raw beside the checkout or further up."""
    named = os.environ.get("DPML_TEST_DATA")
    above = Path(__file__).resolve().parents[1:]
    for folder in [Path(named)] if named else [parent / "shared" / "data" / "raw" for parent in above]:
        if folder.is_dir():
            return folder
    pytest.skip("no real data at hand: set DPML_TEST_DATA")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run ``dpml-run`` or ``dpml`` with some words, in an empty working folder without a data cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DPML_OFFLINE", "1")
    monkeypatch.setenv("DPML_PACKS", "")
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
def uncomposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`dpml` changes the default configuration: that Hydra composes one of the words takes longer than a release."""
    from harness import composed  # loads Hydra, which most tests do not need

    monkeypatch.setattr("dpml.api.settings.of_dpml", lambda: composed)


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
