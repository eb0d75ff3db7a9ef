"""Draw how a partition distributes rows and classes: the sizes of all parties, and the share of each class."""

import textwrap
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dpml.arrays import Array
from dpml.data.partition import Skew
from dpml.reporting.figures import save
from dpml.reporting.style import in_style, mixed

# Okabe and Ito's colours, neighbours also far apart in lightness; the remaining classes are grey
_CLASSES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#882255", "#F0E442")
_REST, _SIZES = "#BBBBBB", "#555555"
_LOG = 30.0  # sizes are on a log axis if the largest is at least this many times the smallest


def draw(skew: Skew, title: str, path: Path) -> list[Path]:
    """Plot each party's number of rows and share of each class. Write the files `path`.png and `path`.svg."""
    M = len(skew.sizes)
    order = np.lexsort((skew.counts.argmax(axis=1), -skew.sizes))  # equal sizes: by most frequent class
    wide = max(1.0, M / 30)  # the width of the last bar, which shows the rows of all parties, and of the gap before it
    edges = np.array([*range(M + 1), M + wide, M + 2 * wide])
    with in_style():
        figure = Figure(figsize=(max(4.5, min(9.5, 2.6 + 0.16 * M)), 4.4), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
        above.stairs(skew.sizes[order], edges[: M + 1], fill=True, color=_SIZES)
        above.set(ylabel="rows", ylim=(0, None))
        if skew.sizes.max() >= _LOG * skew.sizes.min():
            above.set(yscale="log", ylabel="rows (log scale)", ylim=(min(1.0, skew.sizes.min()) / 2, None))
        counts = np.vstack([skew.counts[order], np.full(len(skew.names), np.nan), skew.counts.sum(axis=0)])
        bottom = np.zeros(M + 2)
        for shares, name, colour in _parts(counts / counts.sum(axis=1, keepdims=True), skew):
            top = bottom + shares
            below.stairs(top, edges, baseline=bottom, fill=True, color=colour, label=name)
            bottom = top
        below.set(ylim=(0, 1), ylabel="share of its rows", xlabel="parties, the largest first")
        below.set_xticks([0.5, M - 0.5, M + 1.5 * wide], ["1", f"{M}", "all"])
        for axes in (above, below):
            axes.grid(axis="x", visible=False)
        handles, labels = below.get_legend_handles_labels()
        title_of_legend = "target" if skew.intervals else "class"
        figure.legend(handles[::-1], labels[::-1], title=title_of_legend, loc="outside right center", handlelength=1.2)
        figure.suptitle(textwrap.fill(title, int(13 * figure.get_figwidth())), x=0.01, ha="left", fontsize=10)
        return save(figure, path)


def _parts(mixes: Array, skew: Skew) -> list[tuple[Array, str, str]]:
    """Return a triple (the parties' shares, name, colour) for each class, or for each interval of a target."""
    K = len(skew.names)
    if skew.intervals:
        shades = (float(shade) for shade in np.linspace(0.75, -0.55, K))
        return [(mixes[:, k], skew.names[k], mixed(_CLASSES[0], shade)) for k, shade in enumerate(shades)]
    kept = np.sort(np.argsort(-skew.counts.sum(axis=0), kind="stable")[: len(_CLASSES)])
    parts = [(mixes[:, k], skew.names[k], colour) for k, colour in zip(kept, _CLASSES, strict=False)]
    others = (1 - mixes[:, kept].sum(axis=1), f"{K - len(kept)} others", _REST)
    return [*parts, others] if len(kept) < K else parts
