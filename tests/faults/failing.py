"""A disk that fails at the n-th step of writing, or a process that dies there.

Python tells its audit hooks before it opens a file for writing, makes a folder or renames something, whichever library
does it, and a hook may raise. What is written into an open file goes wrong at the `fsync` that ends it.
"""

import copy
import errno
import inspect
import io
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from omegaconf import DictConfig

from dpml import cli

PROGRAMS = {"dpml-run": cli.dpml_run, "dpml": cli.dpml}
PACKAGE = str(Path(cli.__file__).parents[1])
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# the whole work: every file that these write is there, so that no step of another test counts
OWN = "".join(f"{i % 7 - 3},{i * i % 11 - 5},{i % 2}\n" for i in range(60))
EXPERIMENT = """# @package experiment
title: Tiny
source: nobody, 2000
settings: {dataset: synthetic, dataset.d: 3, M: 2, draws: 2, N: 40}
grid:
  a_eps: {algo: [nonpriv, capefm], eps: [0.1, 1]}
  table: {_target_: dpml.packs.imtiaz2019.curves.delta_against_tau, N: 1000, M: 10, eps: 0.001}
panels:
  - {block: a_eps, x: eps, y: loss}
"""
RUN = ["dpml-run", "dataset=csv", "dataset.path=own.csv", "dataset.label=label", "algo=nonpriv", "draws=1"]
COMMANDS = {
    "run": [*RUN, "hydra.run.dir=out"],
    "sweep": ["dpml-run", "-m", *RUN[1:], "eps=1,2", "hydra.sweep.dir=out"],
    "experiment": ["dpml-run", "--config-dir", "own", "experiment=mine/tiny", "results_dir=out"],
    "merge": ["dpml", "merge", "first", "second", "-o", "out/merged"],
    "plot": ["dpml", "plot", "out", "-o", "out/paper.pdf", "--force"],
    "report": ["dpml", "report", "out"],
    "get": ["dpml", "data", "get", "mini", "--config-dir", "own", "--data-dir", "out"],
    "describe": ["dpml", "data", "describe", "own.csv", "--label", "label", "--bounds-out", "out/bounds.yaml"],
}
BEFORE = {
    "merge": [[*RUN, "hydra.run.dir=first"], [*RUN, "seed=1", "hydra.run.dir=second"]],
    "plot": [[*RUN, "eps=[1,2]", "hydra.run.dir=out"]],
    "report": [COMMANDS["experiment"]],
}
"""What has to be there for a command."""


def prepare(folder: Path) -> None:
    """An empty folder with what the commands read."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "own/experiment/mine").mkdir(parents=True)
    (folder / "out").mkdir()
    (folder / "own.csv").write_text(f"a,b,label\n{OWN}")
    (folder / "own/experiment/mine/tiny.yaml").write_text(EXPERIMENT)
    (folder / "own/dataset").mkdir()
    (folder / "own/dataset/mini.yaml").write_text("_target_: mini.Mini\n")


def made(folder: Path) -> dict[str, bytes]:
    """What a command has made that must be the same bytes every time: not its log, its plan, or its cache.

    Nor what a manifest says of the checkout, which somebody may be working on.
    """
    paths = [path for path in sorted((folder / "out").rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): re.sub(rb'"(commit|dirty|checksum)": .*', b"", path.read_bytes())
        for path in paths
        if not {".cells", ".hydra"} & set(path.parts) and not path.name.endswith((".log", "_plan.csv"))
    }


@contextmanager
def light() -> Iterator[None]:
    """What takes longest is left out of commands: figures have only the words around their panels, and Hydra composes
    the same words once.
    """

    def draw(figure: Figure, renderer: RendererBase) -> None:
        for text in figure.texts:
            text.draw(renderer)

    composed: dict[str, DictConfig] = {}
    compose = ConfigLoaderImpl.load_configuration

    def load(loader: ConfigLoaderImpl, **words: object) -> DictConfig:
        key = repr((Path.cwd(), [source.path for source in loader.get_sources()], words))
        if key not in composed:
            composed[key] = compose(loader, **words)  # type: ignore[arg-type]
        return copy.deepcopy(composed[key])

    with mock.patch.object(Figure, "draw", draw), mock.patch.object(ConfigLoaderImpl, "load_configuration", load):
        yield


def temporary(folder: Path) -> list[str]:
    """The files and folders of temporary names that are left anywhere."""
    names = [str(path.relative_to(folder)) for path in folder.rglob(".*") if path.name not in (".cells", ".hydra")]
    return [name for name in names if not name.endswith(".lock")]


@dataclass
class Disk:
    """Steps of writing below `folder` are counted; at number `at`, `fail` is called."""

    folder: Path
    at: int = 0
    lasting: bool = True
    places: list[str] = field(default_factory=list)
    active: bool = False
    fail: Callable[[], None] = lambda: None

    def step(self) -> None:
        if not self.active:
            return
        self.places.append("" if self.at else _place())
        steps = len(self.places)
        if steps == self.at or (self.lasting and steps > self.at > 0):
            self.fail()

    @property
    def moments(self) -> list[int]:
        """The steps to fail at: the first and the last of each place. Cells are many, and written by the same lines."""
        first = {place: at for at, place in reversed([*enumerate(self.places, 1)])}
        last = {place: at for at, place in enumerate(self.places, 1)}
        return sorted({*first.values(), *last.values()})

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook."""
        if not self.active or event not in ("open", "os.mkdir", "os.rename", "os.link"):
            return
        path, flags = arguments[0], arguments[2] if event == "open" else WRITING
        writing = isinstance(path, str | bytes | os.PathLike) and isinstance(flags, int) and flags & WRITING
        if writing and self.folder in (Path.cwd() / os.fsdecode(path)).parents:
            self.step()


def _place() -> str:
    """The lines of dpml that are being executed."""
    frames = [(frame.filename, frame.lineno) for frame in inspect.stack(0)]
    return str([frame for frame in frames if frame[0].startswith(PACKAGE)])


_disks: list[Disk] = []  # a hook cannot be removed: there is one
_fsync = os.fsync


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for disk in _disks or ():  # None when Python ends
        disk.hook(event, arguments)


def _counted_fsync(number: int) -> None:
    for disk in _disks:
        disk.step()
    _fsync(number)


@contextmanager
def failing(disk: Disk) -> Iterator[Disk]:
    """Let `disk` fail while the context lasts."""
    if not _disks:
        sys.addaudithook(_hook)
    _disks[:] = [disk]
    os.fsync = _counted_fsync
    disk.active = True
    try:
        yield disk
    finally:
        disk.active = False
        os.fsync = _fsync


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_only() -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def go(folder: Path, words: list[str]) -> tuple[int, str, str]:
    """Run a command in this process, from `folder`: its exit status, and what it said. A traceback is an exception."""
    before, out, err = Path.cwd(), io.StringIO(), io.StringIO()
    arguments, sys.argv = sys.argv, words
    status: object = 0
    os.chdir(folder)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            PROGRAMS[words[0]]()
    except SystemExit as stop:
        status = stop.code
    finally:
        os.chdir(before)
        sys.argv = arguments
    return int(status or 0) if not isinstance(status, str) else 1, out.getvalue(), err.getvalue()
