"""The results of an experiment with computed cells, as figures, tables and verdicts need them."""

from dataclasses import replace

import pandas as pd

from dpml.reporting.charts import titled
from dpml.running.plan import Plan, Results

DIGITS = 9
"""Of the values from which everything is computed and which are published: more would be no information."""


def of_calibration(results: Results, calibration: str) -> Results:
    """Return the results of one calibration; runs without noise have no calibration and are shown with each."""
    guarantees = results.guarantees[results.guarantees["calibration"] == calibration]
    return replace(results, rows=rows_of(results.rows, calibration), guarantees=guarantees)


def rows_of(rows: pd.DataFrame, calibration: str) -> pd.DataFrame:
    """The rows of one calibration, and those of runs without noise in the same blocks."""
    own = rows[rows["calibration"] == calibration]
    noiseless = rows[rows["block"].isin(own["block"]) & ~rows["algo"].isin(own["algo"])]
    return pd.concat([noiseless.assign(calibration=calibration), own]) if len(noiseless) else own


def results_of(plan: Plan, published: pd.DataFrame) -> Results:
    """Return an experiment's results, values to `DIGITS` digits; titles are complete; `error` is 1 - `accuracy`."""
    results = plan.results()
    rows = results.rows.assign(value=[float(f"{value:.{DIGITS}g}") for value in results.rows["value"]])
    wanted = {name.rpartition(".")[2] for name in plan.experiment.shown_metrics}
    blocks = [block.block for block in plan.experiment.computed]
    if "error" in wanted:
        computed = rows["block"].isin(blocks)
        right = rows[(rows["metric"] == "accuracy") & ~computed]
        rows = pd.concat([rows[~computed], right.assign(metric="error", value=1 - right["value"]), rows[computed]])
    rows = rows[rows["metric"].isin(wanted) | rows["block"].isin(blocks)].reset_index(drop=True)
    return replace(results, rows=rows, published=published, experiment=titled(plan.experiment, rows))
