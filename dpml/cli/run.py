"""`dpml-run`: one run, a sweep or an experiment. Hydra composes the jobs; they are all carried out as one plan.

If a sweeper or launcher other than Hydra's basic ones is chosen (Optuna, joblib, Slurm), each job carries out its own
plan, wherever that launcher runs it. The jobs share the stored cells; their tables are merged in the sweep's folder.
"""

import logging
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hydra
import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from dpml import paths
from dpml.atomic import write_atomically
from dpml.cli.jobs import (
    ERROR,
    INTERRUPTED,
    NO_RELEASE,
    CellsFailedError,
    ExperimentJob,
    Job,
    RunJob,
    Written,
    compute_jobs,
    experiment_folders,
    experiment_jobs,
    failures,
    options_of,
    run_job,
    write_jobs,
)
from dpml.cli.mistakes import exit_on_mistakes
from dpml.cli.screen import axes, show
from dpml.config.build import check_keys
from dpml.config.compose import register_experiments, register_options
from dpml.errors import UserError
from dpml.reporting.manifest import beside
from dpml.running.plan import Options, Plan

_CONFIG: Any = {"config_path": str(paths.folder("conf")), "config_name": "config", "version_base": "1.3"}
_BASIC = ("BasicSweeper", "BasicLauncher")
_LOG = "dpml-run.log"
_log = logging.getLogger("dpml")


@dataclass
class _Command:
    """The jobs that Hydra has composed so far, one after the other."""

    jobs: list[Job] = field(default_factory=list)
    mistakes: list[tuple[Path, str, Exception]] = field(default_factory=list)  # folder and words of a job
    folders: list[Path] = field(default_factory=list)
    sweep: Path | None = None
    words: Sequence[str] = ()
    options: Options = field(default_factory=Options)
    results: Path = Path("results")
    separate: bool = False  # every job carries out its own plan

    @property
    def text(self) -> str:
        """The command, for running it again."""
        return shlex.join(["dpml-run", *(["-m"] if self.sweep else []), *self.words])


_command = _Command()


def main() -> None:
    """Run `dpml-run`."""
    global _command
    _command = _Command()
    # Hydra would print its own summary of an exception; with this it passes the exception on
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    register_experiments()
    register_options()
    exit_on_mistakes("dpml-run", _main_and_clean)


def _main_and_clean() -> None:
    try:
        _main()
        status = _finish_separate() if _command.separate else _carry_out()
    finally:
        _close_log()
        for folder in [*_command.folders, *([_command.sweep] if _command.sweep else [])]:
            _discard_if_empty(folder)
    if status:
        sys.exit(status)


@hydra.main(**_CONFIG)
def _main(config: DictConfig) -> float | None:
    """Called by Hydra for every job: record the job."""
    context = HydraConfig.get()
    folder = Path(context.runtime.output_dir).absolute()
    multirun = context.mode == RunMode.MULTIRUN
    parts = zip(_BASIC, (context.sweeper, context.launcher), strict=True)
    basic = all(name in str(part["_target_"]) for name, part in parts)
    words = list(context.overrides.task)
    _command.folders.append(folder)
    if not multirun:
        _command.words = words
    try:
        check_keys(config)
        _command.options, _command.results = options_of(config), Path(config.results_dir)
        if "experiment" in config:
            sources = experiment_folders(context.runtime.config_sources)
            jobs: list[Job] = [*experiment_jobs(config, words, sources)]
        else:
            jobs = [run_job(config, words, folder, f"job {context.job.num}" if multirun else "run")]
    except UserError as error:
        _command.mistakes.append((folder, shlex.join(words), error))
        return float("nan") if config.get("objective") else None
    if multirun and not basic:
        return _carry_out_separately(jobs, folder, shlex.join(words), config.objective)
    _command.jobs += jobs
    return None


class SweepFolder(Callback):
    """Hydra callback that records a sweep's folder and its command line."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Called in the process that composes the jobs."""
        _command.sweep = Path(config.hydra.sweep.dir).absolute()
        _command.words = list(config.hydra.overrides.task)
        launcher, sweeper = (str(config.hydra[part]._target_) for part in ("launcher", "sweeper"))
        _command.separate = _BASIC[1] not in launcher or _BASIC[0] not in sweeper
        _command.words = [*_command.words, *(w for w in config.hydra.overrides.hydra if not w.startswith("hydra.mode"))]


# ---- all jobs as one plan


def _carry_out() -> int:
    """Carry out all recorded jobs, write their files and print their results; return the exit status."""
    if not _command.folders:  # Hydra did something else: --help, --cfg job, ...
        return 0
    if _command.mistakes and _command.sweep is None:
        raise _command.mistakes[0][2]
    _keep_log(_command.sweep or _command.folders[0])
    status = 0
    if _command.jobs:
        plan, status = compute_jobs(_command.jobs, _command.options, _command.results, _command.text)
        if _command.options.dry or status == INTERRUPTED:
            return status
        complete = _write(plan, stopped=bool(status))
        status = status or failures(plan, _command.text) or int(not complete)
    for folder, words, error in _command.mistakes:
        _note_failure(folder, words, error)
    merged = _merge(_command.sweep) if _command.sweep else 0
    return status or merged or int(bool(_command.mistakes))


def _write(plan: Plan, stopped: bool) -> bool:
    """Write the files of all jobs and print their paths; a file that cannot be written counts as a mistake of its job.

    Returns False if a run lacks one of its requested budgets.
    """
    written = write_jobs(plan, _command.jobs, stopped)
    refused = {sentence: one for one in written if one.error is None for sentence in plan.refused(one.job.task)}
    for sentence in refused:
        print(f"left out: {sentence}", file=sys.stderr)
    for one in written:
        for path in one.paths:
            _log.info("written: %s", _relative(path))
        if one.error is None:
            _show(plan, one)
        elif _command.sweep is None and len(_command.jobs) == 1 and isinstance(one.error, UserError):
            raise one.error
        elif isinstance(one.job, ExperimentJob):
            print(f"not written: experiment={one.job.task.name}: {one.error}", file=sys.stderr)
        elif _command.sweep:
            _command.mistakes.append((one.job.folder, shlex.join(one.job.words), one.error))
    return not any(isinstance(one.job, RunJob) for one in refused.values())


def _show(plan: Plan, one: Written) -> None:
    if isinstance(one.job, ExperimentJob):
        for path in one.paths:
            print(f"written: {_relative(path)}")
        if not one.paths:
            print(f"up to date: {_relative(one.job.base)}.*")
    elif _command.sweep:
        print(f"done: {shlex.join(one.job.words)}")
    else:
        _show_run(plan, one.job)


def _show_run(plan: Plan, job: RunJob) -> None:
    rows, guarantees = job.tables(plan)
    show(rows, guarantees)
    _draw(rows, job.folder, shlex.join(["dpml-run", *job.words]))
    print(f"Written to {_relative(job.folder)}/: rows.csv, guarantees.csv, manifest.json")


def _draw(rows: pd.DataFrame, folder: Path, command: str) -> None:
    """Draw a figure if a setting varies that can be its x axis."""
    if axes(rows):
        from dpml.reporting.figures import plot  # slow to load

        plot(rows, folder, command)


# ---- a sweep


def _merge(sweep: Path) -> int:
    """Merge the tables of a sweep's jobs in its folder and print them; return the exit status."""
    # jobs that a launcher ran elsewhere are known only by their folders
    folders = [path for path in sweep.iterdir() if path.is_dir()] if _command.separate else _command.folders
    folders = sorted(folders, key=lambda path: (len(path.name), path.name))
    done = [folder for folder in folders if (folder / "rows.csv").exists()]
    if done:
        from dpml.reporting.tables import read_table  # slow to load

        paths = [sweep / name for name in ("guarantees.csv", "rows.csv")]
        for path in paths:
            tables = [read_table(folder / path.name, ()) for folder in done]
            # two jobs with the same setting count as one
            merged = pd.concat(tables, ignore_index=True).drop_duplicates()
            write_atomically(path, merged.to_csv(index=False))
        merged_from = [os.path.relpath(folder, sweep) for folder in done]
        beside(sweep).keep_with({"note": NO_RELEASE, "command": _command.text, "merged": merged_from}, paths)
        rows = pd.read_csv(sweep / "rows.csv")
        show(rows, pd.read_csv(sweep / "guarantees.csv"))
        _draw(rows, sweep, _command.text)
        print(f"Written to {_relative(sweep)}/: rows.csv and guarantees.csv of {len(done)} jobs")
    failed = [folder for folder in folders if (folder / ERROR).exists()]
    if failed:
        print(f"dpml-run: {len(failed)} of {len(folders)} jobs failed; their folders hold {ERROR}", file=sys.stderr)
    return int(bool(failed))


def _note_failure(folder: Path, words: str, error: Exception) -> None:
    """Print a failure in one line and keep it in error.txt; the other jobs go on."""
    known = isinstance(error, UserError | CellsFailedError)
    account = f"{error}\n" if known else "".join(traceback.format_exception(error))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / ERROR, account)
    for name in ("rows.csv", "guarantees.csv", "manifest.json"):  # left by an earlier run in the same folder
        (folder / name).unlink(missing_ok=True)
    detail = str(error) if known else f"{type(error).__name__}: {error} (traceback in {_relative(folder)}/{ERROR})"
    print(f"failed: {words}: {detail}", file=sys.stderr)
    _log.error("%s: %s", words, detail)


def _carry_out_separately(jobs: Sequence[Job], folder: Path, words: str, objective: str | None) -> float | None:
    """Carry out one job on its own, wherever a launcher runs it; returns the mean of the metric `objective`, if set."""
    _keep_log(folder)
    value = float("nan") if objective else None
    try:
        plan, status = compute_jobs(jobs, _command.options, _command.results, f"dpml-run {words}")
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        for one in write_jobs(plan, jobs, stopped=False):
            if one.error is not None:
                raise one.error
        for job in jobs:
            if objective and isinstance(job, RunJob):
                value = _mean(job.tables(plan)[0], objective)
    except Exception as error:
        _note_failure(folder, words, error)
    return value


def _mean(rows: pd.DataFrame, metric: str) -> float:
    known = list(rows["metric"].unique())
    if metric not in known:
        raise UserError(f"objective={metric} is no metric of this run: choose one of {', '.join(known)}.")
    return float(rows.loc[rows["metric"] == metric, "value"].mean())


def _finish_separate() -> int:
    """Finish after all jobs have carried out their own plans."""
    for folder, words, error in _command.mistakes:
        _note_failure(folder, words, error)
    assert _command.sweep is not None
    return _merge(_command.sweep)


# ---- folders


def _keep_log(folder: Path) -> None:
    """Log to a file in `folder`; the file is created with the first line."""
    handler = logging.FileHandler(folder / _LOG, delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    _close_log()
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = _log.disabled = False  # Hydra disables loggers that exist before it starts


def _close_log() -> None:
    for handler in list(_log.handlers):
        _log.removeHandler(handler)
        handler.close()


def _discard_if_empty(folder: Path) -> None:
    """Remove an output folder, and empty folders above it, if nothing was written to it."""
    results = ("rows.csv", ERROR)
    if any(next(folder.glob(pattern), None) for name in results for pattern in (name, f"*/{name}")):
        return
    shutil.rmtree(folder / ".hydra", ignore_errors=True)
    for name in (_LOG, "multirun.yaml"):
        (folder / name).unlink(missing_ok=True)
    working = Path.cwd()
    for path in (folder, *folder.parents):
        if path == working or path in working.parents:
            return
        try:
            path.rmdir()
        except OSError:
            return


def _relative(path: Path) -> str:
    return os.path.relpath(path)
