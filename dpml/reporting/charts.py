"""Select the rows and the published points that each panel of a figure shows, and check an experiment's panels."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from dpml.errors import UserError, refuse_unknown
from dpml.reporting.cards import claims_about
from dpml.reporting.curves import settings
from dpml.reporting.numerals import plain
from dpml.reporting.panels import Chart, with_axis
from dpml.reporting.words import METRICS, SYMBOLS, dataset
from dpml.running.expansion import Point
from dpml.running.rows import COLUMNS, EPS
from dpml.running.spec import Experiment, Panel, is_computed, parts

_FREE = ("seed", "draws", "metrics", "calibration")  # these keys repeat or extend a run, but do not change its settings
_AXES = ("eps", "inverse_eps", "delta", "M", "N")
_PUBLISHED = ["series", "x", "algo", "metric", "mean", "std", "n"]


def run_charts(summary: pd.DataFrame, x: str | None, metrics: Sequence[str] | None) -> list[Chart]:
    """Return one chart for each metric, with the setting `x` on the x axis.

    By default, `x` is the first setting that varies, and the metrics are the optimality gap (or the loss), and accuracy
    or RMSE. `x` can also be ``inverse_eps``, which is 1/eps.
    """
    own = [key for key in settings(summary) if key not in _AXES]
    if x is None:
        numbers = [key for key in own if is_numeric_dtype(summary[key])]
        varying = (axis for axis in (*_AXES, *numbers) if axis in summary and summary[axis].nunique() > 1)
        x = next(varying, "eps")
    refuse_unknown("setting", [x], [*_AXES, *own], "these rows")
    present = list(dict.fromkeys(summary["metric"]))
    gap = "optimality_gap" if "optimality_gap" in present else "loss"
    metrics = metrics or [name for name in (gap, "accuracy", "rmse") if name in present] or present[:1]
    refuse_unknown("metric", metrics, present, "these rows")
    summary = with_axis(summary, x)
    return [Chart(Panel("", x, name), summary[summary["metric"] == name]) for name in metrics]


def shown(summary: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    """Return the summary's rows that a panel draws. A row that has no value on the x axis appears at every x."""
    rows = with_axis(_part(summary, panel), panel.x)
    where = f"a panel of block {panel.block}"
    refuse_unknown("key", [panel.x], rows.columns, where)
    rows = _level(rows, panel.x)
    if panel.y in EPS:
        return _eps_rows(rows, panel)
    name = panel.y.rpartition(".")[2]
    refuse_unknown("metric", [name] if len(rows) else [], set(rows["metric"]), where)
    return rows[rows["metric"] == name]


def _part(rows: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    rows = rows[rows["block"] == panel.block]
    for key, value in panel.where.items():
        refuse_unknown("key", [key], rows.columns, "a panel's where")
        rows = rows[rows[key] == value]
    return rows


def titled(experiment: Experiment, rows: pd.DataFrame) -> Experiment:
    """Replace ``{KEY}`` in an experiment's titles by the setting KEY of its rows, such as ``ε = 0.5``."""
    panels = [replace(panel, title=_filled(panel.title, _part(rows, panel))) for panel in experiment.panels]
    return replace(experiment, title=_filled(experiment.title, rows), panels=panels)


def _filled(title: str, rows: pd.DataFrame) -> str:
    def setting(found: re.Match[str]) -> str:
        key = found[1]
        values = rows[key].dropna().unique() if key in rows else np.zeros(0)
        if key == "dataset":
            return ", ".join(map(dataset, values))
        numbers = values[np.isfinite(values.astype(float))]
        if key == "M" and (numbers > 1).any():
            numbers = numbers[numbers > 1]  # M = 1 means that an algorithm has all rows in one place
        ends = dict.fromkeys(map(plain, (numbers.min(), numbers.max()))) if len(numbers) else ["not set"]
        return f"{SYMBOLS.get(key, key)} = {' to '.join(ends)}"

    return re.sub(r"\{([\w.]+)\}", setting, title)


def _level(rows: pd.DataFrame, x: str) -> pd.DataFrame:
    """Repeat each row that has no value of x, once for every value of x in the other rows."""
    missing = rows[x].isna()
    if missing.all() or not missing.any():
        return rows
    places = rows.loc[~missing, x].unique()
    rows = pd.concat([rows[~missing], *(rows[missing].assign(**{x: place}) for place in places)])
    return rows.assign(**{x: rows[x].infer_objects()})


def _eps_rows(rows: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    rows = rows[np.isfinite(rows["claimed_eps"])].drop_duplicates(["algo", *settings(rows)])
    rows = rows.assign(metric=panel.y, mean=rows[panel.y], std=0.0, interval=0.0)
    claims = {"mean": rows["claimed_eps"], "proven_eps": rows["claimed_eps"], "not_proven": None}
    claimed = rows.assign(algo="claimed", **claims).drop_duplicates(["delta", panel.x, "claimed_eps"])
    return pd.concat([rows, claimed])


def read_published(folders: Iterable[Path], paper: str) -> pd.DataFrame:
    """Read a paper's published points and other programs' results, for which the column `peer` is true.

    The files ``PAPER/published.csv`` and ``PAPER/peers.csv`` are read from the first of the `folders` that has them.
    """
    folders = list(folders)
    tables = [pd.DataFrame(columns=[*_PUBLISHED, "peer"])]
    for name, peer in (("published.csv", False), ("peers.csv", True)):
        paths = [path for folder in folders if (path := folder / paper / name).is_file()]
        tables += [_read_points(path).assign(peer=peer) for path in paths[:1]]
    return pd.concat(tables[1:] or tables, ignore_index=True)


def _read_points(path: Path) -> pd.DataFrame:
    points = pd.read_csv(path, comment="#")
    missing = [column for column in _PUBLISHED[:5] if column not in points]
    if missing:
        raise UserError(f"{path} lacks the column {missing[0]!r}: it needs {', '.join(_PUBLISHED)}.")
    points = points.reindex(columns=list(dict.fromkeys([*points, *_PUBLISHED])))
    numbers = points[["x", "mean", "std", "n"]].apply(pd.to_numeric, errors="coerce")
    wrong = numbers.isna() & points[numbers.columns].notna()
    if wrong.any(axis=None) or numbers[["x", "mean"]].isna().any(axis=None) or (numbers["std"] < 0).any():
        raise UserError(f"{path}: x and mean must be numbers in every row; std (at least 0) and n may be empty.")
    return points


def charts_of(panels: Iterable[Panel], summary: pd.DataFrame, published: pd.DataFrame | None = None) -> list[Chart]:
    """Return a chart, with its points from `published`, for every panel that has rows in the `summary`."""
    return [
        Chart(panel, rows, None if published is None else points_of(published, panel))
        for panel in panels
        if len(rows := shown(summary, panel))
    ]


def points_of(published: pd.DataFrame, panel: Panel) -> pd.DataFrame | None:
    """Return the published points that a panel shows, or None if it shows no published points."""
    points = published[(published["series"] == panel.published) & (published["metric"] == panel.y)]
    return points if len(points) else None


def check(experiment: Experiment, points: Sequence[Point], published: pd.DataFrame) -> None:
    """Raise UserError if a panel of an experiment names a metric, a setting or a series that does not exist."""
    for panel in experiment.panels:
        where = f"a panel of experiment={experiment.name}"
        own = [point for point in points if point.block == panel.block]
        if panel.published is not None:
            refuse_unknown("series", [panel.published], set(published["series"]), where)
        if not own:
            continue  # a function computes this block: its columns are known only after it has run
        if "." not in panel.y:
            algorithms = [point.cell.algorithm for point in own if point.cell]
            metrics = {name for one in algorithms for name in getattr(one, "metrics", ())}
            refuse_unknown("metric", [panel.y], {*METRICS, *metrics}, where)
        columns = {*COLUMNS, *(key for point in own for key in point.settings if "." in key), "inverse_eps"}
        refuse_unknown("key", (panel.x, *panel.curve, *panel.where), columns, where)
    claims_about(experiment.name)  # refuses a card that is wrong


def only_block(experiment: Experiment, block: str | None) -> Experiment:
    """Keep only one block (grid of settings) of an experiment, with its panels; keep everything if `block` is None."""
    if block is None:
        return experiment
    refuse_unknown("block", [block], experiment.grid, f"experiment={experiment.name}")
    panels = [panel for panel in experiment.panels if panel.block == block]
    return replace(experiment, grid={block: experiment.grid[block]}, panels=panels, rank_by=(), oracle=None)


def refuse_ambiguous(experiment: Experiment, keys: Iterable[str]) -> None:
    """Raise UserError if a user overrides a setting that differs between an experiment's blocks (grids of settings)."""
    blocks = {name: block for name, block in experiment.grid.items() if not is_computed(block)}
    for key in keys if len(experiment.grid) > 1 else ():
        owners = [name for name, block in blocks.items() if any(key in part for part in parts(block))]
        if owners and key not in _FREE:
            raise UserError(
                f"{key} differs between the blocks of experiment={experiment.name}: choose one of its blocks, "
                f"such as block={owners[0]} ({', '.join(experiment.grid)})."
            )


def as_published(experiment: Experiment, points: Sequence[Point], usual: Sequence[Point]) -> Experiment:
    """Keep the published points and claims of an experiment only where the user's settings equal the paper's settings.

    Panels keep published points if their settings, except x, occur in `usual`. Claims need all settings to occur there.
    """

    def settings(part: Sequence[Point], block: str, x: str) -> set[str]:
        without = {*_FREE, {"inverse_eps": "eps"}.get(x, x)}
        found = set()
        for given, cell in ((point.settings, point.cell) for point in part if point.block == block):
            if cell:
                budgets = {key: sorted({getattr(one, key) for one in cell.budgets}) for key in ("eps", "delta")}
                every = {**given, "N": cell.N, "M": cell.M, **budgets}
                found.add(repr(sorted((key, repr(value)) for key, value in every.items() if key not in without)))
        return found

    def same(block: str, x: str = "") -> bool:
        return settings(points, block, x) <= settings(usual, block, x)

    panels = [one if same(one.block, one.x) else replace(one, published=None) for one in experiment.panels]
    return replace(experiment, panels=panels, judged=experiment.judged and all(map(same, experiment.grid)))
