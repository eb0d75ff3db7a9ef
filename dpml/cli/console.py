"""The terminal output of a run or a sweep."""

from typing import Any

import numpy as np
import pandas as pd

from dpml.cli.columns import print_table
from dpml.privacy.guarantee import DECLARED
from dpml.privacy.safe import written
from dpml.reporting.run_table import claims_in, run_table
from dpml.reporting.statistics import about_intervals, settings, summarise
from dpml.reporting.tables import value
from dpml.reporting.words import metric
from dpml.screen import Screen

_METRICS = ("loss", "accuracy", "rmse", "err_w")  # metrics of a sweep's table, if they were measured
_HEADS = {
    "published": "claimed (eps, delta)",
    "proven": "proven (eps, delta)",
    "conditional": "if fixed beforehand",
    "declared": "declared (eps, delta)",
}
_TIGHT = (
    "This is the noise of the paper. calibration=tight adds the least noise that is proven to give this eps: "
    "docs/concepts.md."
)


def show(rows: pd.DataFrame, guarantees: pd.DataFrame) -> None:
    """Print the measured metrics and the claimed and proven guarantees of a run or a sweep.

    One setting gets a line per metric and per view. Several settings get a line each, with the main metrics and the
    worst view. Values that all settings share are printed above the table.
    """
    summary = summarise(rows)
    keys = [*(key for key in settings(rows) if key != "block"), "tuned"]
    varying = [key for key in keys if summary[key].nunique(dropna=False) > 1]
    common = summary.iloc[0][[key for key in keys if key not in varying]].dropna()
    console = Screen()
    shown = [
        f"{key}={short(value)}"
        for key, value in common.items()
        if (key, value) not in (("tuned", "fixed"), ("tuned", "rule"))
    ]
    console.print("  ".join(shown), style="bold")
    if varying:
        for sentence in _unequal(summary):
            console.print(sentence, style="yellow")
        present = list(dict.fromkeys(summary["metric"]))
        # a metric with a dot in its name is the user's own
        metrics = [name for name in present if name in _METRICS or "." in name]
        table = run_table(summary, metrics or present, claims_in(guarantees)).texts
        print_table(console, table["columns"], table["rows"])
    else:
        _show_setting(console, summary, guarantees)
    console.print(f"{about_intervals(summary)} Draws and sweeps are experiments: publish one release.", style="dim")
    claimed = np.isfinite(guarantees.loc[guarantees["basis"] == "published", "eps"]).any()
    if claimed and (common.get("calibration"), common.get("variant")) == ("published", "paper") and not varying:
        console.print(_TIGHT)


def _show_setting(console: Screen, summary: pd.DataFrame, guarantees: pd.DataFrame) -> None:
    means = [(metric(row["metric"]), value(row)) for row in summary.to_dict("records")]
    print_table(console, ("metric", "mean"), means)
    views, reasons = [], []
    for view, group in guarantees.groupby("view", sort=False):
        # party sizes can differ between seeds: the weakest guarantee holds for all of them
        weakest = group.loc[group.groupby("basis")["eps"].idxmax()].set_index("basis")
        pairs = {basis: f"({written(row['eps'])}, {written(row['delta'])})" for basis, row in weakest.iterrows()}
        views.append((str(view), *(pairs.get(basis, "-") for basis in _HEADS), group["unit"].iloc[0]))
        open_ = group[(group["basis"] == "proven") & np.isinf(group["eps"])]
        reasons += list(open_["source"]) if pairs.keys() & {"published", "conditional"} else []
        reasons += list(group.loc[group["basis"] == DECLARED, "source"])
    heads = ["view", *_HEADS.values(), "per"]
    always = {"view", "claimed (eps, delta)", "proven (eps, delta)", "per"}
    kept = [k for k, head in enumerate(heads) if head in always or any(line[k] != "-" for line in views)]
    print_table(console, [heads[k] for k in kept], [[line[k] for k in kept] for line in views])
    for reason in dict.fromkeys(reasons):
        console.print(f"Nothing is proven: {reason}.", style="yellow")


def _unequal(summary: pd.DataFrame) -> list[str]:
    private = summary[np.isfinite(summary["claimed_eps"]) & ~summary["not_proven"].astype(str).str.startswith(DECLARED)]
    found = private.groupby("calibration", sort=False)["algo"].unique()
    if len(found) < 2 or private.groupby("algo")["calibration"].nunique().max() > 1:
        return []
    tight = ", ".join(found.get("tight", ()))
    return [
        f"Not the same privacy: the noise of {', '.join(found.get('published', ()))} is what a paper claims to give ε, "
        f"that of {tight} what gives it. calibration=tight gives it in all."
    ]


def axes(rows: pd.DataFrame) -> list[str]:
    """The settings that vary in the rows and can be the x axis of a figure."""
    return [axis for axis in ("eps", "delta", "M", "N") if rows[axis].nunique() > 1]


def short(value: Any) -> str:
    """A number in four digits, a missing value as a dash, anything else unchanged."""
    if value is None or value != value:  # NaN
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
