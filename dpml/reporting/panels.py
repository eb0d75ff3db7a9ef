"""One panel of a figure: its curves with their bands, the published points over them, and its axes."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from dpml.reporting.labels import Curve, curves, text
from dpml.reporting.style import LABELS, LINEAR, METRICS, SIGNED, ZERO, Look, base_look
from dpml.running.rows import EPS
from dpml.running.spec import Panel

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Chart:
    """One panel of a paper's figure: the summary rows to draw, how, and the published points (x, algo, mean) on top."""

    panel: Panel
    summary: pd.DataFrame
    published: pd.DataFrame | None = None

    def curves(self) -> list[Curve]:
        """Its curves, without those that have no place on the x axis (a proven eps of infinity)."""
        found = curves(self.summary, self.panel.x, self.panel.curve)
        return [curve for curve in found if _on_axis(curve.rows[self.panel.x])]

    @property
    def sizes(self) -> pd.Series:
        """The means as they are drawn, and the published ones."""
        means = [self.summary["mean"]] + ([] if self.published is None else [self.published["mean"]])
        values = pd.concat(means, ignore_index=True)
        return values.abs() if self.panel.y in SIGNED else values

    @property
    def wants_log(self) -> bool:
        """Whether the file asks for a log scale, or leaves it open and the means span enough to deserve one."""
        if self.panel.yscale != "auto" or self.panel.y in LINEAR:
            return self.panel.yscale == "log"
        values = self.sizes
        positive = values[values > ZERO]
        return len(positive) > 0 and not (values < -ZERO).any() and bool(positive.max() >= 5 * positive.min())


def _on_axis(places: pd.Series) -> bool:
    return not is_numeric_dtype(places) or bool(np.isfinite(places).any())


def with_axis(summary: pd.DataFrame, x: str) -> pd.DataFrame:
    """A summary with the column that an axis needs: ``inverse_eps`` is 1/eps, 0 where there is no noise."""
    return summary.assign(inverse_eps=1 / summary["eps"]) if x == "inverse_eps" else summary


@dataclass(frozen=True)
class _Line:
    """A curve as numbers: places, means, and the ends of its band (NaN where it has none)."""

    label: str
    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def draw(axes: Axes, chart: Chart, labelled: Sequence[tuple[str, Curve]], looks: Mapping[str, Look], log: bool) -> bool:
    """Draw a chart's curves under their labels, in the order of their right ends.

    Returns:
        Whether the band of a curve was cut off at the lower end of a log axis.
    """
    what = chart.panel
    names = _names(chart.summary[what.x])
    lines = [_line(label, curve.rows, what, names) for label, curve in labelled]
    lines.sort(key=lambda line: -_right_end(line))
    log = _y_axis(axes, chart) if log else False
    floor = axes.get_ylim()[0] if log else -np.inf
    height = _height(lines, axes.get_ylim() if log else None)
    pale = False
    for number, line in enumerate(lines):
        look = looks[line.label]
        over, under = (
            sum(_same(other, line, height, log) for other in some) for some in (lines[number + 1 :], lines[:number])
        )
        every = max(1, len(line.x) // 8) if len(line.x) > 12 else 1  # so that the dashes of a fine curve can be seen
        axes.plot(
            line.x,
            line.mean,
            linestyle=look.dashes,
            color=look.colour,
            marker=look.marker,
            label=line.label,
            # what lies under other curves is seen beside them, for it is wider, and has the markers that they leave out
            linewidth=mpl.rcParams["lines.linewidth"] + 2 * over,
            markevery=(every * under, every * (1 + over + under)),
        )
        # many bands on one another still let the curves be seen
        pale |= _band(axes, line, look.colour, floor, min(0.18, 0.8 / len(lines)))
    if chart.published is not None:
        _draw_published(axes, chart.published, what.y)
    _x_axis(axes, chart.summary[what.x], what, names)
    axes.set_xlabel(_x_label(chart, log))
    name = what.y.rpartition(".")[2]  # a metric of one's own is asked for as module.name
    axes.set_ylabel(METRICS.get(name, name))
    return pale


def _names(places: pd.Series) -> list[str]:
    """The places of an axis that has words on it, in their order; none where it has numbers."""
    return [] if is_numeric_dtype(places) else list(dict.fromkeys(map(text, places)))


def _line(label: str, rows: pd.DataFrame, panel: Panel, names: Sequence[str]) -> _Line:
    places = rows[panel.x].map(lambda value: names.index(text(value))) if names else rows[panel.x]
    rows = rows.assign(**{panel.x: places.astype(float)}).sort_values(panel.x)
    mean = rows["mean"].abs() if panel.y in SIGNED else rows["mean"]
    half = rows["std" if panel.band == "sd" else "interval"] * (np.nan if panel.band == "none" else 1.0)
    # an eps of 0 has no place on a log axis, and a line to it would look like one
    shown = mean.where(mean > 0) if panel.y in EPS else mean
    return _Line(label, *(column.to_numpy(float) for column in (rows[panel.x], shown, mean - half, mean + half)))


def _right_end(line: _Line) -> float:
    known = line.mean[np.isfinite(line.mean)]
    return float(known[-1]) if len(known) else np.inf


def _height(lines: Sequence[_Line], limits: tuple[float, float] | None) -> float:
    """The height of a panel, between the `limits` of its log axis in logarithms, otherwise over all means."""
    if limits:
        return float(np.log(limits[1] / limits[0]))
    means = np.concatenate([line.mean[np.isfinite(line.mean)] for line in lines]) if lines else np.empty(0)
    return float(np.ptp(means)) if len(means) else 0.0


def _same(one: _Line, other: _Line, height: float, log: bool) -> bool:
    """Whether two curves are the same to the eye, less than a hundredth of the panel apart wherever both are."""
    _, here, there = np.intersect1d(one.x, other.x, return_indices=True)
    a, b = one.mean[here], other.mean[there]
    known = np.isfinite(a) & np.isfinite(b) & (not log or (a > 0) & (b > 0))
    if known.sum() < 2:
        return False
    gaps = np.log(a[known] / b[known]) if log else a[known] - b[known]
    return bool((np.abs(gaps) <= 0.01 * height).all())


def _band(axes: Axes, line: _Line, colour: str, floor: float, alpha: float) -> bool:
    """A curve's band; pale where it goes on below the axis, for there its height says nothing. Whether it did."""
    if not np.isfinite(line.low).any() or (line.high <= line.low).all():
        return False
    inside = ~(line.low < floor)
    axes.fill_between(line.x, line.low, line.high, where=inside, color=colour, alpha=alpha, linewidth=0)
    if inside.all():
        return False
    below = ~inside
    below[:-1] |= ~inside[1:]  # the pieces on either side of a point belong to it
    below[1:] |= ~inside[:-1]
    low = np.maximum(line.low, floor)
    axes.fill_between(line.x, low, line.high, where=below, color=colour, alpha=0.4 * alpha, linewidth=0)
    return True


def _draw_published(axes: Axes, points: pd.DataFrame, metric: str) -> None:
    """The numbers that the paper's authors report, as hollow markers."""
    for algo, line in points.groupby("algo", sort=True):
        colour, marker = base_look(str(algo))
        line = line[line["mean"].abs() > ZERO]
        mean = line["mean"].abs() if metric in SIGNED else line["mean"]
        # no line through them: they are points, and only points were published
        (drawn,) = axes.plot(line["x"], mean, linestyle="none", marker=marker or "d", color=colour, zorder=3)
        drawn.set(markerfacecolor="none", markersize=7.5)


def _y_axis(axes: Axes, chart: Chart) -> bool:
    """A log scale that holds our means and the published points; False where there is nothing to put on it.

    Curves that are nothing but rounding errors would stretch it until all others were flat: they are left out.
    """
    values = chart.sizes
    positive = values[(values > ZERO) & np.isfinite(values)]
    if not len(positive):
        return False
    axes.set_yscale("log")
    axes.set_ylim(positive.min() / 1.8, positive.max() * 1.8)
    _log_ticks(axes.yaxis)
    return True


def _x_label(chart: Chart, log: bool) -> str:
    """What the x axis shows, and below it which curves a log axis has no place for."""
    lines = [LABELS.get(chart.panel.x, chart.panel.x)]
    zeros = [str(algo) for algo, rows in chart.summary.groupby("algo") if rows["mean"].abs().max() <= ZERO]
    if zeros and log:
        lines.append(f"({', '.join(zeros)}: 0 to machine precision)")
    return "\n".join(lines)


def _x_axis(axes: Axes, values: pd.Series, panel: Panel, names: Sequence[str]) -> None:
    if names:
        axes.set_xticks(range(len(names)), [textwrap.fill(name.replace("/", " "), 14) for name in names], fontsize=7)
        axes.margins(x=0.2)
        return
    # an eps of 0 has no place on a log axis, and one of infinity on none
    values = values[np.isfinite(values) & ((values > 0) | (panel.x != "proven_eps"))]
    least, most = values.min(), values.max()
    wide = least > 0 and most >= 5 * least
    zero_first = least == 0 and most >= 5 * values[values > 0].min()
    auto = panel.xscale == "auto"
    if panel.xscale == "symlog" or (auto and (zero_first or (panel.x == "inverse_eps" and least == 0 < most))):
        _log_with_zero(axes, values)
    elif panel.xscale == "log" or (auto and wide):
        axes.set_xscale("log")
        _log_ticks(axes.xaxis)
    elif panel.x == "M" and values.nunique() <= 5:
        axes.set_xticks(sorted(values.unique()))


def _log_with_zero(axes: Axes, values: pd.Series) -> None:
    """A log axis with a place for 0, half a decade to the left of the smallest positive value."""
    least = values[values > 0].min()
    axes.set_xscale("symlog", linthresh=least, linscale=0.45)
    powers = 10.0 ** np.arange(np.ceil(np.log10(least) - 1e-9), np.floor(np.log10(values.max()) + 1e-9) + 1)
    axes.set_xticks([0.0, *powers], ["0", *(f"{power:g}" for power in powers)])
    axes.xaxis.set_minor_locator(NullLocator())


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
