"""`dpml-run`: one run, a sweep or an experiment. Hydra composes the jobs; they are all carried out as one plan.

If a sweeper or launcher other than Hydra's basic ones is chosen (Optuna, joblib, Slurm), each job carries out its own
plan, wherever that launcher runs it. The jobs share the stored cells; their tables are merged in the sweep's folder.
"""

import argparse
import logging
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hydra
import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from dpml import packs
from dpml.api.jobs import (
    ERROR,
    INTERRUPTED,
    CellsFailedError,
    ExperimentJob,
    IncompleteError,
    Job,
    JobOutcome,
    RunJob,
    composed_jobs,
    compute_jobs,
    experiment_folders,
    failures,
    mean_of,
    merge_jobs,
    options_of,
    write_jobs,
)
from dpml.api.settings import Settings
from dpml.cli import sweeper
from dpml.cli.console import axes, show
from dpml.cli.errors import exit_on_mistakes, refuse_dashed_keys
from dpml.config.build import spread
from dpml.config.compose import register_experiments, register_options
from dpml.data.sources import cache
from dpml.errors import UserError
from dpml.files import shipped_folder, write_atomically
from dpml.reporting.run_table import FIGURE, FILES, claims_in, run_table, write_tables
from dpml.reporting.statistics import summarise
from dpml.running.plan import Options, Plan

_CONFIG: Any = {"config_path": str(shipped_folder("conf")), "config_name": "config", "version_base": "1.3"}
_BASIC = ("BasicSweeper", "BasicLauncher")
Stamps = tuple[tuple[int, int], ...]
_TABLES = ("rows.csv", "guarantees.csv", "manifest.json")
_LOG = "dpml-run.log"
_LONG = 1_000  # characters of a word
log = logging.getLogger("dpml")


def main() -> None:
    """Run `dpml-run`."""
    # Hydra would print its own summary of an exception; with this it passes the exception on
    os.environ["HYDRA_FULL_ERROR"] = "1"
    exit_on_mistakes("dpml-run", _main)


def _main() -> None:
    said, sys.argv[1:] = sys.argv[1:], _add_packs(sys.argv[1:])
    register_experiments()
    register_options()
    sweeper.register()
    refuse_dashed_keys(sys.argv[1:], sys.argv[1:])
    words = sorted(sys.argv[1:], key=lambda word: word not in ("-m", "--multirun"))  # which Hydra wants in front
    sys.argv[1:] = [_quoted(word) if len(word) > _LONG else word for word in words]
    command = Command(said)
    token = _command.set(command)
    try:
        try:
            hydra.main(**_CONFIG)(command.add)()
        except Exception:
            if not command.all_failed:
                raise
            raise UserError("no job of the search returned a value: there is no best setting.") from None
        status = command.carry_out()
    finally:
        _command.reset(token)
        cache.WRITES.set(True)
        _close_log()
        for folder in [*command.folders, *([command.sweep] if command.sweep else [])]:
            _discard_if_empty(folder)
    if status:
        sys.exit(status)


@dataclass
class Command:
    """What Hydra makes of one command line: jobs, composed one after the other, and for a sweep a folder of all."""

    said: Sequence[str] = ()
    sweep: Path | None = None
    separate: bool = False  # every job carries out its own plan
    dry: bool = False  # and none computes anything
    before: dict[Path, Stamps] = field(default_factory=dict)  # what an earlier sweep has left in the folder
    folders: list[Path] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    failed: list[tuple[Path, str, Exception]] = field(default_factory=list)  # folder and words of a job
    mistake: UserError | None = None  # in what is said of the whole command
    keeps: dict[Path, Callable[[], None]] = field(default_factory=dict)  # what writes a job's .hydra, by its folder
    options: Options = field(default_factory=Options)
    results: Path = Path("results")
    objective: str | None = None  # the metric whose mean a job of a sweep returns

    @property
    def text(self) -> str:
        """The command, for running it again."""
        return shlex.join(["dpml-run", *self.said])

    def add(self, config: DictConfig, keep: Callable[[], None] | None = None) -> float | None:
        """Called by Hydra with the configuration of every job.

        `keep` writes the folder ``.hydra`` of a job, if Hydra has not. Returns the mean of the metric `objective`, if
        it is set, and the job is carried out at once and has one.
        """
        context = HydraConfig.get()
        sweep = context.mode == RunMode.MULTIRUN
        name = f"job {context.job.num}" if sweep else "run"
        folder = Path(context.runtime.output_dir).absolute()
        settings = Settings(list(context.overrides.task))
        self.folders.append(folder)
        if keep:
            self.keeps[folder] = keep
        self.objective = config.get("objective")
        try:
            self.options = options_of(config)
            cache.WRITES.set(not self.options.dry)
            if self.objective and _is_basic(context):
                raise UserError(f"objective={self.objective} is for a search: add hydra/sweeper=optuna.")
        except UserError as error:
            self.mistake = error
            return None
        try:
            sources = experiment_folders(context.runtime.config_sources)
            self.jobs += composed_jobs(config, settings, folder, name, sources)
            self.results = Path(config.results_dir)
        except UserError as error:
            self.failed.append((folder, settings.text, error))
        if sweep and not _is_basic(context):
            if self.options.dry and self.objective:
                raise UserError(
                    f"run.dry=true computes no objective={self.objective} to search by: leave one of them out."
                )
            return self._carry_out_alone(folder, settings.text)
        return None

    def carry_out(self) -> int:
        """Carry out all jobs as one plan, write their files and print their results; return the exit status."""
        if self.mistake:
            raise self.mistake
        if self.sweep and self.separate:
            return self._merge(self.sweep) if not self.dry else 0
        if not self.folders:  # Hydra did something else: --help, --cfg job, ...
            return 0
        if self.failed and not self.sweep:
            raise self.failed[0][2]
        _keep_log(self.sweep or self.folders[0])
        status = 0
        if self.jobs:
            plan, status = compute_jobs(self.jobs, self.options, self.results, self.text)
            if self.options.dry or status == INTERRUPTED:
                return status
            complete = self._write(plan, stopped=bool(status))
            status = status or failures(plan, self.text) or int(not complete)
        self._report_failures()
        merged = self._merge(self.sweep) if self.sweep else 0
        return status or merged

    def _carry_out_alone(self, folder: Path, words: str) -> float | None:
        """Carry out one job of a sweep on its own, wherever a launcher runs it.

        Without a value Optuna takes the job for a failed one, and goes on; on NaN its sweeper ends in an exception.
        """
        value = None
        jobs, self.jobs = self.jobs, []
        try:
            if jobs:
                _keep_log(folder)
                plan = self._computed(jobs, f"dpml-run {words}")
                if self.objective and isinstance(jobs[0], RunJob) and not self.options.dry:
                    value = mean_of(jobs[0].tables(plan)[0], self.objective)
        except Exception as error:
            self.failed.append((folder, words, error))
        self._report_failures()
        return value

    def _computed(self, jobs: Sequence[Job], text: str) -> Plan:
        plan, status = compute_jobs(jobs, self.options, self.results, text)
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        lacks = []
        for one in write_jobs(plan, jobs, stopped=bool(status)) if not self.options.dry else ():
            if one.error is not None:
                raise one.error
            lacks += plan.refused(one.job.task) if isinstance(one.job, RunJob) else []
        failed = plan.counts()["failed"]
        if lacks or failed:
            words = [f"left out: {sentence}" for sentence in lacks]
            words += [f"{failed} cells failed; to try only them again: {text} run.only=failed"] if failed else []
            raise IncompleteError(" ".join(words))
        return plan

    def _write(self, plan: Plan, stopped: bool) -> bool:
        """Write the files of all jobs and print their paths; a file that cannot be written is a failure of its job.

        Returns False if a run lacks one of its requested budgets.
        """
        written = write_jobs(plan, self.jobs, stopped)
        refused = {sentence: one for one in written if one.error is None for sentence in plan.refused(one.job.task)}
        for sentence in refused:
            print(f"left out: {sentence}", file=sys.stderr)
        for one in written:
            for path in one.paths:
                log.info("written: %s", os.path.relpath(path))
            if one.error is None:
                self._show(one)
            elif self.sweep is None and len(self.jobs) == 1 and isinstance(one.error, UserError):
                raise one.error
            elif isinstance(one.job, ExperimentJob):
                print(f"not written: experiment={one.job.task.name}: {one.error}", file=sys.stderr)
            elif self.sweep:
                self.failed.append((one.job.folder, one.job.settings.text, one.error))
        return not any(isinstance(one.job, RunJob) for one in refused.values())

    def _show(self, one: JobOutcome) -> None:
        job = one.job
        if isinstance(job, ExperimentJob):
            for path in one.paths:
                print(f"written: {os.path.relpath(path)}")
            if not one.paths:
                print(f"up to date: {os.path.relpath(job.base)}.*")
        elif not self.sweep:
            made = _show_tables(job.folder)
            print(f"Written to {os.path.relpath(job.folder)}/: {', '.join([*_TABLES, *made])}")

    def _report_failures(self) -> None:
        """Print every failure in one line and keep it in error.txt; the other jobs go on."""
        for folder, words, error in self.failed:
            print(f"failed: {words}: {_keep_failure(folder, words, error)}", file=sys.stderr)
        self.failed = []

    @property
    def all_failed(self) -> bool:
        """Whether this is a sweep whose jobs carry out their own plans, and each has failed."""
        folders = self._launched() if self.separate else []
        return bool(folders) and all((folder / ERROR).exists() for folder in folders)

    def _launched(self) -> list[Path]:
        stamps = _stamps(self.sweep) if self.sweep else {}
        return [path for path, now in stamps.items() if self.before.get(path) != now]

    def _merge(self, sweep: Path) -> int:
        """Merge the tables of a sweep's jobs in its folder and print them; return the exit status."""
        folders = self._launched() if self.separate else self.folders
        folders = sorted(folders, key=lambda path: (len(path.name), path.name))
        done = [folder for folder in folders if (folder / "rows.csv").exists()]
        if done:
            merge_jobs(sweep, done, self.text)
            made = _show_tables(sweep)
            print(f"Written to {os.path.relpath(sweep)}/: {', '.join([*_TABLES, *made])}, of {len(done)} jobs")
        failed = [folder for folder in folders if (folder / ERROR).exists()]
        for folder in self.keeps.keys() & {*done, *failed}:
            self.keeps[folder]()
        if failed:
            print(f"dpml-run: {len(failed)} of {len(folders)} jobs failed; their folders hold {ERROR}", file=sys.stderr)
        return int(bool(failed))


def _stamps(sweep: Path) -> dict[Path, Stamps]:
    found = {}
    for folder in sweep.iterdir() if sweep.is_dir() else ():
        files = [path.stat() for name in ("rows.csv", ERROR) if (path := folder / name).is_file()]
        if files:
            found[folder] = tuple((file.st_ino, file.st_mtime_ns) for file in files)
    return found


_command: ContextVar[Command] = ContextVar("the command that Hydra is composing")


class SweepFolder(Callback):
    """Hydra's callback for sweeps: tells the command which folder it has, and whether Hydra's own launcher runs it."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Called in the process that composes the jobs."""
        command = _command.get()
        command.sweep = Path(config.hydra.sweep.dir).absolute()
        command.separate = not _is_basic(config.hydra)
        command.before = _stamps(command.sweep) if command.separate else {}
        words: Any = OmegaConf.to_container(config.hydra.overrides.task)  # as they are: ${hydra:KEY} has no value yet
        command.dry = Settings(words).given.get("run.dry") is True


def _is_basic(context: Any) -> bool:
    """Whether Hydra's own sweeper and launcher run the jobs: here, one after the other."""
    parts = zip(_BASIC, (context.sweeper, context.launcher), strict=True)
    return all(name in str(part["_target_"]) for name, part in parts)


def _show_tables(folder: Path) -> list[str]:
    """Print the tables of a run or a sweep; of several settings, also write a table, and a figure if it has an x axis.

    Returns the names of the files.
    """
    rows, guarantees = (pd.read_csv(folder / name) for name in ("rows.csv", "guarantees.csv"))
    show(rows, guarantees)
    table = run_table(summarise(rows), claims=claims_in(guarantees))
    paths = write_tables(table, folder) if table.keys else []
    if axes(rows):
        from dpml.reporting.figures import plot  # slow to load

        paths += plot(rows, folder)
    made = [path.name for path in paths]
    for name in (*FILES, *FIGURE):  # of earlier rows in the same folder
        if name not in made:
            (folder / name).unlink(missing_ok=True)
    return made


# ---- words


def _add_packs(words: Sequence[str]) -> list[str]:
    """Register the packs that ``--pack DIR`` names; return the other words."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--pack", type=Path, action="append", default=[])
    known, others = parser.parse_known_args(words)
    packs.add(known.pack)
    return others


def _quoted(word: str) -> str:
    """Return a list of whole numbers as a text, which `config.build.spread` reads.

    Hydra finds each item of a list by going through all items before it, three times: 20,000 seeds took 100 seconds.
    """
    key, _, value = word.partition("=")
    return f"{key}='{value}'" if isinstance(spread(value, key), list) else word


# ---- output folders


def _keep_log(folder: Path) -> None:
    """Log to a file in `folder`; the file is created with the first line."""
    handler = logging.FileHandler(folder / _LOG, delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    _close_log()
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = log.disabled = False  # Hydra disables loggers that exist before it starts


def _close_log() -> None:
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()


def _keep_failure(folder: Path, words: str, error: Exception) -> str:
    """Write why a job failed to its folder, and remove its tables unless they are right; return the reason."""
    expected = isinstance(error, UserError | CellsFailedError)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / ERROR, f"{error}\n" if expected else "".join(traceback.format_exception(error)))
    if not isinstance(error, IncompleteError):
        for name in (*_TABLES, *FILES, *FIGURE):  # left by an earlier run in the same folder
            (folder / name).unlink(missing_ok=True)
    reason = str(error)
    if not expected:
        reason = f"{type(error).__name__}: {error} (traceback in {os.path.relpath(folder)}/{ERROR})"
    log.error("%s: %s", words, reason)
    return reason


def _discard_if_empty(folder: Path) -> None:
    """Remove an output folder that has no results, and the folders above it that are empty."""
    if any(next(folder.glob(f"{under}{name}"), None) for name in ("rows.csv", ERROR) for under in ("", "*/")):
        return
    shutil.rmtree(folder / ".hydra", ignore_errors=True)
    for name in (_LOG, "multirun.yaml"):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        os.removedirs(os.path.relpath(folder))  # relative: never the working folder or one above it
