"""The figure of a partition: the rows of each of a few parties, or histograms over many parties."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dpml.arrays import Array, Index
from dpml.data.partition import FIFTHS, Skew, distances
from dpml.reporting.figures import save
from dpml.reporting.style import in_style, mixed

MOST_BARS = 64
"""The most parties that are drawn one by one; more parties are drawn as histograms."""

# Okabe and Ito's colours, neighbours also far apart in lightness; the remaining classes are grey
_CLASSES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#882255", "#F0E442")
_REST, _SIZES, _BINS = "#BBBBBB", "#555555", 30
_LOG = 30.0  # ratio of the largest to the smallest size from which sizes are on a log axis


def draw(skew: Skew, title: str, path: Path) -> list[Path]:
    """Draw what parties hold, the largest first; writes .png and .svg files at `path`, which has no suffix."""
    with in_style():
        figure = _bars(skew) if len(skew.sizes) <= MOST_BARS else _histograms(skew)
        heading = textwrap.fill(title, int(13 * figure.get_figwidth()))
        figure.suptitle(heading, x=0.01, ha="left", fontsize=10)
        return save(figure, path)


def _bars(skew: Skew) -> Figure:
    """Rows of every party, and below them its mix of classes; on the right the mix of all rows."""
    M = len(skew.sizes)
    figure = Figure(figsize=(max(4.5, min(9.5, 2.6 + 0.16 * M)), 4.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    order = np.argsort(-skew.sizes, kind="stable")
    above.bar(np.arange(M), skew.sizes[order], width=0.85, color=_SIZES)
    log = skew.sizes.max() >= _LOG * skew.sizes.min()
    above.set(yscale="log" if log else "linear", ylabel="rows" + (" (log scale)" if log else ""))
    above.grid(axis="x", visible=False)
    if log:
        above.set_ylim(bottom=min(1.0, skew.sizes.min()) / 2)
    counts = np.vstack([skew.counts[order], skew.counts.sum(axis=0)])
    _stack(below, np.append(np.arange(M), M + 1), counts, skew)
    below.set(xlim=(-0.7, M + 1.7), ylim=(0, 1), ylabel="share of its rows", xlabel="parties, the largest first")
    below.set_xticks([0, M - 1, M + 1] if M > 1 else [0, 2], ["1", f"{M}", "all"] if M > 1 else ["1", "all"])
    handles, labels = below.get_legend_handles_labels()
    title = "target" if skew.intervals else "class"
    figure.legend(handles[::-1], labels[::-1], title=title, loc="outside right center", handlelength=1.2)
    return figure


def _stack(axes: Axes, places: Array, counts: Array, skew: Skew) -> None:
    """Stacked bars of class shares, (bars, K); with too many classes, of the most frequent ones and the rest."""
    mixes = counts / counts.sum(axis=1, keepdims=True)
    kept, names, colours = _shown(skew)
    parts = list(mixes[:, kept].T)
    if len(kept) < mixes.shape[1]:
        parts.append(1 - mixes[:, kept].sum(axis=1))
    bottom = np.zeros(len(places))
    for part, name, colour in zip(parts, names, colours, strict=True):
        axes.bar(places, part, 0.85, bottom, color=colour, edgecolor="white", linewidth=0.4, label=name)
        bottom += part
    axes.grid(visible=False)


def _shown(skew: Skew) -> tuple[Index, Sequence[str], Sequence[str]]:
    """The numbers of the classes with a colour, and the names and colours of the bars, including the rest's."""
    K = len(skew.names)
    if skew.intervals:
        shades = np.linspace(0.75, -0.55, FIFTHS)[:K]
        return np.arange(K), skew.names, [mixed(_CLASSES[0], float(shade)) for shade in shades]
    kept = np.sort(np.argsort(-skew.counts.sum(axis=0), kind="stable")[: len(_CLASSES)])
    names, colours = [skew.names[number] for number in kept], list(_CLASSES[: len(kept)])
    rest = K - len(kept)
    return (kept, [*names, f"{rest} others"], [*colours, _REST]) if rest else (kept, names, colours)


def _histograms(skew: Skew) -> Figure:
    """Histograms over parties: their numbers of rows, and the distance of their class mix from that of all rows."""
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    least, most = int(skew.sizes.min()), int(skew.sizes.max())
    log = most >= _LOG * least
    spread = np.geomspace(least, most + 1, _BINS) if log else np.linspace(least, most + 1, _BINS)
    left.hist(skew.sizes, np.unique(np.floor(spread)) - 0.5, color=_SIZES)  # sizes are whole numbers
    left.set(xlabel="rows of a party", ylabel="parties", xscale="log" if log else "linear")
    if not log:
        left.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (left, right):
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    chance = distances(skew.chance)
    bins = np.linspace(0, max(skew.distances.max(), chance.max(), 1e-9), _BINS + 1)
    right.hist(skew.distances, bins, color=_CLASSES[0], label="as dealt")
    right.hist(chance, bins, histtype="step", color="black", linewidth=1.2, label="by chance")
    right.set(xlabel="distance of a party's mix of classes from all rows'", ylabel="parties")
    right.legend()
    return figure
