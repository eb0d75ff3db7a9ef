"""Figures, from rows and only rows, in one house style.

The colours are Okabe and Ito's, told apart by colour-blind readers; markers tell them apart in print. An algorithm has
the same colour and marker in every figure.
"""

import io
import textwrap
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpml.errors import UserError, nearest
from dpml.experiment import summarise, write_atomically

AXES = {"eps": "ε", "delta": "δ", "M": "parties M", "N": "training rows N"}
METRICS = {
    "loss": "training loss f(w)",
    "optimality_gap": "optimality gap",
    "accuracy": "test accuracy",
    "rmse": "test RMSE",
    "err_w": "‖w − w*‖ / d",
    "noisy_objective": "|noisy objective|",
    "trimmed": "share of trimmed spectra",
}
_SIGNED = ("noisy_objective",)  # often negative: its absolute value is drawn, as the papers do
_LINEAR = ("accuracy", "trimmed")

# colour, marker; the non-private reference is black and dashed
_LOOKS: dict[str, tuple[str, str]] = {
    "nonpriv": ("#000000", ""),
    "fm": ("#0072B2", "s"),
    "capefm": ("#D55E00", "o"),
    "conv": ("#009E73", "^"),
    "local": ("#CC79A7", "v"),
    "dpfm": ("#E69F00", "D"),
    "objpert": ("#56B4E9", "P"),
}
_DASHES = ("-", "--", ":", "-.")
_LINE_KEYS = ("dataset", "partition", "variant", "calibration", "loss", "eps", "delta", "M", "N")
_NAMES = {"eps": "ε", "delta": "δ"}
_SPARE = (("#8C510A", "X"), ("#7F7F7F", "<"), ("#332288", ">"), ("#117733", "h"), ("#AA4499", "p"))

STYLE: Any = {
    "figure.dpi": 150,
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
    "svg.hashsalt": "dpml",
    "svg.fonttype": "path",
}


def plot(
    rows: pd.DataFrame, folder: Path, command: str, x: str | None = None, metrics: Sequence[str] | None = None
) -> list[Path]:
    """Draw metrics against `x`, one panel each, a line per algorithm with its 95 % band; write figure.png and .svg.

    Args:
        rows: the table that a run or a sweep wrote.
        folder: where the two files go.
        command: what the footer says made the figure.
        x: eps, delta, M or N; by default the first of them that has more than one value.
        metrics: one panel for each; by default the loss, and accuracy or RMSE where there is one.

    Raises:
        UserError: `x` or a metric is not in the rows.
    """
    x = x or next((axis for axis in AXES if rows[axis].nunique() > 1), "eps")
    if x not in AXES:
        raise UserError(f"unknown axis {x!r}: {nearest(x, AXES)}")
    present = list(rows["metric"].unique())
    metrics = metrics or [name for name in ("loss", "accuracy", "rmse") if name in present]
    for name in metrics:
        if name not in present:
            raise UserError(f"these rows have no metric {name!r}: {nearest(name, present)}")

    summary = summarise(rows)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.9 * len(metrics) + 1.9, 3.7), layout="constrained")
        panels = figure.subplots(1, len(metrics), squeeze=False)[0]
        for panel, name in zip(panels, metrics, strict=True):
            _panel(panel, summary[summary["metric"] == name], x, name)
        handles, labels = panels[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        figure.suptitle(_settings(summary, x), fontsize=9, x=0.01, ha="left")
        figure.supxlabel(_footer(summary, command), fontsize=6.5, color="#555555", x=0.01, ha="left")
        paths = [folder / f"figure.{kind}" for kind in ("png", "svg")]
        for path in paths:
            picture = io.BytesIO()
            # neither date nor version in the file: the same rows give the same bytes
            metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(picture, format=path.suffix[1:], metadata=metadata)
            write_atomically(path, picture.getvalue())
    return paths


def look(algo: str) -> tuple[str, str]:
    """Colour and marker of an algorithm, the same in every figure; one that we do not know gets one of the spares."""
    return _LOOKS.get(algo) or _SPARE[zlib.crc32(algo.encode()) % len(_SPARE)]


def _panel(panel: Axes, summary: pd.DataFrame, x: str, metric: str) -> None:
    """One metric: a line per algorithm and whatever else varies beside x, drawn in the order of their right ends."""
    varying = [key for key in _LINE_KEYS if key != x and summary[key].nunique(dropna=False) > 1]
    groups = summary.groupby(["algo", *varying], sort=False, dropna=False)
    lines: list[tuple[Any, pd.DataFrame]] = [(key, line.sort_values(x)) for key, line in groups]
    if metric in _SIGNED:
        lines = [(key, line.assign(mean=line["mean"].abs())) for key, line in lines]
    dashes: Counter[str] = Counter()
    styles = {}
    for key, _ in lines:
        styles[key] = "--" if key[0] == "nonpriv" else _DASHES[dashes[key[0]] % len(_DASHES)]
        dashes[key[0]] += 1
    for key, line in sorted(lines, key=lambda pair: -pair[1]["mean"].iloc[-1]):
        colour, marker = look(key[0])
        label = ", ".join([key[0], *(f"{_NAMES.get(c, c)}={v}" for c, v in zip(varying, key[1:], strict=True))])
        panel.plot(line[x], line["mean"], styles[key], color=colour, marker=marker, label=label)
        low, high = line["mean"] - line["interval"], line["mean"] + line["interval"]
        panel.fill_between(line[x], low, high, color=colour, alpha=0.18, linewidth=0)
    panel.set_xlabel(AXES[x])
    panel.set_ylabel(METRICS.get(metric, metric))
    if summary[x].max() >= 5 * summary[x].min():
        panel.set_xscale("log")
    means = pd.concat([line["mean"] for _, line in lines])
    if metric not in _LINEAR and means.min() > 0 and means.max() >= 5 * means.min():
        panel.set_yscale("log")
        panel.set_ylim(means.min() / 1.6, means.max() * 1.6)


def _settings(summary: pd.DataFrame, x: str) -> str:
    """What is the same everywhere in the figure."""
    keys = [key for key in (*_LINE_KEYS, "d") if key not in (x, "variant")]
    fixed = [key for key in keys if summary[key].nunique(dropna=False) == 1 and pd.notna(summary[key].iloc[0])]
    return "  ".join(f"{_NAMES.get(key, key)}={summary[key].iloc[0]}" for key in fixed)


def _footer(summary: pd.DataFrame, command: str) -> str:
    """The command, what the bands are, and by how much the worst proven eps misses the claimed one."""
    private = summary[np.isfinite(summary["claimed_eps"])]
    lines = [command, f"bands: 95 % intervals of the mean over {summary['count'].max()} draws"]
    if len(private):
        worst = private.loc[(private["proven_eps"] / private["claimed_eps"]).idxmax()]
        lines[1] += (
            f"; largest proven / claimed ε: {worst['proven_eps'] / worst['claimed_eps']:.3g} "
            f"({worst['algo']} at ε = {worst['claimed_eps']:g}, {worst['proven_view']} view)"
        )
    return "\n".join(textwrap.fill(line, 130) for line in lines)
