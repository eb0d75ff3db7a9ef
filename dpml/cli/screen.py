"""Tables on screen."""

from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from dpml.reporting.statistics import summarise
from dpml.running.rows import PRIVACY, SETTING


def show(rows: pd.DataFrame, guarantees: pd.DataFrame) -> None:
    """The tables on screen: what was measured, and what was claimed and proven.

    One setting gets a line per metric and per view; several get a line each, with the main metrics and the worst view.
    """
    summary = summarise(rows)
    varying = [key for key in SETTING if summary[key].nunique(dropna=False) > 1]
    fixed = [key for key in SETTING if key not in varying and pd.notna(summary[key].iloc[0])]
    title = "  ".join(f"{key}={short(summary[key].iloc[0])}" for key in fixed)
    console = Console()
    console.print(title, style="bold", highlight=False)
    for table in _sweep_tables(summary, varying) if varying else _single_tables(summary, guarantees):
        console.print(table)
    console.print(
        f"± is half a 95 % interval over {summary['count'].max()} draws. "
        "Draws and sweeps are experiments: publish one release.",
        style="dim",
    )


def _single_tables(summary: pd.DataFrame, guarantees: pd.DataFrame) -> list[Table]:
    measured = Table("metric", "mean", box=SIMPLE_HEAD)
    for _, row in summary.iterrows():
        measured.add_row(str(row["metric"]), _mean(row))
    private = Table("view", "claimed (eps, delta)", "proven (eps, delta)", "per", box=SIMPLE_HEAD)
    for view, group in guarantees.groupby("view", sort=False):
        pairs = {row["basis"]: f"({short(row['eps'])}, {short(row['delta'])})" for _, row in group.iterrows()}
        private.add_row(str(view), pairs.get("published", "-"), pairs["proven"], group["unit"].iloc[0])
    return [measured, private]


def _sweep_tables(summary: pd.DataFrame, varying: list[str]) -> list[Table]:
    present = set(summary["metric"])
    metrics = [name for name in ("loss", "accuracy", "rmse", "err_w") if name in present]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in (*varying, *metrics, "claimed ε", "proven ε", "view"):
        table.add_column(name, no_wrap=True)
    for _, group in summary.groupby([*SETTING, *PRIVACY], sort=False, dropna=False):
        first, by_metric = group.iloc[0], group.set_index("metric")
        table.add_row(
            *(short(first[key]) for key in varying),
            *(_mean(by_metric.loc[name]) if name in by_metric.index else "" for name in metrics),
            short(first["claimed_eps"]),
            short(first["proven_eps"]),
            str(first["proven_view"]),
        )
    return [table]


def _mean(row: Any) -> str:
    return f"{row['mean']:.3g}" + (f" ± {row['interval']:.1g}" if row["interval"] > 0 else "")


def axes(rows: pd.DataFrame) -> list[str]:
    """What varies in the rows that a figure can have as its x."""
    return [axis for axis in ("eps", "delta", "M", "N") if rows[axis].nunique() > 1]


def short(value: Any) -> str:
    """A number in four digits; anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
