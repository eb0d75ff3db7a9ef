"""Figures, drawn from rows only, in one house style: layout, legends, footers, files."""

import io
import re
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

from dpml.atomic import write_atomically
from dpml.errors import UserError, nearest
from dpml.reporting.charts import run_charts
from dpml.reporting.curves import Curve, algorithms, constant, label, moving, named, of_some, same_axis
from dpml.reporting.numerals import SIGNED
from dpml.reporting.panels import Chart, Polyline, draw, is_zero
from dpml.reporting.scales import Scale, joined
from dpml.reporting.statistics import replication, summarise
from dpml.reporting.style import (
    FLOORS,
    LABELS,
    METRICS,
    NAMES,
    PAPER,
    REFERENCES,
    STYLE,
    ZERO,
    Look,
    base_look,
    in_style,
    looks,
)
from dpml.reporting.tables import short

_BANDS = {"interval": "95 % intervals of the mean over", "sd": "one s.d. either way of the mean over"}


def plot(rows: pd.DataFrame, folder: Path, command: str) -> list[Path]:
    """Draw the main metrics against what varies, a panel each, a curve per setting; write figure.png and figure.svg.

    Args:
        rows: the table that a run or a sweep wrote.
        folder: the folder of the two files.
        command: the command that the footer names.
    """
    charts = run_charts(summarise(rows), None, None)
    with in_style(STYLE):
        figure = Figure(figsize=(3.9 * len(charts) + 2.4, 3.7), layout="constrained")
        panels = figure.subplots(1, len(charts), squeeze=False)[0]
        whole = _draw_all(panels, charts, len(charts))
        entries = _legend(whole, charts)
        figure.legend(entries.values(), entries.keys(), loc="outside right center")
        heading = textwrap.fill(_settings(charts, whole.drawn), int(14 * figure.get_figwidth()))
        figure.suptitle(heading, fontsize=9, x=0.01, ha="left")
        _place_footer(figure, [command, *_footer(charts, whole)])
        return save(figure, folder / "figure")


def plot_experiment(charts: Sequence[Chart], title: str, columns: int, base: Path) -> list[Path]:
    """Draw the panels of an experiment in one figure, `columns` in a row; write ``base.png`` and ``base.svg``."""
    with in_style(STYLE):
        return save(experiment_figure(charts, title, columns), base)


def experiment_figure(charts: Sequence[Chart], title: str, columns: int) -> Figure:
    """The figure that `plot_experiment` writes."""
    columns = min(columns, len(charts))
    lines = -(-len(charts) // columns)
    with in_style(STYLE):
        # a single panel needs room for the title and the legend
        size = ((3.5 if columns < 4 else 3.1) * columns + 0.3, 2.75 * lines + 1.1) if columns > 1 else (7.4, 4.6)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        whole = _draw_all(panels, charts, columns)
        for axes, chart in zip(panels, charts, strict=False):
            axes.set_title(chart.panel.title, fontsize=9, loc="left")
        for axes in panels[len(charts) :]:
            axes.set_axis_off()
        heading = textwrap.fill(title, int(12.5 * figure.get_figwidth()))
        _place_title(figure, heading, _renamed(_legend(whole, charts), whole, charts, {}), 6 if columns == 1 else 8)
        said = _settings(charts, whole.drawn, "everywhere: ")
        _place_footer(figure, [*_footer(charts, whole), *([said] if said else [])])
    return figure


def paper_figure(charts: Sequence[Chart], width: float, names: Mapping[str, str]) -> tuple[Figure, str]:
    """A figure to be put into a paper as it is, and what its caption should say.

    It has no title and no command, the legend is below, and no text is smaller than 6 pt.

    Args:
        charts: its panels.
        width: of the figure in inches.
        names: what to write for algorithms, for entries of the legend, and for settings and metrics on axes.

    Raises:
        UserError: nothing of that name is shown.
    """
    across = min(len(charts), max(1, int(width / 2.1)))
    lines = -(-len(charts) // across)
    with in_style(PAPER):
        figure = Figure(figsize=(width, 1.0), layout="constrained")
        panels = figure.subplots(lines, across, squeeze=False).ravel()
        whole = _draw_all(panels, charts, across)
        entries = _renamed(_legend(whole, charts), whole, charts, names)
        for axes, chart in zip(panels, charts, strict=False):
            axes.set_title(textwrap.fill(chart.panel.title, int(18 * width / across)), loc="left")
            axes.set_xlabel(names.get(chart.panel.x, axes.get_xlabel()))
            axes.set_ylabel(names.get(chart.panel.y, axes.get_ylabel()) if axes.get_ylabel() else "")
        for axes in panels[len(charts) :]:
            axes.set_axis_off()
        fit = max(1, int(width / (0.45 + 0.055 * max(map(len, entries), default=1))))
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=fit)
        titled = any(chart.panel.title for chart in charts)
        figure.set_figheight(lines * (0.68 * min(width / across, 3.5) + 0.2 * titled) + 0.14 * -(-len(entries) // fit))
    said = [*_footer(charts, whole), _settings(charts, whole.drawn)]
    return figure, ". ".join(filter(None, said))


def _renamed(
    entries: Mapping[str, Any], whole: "_Figure", charts: Sequence[Chart], names: Mapping[str, str]
) -> dict[str, Any]:
    """The legend with the usual names of algorithms, or the user's; UserError if one of these names nothing shown."""
    algos = {line.label: line.algo for each in whole.drawn for line in each.lines}
    shown = {*entries, *algos.values(), *(name for chart in charts for name in (chart.panel.x, chart.panel.y))}
    for name in names:
        if name not in shown:
            raise UserError(f"--labels: the figure shows no {name!r}: {nearest(name, shown)}")

    usual = {**NAMES, **names}

    def renamed(label: str) -> str:
        algo = algos.get(label) or re.split(r"[ ,]", label)[0]
        own = label.replace(algo, usual.get(algo, algo), 1) if label.startswith(algo) else usual.get(algo, label)
        return names.get(label, own.replace(" algo.", " "))

    return {renamed(label): handle for label, handle in entries.items()}


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
        if number % columns and charts[number - 1].panel.y == chart.panel.y:
            axes.set_ylabel("")
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
    labels = {algo: sorted(own, key=lambda name: (own[name], name)) for algo, own in by_algorithm.items()}
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
    """One entry per curve of the whole figure, in the order of the curves of the first panel that has it."""
    lines = {line.label: line for each in figure.drawn for line in each.lines}
    entries: dict[str, Any] = {}
    thin = {algo for chart in charts for algo in chart.panel.thin}
    # thin curves and floors always come last
    for name in sorted(lines, key=lambda name: (lines[name].algo in FLOORS, lines[name].algo in thin)):
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
    return Line2D([], [], ls="", marker=marker or "d", markerfacecolor="none", markeredgecolor=colour, markersize=7)


def _place_title(figure: Figure, heading: str, entries: Mapping[str, Any], most: int) -> None:
    """The title and, below it, the legend, in reading order line by line."""
    names = list(entries)
    across = min(_legend_columns(names, figure.get_figwidth(), most), len(names)) or 1
    # the layout keeps the lines below the title free for the legend
    blank = "\n" * (1 + -(-len(names) // across))
    figure.suptitle(f"{heading}{blank}", fontsize=11, x=0.01, ha="left")
    below = 1 - 0.27 * (1 + heading.count("\n")) / figure.get_figheight()
    down = [name for column in range(across) for name in names[column::across]]  # a legend is filled column by column
    handles = [entries[name] for name in down]
    figure.legend(handles, down, loc="upper left", bbox_to_anchor=(0, below), ncols=across, fontsize=9)


def _legend_columns(labels: Sequence[str], width: float, most: int) -> int:
    """How many entries fit side by side in a figure of `width` inches: `most`, or fewer if they are too long."""
    widths = [0.75 + 0.075 * len(label) for label in labels]  # inches, a little more than needed
    return most if sum(widths) <= width else min(most, max(1, int(width / max(widths))))


def _footer(charts: Sequence[Chart], figure: _Figure) -> list[str]:
    """The calibration, what the bands are, and the largest excess of a proven eps over the claimed one."""
    summary = pd.concat([chart.summary for chart in charts], ignore_index=True)
    private = summary[np.isfinite(summary["claimed_eps"]) & summary["proven_eps"].notna()]
    if summary["count"].max() == 1 and not len(private):  # formulas
        return []
    calibration = ", ".join(map(str, private["calibration"].unique()))
    facts = [f"calibration: {calibration}"] if calibration else []
    facts += [_about_bands(charts), *_about_axes(charts, figure.drawn)]
    if len(private):
        facts.append(_largest_excess(private))
    return ["; ".join(facts)]


def _about_bands(charts: Sequence[Chart]) -> str:
    """What the bands are; of several kinds, in which panels each is."""
    kinds: dict[str, list[Chart]] = {}
    for chart in charts:
        kinds.setdefault(_BANDS.get(chart.panel.band, ""), []).append(chart)
    kinds.pop("", None)
    said = []
    for kind, own in kinds.items():
        where = f" ({', '.join(chart.panel.title or chart.panel.y for chart in own)})" if len(kinds) > 1 else ""
        said.append(f"{kind} {replication(pd.concat([chart.summary for chart in own]))}{where}")
    return f"bands: {', '.join(said)}" if said else "no bands"


def _about_axes(charts: Sequence[Chart], drawn: Sequence[_Plot]) -> list[str]:
    """How bands are drawn on log axes, and what the axes do not show."""
    pairs = list(zip(charts, drawn, strict=True))
    log = [chart.panel for chart, each in pairs if each.log and any(line.banded for line in each.lines)]
    facts = ["on log axes they are of its logarithm, mean × exp(± half width / mean)"] if log else []
    if any(panel.y in SIGNED for panel in log):
        facts[0] += ", and none where its sign is not known"
    if any(each.beyond for each in drawn):
        facts.append("arrows at an end of an axis: beyond it")
    return [*facts, *_absent(charts, drawn)]


def _absent(charts: Sequence[Chart], drawn: Sequence[_Plot]) -> list[str]:
    """What has no place on an axis, and so no point."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for chart, each in zip(charts, drawn, strict=True):
        rows, x, y = chart.summary, chart.panel.x, chart.panel.y
        nan = rows["mean"].isna() & (rows.get("missing", 0) > 0)
        for why, axis, algos in (
            ("0 to machine precision, and so on no log axis", y, each.zeros),
            ("no point where values are NaN", y, rows.loc[nan, "algo"]),
            ("∞ has no place on the axis", x, rows.loc[rows[x] == np.inf, "algo"]),
        ):
            found.setdefault((why, METRICS.get(axis, LABELS.get(axis, axis))), {}).update(dict.fromkeys(algos))
    facts: dict[str, list[str]] = {}
    for (why, axis), names in found.items():
        if names:
            facts.setdefault(why, []).append(f"{axis} of {', '.join(names)}")
    return [f"{why}: {'; '.join(parts)}" for why, parts in facts.items()]


def _settings(charts: Sequence[Chart], drawn: Sequence[_Plot], everywhere: str = "") -> str:
    """The settings with one value in the figure, `everywhere` or of some curves, and those that go with an axis."""
    summary = pd.concat([chart.summary for chart in charts], ignore_index=True)
    axes = [x for chart in charts for x in same_axis(chart.panel.x)]
    along = [(chart.panel.x, moving(each.curves, chart.panel.x)) for chart, each in zip(charts, drawn, strict=True)]
    moves = dict.fromkeys(f"{', '.join(keys)} as given by {x}" for x, keys in along if keys)
    same = constant(summary, axes)
    return "; ".join([*([f"{everywhere}{same}"] if same else []), *of_some(summary, axes), *moves])


def _place_footer(figure: Figure, lines: Sequence[str]) -> None:
    footer = "\n".join(textwrap.fill(line, int(17 * figure.get_figwidth())) for line in lines)
    figure.supxlabel(footer, fontsize=7, color="#555555", x=0.01, ha="left")


def _largest_excess(private: pd.DataFrame) -> str:
    open_ = private[private["not_proven"].notna()]
    if len(open_):
        return f"no ε is proven for {', '.join(algorithms(open_))}: {'; '.join(open_['not_proven'].unique())}"
    worst = private.iloc[int((private["proven_eps"] / private["claimed_eps"]).to_numpy().argmax())]
    variant = "" if worst["variant"] == "paper" else f" {worst['variant']}"
    eps = short(worst["proven_eps"], up=True)
    return (
        f"largest proven / claimed ε: {short(worst['proven_eps'] / worst['claimed_eps'])} ({worst['algo']}{variant}: "
        f"ε = {eps} proven at {worst['claimed_eps']:g} claimed, {worst['proven_view']} view)"
    )


def save(figure: Figure, base: Path) -> list[Path]:
    """Write a figure as `base`.png and `base`.svg; the same figure gives the same bytes."""
    paths = [base.with_name(f"{base.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        save_as(figure, path)
    return paths


def save_for_paper(figure: Figure, path: Path) -> None:
    """Write the figure of `paper_figure`, with 300 dots per inch if it has dots."""
    with in_style(PAPER):
        save_as(figure, path, 300)


def save_as(figure: Figure, path: Path, dpi: float | None = None) -> None:
    """Write a figure in the format of the path's suffix, .pdf, .png or .svg; the same figure gives the same bytes."""
    _settle(figure)
    picture, kind = io.BytesIO(), path.suffix[1:]
    # no date and no version in the file: the same rows give the same bytes
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "Producer": None}}
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
