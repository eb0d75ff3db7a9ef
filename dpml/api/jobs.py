"""Turn a composed configuration into jobs (runs, experiments), compute them in one plan, and write their files."""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hydra
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from dpml import packs
from dpml.api.settings import Settings, is_private, refuse_several
from dpml.config.build import check_keys, convert_options
from dpml.config.compose import PACKAGE, experiments_of
from dpml.data.partition import draws_sizes
from dpml.errors import UserError
from dpml.files import write_atomically
from dpml.reporting.manifest import beside
from dpml.reporting.modified import only_block, refuse_ambiguous, titled, without_points
from dpml.reporting.results import Publication
from dpml.running.environment import environment
from dpml.running.expansion import Expansion, Point
from dpml.running.plan import Options, Plan, Task, make_plan
from dpml.running.runner import announce, carry_out, outline
from dpml.running.spec import SETTINGS, Experiment
from dpml.running.store import Store, digest
from dpml.screen import Screen

INTERRUPTED = 130
ERROR = "error.txt"
"""The file that says why a job's folder has no results."""

_PLAN = "plan.csv"  # of the last dry run, in the results folder
_NO_RELEASE = "an experiment, not a release: whoever knows the seed can subtract the noise"


class CellsFailedError(Exception):
    """Some cells of a job failed through a bug, not a user's mistake; the message names the file with the traceback."""


class IncompleteError(UserError):
    """A job's tables are right but lack a budget, or the objective has no mean."""


@dataclass(frozen=True)
class RunJob:
    """A plain run, or one job of a sweep: rows.csv, guarantees.csv and manifest.json in a folder of its own."""

    task: Task
    folder: Path
    config: Mapping[str, Any]
    settings: Settings

    def check(self, plan: Plan) -> None:
        """Raise if there is no run: a run is computed completely or not at all.

        Raises:
            CellsFailedError: a cell failed.
        """
        for entry in plan.of(self.task):
            if entry.status == "skipped":
                raise UserError(entry.reason)
            if entry.status == "failed":
                raise CellsFailedError(f"{entry.reason} (traceback in {plan.store.log(entry.key)})")

    def tables(self, plan: Plan) -> tuple[pd.DataFrame, pd.DataFrame, list[Mapping[str, Any]]]:
        """Return its rows, its guarantees, and where its data come from."""
        rows, guarantees, provenance = plan.tables(self.task)
        return rows.drop(columns="block"), guarantees.drop(columns="block"), provenance

    def write(self, plan: Plan) -> list[Path]:
        """Write its tables and, last, the manifest. Each file appears whole or not at all; raises as `check` does."""
        self.check(plan)
        rows, guarantees, provenance = self.tables(plan)
        self.folder.mkdir(parents=True, exist_ok=True)
        paths = [self.folder / name for name in ("guarantees.csv", "rows.csv", "manifest.json")]
        write_atomically(paths[0], guarantees.to_csv(index=False))
        write_atomically(paths[1], rows.to_csv(index=False))
        made = {"note": _NO_RELEASE, "config": dict(self.config), "dataset": provenance}
        facts = {**made, "seed": self.config["seed"], **environment(plan.versions(self.task))}
        own = any(point.cell and getattr(point.cell.dataset, "own", False) for point, _ in plan.points[self.task.name])
        beside(self.folder).keep_with(facts, paths[:2], private=own)
        (self.folder / ERROR).unlink(missing_ok=True)  # left by an earlier run in the same folder
        return paths


@dataclass(frozen=True)
class ExperimentJob:
    """A published figure, or a trial of it: its files have the name `base` in a results folder."""

    task: Task
    publication: Publication
    base: Path
    trial: bool

    def check(self, plan: Plan) -> None:
        """Raise UserError if every cell is skipped, or every cell that a panel shows."""
        shown = {panel.block for panel in self.publication.experiment.panels}
        if any(not shown or block.block in shown for block in self.task.computed):
            return
        entries = [entry for point, entry in plan.points[self.task.name] if not shown or point.block in shown]
        if all(entry.status in ("skipped", "failed") for entry in entries):
            raise _nothing(self.publication.experiment.name, [entry.reason for entry in entries])

    def write(self, plan: Plan) -> list[Path]:
        """Write everything that is made from its cells, unless the files exist and were made from the same cells."""
        from dpml.reporting import artifacts  # draws and counts: slow to load

        self.check(plan)
        self.base.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.base.with_name(f"{self.base.name}_plan.csv"), plan.listing([self.task]))
        return artifacts.write(self.publication, plan, self.task, self.base)


Job = RunJob | ExperimentJob


# ---- from a configuration to jobs


def composed_jobs(
    config: DictConfig, settings: Settings, folder: Path, name: str, sources: Sequence[Path]
) -> list[Job]:
    """Return the jobs of what Hydra composed: a run `name`, with files in `folder`; or experiments from `sources`."""
    if PACKAGE in config:
        return [*experiment_jobs(config, settings.words, sources)]
    return [run_job(config, settings, folder, name)]


def run_job(config: DictConfig, settings: Settings, folder: Path, name: str = "run") -> RunJob:
    """Return the job of a composed configuration without an experiment."""
    refuse_several(settings)
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    check_keys(plain)
    given = {key: value for key, value in settings.given.items() if key.partition(".")[0] in SETTINGS}
    points = Expansion(plain, given).run()
    cells = [point.cell for point in points if point.cell is not None and point.cell.first == 0]
    # the checks depend on the parties' sizes, and on the seed only where it draws them
    sizes = {(cell.M, cell.N, cell.seed if draws_sizes(cell.partition) else None): cell for cell in cells}
    for cell in sizes.values():
        cell.check()
    return RunJob(Task(name, points, whole=True), folder, plain, settings)


def experiment_jobs(config: DictConfig, words: Sequence[str], sources: Sequence[Path]) -> list[ExperimentJob]:
    """Return the jobs of a composed configuration with an experiment: one experiment, all of one paper, or all.

    Args:
        config: the configuration that Hydra composed.
        words: the command line's overrides.
        sources: the user's own folders with experiments.
    """
    check_keys(config)
    if config.objective is not None:
        raise UserError("objective= is for runs and sweeps: an experiment has no single number to return.")
    name = next(word.split("=", 1)[1] for word in words if word.startswith(f"{PACKAGE}="))
    if name.startswith("["):
        several = f"{PACKAGE}={name.strip('[] ').replace(' ', '')}"
        raise UserError(f"{PACKAGE} takes one name, got {PACKAGE}={name}: for several, dpml-run -m {several}.")
    others = [word for word in words if not word.startswith(f"{PACKAGE}=")]
    names = experiments_of(config)
    configs = {one: hydra.compose("config", [f"{PACKAGE}={one}", *others]) for one in names} or {name: config}
    jobs, idle = [], set(others)
    for one, composed in configs.items():
        job, same = _experiment_job(one, composed, others, sources)
        if len(configs) == 1 and job.task.points and all(point.cell is None for point in job.task.points):
            raise _nothing(name, [point.reason for point in job.task.points])
        jobs.append(job)
        idle &= set(same)
    if idle:
        raise UserError(f"{min(idle)} has no effect on experiment={name}.")
    return jobs


def _experiment_job(
    name: str, config: DictConfig, words: Sequence[str], sources: Sequence[Path]
) -> tuple[ExperimentJob, list[str]]:
    """Return an experiment's job, and the `words` that could change its numbers but change none."""
    from dpml.reporting.charts import check, read_published  # experiments only

    content: dict[str, Any] = OmegaConf.to_container(config.experiment, resolve=True)  # type: ignore[assignment]
    expansion = Expansion.from_config(config, words)
    experiment = only_block(Experiment.from_content(name, content), config.block)
    refuse_ambiguous(experiment, expansion.overrides)
    points = expansion.experiment(experiment)
    pack = name.rpartition("/")[0]
    published = read_published([*sources, packs.home(pack).parent], pack)
    check(experiment, points, published)
    same = [
        word
        for word in words
        if (key := word.lstrip("+").partition("=")[0]) in expansion.overrides
        and _signature(points) == _signature(expansion.without(key).experiment(experiment))
    ]
    changes = [word for word in words if not is_private(word) and word not in same]
    task = Task(" ".join([name, *changes]), points, experiment.computed)
    shown = titled(experiment, points)
    if changes:
        shown = without_points(shown, points, replace(expansion, overrides={}).experiment(experiment))
    base = _base(Path(config.results_dir), name, changes)
    command = public_command([f"{PACKAGE}={name}", *words])
    publication = Publication(shown, command, published)
    return ExperimentJob(task, publication, base, trial=bool(changes)), same


def _nothing(name: str, reasons: Iterable[str | None]) -> UserError:
    """Return the error that nothing of an experiment can be computed, with the most common reason."""
    common = Counter(filter(None, reasons)).most_common(1)
    why = common[0][0] if common else "it has no cells."
    return UserError(f"nothing of experiment={name} can be computed here: {why}")


def _base(results: Path, name: str, changes: Sequence[str]) -> Path:
    """Return the path of an experiment's files; changes of its numbers have a folder of their own."""
    if not changes:
        return results / name
    text = ",".join(changes)
    slug = "".join(character if character.isalnum() or character in "=.,-_[]" else "_" for character in text)
    if slug != text or len(slug) > 100:  # a folder's name cannot hold all of it
        slug = f"{slug[:100]}-{digest(text)[:8]}"
    return results / "trials" / name / slug / name.rpartition("/")[2]


def _signature(points: Sequence[Point]) -> set[tuple[str, str]]:
    return {(point.block, repr(point.cell) if point.cell else str(point.reason)) for point in points}


def public_command(words: Sequence[str]) -> str:
    """Return the command that reproduces the numbers on any machine: without folders and options of `run`."""
    return "dpml-run " + shlex.join(word for word in words if not is_private(word))


def experiment_folders(config_sources: Sequence[Any]) -> list[Path]:
    """Return the user's own folders with experiments, from Hydra's configuration sources."""
    return [Path(source.path) / PACKAGE for source in config_sources if source.schema == "file" and source.path]


# ---- from jobs to files


def options_of(config: Mapping[str, Any] | DictConfig) -> Options:
    """Return the options under `run`."""
    given: Any = config["run"]
    plain: Any = OmegaConf.to_container(given, resolve=True) if OmegaConf.is_config(given) else given
    return Options(**convert_options(plain, Options, "run"))


def compute_jobs(jobs: Sequence[Job], options: Options, results: Path, command: str) -> tuple[Plan, int]:
    """Plan all jobs together and compute what is missing; return the plan and an exit status (0: go on and write)."""
    plan = make_plan([job.task for job in jobs], Store(results / ".cells"), options)
    console, errors = Screen(), Screen(stderr=True)
    if len(jobs) == 1 and not options.dry:
        jobs[0].check(plan)
    announce(plan, options, console)
    if options.dry:
        path = results / _PLAN
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, plan.listing(plan.tasks))
        for line in outline(plan, options):
            console.print(line, soft_wrap=True)
        print(f"The whole plan, a line per cell: {os.path.relpath(path)}")
        return plan, 0
    try:
        finished = carry_out(plan, options, errors)
    except KeyboardInterrupt:
        _tell(errors, f"interrupted: completed cells are saved; resume with: {command}")
        return plan, INTERRUPTED
    if not finished:
        _tell(errors, f"stopped at the first failure (run.on_error=raise); resume with: {command}")
        return plan, 1
    return plan, 0


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of a job: the files written, or the reason why there are none."""

    job: Job
    paths: list[Path]
    error: Exception | None = None


def write_jobs(plan: Plan, jobs: Sequence[Job], stopped: bool) -> list[JobOutcome]:
    """Write the files of every job, and the pages of claims and of rankings for the published experiments.

    Args:
        plan: the computed cells.
        jobs: the jobs of the plan.
        stopped: whether cells may be missing; a job with a missing cell is skipped.
    """
    written = []
    for job in jobs:
        if stopped and any(entry.status in ("to run", "failed") for entry in plan.of(job.task)):
            continue
        try:
            written.append(JobOutcome(job, job.write(plan)))
        except (UserError, CellsFailedError) as error:
            written.append(JobOutcome(job, [], error=error))
    # the pages about all experiments of a folder are listed with the last job in it
    last = {one.job.base.parents[1]: one for one in written if isinstance(one.job, ExperimentJob) and not one.job.trial}
    for folder, one in last.items():
        from dpml.reporting.artifacts import write_claims  # experiments only

        one.paths.extend(write_claims(folder))
    return written


def failures(plan: Plan, command: str) -> int:
    """Print how many cells failed and how to retry only those; return the exit status."""
    failed = plan.counts()["failed"]
    if failed:
        message = f"dpml-run: {failed} cells failed; to try only them again: {command} run.only=failed"
        _tell(Screen(stderr=True), message, "red")
    return 1 if failed else 0


def _tell(console: Screen, message: str, style: str = "yellow") -> None:
    sys.stdout.flush()
    console.print(message, style=style, soft_wrap=True)


# ---- the tables of several jobs


def together(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join the tables of several jobs; a row that occurs twice is kept once."""
    columns = dict.fromkeys(column for table in tables for column in table)
    # a column without a value must not change the type of this column in the other tables
    known = pd.concat([table.dropna(axis=1, how="all") for table in tables], ignore_index=True)
    return known.reindex(columns=list(columns)).drop_duplicates(ignore_index=True)


def merge_jobs(sweep: Path, jobs: Sequence[Path], command: str) -> None:
    """Join the tables of a sweep's jobs in the sweep's folder, with a manifest."""
    from dpml.reporting.tables import read_table  # slow to load

    paths = [sweep / name for name in ("guarantees.csv", "rows.csv")]
    for path in paths:
        table = pd.concat([read_table(job / path.name, ()) for job in jobs], ignore_index=True)
        write_atomically(path, table.drop_duplicates().to_csv(index=False))
    merged = [os.path.relpath(job, sweep) for job in jobs]
    beside(sweep).keep_with({"note": _NO_RELEASE, "command": command, "merged": merged}, paths)


def mean_of(rows: pd.DataFrame, metric: str) -> float:
    """Return the mean of a metric; raise IncompleteError if a value is NaN: the mean of the others would mislead."""
    known = list(rows["metric"].unique())
    if metric not in known:
        raise UserError(f"objective={metric} is no metric of this run: choose one of {', '.join(known)}.")
    values = rows.loc[rows["metric"] == metric, "value"]
    if values.isna().any():
        raise IncompleteError(f"objective={metric} has no mean: {values.isna().sum()} of {len(values)} values are NaN.")
    return float(values.mean())
