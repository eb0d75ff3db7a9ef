"""The content of an experiment's panels: their rows and their published points."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from dpml.errors import UserError, nearest
from dpml.reporting.panels import with_axis
from dpml.reporting.statistics import STATISTICS
from dpml.running.rows import EPS, SETTING, own_columns
from dpml.running.spec import Panel

_PUBLISHED = ["series", "x", "algo", "metric", "mean", "std", "n"]


def shown(summary: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    """The rows of a summary that a panel draws. Rows without a value of x, for lack of that setting, appear at every x.

    Raises:
        UserError: a column that the panel asks for is missing, or no row has its metric.
    """
    rows = summary[summary["block"] == panel.block]
    for key, value in panel.where.items():
        if key not in rows:
            raise UserError(f"unknown key {key!r} in a panel's where: {nearest(key, map(str, rows))}")
        rows = rows[rows[key] == value]
    rows = with_axis(rows, panel.x)
    if panel.x not in rows:
        raise UserError(
            f"unknown key {panel.x!r} in a panel of block {panel.block}: {nearest(panel.x, map(str, rows))}"
        )
    rows = _level(rows, panel.x)
    if panel.y in EPS:
        return _eps_rows(rows, panel)
    name = panel.y.rpartition(".")[2]
    if len(rows) and name not in set(rows["metric"]):
        raise UserError(
            f"unknown metric {panel.y!r} in a panel of block {panel.block}: {nearest(name, set(rows['metric']))}"
        )
    return rows[rows["metric"] == name]


def _level(rows: pd.DataFrame, x: str) -> pd.DataFrame:
    """The rows, with those that lack a value of x repeated at every x of the others."""
    missing = rows[x].isna()
    if missing.all() or not missing.any():
        return rows
    places = rows.loc[~missing, x].unique()
    rows = pd.concat([rows[~missing], *(rows[missing].assign(**{x: place}) for place in places)])
    return rows.assign(**{x: rows[x].infer_objects()})


def _eps_rows(rows: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    """The proven or conditional eps as a metric, and the claimed eps as an algorithm."""
    keys = [*SETTING, *(key for key in own_columns(rows) if key not in STATISTICS)]
    rows = rows[np.isfinite(rows["claimed_eps"])].drop_duplicates(keys)
    rows = rows.assign(metric=panel.y, mean=rows[panel.y], std=0.0, interval=0.0)
    claims = {"mean": rows["claimed_eps"], "proven_eps": rows["claimed_eps"], "not_proven": None}
    claimed = rows.assign(algo="claimed", **claims).drop_duplicates(["delta", panel.x, "claimed_eps"])
    return pd.concat([rows, claimed])


def read_published(folders: Iterable[Path], paper: str) -> pd.DataFrame:
    """The published points for a paper's figures (series, x, algo, metric, mean, std, n, peer).

    Points that its authors report are in ``PAPER/published.csv``. A `peer`, in ``PAPER/peers.csv``, is the result of
    another program at the same guarantee.

    Args:
        folders: folders with experiments; the first one that has a file wins. Without any folder there are no points.
        paper: the first part of an experiment's name.
    """
    folders = list(folders)
    tables = [
        _read_points(path).assign(peer=peer)
        for name, peer in (("published.csv", False), ("peers.csv", True))
        if (path := next((p for folder in folders if (p := folder / paper / name).is_file()), None))
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*_PUBLISHED, "peer"])


def _read_points(path: Path) -> pd.DataFrame:
    with path.open(encoding="utf-8") as file:
        points = pd.read_csv(file, comment="#")
    missing = [column for column in _PUBLISHED[:5] if column not in points]
    if missing:
        raise UserError(f"{path} lacks the column {missing[0]!r}: it needs {', '.join(_PUBLISHED)}.")
    return points


def points_of(published: pd.DataFrame, panel: Panel) -> pd.DataFrame | None:
    """The published points of a panel, if any."""
    points = published[(published["series"] == panel.published) & (published["metric"] == panel.y)]
    return points if len(points) else None


def with_published(summary: pd.DataFrame, panels: Sequence[Panel], published: pd.DataFrame) -> pd.DataFrame:
    """The summary with a column `published`: the point that a panel draws over this row, as its authors stored it."""
    summary = summary.assign(published=float("nan"))
    for panel in panels:
        theirs = points_of(published, panel)
        if theirs is None:
            continue
        known = {(algo, f"{x:g}"): mean for algo, x, mean in theirs[["algo", "x", "mean"]].itertuples(index=False)}
        rows = shown(summary, panel)
        for row, algo, x in zip(rows.index, rows["algo"], rows[panel.x], strict=True):
            summary.loc[row, "published"] = known.get((algo, f"{x:g}"), float("nan"))
    return summary
