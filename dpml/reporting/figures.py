"""Figures, from rows and only rows, in one house style.

The colours are Okabe and Ito's, told apart by colour-blind readers; markers tell them apart in print. An algorithm has
the same colour and marker in every figure.
"""

import io
import re
import textwrap
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from pandas.api.types import is_numeric_dtype

from dpml.atomic import write_atomically
from dpml.errors import UserError, nearest
from dpml.reporting.statistics import summarise
from dpml.running.spec import Panel

AXES = {"eps": "ε", "inverse_eps": "1/ε", "delta": "δ", "M": "parties M", "N": "training rows N"}
_LABELS = AXES | {
    "tau": "standard deviation of a site's noise τ",
    "share": "share of colluding sites M_C / M",
    "partition": "shares of the parties",
    "u": "rows of a large client / of a small one, u",
    "proven_eps": "ε proven for the worst view",
}
METRICS = {
    "loss": "training loss f(w)",
    "optimality_gap": "optimality gap",
    "accuracy": "test accuracy",
    "bound": "bound on the excess risk",
    "proven_eps": "proven ε",
    "train_accuracy": "training accuracy",
    "path_loss": "training loss, mean over the rounds",
    "error": "test error",
    "rmse": "test RMSE",
    "err_w": "‖w − w*‖ / d",
    "noisy_objective": "|noisy objective|",
    "trimmed": "share of trimmed spectra",
    "digits": "log₁₀(1/δ): more is better",
    "gap_ratio": "gap, published noise / tight",
    "asked_eps": "ε asked for (claimed)",
    "site_bytes": "bytes of a site",
    "aggregator_bytes": "bytes of the aggregator",
}
_SIGNED = ("noisy_objective",)  # often negative: its absolute value is drawn, as the papers do
_LINEAR = ("accuracy", "train_accuracy", "error", "trimmed")
_ZERO = 1e-9  # means below it are what an optimiser or rounding left of zero

# colour, marker; references have no marker, and _DASHED says how they differ
_LOOKS: dict[str, tuple[str, str]] = {
    "nonpriv": ("#000000", ""),
    "fm": ("#0072B2", "s"),
    "capefm": ("#D55E00", "o"),
    "conv": ("#009E73", "^"),
    "local": ("#CC79A7", "v"),
    "dpfm": ("#E69F00", "D"),
    "objpert": ("#56B4E9", "P"),
    "batch": ("#000000", ""),
    "indiv": ("#000000", ""),
    "soft": ("#882255", "*"),
    "avg": ("#44AA99", "X"),
    "vote": ("#999933", "d"),
    "claimed": ("#000000", ""),
    "wddp": ("#CC3311", "o"),
    "jayaraman": ("#0077BB", "h"),
    "wang": ("#228833", "^"),
    "cape": ("#D55E00", "*"),
    "nn_nonpriv": ("#000000", ""),
    "nn_cape": ("#D55E00", "p"),
    "nn_conv": ("#009E73", "<"),
    "gop": ("#332288", ">"),
    "psgd": ("#EE3377", "<"),
    "la": ("#8C510A", "h"),
}
_DASHED = {"nonpriv": "--", "indiv": "--", "nn_nonpriv": "--", "claimed": ":"}
_DASHES = ("-", "--", ":", "-.")
_SHADES = (0.0, -0.6, 0.45, -0.3)  # of an algorithm's first, second, ... curve in a panel
_LINE_KEYS = ("dataset", "partition", "variant", "calibration", "loss", "eps", "delta", "M", "N")
_NAMES = {"eps": "ε", "delta": "δ"}
_SPARE = (("#8C510A", "X"), ("#7F7F7F", "<"), ("#332288", ">"), ("#117733", "h"), ("#AA4499", "p"))

STYLE: Any = {
    "figure.dpi": 120,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.which": "major",
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.titleweight": "medium",
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "svg.hashsalt": "dpml",
    "svg.fonttype": "path",
}


def plot(
    rows: pd.DataFrame, folder: Path, command: str, x: str | None = None, metrics: Sequence[str] | None = None
) -> list[Path]:
    """Draw metrics against `x`, one panel each, a line per algorithm with its 95 % band; write figure.png and .svg.

    Args:
        rows: the table that a run or a sweep wrote.
        folder: where the two files go.
        command: what the footer says made the figure.
        x: eps, delta, M or N; by default the first of them that has more than one value.
        metrics: one panel for each; by default the loss, and accuracy or RMSE where there is one.

    Raises:
        UserError: `x` or a metric is not in the rows.
    """
    x = x or next((axis for axis in AXES if axis in rows and rows[axis].nunique() > 1), "eps")
    if x not in AXES:
        raise UserError(f"unknown axis {x!r}: {nearest(x, AXES)}")
    present = list(rows["metric"].unique())
    metrics = metrics or [name for name in ("loss", "accuracy", "rmse") if name in present]
    for name in metrics:
        if name not in present:
            raise UserError(f"these rows have no metric {name!r}: {nearest(name, present)}")

    summary = with_axis(summarise(rows), x)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.9 * len(metrics) + 1.9, 3.7), layout="constrained")
        panels = figure.subplots(1, len(metrics), squeeze=False)[0]
        for panel, name in zip(panels, metrics, strict=True):
            chart = Chart(Panel("", x, name), summary[summary["metric"] == name])
            _draw(panel, chart.summary, x, name)
            _fit_log(panel, chart)
        handles, labels = panels[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        figure.suptitle(_settings(summary, x), fontsize=9, x=0.01, ha="left")
        footer = _footer(summary, command, f"{summary['count'].max()} draws", 130)
        figure.supxlabel(footer, fontsize=6.5, color="#555555", x=0.01, ha="left")
        return _save(figure, folder / "figure")


@dataclass(frozen=True)
class Chart:
    """One panel of a paper's figure: the summary rows to draw, how, and the published points (x, algo, mean) on top."""

    panel: Panel
    summary: pd.DataFrame
    published: pd.DataFrame | None = None


def with_axis(summary: pd.DataFrame, x: str) -> pd.DataFrame:
    """A summary with the column that an axis needs: ``inverse_eps`` is 1/eps, 0 where there is no noise."""
    return summary.assign(inverse_eps=1 / summary["eps"]) if x == "inverse_eps" else summary


def plot_experiment(charts: Sequence[Chart], title: str, columns: int, command: str, base: Path) -> list[Path]:
    """Draw the panels of an experiment in one figure, `columns` in a row; write ``base.png`` and ``base.svg``."""
    columns = min(columns, len(charts))
    lines = -(-len(charts) // columns)
    with mpl.rc_context(STYLE):
        # one panel alone needs room for the title and the legend
        size, units = ((3.5 * columns + 0.3, 2.75 * lines + 1.1), columns) if columns > 1 else ((6.6, 4.1), 1.75)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        for panel, chart in zip(panels, charts, strict=False):
            what = chart.panel
            _draw(panel, chart.summary, what.x, what.y, what.curve, what.band, what.xscale)
            if chart.published is not None:
                _draw_published(panel, chart.published, what.y)
            panel.set_title(what.title, fontsize=9, loc="left")
            _fit_log(panel, chart)
        for panel in panels[len(charts) :]:
            panel.set_axis_off()
        handles, labels = _legend(list(panels[: len(charts)]), charts)
        across = _legend_columns(labels, figure.get_figwidth(), 6 if columns == 1 else 8)
        # the layout keeps the lines below the title free for the legend
        room = "\n" * (1 + -(-len(labels) // across))
        heading = textwrap.fill(title, int(48 * units))
        figure.suptitle(f"{heading}{room}", fontsize=11, x=0.01, ha="left")
        below = 1 - 0.27 * (1 + len(title) // int(48 * units)) / figure.get_figheight()
        figure.legend(handles, labels, loc="upper left", bbox_to_anchor=(0, below), ncols=across, fontsize=9)
        summary = pd.concat([chart.summary for chart in charts], ignore_index=True)
        runs = f"{summary['count'].max()} runs (seeds and draws)"
        bands = _BANDS[charts[0].panel.band]
        footer = _footer(summary, command, runs, int(50 * units), bands)
        figure.supxlabel(footer, fontsize=7, color="#555555", x=0.01, ha="left")
        return _save(figure, base)


def _save(figure: Figure, base: Path) -> list[Path]:
    paths = [base.with_name(f"{base.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        picture = io.BytesIO()
        # neither date nor version in the file: the same rows give the same bytes
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(picture, format=path.suffix[1:], metadata=metadata)
        content = picture.getvalue()
        if path.suffix == ".svg":
            # a hundredth of a point is enough for paths and places; scales are left alone
            content = re.sub(rb' (?:d|x|y)="[^"]*"', lambda found: _rounded(found[0]), content)
            content = re.sub(rb"\n\s+", b"\n", content)
        write_atomically(path, content)
    return paths


def _rounded(text: bytes) -> bytes:
    return b" ".join(re.sub(rb"(\.\d\d)\d+", rb"\1", text).split(b"\n"))


def _legend(panels: Sequence[Axes], charts: Sequence[Chart]) -> tuple[list[Any], list[str]]:
    """One entry per curve of the whole figure, in the order of the lines of the first panel that has it."""
    found: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if any(chart.published is not None for chart in charts):
        hollow = Line2D([], [], linestyle="", marker="o", markerfacecolor="none", markeredgecolor="#555555")
        found["published (hollow)"] = hollow
    return list(found.values()), list(found)


def _legend_columns(labels: Sequence[str], width: float, most: int) -> int:
    """How many entries stand side by side in a figure of `width` inches: `most`, or fewer where they are too long."""
    widths = [0.6 + 0.075 * len(label) for label in labels]  # inches, a little more than needed
    return most if sum(widths) <= width else min(most, max(1, int(width / max(widths))))


def _draw_published(panel: Axes, points: pd.DataFrame, metric: str) -> None:
    """The numbers that the paper's authors report, as hollow markers."""
    for algo, line in points.groupby("algo", sort=True):
        colour, marker = look(str(algo))
        line = line[line["mean"].abs() > _ZERO]
        mean = line["mean"].abs() if metric in _SIGNED else line["mean"]
        # no line through them: they are points, and only points were published
        panel.plot(
            line["x"],
            mean,
            linestyle="none",
            marker=marker or "d",
            color=colour,
            markerfacecolor="none",
            markersize=7.5,
            zorder=3,
        )


def _fit_log(panel: Axes, chart: Chart) -> None:
    """A log scale that holds our means and the published points, where they span enough to deserve one.

    Curves that are nothing but rounding errors would stretch it until all others were flat: a note says which.
    """
    what = chart.panel
    if what.yscale == "linear" or what.y in _LINEAR:
        return
    values = chart.summary["mean"].abs() if what.y in _SIGNED else chart.summary["mean"]
    if chart.published is not None:
        values = pd.concat([values, chart.published["mean"].abs()])
    positive = values[(values > _ZERO) & np.isfinite(values)]
    if len(positive) and (what.yscale == "log" or positive.max() >= 5 * positive.min()):
        panel.set_yscale("log")
        panel.set_ylim(positive.min() / 1.8, positive.max() * 1.8)
        _log_ticks(panel.yaxis)
    zeros = [algo for algo, line in chart.summary.groupby("algo") if line["mean"].abs().max() <= _ZERO]
    if zeros and panel.get_yscale() == "log":
        text = f"{', '.join(map(str, zeros))}: 0 to machine precision"
        height = 0.03 if chart.published is None else 0.16  # above the points that were published for them
        panel.text(0.02, height, text, transform=panel.transAxes, fontsize=7.5, color="#555555")


def _log_ticks(axis: XAxis | YAxis) -> None:
    """Minor ticks inside every decade; with many decades, at every decade."""
    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(LogLocator(numticks=8))
    axis.set_minor_locator(LogLocator(subs=tuple(range(2, 10)) if high < 1e6 * low else (1.0,), numticks=200))
    # within a decade or so the powers of ten alone would leave the axis without labels
    axis.set_minor_formatter(FuncFormatter(_two_or_five) if high < 30 * low else NullFormatter())


def _two_or_five(value: float, _: int | None) -> str:
    digit, exponent = f"{value:.0e}".split("e")
    return rf"$\mathdefault{{{digit}\times10^{{{int(exponent)}}}}}$" if digit in "25" else ""


def look(algo: str) -> tuple[str, str]:
    """Colour and marker of an algorithm, the same in every figure; one that we do not know gets one of the spares."""
    return _LOOKS.get(algo) or _SPARE[zlib.crc32(algo.encode()) % len(_SPARE)]


def _draw(
    panel: Axes,
    summary: pd.DataFrame,
    x: str,
    metric: str,
    curve: Sequence[str] = ("algo",),
    band: str = "interval",
    xscale: str = "auto",
) -> None:
    """One metric: a line per algorithm and whatever else varies beside x, drawn in the order of their right ends."""
    fixed = ("eps", "delta") if x == "proven_eps" else ()  # these say where on a curve a point is, not on which one
    line_keys = [key for key in _LINE_KEYS if key not in fixed and summary[key].nunique(dropna=False) > 1]
    keys = dict.fromkeys(["algo", *curve, *line_keys])
    varying = [key for key in keys if key not in (*_same_axis(x), "algo")]
    groups = summary.groupby(["algo", *varying], sort=False, dropna=False)
    names = [] if is_numeric_dtype(summary[x]) else list(dict.fromkeys(summary[x]))  # names stand in their order
    placed = [(key, line.assign(**{x: line[x].map(names.index)}) if names else line) for key, line in groups]
    lines: list[tuple[Any, pd.DataFrame]] = [
        (key, line.sort_values(x)) for key, line in placed if np.isfinite(line[x]).any()
    ]
    if metric in _SIGNED:
        lines = [(key, line.assign(mean=line["mean"].abs())) for key, line in lines]
    dashes: Counter[str] = Counter()
    styles, shades = {}, {}
    for key, _ in lines:
        shades[key] = _SHADES[dashes[key[0]] % len(_SHADES)]
        styles[key] = _DASHED.get(key[0]) or _DASHES[dashes[key[0]] % len(_DASHES)]
        dashes[key[0]] += 1
    for key, line in sorted(lines, key=lambda pair: -pair[1]["mean"].iloc[-1]):
        colour, marker = look(key[0])
        colour = _mixed(colour, shades[key])
        told = zip(varying, key[1:], *(other[1:] for other, _ in lines if other[0] == key[0]), strict=True)
        # a setting is named only where it tells an algorithm's own curves apart
        said = [_named(c, v) for c, v, *all_ in told if pd.notna(v) and (c in curve or len(set(all_)) > 1)]
        label = ", ".join([key[0], *said])
        every = None if len(line) <= 12 else len(line) // 8  # so that the dashes of a fine curve can be seen
        # an eps of 0 has no place on a log axis, and a line to it would look like one
        mean = line["mean"].where(line["mean"] > 0) if metric == "proven_eps" else line["mean"]
        panel.plot(line[x], mean, styles[key], color=colour, marker=marker, label=label, markevery=every)
        half = line["interval" if band == "interval" else "std"]
        if band != "none" and half.notna().any():
            panel.fill_between(line[x], line["mean"] - half, line["mean"] + half, color=colour, alpha=0.18, linewidth=0)
    panel.set_xlabel(_LABELS.get(x, x))
    panel.set_ylabel(METRICS.get(metric, metric))
    if names:
        panel.set_xticks(range(len(names)), [textwrap.fill(name.replace("/", " "), 14) for name in names], fontsize=7)
        panel.margins(x=0.2)
    elif xscale == "symlog" or (xscale == "auto" and x == "inverse_eps" and summary[x].min() == 0 < summary[x].max()):
        _log_with_zero(panel, summary[x])
    elif xscale == "log" or (xscale == "auto" and summary[x].max() >= 5 * summary[x].min()):
        panel.set_xscale("log")
        _log_ticks(panel.xaxis)
    elif x == "M" and summary[x].nunique() <= 5:
        panel.set_xticks(sorted(summary[x].unique()))


def _same_axis(x: str) -> tuple[str, ...]:
    """The settings that vary along the axis x."""
    return ("eps", "inverse_eps") if x in ("eps", "inverse_eps") else (x,)


def _log_with_zero(panel: Axes, values: pd.Series) -> None:
    """A log axis with a place for 0, half a decade to the left of the smallest positive value."""
    least = values[values > 0].min()
    panel.set_xscale("symlog", linthresh=least, linscale=0.45)
    powers = 10.0 ** np.arange(np.ceil(np.log10(least) - 1e-9), np.floor(np.log10(values.max()) + 1e-9) + 1)
    panel.set_xticks([0.0, *powers], ["0", *(f"{power:g}" for power in powers)])
    panel.xaxis.set_minor_locator(NullLocator())


def _named(key: str, value: Any) -> str:
    """What a curve's label says about one of its keys; calibrations and keys of one block need no name."""
    plain = key == "calibration" or key not in (*_LINE_KEYS, "d")
    return str(value) if plain else f"{_NAMES.get(key, key)}={value}"


def _mixed(colour: str, shade: float) -> str:
    """A colour made darker (shade < 0) or lighter (> 0); itself at 0."""
    if shade == 0:
        return colour
    target = 1.0 if shade > 0 else 0.0
    red, green, blue = ((1 - abs(shade)) * part + abs(shade) * target for part in mpl.colors.to_rgb(colour))
    return mpl.colors.to_hex((red, green, blue))


def _settings(summary: pd.DataFrame, x: str) -> str:
    """What is the same everywhere in the figure."""
    keys = [key for key in (*_LINE_KEYS, "d") if key not in (*_same_axis(x), "variant")]
    fixed = [key for key in keys if summary[key].nunique(dropna=False) == 1 and pd.notna(summary[key].iloc[0])]
    return "  ".join(f"{_NAMES.get(key, key)}={summary[key].iloc[0]}" for key in fixed)


_BANDS = {"interval": "95 % intervals of the mean over", "sd": "one s.d. either way of the mean over", "none": "none,"}


def _footer(summary: pd.DataFrame, command: str, runs: str, width: int, bands: str = _BANDS["interval"]) -> str:
    """The command, the calibration, what the bands are, and by how much the worst proven eps misses the claimed one."""
    private = summary[np.isfinite(summary["claimed_eps"]) & summary["proven_eps"].notna()]
    if summary["count"].max() == 1 and not len(private):  # formulas
        return textwrap.fill(command, width)
    calibration = ", ".join(private["calibration"].unique())
    lines = [command, f"bands: {bands} {runs}"]
    lines[1] = f"calibration: {calibration}; {lines[1]}" if calibration else lines[1]
    if len(private):
        worst = private.loc[(private["proven_eps"] / private["claimed_eps"]).idxmax()]
        lines[1] += (
            f"; largest proven / claimed ε: {worst['proven_eps'] / worst['claimed_eps']:.3g} ({worst['algo']}"
            f"{'' if worst['variant'] == 'paper' else ' ' + worst['variant']}: "
            f"ε = {worst['proven_eps']:.3g} proven at {worst['claimed_eps']:g} claimed, {worst['proven_view']} view)"
        )
    return "\n".join(textwrap.fill(line, width) for line in lines)
