"""Axes of panels: their scales, ends and ticks."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from dpml.arrays import Array
from dpml.reporting.numerals import superscript
from dpml.reporting.style import DIGITS
from dpml.running.spec import Panel


@dataclass(frozen=True)
class Scale:
    """The y axis of a panel, logarithmic or linear, and its ends."""

    log: bool
    low: float
    high: float

    @property
    def height(self) -> float:
        """From end to end, in logarithms on a log axis."""
        return float(self.place(self.high) - self.place(self.low))

    def place(self, values: Array | float) -> Array:
        """Return the positions of values on the axis, in its own units; NaN if a value has no position."""
        return _place(values, self.log)


def _place(values: Array | float, log: bool) -> Array:
    values = np.asarray(values, dtype=float)
    known = np.where(np.isfinite(values) & ((values > 0) | (not log)), values, np.nan)
    return np.log(known) if log else known


def scale_for(values: Array, ends: Array, floors: Array, log: bool) -> Scale:
    """Return a y axis that covers all means, and as much of the bands and floors as does not flatten the curves.

    Args:
        values: the means and the published points.
        ends: of bands. They extend a log axis by at most half its height, or by a factor of three, at either end, and
            a linear one by at most its height, or by the usual width of a band.
        floors: the means of algorithms that use no feature, which extend it by at most its own height.
        log: whether the axis is logarithmic.
    """
    values, ends, floors = (places[np.isfinite(places)] for places in (_place(v, log) for v in (values, ends, floors)))
    values = values if len(values) else floors if len(floors) else np.zeros(1)
    low, high = values.min(), values.max()
    if len(ends):
        usual = float(np.median(np.abs(ends - np.median(values))))
        reach = max((high - low) / 2, np.log(3.0)) if log else max(high - low, usual)
        low, high = min(low, max(ends.min(), low - reach)), max(high, min(ends.max(), high + reach))
    reach = max(high - low, np.log(3.0) if log else 0.0)
    near = floors[(floors >= low - reach) & (floors <= high + reach)]
    low, high = min([low, *near]), max([high, *near])
    margin = 0.05 * (high - low) or (np.log(1.5) if log else 0.05 * abs(high) or 0.05)
    low, high = low - margin, high + margin
    return Scale(True, float(np.exp(low)), float(np.exp(high))) if log else Scale(False, float(low), float(high))


def joined(scales: Sequence[Scale]) -> Sequence[Scale]:
    """Return one axis for several panels of the same kind, unless a panel would be less than a third filled."""
    whole = Scale(scales[0].log, min(one.low for one in scales), max(one.high for one in scales))
    return scales if min(one.height for one in scales) < whole.height / 3 else [whole] * len(scales)


def y_axis(axes: Axes, scale: Scale, metric: str) -> None:
    """Set the scale of a panel's y axis, its ends and its ticks."""
    if scale.log:
        axes.set_yscale("log")
    axes.set_ylim(scale.low, scale.high)
    if scale.log:
        _log_ticks(axes.yaxis, 100.0)
    elif metric == DIGITS:  # digits of 1/delta are labelled with the delta that they mean, the smallest at the bottom
        axes.invert_yaxis()
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda digits, _: _power(10.0**-digits)))


def x_axis(axes: Axes, values: pd.Series, panel: Panel, names: Sequence[str]) -> None:
    """Set the scale of a panel's x axis and its ticks, which are `names` if the axis has words."""
    if names:
        axes.set_xticks(range(len(names)), [textwrap.fill(_range(name), 10) for name in names], fontsize=6.5)
        axes.margins(x=0.2)
        return
    # eps of 0 and of infinity have no position on a log axis
    values = values[np.isfinite(values) & ((values > 0) | (panel.x != "proven_eps"))]
    least, most = values.min(), values.max()
    zero_first = least == 0 and most >= 5 * values[values > 0].min()
    auto = panel.xscale == "auto"
    if panel.xscale == "symlog" or (auto and (zero_first or (panel.x == "inverse_eps" and least == 0 < most))):
        _log_with_zero(axes, values)
    elif panel.xscale == "log" or (auto and least > 0 and most >= 5 * least):
        axes.set_xscale("log")
        _log_ticks(axes.xaxis, 50.0)
    elif (values % 1 == 0).all():
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        places = sorted(values.unique())
        axes.xaxis.set_major_locator(FixedLocator(places) if len(places) <= 6 else MaxNLocator(5, integer=True))


def _range(name: str) -> str:
    """Return the ends of a list of shares, ``0.1–0.25``; any other name as it is."""
    try:
        shares = [float(share) for share in name.split("/")]
    except ValueError:
        return name
    return "–".join(dict.fromkeys(f"{share:g}" for share in (min(shares), max(shares))))


def _log_with_zero(axes: Axes, values: pd.Series) -> None:
    """Set a log axis with a position for 0, half a decade to the left of the smallest positive value."""
    least = values[values > 0].min()
    axes.set_xscale("symlog", linthresh=least, linscale=0.45)
    powers = 10.0 ** np.arange(np.ceil(np.log10(least) - 1e-9), np.floor(np.log10(values.max()) + 1e-9) + 1)
    powers = powers[-1:0:-2][::-1] if len(powers) > 4 else powers  # labels of more would overlap
    axes.set_xticks([0.0, *powers], ["0", *(f"{power:g}" for power in powers)])
    axes.xaxis.set_minor_locator(NullLocator())


def _log_ticks(axis: XAxis | YAxis, narrow: float) -> None:
    """Set the ticks of a log axis whose ends are set; numbers are written out unless very small or very large.

    Labels are at powers of ten, or at some of them if there are many. An axis whose ends are less than a factor
    `narrow` apart has labels at 2 and 5, too, or at as many more as it needs.
    """
    low, high = sorted(axis.get_view_interval())
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.log10(high) + 1)
    choices = [np.outer(powers, steps).ravel() for steps in ([1, 2, 5], [1, 1.5, 2, 3, 5, 7])]
    choices.append(np.asarray(MaxNLocator(4).tick_values(low, high), dtype=float))
    choices = [ticks[(ticks >= low) & (ticks <= high)] for ticks in choices]
    enough = next((ticks for ticks in choices if len(ticks) >= 3), choices[-1])
    most = 5 if isinstance(axis, YAxis) or _width(axis.axes) >= 2.0 else 4
    axis.set_major_locator(FixedLocator(enough.tolist()) if high < narrow * low else LogLocator(numticks=most))
    few = high >= 1e3 * low  # many ticks say no more, and take most of the time of a drawing
    axis.set_minor_locator(LogLocator(subs=(1.0,) if few else tuple(range(2, 10)), numticks=50))
    write = _plain if low >= 5e-4 and high <= 2e5 else _power
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axis.set_minor_formatter(NullFormatter())


def _width(axes: Axes) -> float:
    """Return the inches of a panel of a figure."""
    figure, grid = axes.get_figure(root=True), axes.get_subplotspec()
    assert figure is not None
    return figure.get_figwidth() / (grid.get_gridspec().ncols if grid else 1)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def _power(value: float) -> str:
    digits, exponent = f"{value:.1e}".split("e")
    if int(exponent) == 0:
        return f"{value:g}"
    factor = "" if digits == "1.0" else f"{float(digits):g}·"
    return f"{factor}10{superscript(int(exponent))}"
