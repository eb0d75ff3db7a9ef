"""Figures, from rows and only rows, in one house style: layout, legends, footers, files."""

import io
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dpml.atomic import write_atomically
from dpml.errors import UserError, nearest
from dpml.reporting.labels import Curve, algorithms, constant, label, moving, named, same_axis, settings
from dpml.reporting.panels import Chart, draw, with_axis
from dpml.reporting.statistics import replication, summarise
from dpml.reporting.style import AXES, STYLE, looks
from dpml.reporting.tables import short
from dpml.running.spec import Panel

_BANDS = {"interval": "95 % intervals of the mean over", "sd": "one s.d. either way of the mean over"}


def plot(
    rows: pd.DataFrame, folder: Path, command: str, x: str | None = None, metrics: Sequence[str] | None = None
) -> list[Path]:
    """Draw metrics against `x`, one panel each, a curve per algorithm and setting; write figure.png and figure.svg.

    Args:
        rows: the table that a run or a sweep wrote.
        folder: where the two files go.
        command: what the footer says made the figure.
        x: a setting, or ``inverse_eps`` for 1/eps; by default the first of eps, delta, M, N and the settings of the
            command line that has more than one value.
        metrics: one panel for each; by default the loss, and accuracy or RMSE where there is one.

    Raises:
        UserError: `x` or a metric is not in the rows.
    """
    summary = summarise(rows)
    x = _known_axis(summary, x)
    present = list(rows["metric"].unique())
    metrics = metrics or [name for name in ("loss", "accuracy", "rmse") if name in present] or present[:1]
    for name in metrics:
        if name not in present:
            raise UserError(f"these rows have no metric {name!r}: {nearest(name, present)}")
    summary = with_axis(summary, x)
    charts = [Chart(Panel("", x, name), summary[summary["metric"] == name]) for name in metrics]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.9 * len(metrics) + 2.4, 3.7), layout="constrained")
        panels = figure.subplots(1, len(metrics), squeeze=False)[0]
        drawn = _draw_all(panels, charts)
        entries = _legend(drawn, charts)
        figure.legend(entries.values(), entries.keys(), loc="outside right center")
        heading = textwrap.fill(_everywhere(charts, drawn), int(14 * figure.get_figwidth()))
        figure.suptitle(heading, fontsize=9, x=0.01, ha="left")
        _place_footer(figure, _footer(charts, drawn, command))
        return save(figure, folder / "figure")


def _known_axis(summary: pd.DataFrame, x: str | None) -> str:
    """The axis that was asked for, or the first that has more than one value.

    Raises:
        UserError: it is no setting of these rows.
    """
    own = [key for key in settings(summary) if key not in AXES]
    if x is None:
        numbers = [key for key in own if pd.api.types.is_numeric_dtype(summary[key])]
        varying = (axis for axis in (*AXES, *numbers) if axis in summary and summary[axis].nunique() > 1)
        return next(varying, "eps")
    if x not in (*AXES, *own):
        raise UserError(f"these rows have no setting {x!r} for the x axis: {nearest(x, [*AXES, *own])}")
    return x


def plot_experiment(charts: Sequence[Chart], title: str, columns: int, command: str, base: Path) -> list[Path]:
    """Draw the panels of an experiment in one figure, `columns` in a row; write ``base.png`` and ``base.svg``."""
    columns = min(columns, len(charts))
    lines = -(-len(charts) // columns)
    with mpl.rc_context(STYLE):
        # one panel alone needs room for the title and the legend
        size = (3.5 * columns + 0.3, 2.75 * lines + 1.1) if columns > 1 else (6.6, 4.1)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        drawn = _draw_all(panels, charts)
        for axes, chart in zip(panels, charts, strict=False):
            axes.set_title(chart.panel.title, fontsize=9, loc="left")
        for axes in panels[len(charts) :]:
            axes.set_axis_off()
        heading = textwrap.fill(title, int(12.5 * figure.get_figwidth()))
        _place_title(figure, heading, _legend(drawn, charts), 6 if columns == 1 else 8)
        everywhere = _everywhere(charts, drawn)
        said = [f"everywhere: {everywhere}"] if everywhere else []
        _place_footer(figure, [*_footer(charts, drawn, command), *said])
        return save(figure, base)


@dataclass(frozen=True)
class _Drawn:
    """What became of one chart: its axes, the curves in it, and whether a band was cut off."""

    axes: Axes
    curves: Sequence[Curve]
    pale: bool


def _draw_all(panels: Iterable[Axes], charts: Sequence[Chart]) -> list[_Drawn]:
    """Draw charts so that a curve has the same label and look, and a metric the same scale, in all of them."""
    per_chart = [chart.curves() for chart in charts]
    keys = list(
        dict.fromkeys(
            key for chart, own in zip(charts, per_chart, strict=True) for key in named(own, chart.panel.curve)
        )
    )
    labelled = [[(label(curve, keys), curve) for curve in own] for own in per_chart]
    by_algorithm: dict[str, dict[str, None]] = {}
    for name, curve in sorted((pair for own in labelled for pair in own), key=lambda pair: _order(pair[1], keys)):
        by_algorithm.setdefault(curve.algo, {})[name] = None
    styles = looks({algo: list(names) for algo, names in by_algorithm.items()})
    log = {chart.panel.y for chart in charts if chart.panel.yscale == "auto" and chart.wants_log}
    drawn = []
    for axes, chart, pairs in zip(panels, charts, labelled, strict=False):
        wants_log = chart.wants_log or (chart.panel.yscale == "auto" and chart.panel.y in log)
        pale = draw(axes, chart, pairs, styles, wants_log)
        drawn.append(_Drawn(axes, [curve for _, curve in pairs], pale))
    return drawn


def _order(curve: Curve, keys: Sequence[str]) -> list[float]:
    """Curves of one algorithm stand by the numbers in their settings; otherwise they stay as they come."""
    values = [curve.settings.get(key) for key in keys]
    return [
        float(value) if isinstance(value, int | float | np.number) and np.isfinite(value) else 0.0 for value in values
    ]


def _legend(drawn: Sequence[_Drawn], charts: Sequence[Chart]) -> dict[str, Any]:
    """One entry per curve of the whole figure, in the order of the curves of the first panel that has it."""
    entries: dict[str, Any] = {}
    for each in drawn:
        for handle, name in zip(*each.axes.get_legend_handles_labels(), strict=True):
            if name not in entries:
                entries[name] = Line2D([], [])
                entries[name].update_from(handle)
                # wider and larger only where it lies under another one
                entries[name].set(linewidth=STYLE["lines.linewidth"], markersize=STYLE["lines.markersize"])
    if any(chart.published is not None for chart in charts):
        hollow = Line2D([], [], linestyle="", marker="o", markerfacecolor="none", markeredgecolor="#555555")
        entries["published (hollow)"] = hollow
    return entries


def _place_title(figure: Figure, heading: str, entries: Mapping[str, Any], most: int) -> None:
    """The title and, below it, the legend, to be read line by line."""
    names = list(entries)
    across = min(_legend_columns(names, figure.get_figwidth(), most), len(names)) or 1
    # the layout keeps the lines below the title free for the legend
    room = "\n" * (1 + -(-len(names) // across))
    figure.suptitle(f"{heading}{room}", fontsize=11, x=0.01, ha="left")
    below = 1 - 0.27 * (1 + heading.count("\n")) / figure.get_figheight()
    down = [name for column in range(across) for name in names[column::across]]  # a legend is filled column by column
    handles = [entries[name] for name in down]
    figure.legend(handles, down, loc="upper left", bbox_to_anchor=(0, below), ncols=across, fontsize=9)


def _legend_columns(labels: Sequence[str], width: float, most: int) -> int:
    """How many entries stand side by side in a figure of `width` inches: `most`, or fewer where they are too long."""
    widths = [0.75 + 0.075 * len(label) for label in labels]  # inches, a little more than needed
    return most if sum(widths) <= width else min(most, max(1, int(width / max(widths))))


def _footer(charts: Sequence[Chart], drawn: Sequence[_Drawn], command: str) -> list[str]:
    """The command, and the calibration, what the bands are, and by how much the worst proven eps misses the claimed."""
    summary = pd.concat([chart.summary for chart in charts], ignore_index=True)
    private = summary[np.isfinite(summary["claimed_eps"]) & summary["proven_eps"].notna()]
    if summary["count"].max() == 1 and not len(private):  # formulas
        return [command]
    calibration = ", ".join(map(str, private["calibration"].unique()))
    facts = [f"calibration: {calibration}"] if calibration else []
    band = charts[0].panel.band
    facts.append(f"bands: {_BANDS[band]} {replication(summary)}" if band in _BANDS else "no bands")
    if any(each.pale for each in drawn):
        facts.append("pale: the band goes on below the axis")
    if len(private):
        facts.append(_largest_excess(private))
    return [command, "; ".join(facts)]


def _everywhere(charts: Sequence[Chart], drawn: Sequence[_Drawn]) -> str:
    """The settings that are the same in the whole figure, and those that only move along with an axis."""
    summary = pd.concat([chart.summary for chart in charts], ignore_index=True)
    axes = [x for chart in charts for x in same_axis(chart.panel.x)]
    along = [(chart.panel.x, moving(each.curves, chart.panel.x)) for chart, each in zip(charts, drawn, strict=True)]
    moves = dict.fromkeys(f"{', '.join(keys)} as given by {x}" for x, keys in along if keys)
    return "; ".join(filter(None, [constant(summary, axes), *moves]))


def _place_footer(figure: Figure, lines: Sequence[str]) -> None:
    footer = "\n".join(textwrap.fill(line, int(17 * figure.get_figwidth())) for line in lines)
    figure.supxlabel(footer, fontsize=7, color="#555555", x=0.01, ha="left")


def _largest_excess(private: pd.DataFrame) -> str:
    open_ = private[private["not_proven"].notna()]
    if len(open_):
        return f"no ε is proven for {', '.join(algorithms(open_))}: {'; '.join(open_['not_proven'].unique())}"
    worst = private.iloc[int((private["proven_eps"] / private["claimed_eps"]).to_numpy().argmax())]
    variant = "" if worst["variant"] == "paper" else f" {worst['variant']}"
    return (
        f"largest proven / claimed ε: {short(worst['proven_eps'] / worst['claimed_eps'])} ({worst['algo']}{variant}: "
        f"ε = {short(worst['proven_eps'])} proven at {worst['claimed_eps']:g} claimed, {worst['proven_view']} view)"
    )


def save(figure: Figure, base: Path) -> list[Path]:
    """Write a figure as `base`.png and `base`.svg; the same figure gives the same bytes."""
    paths = [base.with_name(f"{base.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        picture = io.BytesIO()
        # neither date nor version in the file: the same rows give the same bytes
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(picture, format=path.suffix[1:], metadata=metadata)
        content = picture.getvalue()
        if path.suffix == ".svg":
            # a hundredth of a point is enough for paths and places; scales are left alone
            content = re.sub(rb' (?:d|x|y)="[^"]*"', lambda match: _rounded(match[0]), content)
            content = re.sub(rb"\n\s+", b"\n", content)
        write_atomically(path, content)
    return paths


def _rounded(content: bytes) -> bytes:
    return b" ".join(re.sub(rb"(\.\d\d)\d+", rb"\1", content).split(b"\n"))
