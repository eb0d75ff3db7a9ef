"""The look of figures: one style, and the colours, markers and dashes of curves.

The colours are Okabe and Ito's and Tol's, which colour-blind readers can distinguish; markers distinguish them in
print. An algorithm has the same colour and marker in every figure (words.yaml); its curves in one figure differ in
lightness and dashes.
"""

import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.colors import to_hex, to_rgb

from dpml.reporting.words import ALGORITHMS, REFERENCES

DIGITS = "digits"
"""The metric log10(1/delta): its axis is linear, because it is a logarithm already, and is labelled with delta."""
MOST_DIGITS = 20.0  # a delta below 1e-20 counts as zero
SHARES = ("accuracy", "train_accuracy", "balanced_accuracy", "auc", "error", "trimmed")
"""Metrics from 0 to 1."""
LINEAR = (DIGITS, *SHARES)
FLOORS = ("constant",)  # the constant baseline: drawn thin, and below all other curves
THIN = 0.7  # width of the curves that are shown only for comparison
_SPARE = (("#8C510A", "X"), ("#BB5566", "<"), ("#332288", ">"), ("#117733", "h"), ("#AA4499", "p"))
DISTINCT = ("#0072B2", "#882255", "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#332288")
"""Colours of curves without an order, for colour-blind readers, too."""
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (2.5, 1, 2.5, 3)))

STYLE: Any = {
    "figure.dpi": 150,
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.which": "major",
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.6,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "svg.hashsalt": "dpml",
    "svg.fonttype": "none",  # a third of the size, and text can be searched, read aloud and restyled
    "pdf.fonttype": 42,  # journals refuse Type 3 fonts
}
"""The style of all figures, for a page or a column of 3.3 to 7 inches."""


def in_style(style: Mapping[str, Any]) -> AbstractContextManager[None]:
    """A context in which Matplotlib has this style, whatever the user's own settings (matplotlibrc) say."""
    context: AbstractContextManager[None] = mpl.style.context(["default", dict(style)])
    return context


@dataclass(frozen=True)
class Look:
    """How one curve is drawn."""

    colour: str
    marker: str
    dashes: Any
    width: float = STYLE["lines.linewidth"]


def base_look(algo: str) -> tuple[str, str]:
    """Colour and marker of an algorithm; an unknown algorithm always gets the same one of the spares."""
    if algo in ALGORITHMS:
        return ALGORITHMS[algo].colour, ALGORITHMS[algo].marker
    return _SPARE[zlib.crc32(algo.encode()) % len(_SPARE)]


def looks(
    labels: Mapping[str, Sequence[str]], ordered: Collection[str] = (), thin: Collection[str] = ()
) -> dict[str, Look]:
    """The looks of a figure's curves by label, from the labels of each algorithm in order.

    A single curve has the algorithm's own colour; several curves run from light to dark. Four or more curves without an
    order have colours of their own, because so many shades are hard to distinguish. Algorithms that share a spare
    colour and marker also share the range of shades.

    Args:
        labels: those of each algorithm.
        ordered: the algorithms whose curves are ordered by a number.
        thin: the algorithms that are drawn thin, in addition to floors.
    """
    families: dict[Any, list[tuple[str, str]]] = {}
    for algo, own in labels.items():
        families.setdefault(algo if algo in ALGORITHMS else base_look(algo), []).extend((algo, name) for name in own)
    free = [colour for colour in DISTINCT if colour not in {base_look(algo)[0] for algo in labels}]
    found = {}
    for family in families.values():
        several = len(family) >= 4 and not any(algo in ordered or algo not in ALGORITHMS for algo, _ in family)
        own = base_look(family[0][0])[0]
        colours = [own, *free] if several else []
        for number, ((algo, name), shade) in enumerate(zip(family, _shades(len(family)), strict=True)):
            colour, marker = base_look(algo)
            dashes = REFERENCES.get(algo) if len(family) == 1 else None
            colour = colours[number] if number < len(colours) else mixed(colour, shade)
            width = 1.0 if algo in FLOORS else THIN if algo in thin else STYLE["lines.linewidth"]
            found[name] = Look(colour, marker, dashes or DASHES[number % len(DASHES)], width)
    return found


def _shades(number: int) -> Sequence[float]:
    """How much lighter (> 0) or darker (< 0) than the algorithm's colour each of its curves is."""
    if number <= 2:
        return (0.0, -0.5)[:number]
    return [round(float(shade), 3) for shade in np.linspace(0.55, -0.6, number)]


def mixed(colour: str, shade: float) -> str:
    """A colour made darker (shade < 0) or lighter (> 0); itself at 0."""
    target = 1.0 if shade > 0 else 0.0
    red, green, blue = ((1 - abs(shade)) * channel + abs(shade) * target for channel in to_rgb(colour))
    return str(to_hex((red, green, blue)))
