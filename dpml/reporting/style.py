"""Define the style of all figures, with colours, markers and dashes that colour-blind readers can distinguish."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.colors import to_hex, to_rgb

from dpml.reporting.words import ALGORITHMS, REFERENCES

FLOORS = ("constant",)  # the constant baseline: drawn thin, and below all other curves
DISTINCT = ("#0072B2", "#882255", "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#332288")
"""Colours of curves without an order, which colour-blind readers can distinguish."""
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (2.5, 1, 2.5, 3)))
_OTHER = ("", "#8C510A", "X", "-")  # the look of algorithms without a name in words.yaml


def in_style(**also: Any) -> AbstractContextManager[None]:
    """Return a context with dpml's style for Matplotlib. The user's own settings (matplotlibrc) have no effect."""
    house = str(files("dpml.reporting").joinpath("house.mplstyle"))
    context: AbstractContextManager[None] = mpl.style.context(["default", house, also])
    return context


@dataclass(frozen=True)
class Look:
    """How one curve is drawn."""

    colour: str
    marker: str
    dashes: Any
    width: float = 1.3


THIN = Look("#B5B5B5", "", "-", 0.7)
"""The look of all curves that are shown only for comparison."""


def base_look(algo: str) -> tuple[str, str]:
    """Return the colour and marker of an algorithm."""
    _, colour, marker, _ = ALGORITHMS.get(algo, _OTHER)
    return colour, marker


def looks(labels: Mapping[str, Sequence[str]]) -> dict[str, Look]:
    """Return the colour, marker and dashes of every curve of a figure, by the curve's label."""
    families: dict[str, list[tuple[str, str]]] = {}
    for algo, own in labels.items():
        families.setdefault(algo if algo in ALGORITHMS else "", []).extend((algo, name) for name in own)
    free = [colour for colour in DISTINCT if colour not in {base_look(algo)[0] for algo in labels}]
    found = {}
    for family in families.values():
        colours = [base_look(family[0][0])[0], *free] if len(family) >= 4 else []
        shades = (0.0, -0.5) if len(family) <= 2 else np.linspace(0.55, -0.6, len(family))
        for number, (algo, name) in enumerate(family):
            colour, marker = base_look(algo)
            dashes = REFERENCES.get(algo) if len(family) == 1 else None
            colour = colours[number] if number < len(colours) else mixed(colour, float(shades[number]))
            width = 1.0 if algo in FLOORS else Look.width
            found[name] = Look(colour, marker, dashes or DASHES[number % len(DASHES)], width)
    return found


def mixed(colour: str, shade: float) -> str:
    """Return the colour mixed with black if `shade` < 0, or with white if `shade` > 0."""
    target = 1.0 if shade > 0 else 0.0
    red, green, blue = ((1 - abs(shade)) * channel + abs(shade) * target for channel in to_rgb(colour))
    return str(to_hex((red, green, blue)))
