"""Draw figures from rows in one style, with panels, a legend and a caption, and write them to files."""

import io
import re
import string
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from dpml.files import write_atomically
from dpml.reporting.charts import run_charts
from dpml.reporting.curves import moving, named, same_axis, shared
from dpml.reporting.panels import PEER, Chart, share_ends
from dpml.reporting.statistics import replication, summarise
from dpml.reporting.style import THIN, Look, base_look, in_style, looks
from dpml.reporting.tables import short
from dpml.reporting.words import AXES, REASONS, SYMBOLS, algorithm, metric, place
from dpml.reporting.words import curve as curve_name

WIDTH = 7.0
"""Inches: two columns of a page."""
_BANDS = {"interval": "95 % confidence intervals of the mean", "sd": "the mean plus and minus one standard deviation"}


def plot(rows: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw the main metrics of a run or a sweep against the setting that varies, as figure.png and figure.svg."""
    return plot_experiment(run_charts(summarise(rows), None, None), 3, folder / "figure")[0]


def plot_experiment(charts: Sequence[Chart], columns: int, base: Path) -> tuple[list[Path], str]:
    """Draw an experiment's panels as ``base.png`` and ``base.svg``, and return the files and the caption."""
    figure, caption = figure_of(charts, columns)
    return save(figure, base), caption


def paper_figure(charts: Sequence[Chart], width: float) -> tuple[Figure, str]:
    """Draw panels as a figure with the width of a paper's column. `width` is in inches."""
    least = 2.1 if len(charts) <= 4 else 1.6  # least width in inches; many wide panels would need more than a page
    return figure_of(charts, max(1, int(width / least)), width)


def figure_of(charts: Sequence[Chart], columns: int, width: float = WIDTH) -> tuple[Figure, str]:
    """Draw panels as a figure with one legend, `columns` columns and a width in inches; return figure and caption."""
    columns = min(columns, len(charts))
    rows = -(-len(charts) // columns)
    width = min(width, 4.6) if columns == 1 else width
    points, logs = _points(charts)
    with in_style():
        figure = Figure(figsize=(width, 1.0), layout="constrained")
        panels = [figure.add_subplot(rows, columns, number + 1) for number in range(len(charts))]
        labels = points.dropna(subset="label").groupby("algo", sort=False)["label"].unique()
        # the paper's own variant comes first, as its label has no variant=
        styles = looks({str(algo): sorted(own, key=lambda name: "variant=" in name) for algo, own in labels.items()})
        titles = [_title(number, charts, width / columns) for number in range(len(charts))]
        alike: dict[str, list[Axes]] = {}
        for number, (chart, axes, title) in enumerate(zip(charts, panels, titles, strict=True)):
            x, y = chart.panel.x, chart.panel.y
            chart.draw(axes, points[points["panel"] == number], styles, logs[number])
            axes.set_title(title)
            if not number % columns or charts[number - 1].panel.y != y:
                axes.set_ylabel(textwrap.fill(metric(y), 24))
            if number + columns >= len(charts) or charts[number + columns].panel.x != x:
                axes.set_xlabel(AXES.get(x, SYMBOLS.get(x, x)))
            data = sorted(map(str, chart.summary["dataset"].unique()))
            alike.setdefault(repr([number // columns, x, y, data, axes.get_yscale()]), []).append(axes)
        share_ends([*alike.values()])
        lines = max(title.count("\n") + bool(title) for title in titles)
        height = rows * (0.62 * min(width / columns, 3.2) + 0.25 + 0.13 * lines)
        figure.set_figheight(height + _place_legend(figure, _legend(points, styles)))
    lows, highs = np.array([axes.get_ylim() for axes in panels])[points["panel"]].T
    return figure, " ".join(_caption(charts, points.assign(inside=points["mean"].between(lows, highs))))


def _title(number: int, charts: Sequence[Chart], width: float) -> str:
    letter = f"({string.ascii_lowercase[number]})  " if len(charts) > 1 else ""
    title = f"{letter}{charts[number].panel.title}".replace(" = ", "\u00a0=\u00a0")  # which no line ends with
    return textwrap.fill(title, max(12, int((width - 0.6) / 0.056)), break_long_words=False)


def _points(charts: Sequence[Chart]) -> tuple[pd.DataFrame, list[bool]]:
    """Return the points of all panels, and whether the y axis of each panel is logarithmic."""
    keys: dict[str, list[str]] = {}
    for chart in charts:
        for algo, new in named(chart.curves, chart.panel.curve).items():
            keys[algo] = list(dict.fromkeys([*keys.get(algo, []), *new]))
    either = {chart.panel.y for chart in charts if chart.panel.yscale == "auto" and chart.wants_log}
    logs = [chart.wants_log or (chart.panel.yscale == "auto" and chart.panel.y in either) for chart in charts]
    points = [chart.lines(keys, log) for chart, log in zip(charts, logs, strict=True)]
    return pd.concat([own.assign(panel=number) for number, own in enumerate(points)], ignore_index=True), logs


def _legend(points: pd.DataFrame, styles: Mapping[str, Look]) -> dict[str, Line2D]:
    lines = points[points["kind"].isin(("curve", "floor"))].drop_duplicates("label").set_index("label")["algo"]
    names = sorted((name for name in styles if name in lines), key=lambda name: place(lines[name]))
    entries = {curve_name(name): _entry(styles[name]) for name in names}
    if thin := _named(points, "thin"):
        entries["others" if len(thin) > 1 else thin[0]] = _entry(THIN)
    published = {*points["algo"][points["kind"] == "published"]}
    if published - {PEER}:
        entries["published (hollow)"] = _entry(Look("#555555", "o", ""))
    for algo in sorted(published - {*lines}):  # no curve: not run, or all 0 on a log axis
        entries[algorithm(algo)] = _entry(Look(*base_look(algo), ""))
    return entries


def _named(points: pd.DataFrame, kind: str) -> list[str]:
    return [algorithm(algo) for algo in sorted(points["algo"][points["kind"] == kind].unique(), key=place)]


def _entry(look: Look) -> Line2D:
    points = {"mfc": "none", "markersize": 4.5, "marker": look.marker or "d"} if look.dashes == "" else {}
    return Line2D([], [], **{"color": look.colour, "marker": look.marker, "ls": look.dashes, "lw": look.width} | points)


def _place_legend(figure: Figure, entries: Mapping[str, Line2D]) -> float:
    if not entries:
        return 0.1
    names = list(entries)
    for rows in range(1, len(names) + 1):
        columns = [names[start : start + rows] for start in range(0, len(names), rows)]
        if sum(0.55 + 0.06 * max(map(len, column)) for column in columns) < figure.get_figwidth():
            break
    figure.legend([*entries.values()], names, loc="outside upper left", ncols=len(columns), borderpad=0)
    return 0.15 * rows + 0.1


def _caption(charts: Sequence[Chart], points: pd.DataFrame) -> list[str]:
    summary = pd.concat([chart.summary for chart in charts], ignore_index=True)
    private = summary[np.isfinite(summary["claimed_eps"]) & summary["proven_eps"].notna()]
    if summary["count"].max() == 1 and not len(private):  # formulas
        return []
    said = [_about_bands([chart for chart in charts if chart.panel.band != "none"])]
    if {*_named(points, "published")} - {PEER}:
        said.append("Hollow points are published values.")
    if thin := _named(points, "thin"):
        said.append(f"Grey lines belong to these algorithms: {', '.join(thin)}.")
    said += _absent(charts, points)
    if len(private):
        said.append(_largest_excess(private))
    same = shared(summary, [x for chart in charts for x in same_axis(chart.panel.x)])
    said += [f"Settings: {same}."] if same else []
    along = {chart.panel.x: moving(chart.curves, chart.panel.x) for chart in charts}
    moved = {AXES.get(x, x): ", ".join(keys) for x, keys in along.items() if keys}
    return said + [f"Along the x axis ({x}), the value of {keys} also changes." for x, keys in moved.items()]


def _about_bands(charts: Sequence[Chart]) -> str:
    over = replication(pd.concat([chart.summary for chart in charts])) if charts else "no interval"
    if over == "no interval":
        return "Lines are means. They have no bands."
    kinds = dict.fromkeys(_BANDS[chart.panel.band] for chart in charts)
    return f"Lines are means. Bands are {' or '.join(kinds)} over {over}."


def _absent(charts: Sequence[Chart], points: pd.DataFrame) -> list[str]:
    """Return sentences that name the algorithms that some panels do not show, and say why they have no point there."""
    found: dict[str, dict[str, list[str]]] = {}  # reason -> algorithm -> letters of panels
    for number, chart in enumerate(charts):
        rows, x, y = chart.summary, chart.panel.x, chart.panel.y
        own = points[(points["panel"] == number) & points["curve"].notna()]
        zero = own["kind"] == "zero"
        outside = ~own["inside"].groupby(own["curve"]).transform("any").astype(bool) & ~zero
        for why, algos in (
            (f"the {metric(y)} is 0 to machine precision", own["algo"][zero]),
            (f"values of the {metric(y)} are NaN", rows["algo"][rows["mean"].isna() & (rows.get("missing", 0) > 0)]),
            (f"{AXES.get(x, x)} is infinite", rows["algo"][rows[x] == np.inf]),
            (f"the {metric(y)} is outside the axis", own["algo"][outside]),
        ):
            for algo in algos.unique():
                found.setdefault(why, {}).setdefault(algorithm(algo), []).append(string.ascii_letters[number])
    sentences = []
    for why, gone in found.items():
        names = (name if len(at) == len(charts) else f"{name} (panel {', '.join(at)})" for name, at in gone.items())
        sentences.append(f"Some curves are not shown because {why}: {', '.join(names)}.")
    return sentences


def _largest_excess(private: pd.DataFrame) -> str:
    open_ = private[private["not_proven"].notna()]
    if len(open_):
        names = ", ".join(dict.fromkeys(map(algorithm, open_["algo"])))
        return f"No ε is proven for {names}. Reason: {'; '.join(open_['not_proven'].replace(REASONS).unique())}."
    worst = private.iloc[int((private["proven_eps"] / private["claimed_eps"]).to_numpy().argmax())]
    return (
        f"The ratio of the proven to the claimed ε is largest for {algorithm(worst['algo'])} in the "
        f"{worst['proven_view']} view, with a proven ε of {short(worst['proven_eps'], up=True)} and a claimed ε of "
        f"{worst['claimed_eps']:g}."
    )


def save(figure: Figure, base: Path) -> list[Path]:
    """Write a figure as PNG and SVG."""
    paths = [base.with_name(f"{base.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        save_as(figure, path)
    return paths


def save_as(figure: Figure, path: Path, dpi: float | None = None) -> None:
    """Write a figure as PDF, PNG or SVG, depending on the suffix of the path. Equal figures give identical files."""
    picture, kind = io.BytesIO(), path.suffix[1:]
    # no date and no version in the file: the same rows give the same bytes
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "Producer": None}}
    with in_style():
        engine = figure.get_layout_engine()
        if engine is not None:  # place the axes once; round the places below, as last bits vary between runs
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
