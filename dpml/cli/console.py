"""Print tables, and the results of a run or a sweep, in a terminal."""

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from dpml.privacy.guarantee import DECLARED, large_delta
from dpml.privacy.safe import written
from dpml.screen import Screen

if TYPE_CHECKING:
    import pandas as pd

_GAP = "  "
_MEANINGLESS = 100.0  # from this eps on, a guarantee means nothing: e^100 is 3e43
_BASES = {
    "published": "claimed ε",
    "proven": "proven ε",
    "conditional": "if fixed beforehand",
    "declared": "declared ε",
}
_TIGHT = "Next: calibration=tight replaces the paper's noise by the least noise that is proven to give this eps."
_TUNED = ("fixed", "rule")  # values of `tuned` that need no mention


def eps_text(eps: float) -> str:
    """Round an eps up, and return the text that tables show."""
    return "-" if eps != eps else written(eps) if eps < _MEANINGLESS else "no meaningful guarantee"


def print_table(console: Screen, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table with the column names `heads`. A text that is too wide continues on the next line."""
    columns = list(zip(heads, *lines, strict=True))
    widths = [max(map(cell_len, texts)) for texts in columns]
    longest_words = [max(map(cell_len, " ".join(texts).split())) for texts in columns]
    room = console.width - len(_GAP) * (len(columns) - 1)
    while sum(widths) > room and widths != longest_words:  # Rich alone would also break words and numbers
        k = max(range(len(widths)), key=lambda k: widths[k] - longest_words[k])
        widths[k] -= 1
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for head, width in zip(heads, widths, strict=True):
        table.add_column(Text(head), overflow="fold", max_width=width)
    for line in lines:
        table.add_row(*map(Text, line))
    console.print("", table, "", sep="\n")


def show(rows: "pd.DataFrame", guarantees: "pd.DataFrame", requested: Collection[str] = ()) -> None:
    """Print the main and requested metrics, and each observer's eps (in a sweep, the strongest observer's eps)."""
    from dpml.reporting.curves import text  # loads pandas
    from dpml.reporting.run_table import claims_in, run_table
    from dpml.reporting.statistics import about_intervals, settings, summarise

    summary, console = summarise(rows), Screen()
    keys = [*(key for key in settings(rows) if key != "block"), "tuned"]
    varying = [key for key in keys if summary[key].nunique(dropna=False) > 1]
    common = summary.iloc[0][[key for key in keys if key not in varying]].dropna()
    words = [f"{key}={text(value)}" for key, value in common.items() if key != "tuned" or value not in _TUNED]
    console.print("  ".join(words), style="bold")
    table = run_table(summary, _metrics(summary, bool(varying), requested), claims_in(guarantees)).texts
    if varying:
        print_table(console, table["columns"], table["rows"])
    else:
        measured = table["columns"].index("claimed ε")  # from there on, columns are about privacy
        pairs = zip(table["columns"][:measured], table["rows"][0][:measured], strict=True)
        print_table(console, ("metric", "mean"), list(pairs))
        _show_views(console, guarantees)
    for _, setting in rows[["delta", "N", "M", "unit"]].drop_duplicates().dropna().iterrows():
        units = int(setting["M"] if setting["unit"] == "party" else setting["N"])
        if message := large_delta(setting["delta"], int(setting["N"]), units):
            console.print(message, style="yellow")
            break
    console.print(f"{about_intervals(summary)} Draws and sweeps are experiments: publish one release.", style="dim")
    claims = guarantees.loc[guarantees["basis"] == "published", "eps"]
    by_paper = (common.get("calibration"), common.get("variant")) == ("published", "paper")
    if by_paper and (claims < math.inf).any():
        console.print(_TIGHT)


def _metrics(summary: "pd.DataFrame", several: bool, requested: Collection[str]) -> list[str] | None:
    from dpml.reporting.run_table import MAIN

    present = list(dict.fromkeys(summary["metric"]))
    trimmed = not several and (summary.loc[summary["metric"] == "trimmed", "mean"] > 0).any()
    main = {*MAIN, *requested, *(["trimmed"] if trimmed else [])}
    return [name for name in present if name in main or "." in name] or None


def _show_views(console: Screen, guarantees: "pd.DataFrame") -> None:
    # party sizes can differ between seeds: the weakest guarantee holds for all of them
    weakest = guarantees.loc[guarantees.groupby(["view", "basis"], sort=False)["eps"].idxmax()]
    eps = weakest.pivot(index="view", columns="basis", values="eps").reindex(weakest["view"].unique())
    bases = [basis for basis in _BASES if basis in eps and (basis != "published" or (eps[basis] < math.inf).any())]
    lines = [[str(view), *(eps_text(line[basis]) for basis in bases)] for view, line in eps.iterrows()]
    print_table(console, ["view", *(_BASES[basis] for basis in bases)], lines)
    first = guarantees.iloc[0]
    console.print(f"ε for one {first['unit']} at delta = {first['delta']:g}", style="dim")
    unproven = (weakest["basis"] == "proven") & (weakest["eps"] == math.inf) & (len(bases) > 1)
    for reason in weakest.loc[unproven | (weakest["basis"] == DECLARED), "source"].unique():
        console.print(f"Nothing is proven: {reason}.", style="yellow")


def axes(rows: "pd.DataFrame") -> list[str]:
    """Return the settings that vary in the rows and can be the x axis of a figure."""
    return [axis for axis in ("eps", "delta", "M", "N") if rows[axis].nunique() > 1]
