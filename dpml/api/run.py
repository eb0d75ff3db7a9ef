"""Provide `dpml.run`, which returns the results of `dpml-run` as data frames, a table and a figure."""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpml.api.jobs import INTERRUPTED, ask, compute, refuse_failures, results_of_run
from dpml.api.settings import settings_of
from dpml.errors import UserError
from dpml.reporting.run_table import claims_in, run_table
from dpml.reporting.statistics import summarise

_WIDTH = 7.0  # inches of a figure
logging.getLogger("dpml").addHandler(logging.NullHandler())  # a program's own handlers decide what is logged


@dataclass(frozen=True, repr=False)
class Result:
    """The measurements of a run.

    Attributes:
        rows: The table rows.csv of `dpml-run`. Each row has one number, in `metric` and `value`, with its setting, its
            seed and draw, and the claimed and the proven eps.
        guarantees: The table guarantees.csv. Each row has the guarantee for one view (observer) and basis.
    """

    rows: pd.DataFrame
    guarantees: pd.DataFrame

    def __repr__(self) -> str:
        if not len(self.rows):
            return "no rows: nothing was computed"
        counts = f"{len(self.rows):,} rows (.rows), {len(self.guarantees):,} guarantees (.guarantees)"
        return f"{self.table().to_string(index=False)}\n{counts}"

    def table(self, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Return a table with a line per setting: each mean ± half its 95 % interval, and the claimed and proven eps.

        `metrics` are the metrics to show: by default accuracy or rmse, and the optimality gap, if they were measured.
        """
        found = run_table(summarise(self.rows), metrics, claims_in(self.guarantees)).texts
        return pd.DataFrame(found["rows"], columns=found["columns"])

    def plot(self, x: str | None = None, metrics: Sequence[str] | None = None) -> Any:
        """Draw each metric against a setting in a Matplotlib figure, with a curve per algorithm (`dpml plot`).

        Args:
            x: eps, delta, M, N, another setting, or inverse_eps; by default the first setting that varies.
            metrics: the metrics to draw; by default the optimality gap (or the loss), and accuracy or rmse.
        """
        from dpml.reporting.charts import run_charts  # loads Matplotlib
        from dpml.reporting.figures import paper_figure

        figure, _ = paper_figure(run_charts(summarise(self.rows), x, metrics), _WIDTH)
        return figure


def run(*overrides: str, config_dir: str | Path | None = None, **keys: Any) -> Result:
    """Return the results of settings (keys as in `dpml-run`); compute only results that are not stored yet.

    Give several values of a key as a list: all combinations are run. Write a key with a dot as in
    ``**{"algo.lam": 0.01}``. If one value is a list itself, put it into another list: ``**{"algo.steps": [[0.1, 1]]}``.

    Results are stored in ``results_dir/.cells``. Nothing else is written, except ``plan.csv`` by a dry run. The plan is
    printed on stdout, and the progress on stderr. After Ctrl-C, repeat the call to resume.

    >>> import dpml, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = dpml.run("dataset=wdbc", algo=["fm", "gop"], eps=[0.1, 1], M=1, draws=2, results_dir=folder)
    run: 0 cached, 2 to run (no estimate yet)
    >>> sorted(set(result.rows["algo"])), int((result.rows["metric"] == "accuracy").sum())
    (['fm', 'gop'], 8)

    Args:
        overrides: settings as on the command line, ``"algo=capefm"``.
        config_dir: a folder of your own options, as ``--config-dir``.
        keys: settings as keyword arguments, ``eps=[0.1, 1]``.

    Raises:
        CellsFailedError: a cell failed, which is a bug; the message gives the path of the traceback.
        KeyboardInterrupt: finished cells are kept.
    """
    settings = settings_of(overrides, keys, config_dir).swept()
    if "experiment" in (*settings.given, *settings.lists):
        raise UserError("dpml.run does not take experiment=NAME: use dpml-run, then read the results with dpml.rows.")
    asked = ask(settings)
    if compute(asked, "the same call") == INTERRUPTED:
        raise KeyboardInterrupt
    (plan,) = asked.plans
    if asked.options.dry:
        return Result(pd.DataFrame(), pd.DataFrame())
    refuse_failures(plan)
    for sentence in plan.left_out():
        warnings.warn(f"left out: {sentence}", stacklevel=2)
    results = results_of_run(plan)
    return Result(results.rows.reset_index(drop=True), results.guarantees.reset_index(drop=True))
