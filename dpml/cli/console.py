"""The terminal output of a run or a sweep."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from dpml.cli.table import packed, print_table
from dpml.privacy.safe import written
from dpml.reporting.statistics import replication, settings, summarise
from dpml.running.rows import PRIVACY

_METRICS = ("loss", "accuracy", "rmse", "err_w")  # metrics of a sweep's table, if they were measured


def show(rows: pd.DataFrame, guarantees: pd.DataFrame) -> None:
    """Print the measured metrics and the claimed and proven guarantees of a run or a sweep.

    One setting gets a line per metric and per view. Several settings get a line each, with the main metrics and the
    worst view. Values that all settings share are printed above the table.
    """
    summary = summarise(rows)
    keys = [*(key for key in settings(rows) if key != "block"), "tuned"]
    varying = [key for key in keys if summary[key].nunique(dropna=False) > 1]
    common = summary.iloc[0][[key for key in keys if key not in varying]].dropna()
    console = Console()
    shown = [
        f"{key}={short(value)}"
        for key, value in common.items()
        if (key, value) not in (("tuned", "fixed"), ("tuned", "rule"))
    ]
    console.print(packed(shown, console.width), style="bold", markup=False, highlight=False)
    if varying:
        _show_sweep(console, summary, varying)
    else:
        _show_setting(console, summary, guarantees)
    console.print(f"{_replication(summary)} Draws and sweeps are experiments: publish one release.", style="dim")


def _show_setting(console: Console, summary: pd.DataFrame, guarantees: pd.DataFrame) -> None:
    means = [(str(row["metric"]), _mean(row)) for _, row in summary.iterrows()]
    print_table(console, ("metric", "mean"), means)
    views, reasons = [], []
    for view, group in guarantees.groupby("view", sort=False):
        # party sizes can differ between seeds: the weakest guarantee holds for all of them
        weakest = group.loc[group.groupby("basis")["eps"].idxmax()].set_index("basis")
        pairs = {basis: f"({written(row['eps'])}, {written(row['delta'])})" for basis, row in weakest.iterrows()}
        kinds = ("published", "proven", "conditional")
        views.append((str(view), *(pairs.get(basis, "-") for basis in kinds), group["unit"].iloc[0]))
        open_ = group[(group["basis"] == "proven") & np.isinf(group["eps"])]
        reasons += list(open_["source"]) if pairs.keys() & {"published", "conditional"} else []
    heads = ["view", "claimed (eps, delta)", "proven (eps, delta)", "if fixed beforehand", "per"]
    if all(line[3] == "-" for line in views):
        heads, views = [*heads[:3], heads[4]], [(*line[:3], line[4]) for line in views]
    print_table(console, heads, views)
    for reason in dict.fromkeys(reasons):
        console.print(f"Nothing is proven: {reason}.", style="yellow", markup=False, highlight=False)


def _show_sweep(console: Console, summary: pd.DataFrame, varying: Sequence[str]) -> None:
    present = list(dict.fromkeys(summary["metric"]))
    # a metric with a dot in its name is the user's own
    metrics = [name for name in present if name in _METRICS or "." in name] or present
    lines = []
    for _, group in summary.groupby([*varying, *PRIVACY], sort=False, dropna=False):
        first, by_metric = group.iloc[0], group.set_index("metric")
        means = [_mean(by_metric.loc[name]) if name in by_metric.index else "-" for name in metrics]
        privacy = (short(first["claimed_eps"]), _proven(first["proven_eps"]), str(first["proven_view"]))
        lines.append((*(short(first[key]) for key in varying), *means, *privacy))
    heads = (*varying, *metrics, "claimed ε", "proven ε", "view")
    print_table(console, heads, lines, keys=len(varying))


def _replication(summary: pd.DataFrame) -> str:
    """The replicates that an interval is computed over, as a sentence."""
    if summary["interval"].notna().any():
        return f"± is half a 95 % interval over {replication(summary)}."
    return f"No intervals: {replication(summary)}."


def _mean(row: Any) -> str:
    if row["missing"]:
        return f"NaN ({row['missing']} of {row['count']})"
    return f"{row['mean']:.3g}" + (f" ± {row['interval']:.1g}" if row["interval"] > 0 else "")


def _proven(eps: Any) -> str:
    return short(eps) if pd.isna(eps) else written(eps)


def axes(rows: pd.DataFrame) -> list[str]:
    """The settings that vary in the rows and can be the x axis of a figure."""
    return [axis for axis in ("eps", "delta", "M", "N") if rows[axis].nunique() > 1]


def short(value: Any) -> str:
    """A number in four digits, a missing value as a dash, anything else unchanged."""
    if value is None or value != value:  # NaN
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
