"""What the rows of a run with a paper's noise give with the least noise that is proven: a line below its table."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from dpml.commands.jobs import RunJob
from dpml.errors import UserError
from dpml.mechanism.declared import author
from dpml.running.cell import measure
from dpml.running.plan import Plan
from dpml.running.rows import joined, tabulate

_SECONDS = 1.0
"""The most CPU seconds that the run itself may have taken: the line is for a first look, in no time."""


def least_noise(plan: Plan, job: RunJob) -> pd.DataFrame | None:
    """The rows of a quick run of one cell, with ``calibration=tight``; None where that says nothing.

    Nothing is stored.
    """
    entries = plan.of(job.task)
    cell, record = entries[0].point.cell, entries[0].record
    if len(entries) > 1 or cell is None or record is None or record.seconds > _SECONDS or len(cell.budgets) > 1:
        return None
    algorithm: Any = cell.algorithm
    if author(algorithm) is not None or getattr(algorithm, "calibration", "tight") != "published":
        return None
    tight = replace(cell, algorithm=replace(algorithm, calibration="tight"), metrics=())
    try:
        rows, _ = joined([tabulate(tight, measure(tight))])
    except UserError:  # there is no such noise
        return None
    return rows if np.isfinite(rows["proven_eps"]).all() else None
