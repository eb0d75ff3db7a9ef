"""Draw an audit: an attack's true and false positive rates, and the largest true positive rates under a guarantee."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import ndtr, ndtri

from dpml.arrays import Array
from dpml.audit import Finding
from dpml.audit.scores import CONFIDENCE
from dpml.reporting.figures import save
from dpml.reporting.style import in_style

_CLAIMED, _PROVEN, _ATTACKED = "#000000", "#0072B2", "#D55E00"
_LEAST = 1e-4  # the smallest rate shown


def allowed(fpr: Array, eps: float, delta: float) -> Array:
    """Return the largest true positive rates that (eps, delta)-DP allows at the false positive rates `fpr`, (k,)."""
    steep = np.exp(eps) * fpr + delta
    flat = 1 - np.exp(-eps) * np.maximum(1 - delta - fpr, 0.0)
    return np.minimum(np.minimum(steep, flat), 1.0)


def draw(findings: Sequence[Finding], title: str, path: Path) -> list[Path]:
    """Draw a panel for every view that an audit attacked, and write the files `path`.png and `path`.svg."""
    attacked = [finding for finding in findings if finding.rates is not None]
    with in_style():
        columns = min(2, len(attacked))
        rows = math.ceil(len(attacked) / columns)
        figure = Figure(figsize=(0.5 + 3.1 * columns, 0.9 + 3 * rows), layout="constrained")
        for number, finding in enumerate(attacked, 1):
            _panel(figure.add_subplot(rows, columns, number), finding)
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)
        return save(figure, path)


def _panel(axes: Axes, finding: Finding) -> None:
    rates = finding.rates
    assert rates is not None
    fpr = 10.0 ** np.linspace(np.log10(_LEAST), 0, 300)
    delta = finding.delta
    if np.isfinite(finding.claimed):
        axes.plot(fpr, allowed(fpr, finding.claimed, delta), ":", color=_CLAIMED, label="claimed: no attack is above")
    mu = finding.mu
    basis = "proven" if np.isnan(finding.declared) else "declared"
    proven = allowed(fpr, finding.held, delta) if mu is None else ndtr(ndtri(fpr) + mu)
    axes.plot(fpr, proven, color=_PROVEN, label=f"{basis}: no attack is above")
    axes.errorbar(
        rates.fpr, rates.tpr, np.abs(rates.tpr_bounds - rates.tpr), np.abs(rates.fpr_bounds - rates.fpr), fmt="o",
        markersize=3, linewidth=0.8, color=_ATTACKED, label=f"attacked, {CONFIDENCE:.0%} intervals of both rates",
    )  # fmt: skip
    axes.plot(fpr, fpr, "--", color="#7F7F7F", linewidth=1, label="a guess")
    axes.set(xscale="log", yscale="log", xlim=(_LEAST, 1), ylim=(_LEAST, 1.15), xlabel="false positive rate")
    axes.set_ylabel("true positive rate")
    axes.set_title(f"{finding.view}: {finding.verdict}", fontsize=9)
