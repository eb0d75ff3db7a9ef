"""`dpml.run`: the results of `dpml-run`, as data frames."""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpml.api.arguments import settings_of
from dpml.commands.jobs import INTERRUPTED, RunJob, compute_jobs, options_of, run_job, together
from dpml.commands.settings import composer, jobs_of
from dpml.errors import UserError
from dpml.running.plan import Options

_NOT_HERE = {
    "experiment": "dpml-run writes its figure, and a table of its rows to read with pandas",
    "hydra": "no folder is written to, and there is no launcher",
    "objective": "take the mean of the rows",
}
logging.getLogger("dpml").addHandler(logging.NullHandler())  # a program's own handlers decide what is logged


@dataclass(frozen=True)
class Result:
    """The measurements of a run.

    Attributes:
        rows: One number per row, in `metric` and `value`, beside the setting, seed and draw, the claimed and the proven
            eps: the table rows.csv of `dpml-run`.
        guarantees: One view and basis per row: the table guarantees.csv.
    """

    rows: pd.DataFrame
    guarantees: pd.DataFrame


def run(*overrides: str, config_dir: str | Path | None = None, **keys: Any) -> Result:
    """Run settings, or read their results from the store if they exist. Keys and cells are those of `dpml-run`.

    A list of eps, delta, M, N, seed or metrics is a list. A list of values of any other key is a sweep, as with
    ``dpml-run -m``: jobs for all combinations, whose tables are put together. A key with a dot goes into a dictionary,
    ``**{"algo.lam": 0.01}``, and an option that is a list itself into a further list, ``**{"algo.steps": [[0.1, 1]]}``.

    Cells are kept in ``results_dir/.cells``, and nothing else is written, but for ``plan.csv`` by a dry run. The plan
    goes to stdout, progress to stderr.
    After Ctrl-C the same call resumes.

    >>> import dpml, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = dpml.run("dataset=wdbc", algo=["fm", "gop"], eps=[0.1, 1], M=1, draws=2, results_dir=folder)
    job 0, job 1: 0 cached, 2 to run (no estimate yet)
    >>> sorted(set(result.rows["algo"])), int((result.rows["metric"] == "accuracy").sum())
    (['fm', 'gop'], 8)

    Args:
        overrides: as on the command line, ``"algo=capefm"``.
        config_dir: a folder of your own options, as ``--config-dir``.
        keys: the same as keyword arguments, ``eps=[0.1, 1]``.

    Raises:
        UserError: a setting is wrong, or cannot be computed with these data; nothing else of the sweep is computed if
            this is known without the data.
        CellsFailedError: a cell failed, which is a bug; the message gives the path of the traceback.
        KeyboardInterrupt: finished cells are kept.
    """
    settings, swept = settings_of(overrides, keys, config_dir)
    for key in (*settings.given, *swept):
        group = key.replace("/", ".").partition(".")[0]
        if group in _NOT_HERE:
            raise UserError(f"dpml.run takes no {key}: {_NOT_HERE[group]}.")
    lines = list(jobs_of(settings, swept))
    compose = composer(settings)
    jobs = [
        run_job(line.composed(compose), line, Path(), f"job {number}" if len(lines) > 1 else "run")  # writes no files
        for number, line in enumerate(lines)
    ]
    return _computed(jobs, options_of(jobs[0].config), Path(jobs[0].config["results_dir"]))


def _computed(jobs: Sequence[RunJob], options: Options, results: Path) -> Result:
    plan, status = compute_jobs(jobs, options, results, "the same call")
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    tables = []
    for job in jobs:
        if not options.dry:
            job.check(plan)
        for sentence in plan.refused(job.task):
            warnings.warn(f"left out: {sentence}", stacklevel=3)
        tables.append(job.tables(plan))
    return Result(*(together(parts) for parts in zip(*tables, strict=True)))
