"""Select result rows for a table or a figure in the user's paper, from a run, a sweep or an experiment's figure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from dpml.errors import UserError, nearest
from dpml.reporting.charts import charts_of, run_charts
from dpml.reporting.curves import text
from dpml.reporting.manifest import Manifest, refuse_changed
from dpml.reporting.panels import Chart
from dpml.reporting.run_table import claims_in
from dpml.reporting.statistics import settings, summarise
from dpml.reporting.tables import read_rows, read_table
from dpml.running.spec import Panel


@dataclass(frozen=True)
class Chosen:
    """What a table or figure shows: a summary of result rows, the algorithms with a claimed eps, and panels."""

    summary: pd.DataFrame
    claims: set[tuple[str, ...]] | None = None
    panels: Sequence[Panel] = ()

    def where(self, conditions: Sequence[str]) -> "Chosen":
        """Keep the rows that meet all conditions. A condition is a text ``KEY=VALUE`` or ``KEY=VALUE,VALUE``."""
        summary = self.summary
        keys = [*settings(summary), "tuned"]
        for condition in conditions:
            key, equal, values = condition.partition("=")
            if not equal or key not in keys:
                raise UserError(f"--where {condition} must be KEY=VALUE, where KEY is a setting: {nearest(key, keys)}")
            own = summary[key].map(text)
            wanted = {_as_text(value) for value in values.split(",")} if values not in set(own) else {values}
            for value in sorted(wanted - set(own)):
                raise UserError(f"--where: no row has {key}={value}: {nearest(value, set(own) - {''})}")
            summary = summary[own.isin(wanted)]
        if not len(summary):
            raise UserError(f"no row meets all conditions of --where {' '.join(conditions)}: remove a condition.")
        return replace(self, summary=summary)

    def charts(self, x: str | None, metrics: Sequence[str] | None) -> list[Chart]:
        if self.panels and x is None and metrics is None and (charts := charts_of(self.panels, self.summary)):
            return charts
        charts = run_charts(self.summary, x, metrics)
        if x is not None and all(chart.summary[x].nunique() < 2 for chart in charts):
            raise UserError(f"--x {x} has a single value in the rows: choose a setting with more values.")
        return charts


def _as_text(value: str) -> str:
    try:
        return text(float(value))
    except ValueError:
        return value


def chosen(path: Path) -> Chosen:
    """Return the summary of the rows of a run, a sweep or a figure, given its folder or ``results/PAPER/FIGURE``."""
    folder = path if path.is_dir() else path.parent
    figures = {} if (folder / "rows.csv").is_file() else _figures(folder)
    if not figures:
        rows, guarantees = read_rows(path / "rows.csv"), path / "guarantees.csv"
        claims = claims_in(read_table(guarantees, ("algo", "eps"))) if guarantees.is_file() else None
        return Chosen(summarise(rows), claims)
    if path.is_dir() and len(set(figures.values())) > 1:
        raise UserError(f"{path} has several figures: append /NAME, one of {', '.join(figures)}.")
    name = next(iter(figures)) if path.is_dir() else path.stem  # of two figures, the second shows tight noise
    if name not in figures:
        raise UserError(f"there is no figure {path}: {nearest(name, figures)}")
    about = Manifest(figures[name]).read()
    table = folder / f"{name}.csv"
    refuse_changed(table, about["files"])
    summary = read_table(table, ("algo", "metric", "mean", "interval"), low_memory=False)
    return Chosen(summary, None, [Panel(**panel) for panel in about["panels"]])


def _figures(folder: Path) -> dict[str, Path]:
    paths = sorted(folder.glob("*.json"))
    return {str(figure["name"]): path for path in paths for figure in Manifest(path).read().get("figures") or ()}
