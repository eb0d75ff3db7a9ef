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
from dpml.reporting.numerals import scientific
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
        return float(place(self.high, self.log) - place(self.low, self.log))


def place(values: Array | float, log: bool) -> Array:
    """Return the positions of values on an axis, in its own units; NaN if a value has no position."""
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
    values, ends, floors = (places[np.isfinite(places)] for places in (place(v, log) for v in (values, ends, floors)))
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
    axes.set_yscale("log" if scale.log else "linear")
    axes.set_ylim(scale.low, scale.high)
    if scale.log:
        _log_ticks(axes.yaxis, (1, 2, 5), 6, 5)
    elif metric == DIGITS:  # digits of 1/delta are labelled with the delta that they mean, the smallest at the bottom
        axes.invert_yaxis()
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda digits, _: scientific(10.0**-digits)))


def x_axis(axes: Axes, values: pd.Series, panel: Panel, names: Sequence[str]) -> None:
    """Set the scale of a panel's x axis and its ticks, which are `names` if the axis has words."""
    if names:
        axes.set_xticks(range(len(names)), [textwrap.fill(_range(name), 10) for name in names], fontsize=6.5)
        axes.margins(x=0.2)
        return
    # eps of 0 and of infinity have no position on a log axis
    values = values[np.isfinite(values) & ((values > 0) | (panel.x != "proven_eps"))]
    least, most = values.min(), values.max()
    zero_first = least == 0 and (panel.x == "inverse_eps" or most >= 5 * values[values > 0].min())
    if panel.xscale == "symlog" or (panel.xscale == "auto" and zero_first and most > 0):
        _log_with_zero(axes, values)
    elif panel.xscale == "log" or (panel.xscale == "auto" and least > 0 and most >= 5 * least):
        axes.set_xscale("log")
        _log_ticks(axes.xaxis, (1, 3), 3, 4)  # more labels would touch in a narrow panel
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


def _log_ticks(axis: XAxis | YAxis, steps: Sequence[int], short: int, most: int) -> None:
    """Set the ticks of a log axis whose ends are set; numbers are written out unless very small or very large.

    Labels are at `steps` of every power of ten if these are 2 to `short`, at about `most` powers of ten if they are
    more, and where a linear axis has labels if they are fewer.
    """
    low, high = sorted(axis.get_view_interval())
    ticks = np.outer(10.0 ** np.arange(np.floor(np.log10(low)), np.log10(high) + 1), steps).ravel()
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    if len(ticks) < 2:
        axis.set_major_locator(MaxNLocator(4))
    else:
        axis.set_major_locator(LogLocator(numticks=most) if len(ticks) > short else FixedLocator(ticks.tolist()))
    few = high >= 1e3 * low  # many ticks say no more, and take most of the time of a drawing
    axis.set_minor_locator(LogLocator(subs=(1.0,) if few else tuple(range(2, 10)), numticks=50))
    write = scientific if low < 5e-4 or high > 2e5 else _plain
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axis.set_minor_formatter(NullFormatter())


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"
