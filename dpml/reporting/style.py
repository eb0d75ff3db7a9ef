"""The look of figures: colours, markers and dashes of algorithms, names of axes and metrics.

The colours are Okabe and Ito's and Tol's, which colour-blind readers can distinguish; markers distinguish them in
print. An algorithm has the same colour and marker in every figure; its curves in one figure differ in lightness and
dashes.
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

AXES = {"eps": "ε", "inverse_eps": "1/ε", "delta": "δ", "M": "parties M", "N": "training rows N"}
LABELS = AXES | {
    "tau": "standard deviation of a site's noise τ",
    "share": "share of colluding sites M_C / M",
    "partition": "shares of the parties",
    "partition.alpha": "α of the Dirichlet shares",
    "partition.u": "rows of a large client / of a small one, u",
    "u": "rows of a large site / of a small one, u",
    "algo.rounds": "rounds T",
    "proven_eps": "ε proven for the worst view",
}
DIGITS = "digits"
"""The metric log10(1/delta): its axis is linear, because it is a logarithm already, and is labelled with delta."""
MOST_DIGITS = 20.0  # a delta below 1e-20 counts as zero
METRICS = {
    "log10_delta": "log₁₀ δ",
    "variance_ratio": "variance / that of all rows together",
    "loss": "training loss f(w)",
    "optimality_gap": "optimality gap",
    "accuracy": "test accuracy",
    "balanced_accuracy": "balanced test accuracy",
    "auc": "test AUC",
    "bound": "bound on the excess risk",
    "proven_eps": "proven ε",
    "conditional_eps": "proven ε, if fixed beforehand",
    "train_accuracy": "training accuracy",
    "path_loss": "training loss, mean over the rounds",
    "error": "test error",
    "excess_loss": "test loss above that of w₀",
    "rmse": "test RMSE",
    "mean_absolute_error": "test mean absolute error",
    "err_w": "‖w − w*‖ / d",
    "noisy_objective": "|noisy objective|",
    "trimmed": "share of trimmed spectra",
    DIGITS: "δ",
    "gap_ratio": "gap, published noise / tight",
    "asked_eps": "ε asked for (claimed)",
    "site_bytes": "bytes per site",
    "aggregator_bytes": "bytes at the aggregator",
    "excess_risk": "excess risk",
    "theorem2_bound": "Theorem 2's bound",
    "theorem3_bound": "Theorem 3's bound",
    "pl_constant": "Polyak-Lojasiewicz constant",
}
SHARES = ("accuracy", "train_accuracy", "balanced_accuracy", "auc", "error", "trimmed")
"""Metrics from 0 to 1."""
LINEAR = (DIGITS, *SHARES)
FLOORS = ("constant",)  # the baseline without any feature: drawn thin, and below all other curves
ZERO = 1e-9  # means below it are what an optimiser or rounding left of zero
THIN = 0.8  # width of the curves that are shown only for comparison

# colour and marker; references have no marker, and REFERENCES says how they differ
_ALGORITHMS: dict[str, tuple[str, str]] = {
    "nonpriv": ("#000000", ""),
    "ceiling": ("#000000", ""),
    "fm": ("#0072B2", "s"),
    "capefm": ("#D55E00", "o"),
    "conv": ("#009E73", "^"),
    "local": ("#CC79A7", "v"),
    "dpfm": ("#E69F00", "D"),
    "objpert": ("#56B4E9", "P"),
    "batch": ("#000000", ""),
    "indiv": ("#000000", ""),
    "soft": ("#882255", "*"),
    "avg": ("#44AA99", "X"),
    "vote": ("#999933", "d"),
    "claimed": ("#000000", ""),
    "constant": ("#7F7F7F", ""),
    "wddp": ("#CC3311", "o"),
    "jayaraman": ("#0077BB", "h"),
    "jayaraman_local": ("#33BBEE", "8"),
    "wang": ("#228833", "^"),
    "cape": ("#D55E00", "*"),
    "nn_nonpriv": ("#000000", ""),
    "nn_cape": ("#D55E00", "p"),
    "nn_conv": ("#009E73", "<"),
    "heikkila2017": ("#7F7F7F", "s"),
    "gop": ("#332288", ">"),
    "psgd": ("#EE3377", "<"),
    "la": ("#8C510A", "h"),
    "la_l1": ("#35978F", "D"),
    "dpgd": ("#AA4499", "o"),
    "ssp": ("#DDAA33", "s"),
    "adassp": ("#5D6D7E", "h"),
    "ssp_descent": ("#00867D", "D"),
    "wdgd": ("#0B5FA5", "^"),
    "newton": ("#994F00", "v"),
    "amp": ("#6F7D1F", "X"),
    "outpert": ("#DC6B82", "P"),
    # other programs, drawn as points and distinguished by their markers
    "diffprivlib (pure ε)": ("#444444", "D"),
    "DP-SGD": ("#111111", "o"),
    "DP-SGD (oracle, not private)": ("#222222", "s"),
    "AMP (oracle, not private)": ("#333333", "^"),
    "DP-EBM": ("#555555", "v"),
    "Opacus": ("#666666", "P"),
    "MST": ("#777777", "X"),
}
NAMES = {
    "nonpriv": "no privacy",
    "ceiling": "no privacy, ridge by held-out rows",
    "nn_nonpriv": "no privacy",
    "fm": "FM, Gaussian",
    "capefm": "capeFM",
    "conv": "conventional",
    "local": "one site alone",
    "dpfm": "FM, Laplace",
    "objpert": "objective perturbation",
    "outpert": "output perturbation",
    "nn_cape": "CAPE",
    "nn_conv": "conventional",
    "batch": "all rows, no privacy",
    "indiv": "every party alone",
    "soft": "soft labels",
    "vote": "majority votes",
    "avg": "average of models",
    "la": "local aggregation",
    "la_l1": "local aggregation, ‖·‖₁ noise",
    "gop": "Gaussian objective perturbation",
    "psgd": "private gradient descent (psgd)",
    "wddp": "WD-DP",
    "jayaraman": "Jayaraman et al., MPC",
    "jayaraman_local": "Jayaraman et al., eq. (2)",
    "wang": "Wang et al.",
    "cape": "CAPE",
    "heikkila2017": "Heikkilä et al.",
    "dpgd": "DP-GD",
    "wdgd": "whitened DP-GD",
    "ssp": "SSP",
    "adassp": "AdaSSP",
    "ssp_descent": "SSP + descent",
    "newton": "noisy Newton",
    "amp": "AMP",
}
"""What legends say for algorithms."""
REFERENCES = {
    "nonpriv": "--", "ceiling": "--", "batch": "-", "indiv": "--", "nn_nonpriv": "--", "claimed": ":",
    "constant": (0, (1, 2)),
}  # fmt: skip
_SPARE = (("#8C510A", "X"), ("#BB5566", "<"), ("#332288", ">"), ("#117733", "h"), ("#AA4499", "p"))
DISTINCT = ("#0072B2", "#882255", "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#332288")
"""Colours of curves without an order, for colour-blind readers, too."""
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (2.5, 1, 2.5, 3)))

STYLE: Any = {
    "figure.dpi": 120,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.which": "major",
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "svg.hashsalt": "dpml",
    "svg.fonttype": "none",  # a third of the size, and text can be searched, read aloud and restyled
}


PAPER: Any = STYLE | {
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.handlelength": 2.6,
    "grid.linewidth": 0.4,
    "axes.linewidth": 0.6,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,  # journals refuse Type 3 fonts
}
"""The style of a figure of a column's width."""


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
    return _ALGORITHMS.get(algo) or _SPARE[zlib.crc32(algo.encode()) % len(_SPARE)]


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
        families.setdefault(algo if algo in _ALGORITHMS else base_look(algo), []).extend((algo, name) for name in own)
    free = [colour for colour in DISTINCT if colour not in {base_look(algo)[0] for algo in labels}]
    found = {}
    for family in families.values():
        several = len(family) >= 4 and not any(algo in ordered or algo not in _ALGORITHMS for algo, _ in family)
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
