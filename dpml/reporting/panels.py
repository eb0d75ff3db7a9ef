"""Draw one panel of a figure: curves and bands, published points, and axes with scales, limits and ticks."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from pandas.api.types import is_numeric_dtype

from dpml.reporting.criteria import is_share
from dpml.reporting.criteria import scale as criterion
from dpml.reporting.curves import Curve, curves, label, text
from dpml.reporting.numerals import SIGNED, ZERO, plain, scientific
from dpml.reporting.style import FLOORS, THIN, Look, base_look
from dpml.reporting.words import REFERENCES
from dpml.running.rows import EPS
from dpml.running.spec import Panel

PEER = "best other program"
"""The best program of others at each x, in place of a marker for every program."""


@dataclass(frozen=True)
class Chart:
    """One panel of a figure: its settings, its rows' summary, and the points of its paper and of other programs."""

    panel: Panel
    summary: pd.DataFrame
    published: pd.DataFrame | None = None

    @cached_property
    def curves(self) -> list[Curve]:
        """The panel's curves, except curves whose values on the x axis (such as a proven eps) are all infinite."""
        found = curves(self.summary, self.panel.x, self.panel.curve)
        return [curve for curve in found if self.names or np.isfinite(curve.rows[self.panel.x]).any()]

    @property
    def names(self) -> list[str]:
        """The words on the x axis in order, or an empty list if the x axis has numbers."""
        places = self.summary[self.panel.x]
        return [] if is_numeric_dtype(places) else list(dict.fromkeys(map(text, places)))

    @cached_property
    def wants_log(self) -> bool:
        """Whether the y axis is logarithmic: the experiment's file says so, or the means span a factor of five."""
        panel, tables = self.panel, [table for table in (self.summary, self.published) if table is not None]
        own = [table.loc[~table["algo"].isin(REFERENCES), "mean"] for table in tables]  # references may be far away
        means = _as_drawn(pd.concat(own), panel.y)
        positive = means[means > ZERO]
        if panel.yscale != "auto" or is_share(panel.y):
            return panel.yscale == "log" and len(positive) > 0
        return not (means < -ZERO).any() and bool(positive.max() >= 5 * positive.min())

    def lines(self, keys: Mapping[str, Sequence[str]], log: bool) -> pd.DataFrame:
        """Return a table of the panel's points: kind, curve, label, algorithm, x, mean, and the limits of the band.

        The kind is curve, thin (`Panel.thin`), floor (the constant baseline), zero (a curve of rounding errors, which
        has no position on a log axis), or published (a point of the paper or, at each x, of the best other program).
        """
        panel, half = self.panel, "std" if self.panel.band == "sd" else "interval"
        columns = list(dict.fromkeys([panel.x, "algo", "mean", half]))
        parts = [
            curve.rows[columns].assign(curve=number, label=label(curve, keys))
            for number, curve in enumerate(self.curves)
        ]
        table = pd.concat([self.summary.iloc[:0][columns].assign(curve=0, label=""), *parts], ignore_index=True)
        names = self.names
        table["x"] = table[panel.x].map(lambda value: names.index(text(value)) if names else value).astype(float)
        # a proven eps of 0 has no position on a log axis
        table = table[np.isfinite(table["x"]) & ((table["x"] > 0) | (panel.x != "proven_eps"))]
        thin, floor = table["algo"].isin(panel.thin), table["algo"].isin(FLOORS)
        mean = _as_drawn(table["mean"].astype(float), panel.y)
        low, high = _band(mean, table[half].mask(thin | floor | (panel.band == "none")), log, panel.y in SIGNED)
        if is_share(panel.y):
            # shares lie in [0, 1], so cutting an interval there does not change how often it covers the mean
            low, high = low.clip(0, 1), high.clip(0, 1)
        if panel.y in EPS:  # an eps of 0 has no position on a log y axis either
            mean = mean.where(mean > 0)
        zero = log & ~(mean > ZERO).groupby(table["curve"]).transform("any").astype(bool)
        kind = np.select([zero, thin, floor], ["zero", "thin", "floor"], "curve")
        table = table.assign(kind=kind, mean=mean, low=low, high=high).sort_values(["curve", "x"])
        if self.published is None:
            return table
        points = self.published.assign(mean=_as_drawn(self.published["mean"], panel.y), kind="published")
        points = points[points["mean"].abs() > ZERO]
        peers = points[points["peer"] & ~points["algo"].str.contains("not private")].groupby("x")["mean"]
        best = peers.idxmax() if criterion(panel.y).up else peers.idxmin()
        return pd.concat([table, points[~points["peer"]], points.loc[best].assign(algo=PEER)])

    def draw(self, axes: Axes, lines: pd.DataFrame, looks: Mapping[str, Look], log: bool) -> None:
        """Draw the curves, bands and published points of the table `lines`, and set scales and ticks of the axes."""
        shown = lines[lines["kind"].isin(("curve", "thin", "floor"))]
        curves = [line for _, line in shown.groupby("curve", sort=False)]
        for number, line in enumerate(curves):
            name, x, mean = line["label"].iloc[0], line["x"], line["mean"]
            look = THIN if line["kind"].iloc[0] == "thin" else looks[name]
            every = max(1, len(line) // 8) if len(line) > 12 else 1  # few markers keep the dashes visible
            style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linewidth": look.width}
            axes.plot(x, mean, ls=look.dashes, label=name, markevery=every, zorder=1 + look.width, **style)
            if look.dashes == "-":  # shifted dashes on top make coinciding curves visible
                dashes = (-5 * number, (5, 5 * len(curves) - 5))
                axes.plot(x, mean, ls=dashes, markevery=(every * number, every * len(curves)), zorder=2.5, **style)
            if (line["high"] > line["low"]).any():
                # with many bands, each is fainter, so that the curves stay visible
                alpha = min(0.18, 0.8 / len(curves))
                axes.fill_between(x, line["low"], line["high"], color=look.colour, alpha=alpha, linewidth=0)
        for algo, points in lines[lines["kind"] == "published"].groupby("algo"):
            colour, marker = base_look(str(algo))
            x, y = points["x"].astype(float), points["mean"]  # no line through them: only points were published
            axes.plot(x, y, ls="", marker=marker or "d", color=colour, mfc="none", markersize=4.8, zorder=3)
        _x_axis(axes, lines["x"], self.panel.xscale, self.names)
        _y_axis(axes, lines, self.panel, log)


def _as_drawn(mean: pd.Series, metric: str) -> pd.Series:
    return mean.abs() if metric in SIGNED else mean


def with_axis(summary: pd.DataFrame, x: str) -> pd.DataFrame:
    """Add the column ``inverse_eps`` to a summary if the x axis needs it; this column is 1/eps, or 0 without noise."""
    return summary.assign(inverse_eps=1 / summary["eps"]) if x == "inverse_eps" else summary


def _band(mean: pd.Series, half: pd.Series, log: bool, signed: bool) -> tuple[pd.Series, pd.Series]:
    """Return a band's limits: ``mean ± half`` on a linear axis, or ``mean * exp(± half / mean)`` on a logarithmic axis.

    The second, the delta method, gives absolute values no band where ``mean ± half`` contains 0: the sign is unknown.
    """
    if not log:
        return mean - half, mean + half
    width = (half / mean).clip(upper=50).where((mean > 0) & ~(signed & (half >= mean)))
    return mean * np.exp(-width), mean * np.exp(width)


def _y_axis(axes: Axes, points: pd.DataFrame, panel: Panel, log: bool) -> None:
    """Set the scale, the limits and the ticks of a panel's y axis.

    The axis covers all means (thin curves only without other curves), and those ends of bands and constant baselines
    that are at most the means' height away or, if larger, a factor of three (log axis) or a usual band (linear).
    """
    kind, places = points["kind"], points[["mean", "low", "high"]].astype(float)
    # rounding errors alone would stretch a log axis until all curves were flat
    places = places.where(np.isfinite(places) & ((places > ZERO) | (not log)))
    places = places.apply(np.log) if log else places
    own = places[kind.isin(("curve" if (kind == "curve").any() else "thin", "published"))]
    means, others = own["mean"].dropna(), pd.concat([own["low"], own["high"], places["mean"][kind == "floor"]]).dropna()
    means = means if len(means) else others if len(others) else pd.Series([0.0])
    low, high = means.min(), means.max()
    reach = np.fmax(high - low, np.log(3) if log else (others - means.median()).abs().median())
    covered = pd.concat([means, others[others.between(low - reach, high + reach)]])
    low, high = covered.min(), covered.max()
    margin = 0.05 * (high - low) or (np.log(1.5) if log else 0.05 * abs(high) or 0.05)
    ends = np.array([low - margin, high + margin])
    axes.set_yscale("log" if log else "linear")
    axes.set_ylim(*(panel.ylim or (np.exp(ends) if log else ends)))
    if log:
        _log_ticks(axes.yaxis, (1, 2, 5), 100)


def share_ends(rows: Sequence[Sequence[Axes]]) -> None:
    """Give the panels of each group the same y axis, unless this would leave a panel mostly empty."""
    for alike in rows:
        ends, log = np.array([axes.get_ylim() for axes in alike]), alike[0].get_yscale() == "log"
        heights = np.ptp(np.log(ends) if log else ends, axis=1)
        if len(alike) > 1 and heights.min() >= np.ptp(np.log(ends) if log else ends) / 3:
            for axes in alike:
                axes.set_ylim(ends.min(), ends.max())
                if log:
                    _log_ticks(axes.yaxis, (1, 2, 5), 100)


def _x_axis(axes: Axes, values: pd.Series, scale: str, names: Sequence[str]) -> None:
    """Set the scale of a panel's x axis, and label the ticks by numbers or by the words `names`."""
    if names:
        axes.set_xticks(range(len(names)), [textwrap.fill(_range(name), 10) for name in names], fontsize=6.5)
        axes.margins(x=0.2)
        return
    low, high, least = values.min(), values.max(), values[values > 0].min()
    if scale == "auto":
        scale = "linear" if low < 0 or not high >= 5 * least else "log" if low > 0 else "symlog"
    if scale == "symlog":  # 0 is half a decade to the left of the smallest positive value
        axes.set_xscale("symlog", linthresh=least, linscale=0.45)
        powers = 10.0 ** np.arange(np.floor(np.log10(high) + 1e-9), np.log10(least) - 1e-9, -1)
        axes.set_xticks(sorted([0.0, *(powers if len(powers) <= 4 else powers[:-1:2])]))  # more labels would overlap
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    elif scale == "log":
        axes.set_xscale("log")
        _log_ticks(axes.xaxis, (1, 3), 30)  # more labels would touch in a narrow panel
    elif (values % 1 == 0).all():
        axes.xaxis.set_major_formatter("{x:,.0f}")
        places = sorted(values.unique())
        axes.xaxis.set_major_locator(FixedLocator(places) if len(places) <= 6 else MaxNLocator(5, integer=True))


def _range(name: str) -> str:
    shares = sorted(set(name.split("/")), key=float) if re.fullmatch(r"[\d.]+(/[\d.]+)+", name) else [name]
    return "–".join(dict.fromkeys((shares[0], shares[-1])))


def _log_ticks(axis: XAxis | YAxis, steps: Sequence[int], most: float) -> None:
    """Set the ticks of a logarithmic axis: powers of ten, and multiples of powers of ten if the axis is short.

    The axis is short if its ends differ by a factor below `most`. With a factor below 5, ticks are as on linear axes.
    """
    low, high = sorted(axis.get_view_interval())
    at_steps = LogLocator(subs=steps) if high >= 5 * low else MaxNLocator(4)
    axis.set_major_locator(LogLocator() if high >= most * low else at_steps)
    axis.set_minor_locator(LogLocator(subs=(1,) if high >= 1000 * low else range(2, 10), numticks=50))
    write = scientific if low < 5e-4 or high > 2e5 else plain
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axis.set_minor_formatter(NullFormatter())
