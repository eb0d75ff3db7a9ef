"""Figures, drawn from rows only, in one house style: layout, legends, captions, files."""

import io
import re
import string
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from dpml.errors import UserError, nearest
from dpml.files import write_atomically
from dpml.reporting.charts import run_charts
from dpml.reporting.curves import Curve, constant, label, moving, named, of_some, same_axis
from dpml.reporting.numerals import ZERO
from dpml.reporting.panels import Chart, Polyline, draw, is_zero
from dpml.reporting.scales import Scale, joined
from dpml.reporting.statistics import replication, summarise
from dpml.reporting.style import STYLE, Look, base_look, in_style, looks
from dpml.reporting.tables import short
from dpml.reporting.words import AXES, ORDER, REFERENCES, algorithm, metric
from dpml.reporting.words import curve as shown_name

WIDTH = 7.0
"""Inches: two columns of a page."""
_BANDS = {"interval": "95 % intervals of the mean over", "sd": "one s.d. either way of the mean over"}


def plot(rows: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw the main metrics of a run or a sweep against what varies; write figure.png and figure.svg."""
    charts = run_charts(summarise(rows), None, None)
    return save(figure_of(charts, min(3, len(charts)))[0], folder / "figure")


def plot_experiment(charts: Sequence[Chart], columns: int, base: Path) -> tuple[list[Path], str]:
    """Draw the panels of an experiment in one figure, `columns` in a row; write ``base.png`` and ``base.svg``.

    Returns:
        The files, and the caption.
    """
    figure, caption = figure_of(charts, columns)
    return save(figure, base), caption


def paper_figure(charts: Sequence[Chart], width: float, names: Mapping[str, str]) -> tuple[Figure, str]:
    """A figure to be put into a paper as it is, and its caption.

    Args:
        charts: its panels.
        width: of the figure in inches.
        names: what to write for algorithms, for entries of the legend, and for settings and metrics on axes.
    """
    return figure_of(charts, max(1, int(width / 2.1)), width, names)


def figure_of(
    charts: Sequence[Chart], columns: int, width: float = WIDTH, names: Mapping[str, str] | None = None
) -> tuple[Figure, str]:
    """Draw panels, `columns` in a row, below one legend; return the figure and its caption.

    Every panel has a letter. Labels of axes stand once for neighbours that have the same.
    """
    columns = min(columns, len(charts))
    lines = -(-len(charts) // columns)
    width = min(width, 4.6) if columns == 1 else width
    with in_style(STYLE):
        figure = Figure(figsize=(width, 1.0), layout="constrained")
        panels = list(figure.subplots(lines, columns, squeeze=False).ravel())
        whole = _draw_all(panels, charts, columns)
        titles = [_titled(axes, number, charts, width / columns) for number, axes in enumerate(panels[: len(charts)])]
        _label_axes(panels, charts, columns, names or {})
        for axes in panels[len(charts) :]:
            axes.set_axis_off()
        height = lines * (0.72 * min(width / columns, 3.2) + 0.13 * max(titles))
        entries = _renamed(_legend(whole, charts), whole, charts, names or {})
        figure.set_figheight(height + _place_legend(figure, entries))
    return figure, " ".join(_caption(charts, whole))


def _titled(axes: Axes, number: int, charts: Sequence[Chart], width: float) -> int:
    """Set a panel's title, with its letter if there are several; return the number of its lines."""
    title = charts[number].panel.title.replace(" = ", "\u00a0=\u00a0")  # which no line ends with
    title = "\n".join(textwrap.wrap(title, max(12, int(15.5 * width) - 6), break_long_words=False))
    letter = string.ascii_lowercase[number] if len(charts) > 1 else ""
    axes.set_title(rf"$\bf{{{letter}}}$  {title}" if letter else title, loc="left")
    return 1 + title.count("\n") if letter or title else 0


def _label_axes(panels: Sequence[Axes], charts: Sequence[Chart], columns: int, names: Mapping[str, str]) -> None:
    """Label the axes, once for panels beside or below each other with the same x or metric."""
    for number, (axes, chart) in enumerate(zip(panels, charts, strict=False)):
        x, y = chart.panel.x, chart.panel.y
        left = charts[number - 1].panel.y if number % columns else None
        below = charts[number + columns].panel.x if number + columns < len(charts) else None
        axes.set_xlabel("" if below == x else names.get(x, AXES.get(x, x)))
        axes.set_ylabel("" if left == y else names.get(y, textwrap.fill(metric(y), 24)))


def _place_legend(figure: Figure, entries: Mapping[str, Any]) -> float:
    """Put the legend above the panels, in reading order line by line; return the inches that it needs."""
    across = max(1, int(figure.get_figwidth() / (0.42 + 0.062 * max(map(len, entries), default=1))))
    lines = -(-len(entries) // across)
    across = -(-len(entries) // lines) if lines else 1  # as many in every line
    names = list(entries)
    down = [name for column in range(across) for name in names[column::across]]  # a legend is filled column by column
    figure.legend([entries[name] for name in down], down, loc="outside upper left", ncols=across, borderpad=0)
    return 0.15 * lines + 0.1


def _renamed(
    entries: Mapping[str, Any], whole: "_Figure", charts: Sequence[Chart], names: Mapping[str, str]
) -> dict[str, Any]:
    """The legend with display names of algorithms, or the user's; UserError if one of these names nothing shown."""
    algos = {line.label: line.algo for each in whole.drawn for line in each.lines}
    shown = {*entries, *algos.values(), *(name for chart in charts for name in (chart.panel.x, chart.panel.y))}
    for name in names:
        if name not in shown:
            raise UserError(f"--labels: the figure shows no {name!r}: {nearest(name, shown)}")

    def renamed(label: str) -> str:
        algo = algos.get(label, "")
        own = label.replace(algo, names[algo], 1) if algo in names else shown_name(label)
        return names.get(label, own.replace(" algo.", " "))

    found = {label: renamed(label) for label in entries}
    for told in (r" M=\d+", " variant=paper"):  # M often only says which algorithms are central
        bare = {label: re.sub(told, "", name) for label, name in found.items()}
        if len(set(bare.values())) == len(set(found.values())):
            found = bare
    return {found[label]: handle for label, handle in entries.items()}


@dataclass(frozen=True)
class _Plot:
    """The result of drawing one chart: its axes, its curves, those that are 0, and whether a band leaves the axis."""

    axes: Axes
    curves: Sequence[Curve]
    lines: Sequence[Polyline]
    zeros: Sequence[str]
    log: bool
    beyond: bool


@dataclass(frozen=True)
class _Figure:
    """The result of drawing all charts, and the looks of their curves by label."""

    drawn: Sequence[_Plot]
    looks: Mapping[str, Look]


def _draw_all(panels: Iterable[Axes], charts: Sequence[Chart], columns: int) -> _Figure:
    """Draw charts so that a curve has the same label and look, and a metric the same kind of scale, in all of them.

    Panels in a row with the same metric of the same data also share their ends and one label of the y axis.
    """
    per_chart = [chart.curves() for chart in charts]
    naming = [named(own, chart.panel.curve) for chart, own in zip(charts, per_chart, strict=True)]
    keys = list(dict.fromkeys(key for own in naming for key in own))
    labelled = _labels(per_chart, keys)
    styles = _looks(labelled, keys, {algo for chart in charts for algo in chart.panel.thin})
    log = {chart.panel.y for chart in charts if chart.panel.yscale == "auto" and chart.wants_log}
    logs = [chart.wants_log or (chart.panel.yscale == "auto" and chart.panel.y in log) for chart in charts]
    lines, zeros = [], []
    for chart, pairs, is_log in zip(charts, labelled, logs, strict=True):
        own = chart.lines(pairs, is_log)
        zeros.append([line.algo for line in own if is_log and is_zero(line)])
        lines.append([line for line in own if not (is_log and is_zero(line))])
    scales = [chart.scale(own, is_log) for chart, own, is_log in zip(charts, lines, logs, strict=True)]
    scales = _shared(charts, scales, columns)
    drawn = []
    for number, (axes, chart) in enumerate(zip(panels, charts, strict=False)):
        beyond = draw(axes, chart, lines[number], styles, scales[number])
        drawn.append(_Plot(axes, per_chart[number], lines[number], zeros[number], logs[number], beyond))
    return _Figure(drawn, styles)


def _labels(per_chart: Sequence[Sequence[Curve]], keys: Sequence[str]) -> list[list[tuple[str, Curve]]]:
    """The curves of every chart by label.

    A curve without noise that appears once in every panel is labelled by its name alone: the title gives the rest.
    """
    several = {algo for own in per_chart for algo, number in Counter(c.algo for c in own).items() if number > 1}
    alone = REFERENCES.keys() - several
    return [[(label(curve, () if curve.algo in alone else keys), curve) for curve in own] for own in per_chart]


def _looks(
    labelled: Sequence[Sequence[tuple[str, Curve]]], keys: Sequence[str], thin: Collection[str]
) -> dict[str, Look]:
    """The looks of all curves by label; an algorithm's curves are sorted by the numbers in their labels and by name."""
    by_algorithm: dict[str, dict[str, list[float]]] = {}
    for name, curve in (pair for own in labelled for pair in own):
        by_algorithm.setdefault(curve.algo, {}).setdefault(name, _order(curve, keys))
    # the paper's own variant has the colour of the algorithm
    labels = {
        algo: sorted(own, key=lambda name: (own[name], "variant=paper" not in name, name))
        for algo, own in by_algorithm.items()
    }
    ordered = [algo for algo, own in by_algorithm.items() if len(set(map(tuple, own.values()))) == len(own)]
    return looks(labels, ordered, thin)


def _shared(charts: Sequence[Chart], scales: Sequence[Scale], columns: int) -> list[Scale]:
    """The scales of panels, shared if panels of a row show the same metric of the same data against the same x."""
    groups: dict[Any, list[int]] = {}
    for number, (chart, scale) in enumerate(zip(charts, scales, strict=True)):
        data = frozenset(chart.summary["dataset"].map(str))
        own = (number if chart.panel.ylim else -1, number // columns, chart.panel.x, chart.panel.y, data, scale.log)
        groups.setdefault(own, []).append(number)
    shared = list(scales)
    for group in groups.values():
        for number, scale in zip(group, joined([scales[number] for number in group]), strict=True):
            shared[number] = scale
    return shared


def _order(curve: Curve, keys: Sequence[str]) -> list[float]:
    """The numbers among a curve's settings, which sort the curves of one algorithm; other settings keep their order."""
    values = [curve.settings.get(key) for key in keys]
    return [
        float(value) if isinstance(value, int | float | np.number) and np.isfinite(value) else 0.0 for value in values
    ]


def _legend(figure: _Figure, charts: Sequence[Chart]) -> dict[str, Any]:
    """One entry per curve of the whole figure, in the order of words.yaml; published points and thin curves last."""
    lines = {line.label: line for each in figure.drawn for line in each.lines}
    thin = {algo for chart in charts for algo in chart.panel.thin}
    entries: dict[str, Any] = {}
    for name in sorted(lines, key=lambda name: (lines[name].algo in thin, ORDER.get(lines[name].algo, len(ORDER)))):
        look = figure.looks[name]
        # the look of the curve alone: curves that coincide are drawn with alternating dashes
        entries[name] = Line2D(
            [], [], color=look.colour, marker=look.marker, linestyle=look.dashes, linewidth=look.width
        )
    points = [chart.published for chart in charts if chart.published is not None]
    published = {algo for own in points for algo in own.loc[~own["peer"] & (own["mean"].abs() > ZERO), "algo"]}
    if published:
        entries["published (hollow)"] = _hollow("#555555", "o")
    for algo in dict.fromkeys(algo for own in points for algo in own.loc[own["peer"], "algo"]):
        entries[algo] = _hollow(*base_look(algo))
    # algorithms with published points but no curve: not run, or 0, which has no place on a log axis
    for algo in sorted(published - {line.algo for line in lines.values()}):
        entries[f"{algo}, published"] = _hollow(*base_look(algo))
    return entries


def _hollow(colour: str, marker: str) -> Line2D:
    return Line2D([], [], ls="", marker=marker or "d", markerfacecolor="none", markeredgecolor=colour, markersize=4.5)


# ---- the caption


def _caption(charts: Sequence[Chart], figure: _Figure) -> list[str]:
    """What the caption says: the lines and bands, the points, the proven eps, and the settings; a sentence each."""
    summary = pd.concat([chart.summary for chart in charts], ignore_index=True)
    private = summary[np.isfinite(summary["claimed_eps"]) & summary["proven_eps"].notna()]
    if summary["count"].max() == 1 and not len(private):  # formulas
        return []
    said = [_about_bands(charts)]
    if any(chart.published is not None and not chart.published["peer"].all() for chart in charts):
        said.append("Hollow points: published values.")
    if any(each.beyond for each in figure.drawn):
        said.append("Arrows: beyond the end of an axis.")
    said += _absent(charts, figure.drawn)
    if len(private):
        said.append(_largest_excess(private))
    return [*said, *_settings(charts, figure.drawn)]


def _about_bands(charts: Sequence[Chart]) -> str:
    """What the bands are; of several kinds, in which panels each is."""
    kinds: dict[str, list[int]] = {}
    for number, chart in enumerate(charts):
        kinds.setdefault(_BANDS.get(chart.panel.band, ""), []).append(number)
    kinds.pop("", None)
    said = []
    for kind, own in kinds.items():
        letters = f" ({', '.join(string.ascii_lowercase[number] for number in own)})" if len(kinds) > 1 else ""
        said.append(f"{kind} {replication(pd.concat([charts[number].summary for number in own]))}{letters}")
    if not said or said[0].endswith("no interval"):
        return "Lines are means, without bands."
    return f"Lines are means; bands are {', '.join(said)}."


def _absent(charts: Sequence[Chart], drawn: Sequence[_Plot]) -> list[str]:
    """What has no place on an axis, and so no point."""
    found: dict[str, dict[str, None]] = {}
    for chart, each in zip(charts, drawn, strict=True):
        rows, x, y = chart.summary, chart.panel.x, chart.panel.y
        nan = rows["mean"].isna() & (rows.get("missing", 0) > 0)
        infinite = rows.loc[rows[x] == np.inf, "algo"]
        for why, algos in (
            (f"the {metric(y)} is 0 to machine precision", each.zeros),
            (f"values of the {metric(y)} are NaN", rows.loc[nan, "algo"]),
            (f"{AXES.get(x, x)} is infinite", infinite),
        ):
            found.setdefault(why, {}).update(dict.fromkeys(map(algorithm, algos)))
    return [f"Not shown, as {why}: {', '.join(names)}." for why, names in found.items() if names]


def _settings(charts: Sequence[Chart], drawn: Sequence[_Plot]) -> list[str]:
    """The settings with one value in the figure, and those that go with an axis."""
    summary = pd.concat([chart.summary for chart in charts], ignore_index=True)
    axes = [x for chart in charts for x in same_axis(chart.panel.x)]
    along = [(chart.panel.x, moving(each.curves, chart.panel.x)) for chart, each in zip(charts, drawn, strict=True)]
    same = [*constant(summary, axes).split("  "), *of_some(summary, axes)]
    said = list(dict.fromkeys(_in_words(one) for one in same if one))
    moves = dict.fromkeys(f"{', '.join(keys)} changes with {AXES.get(x, x)}." for x, keys in along if keys)
    return [*([f"Settings: {', '.join(said)}."] if said else []), *moves]


def _in_words(setting: str) -> str:
    """A setting, KEY=VALUE and perhaps whose it is, with display names."""
    found = re.sub(r"\blam\b", "λ", re.sub(r"\b(?:algo|dataset)\.", "", setting))
    found = found.replace("=", " = ").replace("  ", ", ")
    return re.sub(r" of (.+)$", lambda whose: f" for {', '.join(map(algorithm, whose[1].split(', ')))}", found)


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


def save(figure: Figure, base: Path) -> list[Path]:
    """Write a figure as `base`.png and `base`.svg; the same figure gives the same bytes."""
    paths = [base.with_name(f"{base.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        save_as(figure, path)
    return paths


def save_for_paper(figure: Figure, path: Path) -> None:
    """Write the figure of `paper_figure`, with 300 dots per inch if it has dots."""
    save_as(figure, path, 300)


def save_as(figure: Figure, path: Path, dpi: float | None = None) -> None:
    """Write a figure in the format of the path's suffix, .pdf, .png or .svg; the same figure gives the same bytes."""
    with in_style(STYLE):
        _settle(figure)
    picture, kind = io.BytesIO(), path.suffix[1:]
    # no date and no version in the file: the same rows give the same bytes
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "Producer": None}}
    with in_style(STYLE):
        figure.savefig(picture, format=kind, metadata=metadata[kind], dpi=dpi or "figure")
    content = picture.getvalue()
    if kind == "svg":
        # coordinates need only a hundredth of a point; scales are not rounded
        content = re.sub(rb' (?:d|x|y)="[^"]*"', lambda match: _rounded(match[0]), content)
        content = re.sub(rb"\n\s+", b"\n", content)
    write_atomically(path, content)


def _settle(figure: Figure) -> None:
    """Round where the layout has put the axes: the last bits that its solver gives differ from run to run."""
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for axes in figure.axes:
            axes.set_position(Bbox(np.round(axes.get_position().get_points(), 5)))


def _rounded(content: bytes) -> bytes:
    return b" ".join(re.sub(rb"(\.\d\d)\d+", rb"\1", content).split(b"\n"))
