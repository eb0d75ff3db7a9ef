"""Make the table of a run or a sweep: metrics, claimed eps and proven eps for every combination of settings."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dpml.errors import refuse_unknown
from dpml.files import write_atomically
from dpml.privacy.guarantee import DECLARED
from dpml.privacy.safe import written
from dpml.reporting.curves import shared, text
from dpml.reporting.statistics import about_intervals, settings
from dpml.reporting.tables import Texts, file_of, latex, markdown, texts, value, wide
from dpml.reporting.words import SYMBOLS, curve, metric
from dpml.running.rows import PRIVACY

FORMATS = ("md", "csv", "parquet", "tex")
FILES = ("table.md", "table.csv")
FIGURE = ("figure.png", "figure.svg")
"""What `figures.plot` writes."""
MAIN = ("accuracy", "rmse", "optimality_gap")
"""The metrics of a table by default, if they were measured."""

_ALGORITHM = ["algo", "variant", "calibration"]
_STATISTICS = ("mean", "interval", "count", "missing")


@dataclass(frozen=True)
class RunTable:
    """The table of a run or a sweep, with a line per combination of settings.

    Attributes:
        keys: the settings that vary.
        lines: the table's numbers. The columns are `keys`; the mean of every metric (`names`), with METRIC_interval
            (half the 95 % interval), METRIC_count and METRIC_missing; claimed_eps (NaN without a claim), proven_eps,
            its proven_view, and declared_eps, which code outside dpml declares without a proof.
        caption: the settings that all lines share, and the seeds or draws behind the intervals.
    """

    summary: pd.DataFrame
    keys: Sequence[str]
    metrics: Sequence[str]
    lines: pd.DataFrame
    caption: str

    @property
    def texts(self) -> Texts:
        """The table as texts, in which each mean is followed by ± half its interval, and a proven eps is rounded up."""
        columns = {SYMBOLS.get(key, key): [text(one) or "-" for one in self.lines[key]] for key in self.keys}
        for name in self.metrics:
            lines = self.lines[names(name, self.keys)].set_axis([*_STATISTICS], axis=1).to_dict("records")
            columns[metric(name)] = [value(line, name) if line["count"] else "" for line in lines]
        columns["claimed ε"] = ["-" if np.isnan(eps) else text(eps) for eps in self.lines["claimed_eps"]]
        for basis in ("proven", DECLARED) if self.lines["declared_eps"].notna().any() else ("proven",):
            eps = self.lines[f"{basis}_eps"]
            columns[f"{basis} ε"] = ["-" if np.isnan(one) else written(one).replace("inf", "∞") for one in eps]
        columns["view"] = list(map(text, self.lines["proven_view"]))
        return texts(pd.DataFrame(columns))

    def written(self, kind: str) -> str | bytes:
        """Return the table as the content of a file in one of the `FORMATS`, with all digits in CSV and Parquet."""
        if kind in ("csv", "parquet"):
            return file_of(self.lines, kind)
        if kind == "tex":
            return "\n".join(self._latex())
        return f"{markdown(self.texts)}\n{self.caption}\n"

    def _latex(self) -> list[str]:
        x = "eps" if "eps" in self.keys or not self.keys else self.keys[0]
        proven = self.summary.assign(metric="proven_eps", mean=self.summary["proven_eps"], interval=np.nan, missing=0)
        parts = [(name, self.summary[self.summary["metric"] == name]) for name in self.metrics]
        found = []
        for name, rows in [*parts, ("proven_eps", proven.drop_duplicates([*settings(proven), "proven_eps"]))]:
            table = wide(rows, x)
            table.columns = [curve(head) for head in table.columns]
            title = metric(name)
            found.append(latex(texts(table), f"{title[:1].upper()}{title[1:]}. {self.caption}", name))
        return found


def names(metric: str, keys: Sequence[str]) -> list[str]:
    """Name the columns of a metric's statistics. The mean is in METRIC, or in mean_METRIC if METRIC is a setting."""
    return [f"mean_{metric}" if metric in keys else metric, *(f"{metric}_{one}" for one in _STATISTICS[1:])]


def run_table(
    summary: pd.DataFrame, metrics: Sequence[str] | None = None, claims: Collection[tuple[str, ...]] | None = None
) -> RunTable:
    """Return the table of a run, a sweep or an experiment from the summary of its rows.

    By default, `metrics` are the measured metrics of `MAIN` or, if there are none, all. `claims` says which algorithms
    have a claimed eps (`claims_in`): by default, all with the published calibration.
    """
    keys = [key for key in (*settings(summary), "tuned") if summary[key].nunique(dropna=False) > 1]
    present = list(dict.fromkeys(summary["metric"]))
    refuse_unknown("metric", metrics or (), present, "these rows")
    shown = list(metrics or [name for name in MAIN if name in present] or present)
    number = summary.groupby([*keys, *PRIVACY], sort=False, dropna=False).ngroup()
    first = summary[~number.duplicated()].set_index(number[~number.duplicated()])
    lines = first[keys]
    for name in shown:
        own = summary["metric"] == name
        found = summary.loc[own, [*_STATISTICS]].set_index(number[own]).reindex(lines.index)
        lines = lines.join(found.fillna({"count": 0, "missing": 0}).set_axis(names(name, keys), axis=1))
    is_claimed = first["calibration"] == "published"
    if claims is not None:
        is_claimed = pd.Series([line in claims for line in first[_ALGORITHM].itertuples(index=False, name=None)])
    lines = lines.assign(
        claimed_eps=first["claimed_eps"].where(is_claimed & np.isfinite(first["claimed_eps"])),
        proven_eps=first["proven_eps"].astype(float),
        proven_view=first["proven_view"],
        declared_eps=first["conditional_eps"]
        .astype(float)
        .where(first["not_proven"].astype(str).str.startswith(DECLARED)),
    )
    same = shared(summary, keys)
    return RunTable(summary, keys, shown, lines, f"{f'Settings: {same}. ' if same else ''}{about_intervals(summary)}")


def claims_in(guarantees: pd.DataFrame) -> set[tuple[str, ...]]:
    """Return the combinations of algorithm, variant and calibration for which a paper claims a finite eps."""
    claimed = guarantees[(guarantees["basis"] == "published") & np.isfinite(guarantees["eps"])]
    return set(claimed[_ALGORITHM].itertuples(index=False, name=None)) if len(claimed) else set()


def write_tables(table: RunTable, folder: Path) -> list[Path]:
    """Write the files ``table.md`` and ``table.csv`` into a folder."""
    paths = [folder / name for name in FILES]
    for path in paths:
        write_atomically(path, table.written(path.suffix[1:]))
    return paths
