"""Figures, drawn from rows only, in one house style: layout, legends, captions, files."""

import io
import re
import string
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from dpml.files import write_atomically
from dpml.reporting.charts import run_charts
from dpml.reporting.curves import Curve, label, moving, named, same_axis, shared
from dpml.reporting.panels import PEERS, Chart, Polyline
from dpml.reporting.scales import Scale, joined
from dpml.reporting.statistics import replication, summarise
from dpml.reporting.style import THIN, Look, base_look, in_style, looks
from dpml.reporting.tables import short
from dpml.reporting.words import AXES, SYMBOLS, algorithm, metric, place
from dpml.reporting.words import curve as curve_name

WIDTH = 7.0
"""Inches: two columns of a page."""
_BANDS = {"interval": "95 % intervals", "sd": "one s.d. either way"}


def plot(rows: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw the main metrics of a run or a sweep against what varies; write figure.png and figure.svg."""
    charts = run_charts(summarise(rows), None, None)
    return save(figure_of(charts, 3)[0], folder / "figure")


def plot_experiment(charts: Sequence[Chart], columns: int, base: Path) -> tuple[list[Path], str]:
    """Draw the panels of an experiment, `columns` in a row; write ``base.png`` and ``base.svg``.

    Returns:
        The files, and the caption.
    """
    figure, caption = figure_of(charts, columns)
    return save(figure, base), caption


def paper_figure(charts: Sequence[Chart], width: float) -> tuple[Figure, str]:
    """Draw panels at the `width` of a paper's column in inches."""
    least = 2.1 if len(charts) <= 4 else 1.6  # inches of a panel; many would make a column longer than a page
    return figure_of(charts, max(1, int(width / least)), width)


def figure_of(charts: Sequence[Chart], columns: int, width: float = WIDTH) -> tuple[Figure, str]:
    """Draw panels, `columns` in a row, below one legend, `width` inches wide; return the figure and its caption.

    Every panel has a letter. Labels of axes stand once for neighbours that have the same.
    """
    columns = min(columns, len(charts))
    rows = -(-len(charts) // columns)
    width = min(width, 4.6) if columns == 1 else width
    with in_style():
        figure = Figure(figsize=(width, 1.0), layout="constrained")
        panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
        plots = _plots(charts, columns)
        styles = _looks(plots)
        for each, axes in zip(plots, panels, strict=False):
            each.chart.draw(axes, each.lines, styles, each.scale)
        _label_axes(panels, charts, columns)
        titles = [_title(number, charts, width / columns) for number in range(len(charts))]
        for axes, title in zip(panels, titles, strict=False):
            axes.set_title(title)
        for axes in panels[len(charts) :]:
            axes.set_axis_off()
        lines = max(title.count("\n") + bool(title) for title in titles)
        height = rows * (0.62 * min(width / columns, 3.2) + 0.25 + 0.13 * lines)
        figure.set_figheight(height + _place_legend(figure, _legend(plots, styles)))
    return figure, " ".join(_caption(plots))


def _title(number: int, charts: Sequence[Chart], width: float) -> str:
    """Return a panel's title in lines of at most `width` inches, with its letter if there are several panels."""
    letter = f"({string.ascii_lowercase[number]})  " if len(charts) > 1 else ""
    title = f"{letter}{charts[number].panel.title}".replace(" = ", "\u00a0=\u00a0")  # which no line ends with
    return textwrap.fill(title, max(12, int((width - 0.6) / 0.056)), break_long_words=False)


def _label_axes(panels: Sequence[Axes], charts: Sequence[Chart], columns: int) -> None:
    """Label the axes, once for panels beside or below each other with the same x or metric."""
    for number, (axes, chart) in enumerate(zip(panels, charts, strict=False)):
        x, y = chart.panel.x, chart.panel.y
        if not number % columns or charts[number - 1].panel.y != y:
            axes.set_ylabel(textwrap.fill(metric(y), 24))
        if number + columns >= len(charts) or charts[number + columns].panel.x != x:
            axes.set_xlabel(AXES.get(x, SYMBOLS.get(x, x)))


# ---- what is drawn


@dataclass(frozen=True)
class _Plot:
    """What a panel shows: its chart, curves by label, the curves on its axis, those that are 0, and the y axis."""

    chart: Chart
    labelled: Sequence[tuple[str, Curve]]
    lines: Sequence[Polyline]
    zeros: Sequence[Polyline]
    scale: Scale


def _plots(charts: Sequence[Chart], columns: int) -> list[_Plot]:
    """Prepare panels: a curve has the same label, and a metric the same kind of scale, in all of them."""
    per_chart = [chart.curves() for chart in charts]
    keys: dict[str, list[str]] = {}
    for chart, own in zip(charts, per_chart, strict=True):
        for algo, new in named(own, chart.panel.curve).items():
            keys[algo] = list(dict.fromkeys([*keys.get(algo, []), *new]))
    log = {chart.panel.y for chart in charts if chart.panel.yscale == "auto" and chart.wants_log}
    found = []
    for chart, own in zip(charts, per_chart, strict=True):
        labelled = [(label(curve, keys), curve) for curve in own]
        is_log = chart.wants_log or (chart.panel.yscale == "auto" and chart.panel.y in log)
        lines = chart.lines(labelled, is_log)
        zeros = [line for line in lines if is_log and line.zero]
        lines = [line for line in lines if line not in zeros]
        found.append(_Plot(chart, labelled, lines, zeros, chart.scale(lines, is_log)))
    return _shared(found, columns)


def _shared(plots: Sequence[_Plot], columns: int) -> list[_Plot]:
    """Let panels of a row share their y axis if they show the same metric of the same data against the same x."""
    groups: dict[Any, list[int]] = {}
    for number, each in enumerate(plots):
        panel, data = each.chart.panel, frozenset(each.chart.summary["dataset"].map(str))
        own = (panel.ylim and number, number // columns, panel.x, panel.y, data, each.scale.log)
        groups.setdefault(own, []).append(number)
    scales = {
        number: scale
        for group in groups.values()
        for number, scale in zip(group, joined([plots[one].scale for one in group]), strict=True)
    }
    return [replace(each, scale=scales[number]) for number, each in enumerate(plots)]


def _looks(plots: Sequence[_Plot]) -> dict[str, Look]:
    """Return the looks of all curves by label; those of an algorithm are in the order of their numbers and names."""

    def order(name: str) -> tuple[list[float], bool, str]:
        numbers = re.findall(r"=(-?[\d.]+(?:e-?\d+)?)(?!\S)", name)
        return [float(number) for number in numbers], "variant=" in name, name  # the paper's own variant is first

    labels: dict[str, set[str]] = {}
    for name, curve in (pair for each in plots for pair in each.labelled):
        labels.setdefault(curve.algo, set()).add(name)
    return looks({algo: sorted(own, key=order) for algo, own in labels.items()})


# ---- the legend


def _legend(plots: Sequence[_Plot], styles: Mapping[str, Look]) -> dict[str, Line2D]:
    """Return one entry per curve, in the order of words.yaml, then the thin curves and the published points."""
    lines = {line.label: line.algo for each in plots for line in each.lines if line.algo not in each.chart.panel.thin}
    names = [name for name in styles if name in lines]  # an algorithm's curves are sorted by their settings
    entries = {curve_name(name): _entry(styles[name]) for name in sorted(names, key=lambda name: place(lines[name]))}
    if thin := _thin(plots):
        entries["others" if len(thin) > 1 else thin[0]] = _entry(THIN)
    published = {algo for each in plots for algo in each.chart.points(peer=False)["algo"]}
    if published:
        entries["published (hollow)"] = _entry(Look("#555555", "o", ""))
    # algorithms with published points but no curve: not run, or 0, which has no place on a log axis
    for algo in sorted(published - {*lines.values()}):
        entries[f"{algorithm(algo)}, published"] = _entry(Look(*base_look(algo), ""))
    if any(len(each.chart.points(peer=True)) for each in plots):
        entries["best other program"] = _entry(PEERS)
    return entries


def _thin(plots: Iterable[_Plot]) -> list[str]:
    algos = {line.algo for each in plots for line in each.lines if line.algo in each.chart.panel.thin}
    return [algorithm(algo) for algo in sorted(algos, key=place)]


def _entry(look: Look) -> Line2D:
    """Return a legend's sample of a curve, as it is drawn where it coincides with no other, or of hollow points."""
    points = {"mfc": "none", "markersize": 4.5, "marker": look.marker or "d"} if look.dashes == "" else {}
    return Line2D([], [], **{"color": look.colour, "marker": look.marker, "ls": look.dashes, "lw": look.width} | points)


def _place_legend(figure: Figure, entries: Mapping[str, Line2D]) -> float:
    """Put the legend above the panels, in reading order line by line; return the inches that it needs."""
    names = list(entries)
    widths = [0.55 + 0.06 * len(name) for name in names]
    fits = (n for n in range(len(names), 0, -1) if sum(max(widths[i::n]) for i in range(n)) < figure.get_figwidth())
    rows = -(-len(names) // next(fits, 1)) if names else 0
    across = -(-len(names) // rows) if rows else 1  # as many in every line
    down = [name for column in range(across) for name in names[column::across]]  # a legend is filled column by column
    figure.legend([entries[name] for name in down], down, loc="outside upper left", ncols=across, borderpad=0)
    return 0.15 * rows + 0.1


# ---- the caption


def _caption(plots: Sequence[_Plot]) -> list[str]:
    """Return what the caption says: lines and bands, points, the proven eps, and the settings; a sentence each."""
    summary = pd.concat([each.chart.summary for each in plots], ignore_index=True)
    private = summary[np.isfinite(summary["claimed_eps"]) & summary["proven_eps"].notna()]
    if summary["count"].max() == 1 and not len(private):  # formulas
        return []
    said = [_about_bands(plots)]
    if any(len(each.chart.points(peer=False)) for each in plots):
        said.append("Hollow points: published values.")
    if any(len(each.chart.points(peer=True)) for each in plots):
        said.append("Hollow diamonds: the best program of others at each ε.")
    if thin := _thin(plots):
        said.append(f"In grey: {', '.join(thin)}.")
    said += _absent(plots)
    if len(private):
        said.append(_largest_excess(private))
    axes = [x for each in plots for x in same_axis(each.chart.panel.x)]
    along = {each.chart.panel.x: moving([curve for _, curve in each.labelled], each.chart.panel.x) for each in plots}
    same = shared(summary, axes)
    said += [f"Settings: {same}."] if same else []
    return said + [f"{', '.join(keys)} changes with {AXES.get(x, x)}." for x, keys in along.items() if keys]


def _about_bands(plots: Sequence[_Plot]) -> str:
    """Return what the bands are, and over what, in a sentence."""
    banded = [each.chart for each in plots if each.chart.panel.band != "none"]
    over = replication(pd.concat([chart.summary for chart in banded])) if banded else "no interval"
    if over.endswith("no interval"):
        return "Lines are means, without bands."
    kinds = dict.fromkeys(_BANDS[chart.panel.band] for chart in banded)
    return f"Lines are means; bands are {' or '.join(kinds)} of the mean over {over}."


def _absent(plots: Sequence[_Plot]) -> list[str]:
    """Return sentences about what has no place on an axis, and so no point, and in which panels."""
    found: dict[str, dict[str, str]] = {}
    for letter, each in zip(string.ascii_letters, plots, strict=False):
        rows, x, y = each.chart.summary, each.chart.panel.x, each.chart.panel.y
        nan = rows["mean"].isna() & (rows.get("missing", 0) > 0)
        for why, algos in (
            (f"the {metric(y)} is 0 to machine precision", [line.algo for line in each.zeros]),
            (f"values of the {metric(y)} are NaN", rows.loc[nan, "algo"]),
            (f"{AXES.get(x, x)} is infinite", rows.loc[rows[x] == np.inf, "algo"]),
            (f"the {metric(y)} is beyond the axis", [line.algo for line in each.lines if line.outside(each.scale)]),
        ):
            places = found.setdefault(why, {})
            for name in dict.fromkeys(map(algorithm, algos)):
                places[name] = f"{places[name]}, {letter}" if name in places else letter
    everywhere = ", ".join(string.ascii_letters[: len(plots)])
    named = {
        why: [name if letters == everywhere else f"{name} ({letters})" for name, letters in places.items()]
        for why, places in found.items()
    }
    return [f"Not shown, as {why}: {', '.join(names)}." for why, names in named.items() if names]


def _largest_excess(private: pd.DataFrame) -> str:
    open_ = private[private["not_proven"].notna()]
    if len(open_):
        names = ", ".join(dict.fromkeys(map(algorithm, open_["algo"])))
        return f"No ε is proven for {names}: {'; '.join(open_['not_proven'].unique())}."
    worst = private.iloc[int((private["proven_eps"] / private["claimed_eps"]).to_numpy().argmax())]
    return (
        f"Largest proven ε relative to the claimed one: {short(worst['proven_eps'], up=True)} for a claimed "
        f"{worst['claimed_eps']:g} ({algorithm(worst['algo'])}, {worst['proven_view']} view)."
    )


# ---- files


def save(figure: Figure, base: Path) -> list[Path]:
    """Write a figure as `base`.png and `base`.svg; the same figure gives the same bytes."""
    paths = [base.with_name(f"{base.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        save_as(figure, path)
    return paths


def save_as(figure: Figure, path: Path, dpi: float | None = None) -> None:
    """Write a figure in the format of the path's suffix, .pdf, .png or .svg; the same figure gives the same bytes."""
    picture, kind = io.BytesIO(), path.suffix[1:]
    # no date and no version in the file: the same rows give the same bytes
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "Producer": None}}
    with in_style():
        engine = figure.get_layout_engine()
        if engine is not None:  # place the axes once; rounded, because the last bits differ from run to run
            engine.execute(figure)
            figure.set_layout_engine("none")
        for axes in figure.axes:
            axes.set_position(Bbox(np.round(axes.get_position().get_points(), 5)))
        figure.savefig(picture, format=kind, metadata=metadata[kind], dpi=dpi or "figure")
    content = picture.getvalue()
    if kind == "svg":  # coordinates need only a hundredth of a point; scales are not rounded
        content = re.sub(rb' (?:d|x|y)="[^"]*"', lambda found: re.sub(rb"(\.\d\d)\d+", rb"\1", found[0]), content)
        content = re.sub(rb"\n\s*", b"\n", content)
    write_atomically(path, content)
