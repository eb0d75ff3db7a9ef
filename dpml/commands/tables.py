"""The tables of several runs put together, and the mean that a job of a sweep returns."""

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from dpml.atomic import write_atomically
from dpml.commands.jobs import NO_RELEASE
from dpml.errors import UserError
from dpml.reporting.manifest import beside


def together(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table from those of several jobs; the same setting twice is one setting."""
    columns = dict.fromkeys(column for table in tables for column in table)
    # a column without a value imposes no type on those of the other tables
    known = pd.concat([table.dropna(axis=1, how="all") for table in tables], ignore_index=True)
    return known.reindex(columns=list(columns)).drop_duplicates(ignore_index=True)


def merge_jobs(sweep: Path, jobs: Sequence[Path], command: str) -> None:
    """Write the tables of a sweep's jobs, all in one, into its folder, with a manifest."""
    from dpml.reporting.tables import read_table  # slow to load

    paths = [sweep / name for name in ("guarantees.csv", "rows.csv")]
    for path in paths:
        table = pd.concat([read_table(job / path.name, ()) for job in jobs], ignore_index=True)
        write_atomically(path, table.drop_duplicates().to_csv(index=False))
    merged = [os.path.relpath(job, sweep) for job in jobs]
    beside(sweep).keep_with({"note": NO_RELEASE, "command": command, "merged": merged}, paths)


def mean_of(rows: pd.DataFrame, metric: str) -> float:
    """The mean of a metric.

    Raises:
        UserError: the rows have no such metric.
    """
    known = list(rows["metric"].unique())
    if metric not in known:
        raise UserError(f"objective={metric} is no metric of this run: choose one of {', '.join(known)}.")
    return float(rows.loc[rows["metric"] == metric, "value"].mean())
