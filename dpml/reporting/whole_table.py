"""The table of a figure with all its columns, packed into a page; and its published points."""

import base64
import gzip
import json
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpml.errors import UserError
from dpml.privacy.safe import written
from dpml.reporting.charts import with_published
from dpml.reporting.curves import assignment, settings, text
from dpml.reporting.outputs import FigureFiles, Outputs
from dpml.reporting.tables import Texts, read_table, value

_COLUMNS = ["block", "metric", "algo", "variant", "eps", "delta", "N", "mean", "std", "count", "missing", "seeds"]
_COLUMNS += ["interval", "published", "difference", "difference_interval", "claimed_eps", "proven_eps", "proven_view"]
_COLUMNS += ["not_proven", "tuned", "n_min", "n_max"]
_HEADS = {"count": "n", "missing": "of them NaN", "eps": "ε", "delta": "δ", "std": "s.d.", "interval": "± 95 %"}
_HEADS |= {"difference": "vs. reference"}
_HEADS |= {"difference_interval": "± 95 %", "claimed_eps": "ε claimed", "proven_eps": "ε proven", "proven_view": "view"}
_HEADS |= {"not_proven": "why not proven", "n_min": "rows, smallest party", "n_max": "rows, largest party"}
_RESULTS = ("mean", "interval", "difference", "proven_eps")  # shown even if all lines agree
_NEEDED = ("block", "algo", "metric", "mean")


@dataclass(frozen=True)
class WholeTable:
    """A figure's CSV file as a page has it.

    Args:
        length: the number of lines.
        same: the values that all lines share.
        packed: the other columns (`pack`), which a script unpacks on request.
        published: the published points beside our values at the same x.
    """

    length: int
    same: str
    packed: str
    published: Texts


def whole_table(experiment: Outputs, figure: FigureFiles) -> WholeTable:
    """The table of a figure, with the published points of its experiment.

    Raises:
        UserError: the file is missing or damaged.
    """
    rows = read_table(figure.file("csv"), _NEEDED)
    with suppress(UserError):  # panels of another version
        rows = with_published(rows, [] if figure.twin else experiment.panels, experiment.published)
    published = _published(rows)
    rows = rows.drop(columns="missing") if "missing" in rows and not rows["missing"].any() else rows
    rows = rows.dropna(axis=1, how="all")
    own = [column for column in settings(rows) if column not in _COLUMNS]
    rows = rows[[column for column in (*_COLUMNS[:3], *own, *_COLUMNS[3:]) if column in rows]]
    same = [c for c in map(str, rows) if c not in _RESULTS and len(rows) > 1 and rows[c].nunique(dropna=False) == 1]
    words = ", ".join(assignment(_HEADS.get(column, column), rows[column].iloc[0]) for column in same)
    return WholeTable(len(rows), words, pack(rows.drop(columns=same)), published)


def _published(rows: pd.DataFrame) -> Texts:
    here = rows[rows["published"].notna()] if "published" in rows else rows[:0]
    places = [key for key in ("block", "metric", "algo", *settings(here)) if key in here]
    places = [key for key in places if here[key].nunique(dropna=False) > 1]
    lines = [
        [*(text(row[key]) for key in places), value(row), f"{row['published']:.5g}"] for row in here.to_dict("records")
    ]
    heads = [*(_HEADS.get(key, key) for key in places), "here, mean ± 95 %", "published"]
    return {"title": "Published points", "columns": heads, "rows": lines}


def pack(rows: pd.DataFrame) -> str:
    """A table column by column, in four digits, a proven eps rounded up: JSON, gzip, base64."""
    columns = [[_plain(value, up=name == "proven_eps") for value in rows[name].tolist()] for name in rows]
    content = {"heads": [_HEADS.get(str(name), str(name)) for name in rows], "columns": columns}
    packed = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(packed.encode(), 9, mtime=0)).decode()


def _plain(value: Any, up: bool) -> Any:
    """A value for JSON, which has no infinity."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None if math.isnan(value) else "∞"
        return (
            int(value) if value.is_integer() and abs(value) < 1e6 else float(written(value) if up else f"{value:.4g}")
        )
    return value
