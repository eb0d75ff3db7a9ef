"""Draw how a partition distributes rows and classes: bars for a few parties, or histograms over many parties."""

import textwrap
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dpml.arrays import Array, Index
from dpml.data.partition import Skew, distances
from dpml.reporting.figures import save
from dpml.reporting.style import in_style, mixed

MOST_BARS = 64
"""The largest number of parties that are drawn one by one; more parties are drawn as histograms."""

# Okabe and Ito's colours, neighbours also far apart in lightness; the remaining classes are grey
_CLASSES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#882255", "#F0E442")
_REST, _SIZES, _BINS = "#BBBBBB", "#555555", 30
_LOG = 30.0  # ratio of the largest to the smallest size from which sizes are on a log axis


def draw(skew: Skew, title: str, path: Path) -> list[Path]:
    """Draw the numbers of rows and the classes of all parties. Write the files `path`.png and `path`.svg."""
    with in_style():
        figure = _bars(skew) if len(skew.sizes) <= MOST_BARS else _histograms(skew)
        heading = textwrap.fill(title, int(13 * figure.get_figwidth()))
        figure.suptitle(heading, x=0.01, ha="left", fontsize=10)
        return save(figure, path)


def _bars(skew: Skew) -> Figure:
    M = len(skew.sizes)
    figure = Figure(figsize=(max(4.5, min(9.5, 2.6 + 0.16 * M)), 4.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    order = np.argsort(-skew.sizes, kind="stable")
    above.bar(np.arange(M), skew.sizes[order], width=0.85, color=_SIZES)
    above.set(ylabel="rows")
    above.grid(axis="x", visible=False)
    if skew.sizes.max() >= _LOG * skew.sizes.min():
        above.set(yscale="log", ylabel="rows (log scale)", ylim=(min(1.0, skew.sizes.min()) / 2, None))
    counts = np.vstack([skew.counts[order], skew.counts.sum(axis=0)])
    _stack(below, np.append(np.arange(M), M + 1), counts / counts.sum(axis=1, keepdims=True), skew)
    below.set(xlim=(-0.7, M + 1.7), ylim=(0, 1), ylabel="share of its rows", xlabel="parties, the largest first")
    below.set_xticks([0, M - 1, M + 1] if M > 1 else [0, 2], ["1", f"{M}", "all"] if M > 1 else ["1", "all"])
    handles, labels = below.get_legend_handles_labels()
    title = "target" if skew.intervals else "class"
    figure.legend(handles[::-1], labels[::-1], title=title, loc="outside right center", handlelength=1.2)
    return figure


def _stack(axes: Axes, places: Array, mixes: Array, skew: Skew) -> None:
    """Draw a stacked bar at every place, with the shares `mixes` (bars, K) of classes or of intervals of a target."""
    K = len(skew.names)
    kept: Index = np.arange(K)
    if skew.intervals:
        colours = [mixed(_CLASSES[0], float(shade)) for shade in np.linspace(0.75, -0.55, K)]
    else:
        kept = np.sort(np.argsort(-skew.counts.sum(axis=0), kind="stable")[: len(_CLASSES)])
        colours = list(_CLASSES)
    parts = [(mixes[:, one], skew.names[one], colour) for one, colour in zip(kept, colours, strict=False)]
    if len(kept) < K:
        parts.append((1 - mixes[:, kept].sum(axis=1), f"{K - len(kept)} others", _REST))
    bottom = np.zeros(len(places))
    for part, name, colour in parts:
        axes.bar(places, part, 0.85, bottom, color=colour, edgecolor="white", linewidth=0.4, label=name)
        bottom += part
    axes.grid(visible=False)


def _histograms(skew: Skew) -> Figure:
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    least, most = int(skew.sizes.min()), int(skew.sizes.max())
    log = most >= _LOG * least
    bins = (np.geomspace if log else np.linspace)(least, most + 1, _BINS)
    left.hist(skew.sizes, np.unique(np.floor(bins)) - 0.5, color=_SIZES)  # sizes are whole numbers
    left.set(xlabel="rows of a party", ylabel="parties", xscale="log" if log else "linear")
    dealt, chance = distances(skew.counts), distances(skew.chance)
    bins = np.linspace(0, max(dealt.max(), chance.max(), 1e-9), _BINS + 1)
    right.hist(dealt, bins, color=_CLASSES[0], label="as dealt")
    right.hist(chance, bins, histtype="step", color="black", linewidth=1.2, label="by chance")
    right.set(xlabel="distance of a party's mix of classes from all rows'", ylabel="parties")
    right.legend()
    for axis in (left.yaxis, right.yaxis, *([] if log else [left.xaxis])):
        axis.set_major_locator(MaxNLocator(integer=True))
    return figure
