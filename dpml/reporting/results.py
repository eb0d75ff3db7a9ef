"""The results of an experiment with computed cells: the input of figures, tables and verdicts."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from dpml.reporting.charts import titled
from dpml.running.plan import Entry, Plan, Task
from dpml.running.spec import Experiment

DIGITS = 9
"""Of the values from which everything is computed and which are published: more would be no information."""


@dataclass(frozen=True)
class Publication:
    """An experiment, the command that reproduces it anywhere, and the paper's points (`charts.read_published`)."""

    experiment: Experiment
    command: str
    points: pd.DataFrame


@dataclass(frozen=True)
class Results:
    """The results of an experiment after its cells have been computed.

    `rows` and `guarantees` have the block's name as first column; `skipped` counts cells without numbers by reason.
    """

    publication: Publication
    rows: pd.DataFrame
    guarantees: pd.DataFrame
    skipped: Mapping[str, int]

    @property
    def experiment(self) -> Experiment:
        """The experiment."""
        return self.publication.experiment

    def of(self, calibration: str) -> "Results":
        """The results of one calibration; runs without noise have no calibration and are shown with each."""
        guarantees = self.guarantees[self.guarantees["calibration"] == calibration]
        return Results(self.publication, rows_of(self.rows, calibration), guarantees, self.skipped)


def rows_of(rows: pd.DataFrame, calibration: str) -> pd.DataFrame:
    """The rows of one calibration, and those of runs without noise in the same blocks."""
    own = rows[rows["calibration"] == calibration]
    noiseless = rows[rows["block"].isin(own["block"]) & ~rows["algo"].isin(own["algo"])]
    return pd.concat([noiseless.assign(calibration=calibration), own]) if len(noiseless) else own


def results_of(publication: Publication, plan: Plan, task: Task) -> Results:
    """The results of a plan's task, values to `DIGITS` digits; titles are complete; `error` is 1 - `accuracy`."""
    rows, guarantees, _ = plan.tables(task)
    rows = rows.assign(value=[float(f"{value:.{DIGITS}g}") for value in rows["value"]])
    wanted = {name.rpartition(".")[2] for name in publication.experiment.shown_metrics}
    blocks = [block.block for block in task.computed]
    if "error" in wanted:
        computed = rows["block"].isin(blocks)
        right = rows[(rows["metric"] == "accuracy") & ~computed]
        rows = pd.concat([rows[~computed], right.assign(metric="error", value=1 - right["value"]), rows[computed]])
    rows = rows[rows["metric"].isin(wanted) | rows["block"].isin(blocks)].reset_index(drop=True)
    skipped = Counter(_reason(entry) for entry in plan.of(task) if not entry.finished)
    publication = replace(publication, experiment=titled(publication.experiment, rows))
    return Results(publication, rows, guarantees, skipped)


def _reason(entry: Entry) -> str:
    """Why a cell has no numbers, without the path of this machine's data folder."""
    cell = entry.point.cell
    reason = entry.reason
    for root in cell.files.roots if cell else ():
        reason = reason.replace(str(root), "data_dir")
    return reason
