"""One panel of a figure: its curves with their bands, the published points over them, and its axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from pandas.api.types import is_numeric_dtype

from dpml.arrays import Array
from dpml.reporting.criteria import scale as criterion
from dpml.reporting.curves import Curve, curves, text
from dpml.reporting.numerals import SIGNED, ZERO
from dpml.reporting.scales import Scale, place, scale_for, x_axis, y_axis
from dpml.reporting.style import DIGITS, FLOORS, LINEAR, MOST_DIGITS, SHARES, THIN, Look, base_look
from dpml.reporting.words import REFERENCES
from dpml.running.rows import EPS
from dpml.running.spec import Panel

PEERS = Look("#444444", "D", "")
"""The best program of others at each x, in place of a marker for every program."""


@dataclass(frozen=True, eq=False)
class Polyline:
    """A curve as numbers: positions, means, and the ends of its band (NaN if it has none)."""

    label: str
    algo: str
    x: Array
    mean: Array
    low: Array
    high: Array

    @property
    def zero(self) -> bool:
        """Whether it is 0 up to rounding errors, and so has no position on a log axis."""
        return not (self.mean > ZERO).any()

    def outside(self, scale: Scale) -> bool:
        """Return whether no mean lies between the ends of an axis."""
        return not ((self.mean >= scale.low) & (self.mean <= scale.high)).any()


@dataclass(frozen=True)
class Chart:
    """One panel of a figure: the summary rows, how to draw them, and the published points (x, algo, mean, peer)."""

    panel: Panel
    summary: pd.DataFrame
    published: pd.DataFrame | None = None

    def curves(self) -> list[Curve]:
        """Return its curves, without those that have no position on the x axis (a proven eps of infinity)."""
        x = self.panel.x
        found = curves(self.summary, x, self.panel.curve)
        return [curve for curve in found if self.names or np.isfinite(curve.rows[x]).any()]

    @property
    def names(self) -> list[str]:
        """The positions of an x axis that is labelled with words, in order; none if it has numbers."""
        places = self.summary[self.panel.x]
        return [] if is_numeric_dtype(places) else list(dict.fromkeys(map(text, places)))

    def points(self, peer: bool) -> pd.DataFrame:
        """Return the paper's points as they are drawn, or those of the best program of others at each x."""
        if self.published is None:
            return pd.DataFrame(columns=["x", "algo", "mean"])
        points = self.published[(self.published["peer"] == peer) & (self.published["mean"].abs() > ZERO)]
        points = points.assign(mean=_as_drawn(points["mean"], self.panel.y))
        if not peer:
            return points
        points = points[~points["algo"].str.contains("not private")]
        best = points.groupby("x")["mean"]
        return points.loc[best.idxmax() if criterion(self.panel.y).up else best.idxmin()]

    @property
    def wants_log(self) -> bool:
        """Whether the experiment's file sets a log scale, or leaves it open and the means span enough for one."""
        panel, values = self.panel, []
        for table in (self.summary, self.published):
            if table is not None:
                own = table[~table["algo"].isin(REFERENCES)]  # references may be far from all others
                values.append(_as_drawn((own if len(own) else table)["mean"], panel.y))
        means = pd.concat(values)
        positive = means[means > ZERO]
        if not len(positive) or panel.y == DIGITS:
            return False
        if panel.yscale != "auto" or panel.y in LINEAR:
            return panel.yscale == "log"
        return not (means < -ZERO).any() and bool(positive.max() >= 5 * positive.min())

    def lines(self, labelled: Sequence[tuple[str, Curve]], log: bool) -> list[Polyline]:
        """Return its curves as numbers by label, the thin ones and the floors first, below all others."""
        lines = [self._line(label, curve, log) for label, curve in labelled]
        faint = {*FLOORS, *self.panel.thin}
        return sorted(lines, key=lambda line: line.algo not in faint)

    def _line(self, label: str, curve: Curve, log: bool) -> Polyline:
        panel, rows, names = self.panel, curve.rows, self.names
        places = rows[panel.x].map(lambda value: names.index(text(value))) if names else rows[panel.x]
        rows = rows.assign(place=places.astype(float)).sort_values("place")
        # a proven eps of 0 has no position on a log axis
        rows = rows[np.isfinite(rows["place"]) & ((rows["place"] > 0) | (panel.x != "proven_eps"))]
        mean = _as_drawn(rows["mean"], panel.y).to_numpy(float)
        half = rows["std" if panel.band == "sd" else "interval"].to_numpy(float)
        if panel.band == "none" or curve.algo in {*FLOORS, *panel.thin}:
            half = half * np.nan
        low, high = _band(mean, half, log, panel.y in SIGNED)
        if panel.y.rpartition(".")[2] in SHARES:
            # what is beyond is no value of the metric: the possible part of an interval covers the mean as often
            low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
        if panel.y in EPS:  # nor has an eps of 0 a position here, and a line to it would look like one
            mean = np.where(mean > 0, mean, np.nan)
        return Polyline(label, curve.algo, rows["place"].to_numpy(float), mean, low, high)

    def scale(self, lines: Sequence[Polyline], log: bool) -> Scale:
        """Return the y axis that covers these curves, their bands and the points, unless the file sets its ends."""
        if self.panel.ylim:
            return Scale(log, *map(float, self.panel.ylim))
        other = [line for line in lines if line.algo not in FLOORS]
        own = [line for line in other if line.algo not in self.panel.thin] or other
        means = np.concatenate([*(line.mean for line in own), self.points(peer=False)["mean"].to_numpy(float)])
        # curves of rounding errors alone would stretch a log axis until all others were flat
        means = means[means > ZERO] if log else means
        ends = np.concatenate([*(end for line in own for end in (line.low, line.high)), []])
        floors = np.concatenate([*(line.mean for line in lines if line.algo in FLOORS), []])
        scale = scale_for(means, ends, floors, log)
        if self.panel.y == DIGITS:  # a delta above 1 guarantees nothing, however large it is
            return replace(scale, low=max(scale.low, -0.5), high=min(scale.high, MOST_DIGITS))
        return scale

    def draw(self, axes: Axes, lines: Sequence[Polyline], looks: Mapping[str, Look], scale: Scale) -> None:
        """Draw `lines`, their bands, and the published points between the ends of a y axis."""
        y_axis(axes, scale, self.panel.y)
        for line in lines:
            look = THIN if line.algo in self.panel.thin else looks[line.label]
            alike = [other for other in lines if other is line or _same(other, line, scale)]
            under, turns = alike.index(line), len(alike)
            dashes = look.dashes if turns == 1 or look is THIN else _turns(under, turns)
            every = max(1, len(line.x) // 8) if len(line.x) > 12 else 1  # the dashes of a fine curve stay visible
            axes.plot(
                line.x, line.mean, linestyle=dashes, color=look.colour, marker=look.marker, label=line.label,
                linewidth=look.width, markevery=(every * under, every * turns),
            )  # fmt: skip
            if (line.high > line.low).any():
                # many bands on top of each other still leave the curves visible
                alpha = min(0.18, 0.8 / len(lines))
                axes.fill_between(line.x, line.low, line.high, color=look.colour, alpha=alpha, linewidth=0)
        for algo, points in self.points(peer=False).groupby("algo", sort=True):
            _hollow(axes, points, *base_look(str(algo)))  # no line through them: only points were published
        _hollow(axes, self.points(peer=True), PEERS.colour, PEERS.marker)
        x_axis(axes, self.summary[self.panel.x], self.panel, self.names)


def _as_drawn(mean: pd.Series, metric: str) -> pd.Series:
    return mean.abs() if metric in SIGNED else mean


def with_axis(summary: pd.DataFrame, x: str) -> pd.DataFrame:
    """Return a summary with the column that an axis needs: ``inverse_eps`` is 1/eps, 0 without noise."""
    return summary.assign(inverse_eps=1 / summary["eps"]) if x == "inverse_eps" else summary


def _band(mean: Array, half: Array, log: bool, signed: bool) -> tuple[Array, Array]:
    """Return the ends of a band: mean ± half on a linear axis; mean exp(± half / mean) on a log axis, which has no 0.

    The second is the interval for the logarithm of the mean by the delta method. For 10 exponential values it covers
    the mean in 93 % of samples, mean ± half in 90 %. A curve in absolute size has no band where its sign is unknown.
    """
    if not log:
        return mean - half, mean + half
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        width = np.where((mean > 0) & ~(signed & (half >= mean)), np.minimum(half / mean, 50.0), np.nan)
        return mean * np.exp(-width), mean * np.exp(width)


def _turns(turn: int, number: int) -> tuple[int, tuple[int, int]]:
    """Return dashes of curves that coincide: each is visible in the gaps of the others."""
    return 5 * ((number - turn) % number), (5, 5 * (number - 1))


def _same(one: Polyline, other: Polyline, scale: Scale) -> bool:
    """Return whether two curves look the same: less than a hundredth of the panel apart wherever both exist."""
    _, here, there = np.intersect1d(one.x, other.x, return_indices=True)
    gaps = np.abs(place(one.mean[here], scale.log) - place(other.mean[there], scale.log))
    gaps = gaps[np.isfinite(gaps)]
    return len(gaps) > 1 and bool((gaps <= 0.01 * scale.height).all())


def _hollow(axes: Axes, points: pd.DataFrame, colour: str, marker: str) -> None:
    if len(points):
        places, means = points["x"].to_numpy(float), points["mean"].to_numpy(float)
        axes.plot(places, means, ls="", marker=marker or "d", color=colour, mfc="none", markersize=4.8, zorder=3)
