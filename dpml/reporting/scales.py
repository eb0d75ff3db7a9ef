"""Set the scales, ends and ticks of a panel's axes."""

import re
import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from dpml.arrays import Array
from dpml.reporting.numerals import ZERO, plain, scientific
from dpml.reporting.style import DIGITS, MOST_DIGITS
from dpml.running.spec import Panel


def y_ends(points: pd.DataFrame, panel: Panel, log: bool) -> tuple[float, float]:
    """Return the ends of a panel's y axis for the shown points; for a logarithmic axis, return the ends' logarithms.

    The axis covers all means; it covers thin curves only if there are no other curves. It covers the ends of bands and
    the constant baseline if they are at most the height of the means, a factor of three, or a usual band away.
    """
    if panel.ylim:
        low, high = map(float, np.log(panel.ylim) if log else panel.ylim)
        return low, high
    main = "curve" if (points["kind"] == "curve").any() else "thin"
    own, floors = points[points["kind"].isin((main, "published"))], points[points["kind"] == "floor"]
    # curves of rounding errors alone would stretch a log axis until all others were flat
    means = _places(own["mean"][own["mean"] > ZERO] if log else own["mean"], log)
    others = _places(pd.concat([own["low"], own["high"], floors["mean"]]), log)
    means = means if len(means) else others if len(others) else np.zeros(1)
    low, high = means.min(), means.max()
    usual = np.log(3) if log else np.median(np.abs(others - np.median(means))) if len(others) else 0.0
    reach = max(high - low, usual)
    covered = [low, high, *others[(others >= low - reach) & (others <= high + reach)]]
    low, high = min(covered), max(covered)
    margin = 0.05 * (high - low) or (np.log(1.5) if log else 0.05 * abs(high) or 0.05)
    low, high = low - margin, high + margin
    # a delta above 1 guarantees nothing, however large it is
    return (max(low, -0.5), min(high, MOST_DIGITS)) if panel.y == DIGITS else (low, high)


def _places(values: pd.Series, log: bool) -> Array:
    known = values.to_numpy(float)
    known = known[np.isfinite(known) & ((known > 0) | (not log))]
    return np.log(known) if log else known


def y_axis(axes: Axes, ends: Array, log: bool, metric: str) -> None:
    """Set the scale, the ends and the ticks of a panel's y axis."""
    axes.set_ylim(*(np.exp(ends) if log else ends))
    if log:
        axes.set_yscale("log")
        _log_ticks(axes.yaxis, (1, 2, 5), 100)
    elif metric == DIGITS:  # digits of 1/delta are labelled with the delta that they mean, the smallest at the bottom
        axes.invert_yaxis()
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda digits, _: scientific(10.0**-digits)))


def x_axis(axes: Axes, values: pd.Series, panel: Panel, names: Sequence[str]) -> None:
    """Set the scale and the ticks of a panel's x axis. On an axis with words, the ticks are `names`."""
    if names:
        axes.set_xticks(range(len(names)), [textwrap.fill(_range(name), 10) for name in names], fontsize=6.5)
        axes.margins(x=0.2)
        return
    # eps of 0 and of infinity have no position on a log axis
    values = values[np.isfinite(values) & ((values > 0) | (panel.x != "proven_eps"))]
    low, high, least = values.min(), values.max(), values[values > 0].min()
    scale = panel.xscale
    if scale == "auto":
        several = high >= 5 * least
        scale = "log" if low > 0 and several else "linear"
        scale = "symlog" if low == 0 < high and (several or panel.x == "inverse_eps") else scale
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
    """Set the ticks of a logarithmic axis at powers of ten and, on a short axis, also at `steps` times powers of ten.

    The axis is short if its ends differ by a factor below `most`. Below a factor of five, ticks are as on linear axes.
    """
    low, high = sorted(axis.get_view_interval())
    at_steps = LogLocator(subs=steps) if high >= 5 * low else MaxNLocator(4)
    axis.set_major_locator(LogLocator() if high >= most * low else at_steps)
    axis.set_minor_locator(LogLocator(subs=(1,) if high >= 1000 * low else range(2, 10), numticks=50))
    write = scientific if low < 5e-4 or high > 2e5 else plain
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axis.set_minor_formatter(NullFormatter())
