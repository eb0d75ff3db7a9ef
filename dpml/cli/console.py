"""The terminal output of a run or a sweep."""

from typing import Any

import numpy as np
import pandas as pd

from dpml.cli.columns import eps_text, print_table
from dpml.privacy.guarantee import DECLARED, large_delta
from dpml.reporting.run_table import MAIN, claims_in, run_table
from dpml.reporting.statistics import about_intervals, settings, summarise
from dpml.screen import Screen

_BASES = {
    "published": "claimed ε",
    "proven": "proven ε",
    "conditional": "if fixed beforehand",
    "declared": "declared ε",
}
_TIGHT = "Next: calibration=tight adds the least noise that is proven to give this eps, instead of the paper's."
_TUNED = ("fixed", "rule")  # values of `tuned` that need no mention


def show(rows: pd.DataFrame, guarantees: pd.DataFrame) -> None:
    """Print the main metrics, and what is claimed and proven, of a run or a sweep.

    One setting gets a line per metric and per view, several get a line each, with the worst view. Values that all
    settings share are printed above the table.
    """
    summary, console = summarise(rows), Screen()
    keys = [*(key for key in settings(rows) if key != "block"), "tuned"]
    varying = [key for key in keys if summary[key].nunique(dropna=False) > 1]
    common = summary.iloc[0][[key for key in keys if key not in varying]].dropna()
    words = [f"{key}={short(value)}" for key, value in common.items() if key != "tuned" or value not in _TUNED]
    console.print("  ".join(words), style="bold")
    table = run_table(summary, _metrics(summary), claims_in(guarantees)).texts
    if varying:
        print_table(console, table["columns"], table["rows"])
    else:
        measured = len(table["columns"]) - 3  # the last are about privacy
        pairs = zip(table["columns"][:measured], table["rows"][0][:measured], strict=True)
        print_table(console, ("metric", "mean"), list(pairs))
        _show_views(console, guarantees)
    for _, one in rows[["delta", "N", "M", "unit"]].drop_duplicates().dropna().iterrows():
        units = int(one["M"] if one["unit"] == "party" else one["N"])
        if message := large_delta(one["delta"], int(one["N"]), units):
            console.print(message, style="yellow")
            break
    console.print(f"{about_intervals(summary)} Draws and sweeps are experiments: publish one release.", style="dim")
    claimed = np.isfinite(guarantees.loc[guarantees["basis"] == "published", "eps"]).any()
    if claimed and (common.get("calibration"), common.get("variant")) == ("published", "paper"):
        console.print(_TIGHT)


def _metrics(summary: pd.DataFrame) -> list[str] | None:
    """Return the metrics to show: the main ones, the user's own, which have a dot, and what explains a bad result."""
    present = list(dict.fromkeys(summary["metric"]))
    trimmed = (summary.loc[summary["metric"] == "trimmed", "mean"] > 0).any()
    shown = [name for name in present if name in MAIN or "." in name or (name == "trimmed" and trimmed)]
    return shown or None


def _show_views(console: Screen, guarantees: pd.DataFrame) -> None:
    # party sizes can differ between seeds: the weakest guarantee holds for all of them
    weakest = guarantees.loc[guarantees.groupby(["view", "basis"], sort=False)["eps"].idxmax()]
    eps = weakest.pivot(index="view", columns="basis", values="eps").reindex(weakest["view"].unique())
    bases = [basis for basis in _BASES if basis in eps and (basis != "published" or np.isfinite(eps[basis]).any())]
    lines = [[str(view), *(eps_text(line[basis]) for basis in bases)] for view, line in eps.iterrows()]
    print_table(console, ["view", *(_BASES[basis] for basis in bases)], lines)
    first = guarantees.iloc[0]
    console.print(f"ε for one {first['unit']} at delta = {first['delta']:g}", style="dim")
    open_ = (weakest["basis"] == "proven") & np.isinf(weakest["eps"]) & (len(bases) > 1)
    for reason in weakest.loc[open_ | (weakest["basis"] == DECLARED), "source"].unique():
        console.print(f"Nothing is proven: {reason}.", style="yellow")


def axes(rows: pd.DataFrame) -> list[str]:
    """Return the settings that vary in the rows and can be the x axis of a figure."""
    return [axis for axis in ("eps", "delta", "M", "N") if rows[axis].nunique() > 1]


def short(value: Any) -> str:
    """Return a number in four digits, a missing value as a dash, anything else unchanged."""
    if value is None or value != value:  # NaN
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
