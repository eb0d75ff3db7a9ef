"""Make the first picture and the first table of the README, from the committed results.

python scripts/overview.py > table.md          # and docs/overview.svg
"""

import hashlib
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from concept_pictures import numbers
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpml.privacy.safe import written, written_below
from dpml.reporting.style import base_look, in_style
from dpml.reporting.words import REFERENCES, algorithm

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "overview.svg"
AUDIT = ROOT / "results" / "audit" / "all.csv"
CENTRE = ROOT / "results" / "frontier" / "centre.csv"
PEERS = ROOT / "experiments" / "frontier" / "peers.csv"

PAPERS = {
    "capefm": "Imtiaz, Mohammadi & Sarwate 2019",
    "wddp": "Kang, Liu & Wang 2019",
    "psgd": "Rajkumar & Agarwal 2012",
    "soft": "Hamm, Cao & Belkin 2016",
}
"""The main algorithm of each paper."""
ATTACKED = "#D55E00"
LOOKS: dict[str, dict[str, Any]] = {
    "claimed": {"color": "#7F7F7F", "marker": "|", "markersize": 14, "markeredgewidth": 2},
    "proven by dpml": {"color": "#0072B2", "marker": "o", "markersize": 7, "markeredgewidth": 0},
    "reached by an attack (95 %)": {"color": ATTACKED, "marker": "X", "markersize": 7, "markeredgewidth": 0},
}
_BEYOND = {"arrowstyle": "->", "color": "#444444", "lw": 1}  # to points beyond an axis
_LEAST = 0.75  # the least accuracy on the axis
OURS = (("wdgd", None), ("dpgd", None), ("gop", 2.0))
"""The algorithms whose accuracy is drawn, each with its `shift` (None: the algorithm has no shift)."""
OTHERS = ("DP-SGD", "diffprivlib (pure ε)")


@dataclass(frozen=True)
class Headline:
    """The claimed, the proven and the attacked eps of a paper's main algorithm."""

    paper: str
    algo: str
    view: str
    claimed: float
    proven: float
    attacked: float

    @property
    def verdict(self) -> str:
        """The verdict on the claim, from the proof and the attack."""
        if self.proven <= self.claimed:
            return "holds"
        return "**false**" if self.attacked > self.claimed else "not proven"


def headlines(audit: pd.DataFrame) -> list[Headline]:
    """Return a line per paper, for the loss and view with the largest proven ε among those that its claim covers."""
    asked = audit[(audit["noise"] == "published") & (audit["variant"] == "paper") & audit["algo.protocol"].isna()]
    where = ["algo", "loss", "view"]
    table = asked.pivot_table(index=where, columns="metric", values="mean", aggfunc="first").reset_index()
    table = table.dropna(subset=["claimed"]).sort_values(["proven", "attacked"], ascending=False)
    worst = table.drop_duplicates("algo").set_index("algo")
    return [
        Headline(paper, algo, *(worst.loc[algo, key] for key in ("view", "claimed", "proven", "attacked")))
        for algo, paper in PAPERS.items()
    ]


def markdown(lines: list[Headline]) -> str:
    """Return the README's table. A proven ε is rounded up; an attack's ε (a lower bound) is rounded down."""
    head = ("paper", "algorithm", "view", "claimed ε", "proven ε", "ε reached by an attack", "the claim")
    rows = []
    for x in lines:
        eps = (f"{x.claimed:g}", written(x.proven, 3), written_below(x.attacked, 3))
        rows.append((x.paper, f"`{x.algo}`", x.view, *eps, x.verdict))
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))


def draw_guarantees(ax: Axes, lines: list[Headline]) -> None:
    """Draw the claimed, the proven and the attacked ε: a line of points for each paper."""
    for place, line in enumerate(lines):
        ax.plot([max(line.attacked, 0.02), line.proven], [place, place], color="#dddddd", lw=3, zorder=1)
        # an attack that reached ε = 0 cannot be shown on a logarithmic axis
        reached = line.attacked if line.attacked > 0 else np.nan
        for value, look in zip((line.claimed, line.proven, reached), LOOKS.values(), strict=True):
            ax.plot(value, place, linestyle="", **look)
        if line.attacked <= 0:
            ax.annotate("0", (0.02, place), (0.026, place), va="center", color=ATTACKED, arrowprops=_BEYOND)
    ax.set_yticks(range(len(lines)), [f"{line.paper}\n{algorithm(line.algo)}, view: {line.view}" for line in lines])
    ax.invert_yaxis()
    ax.set_ylim(len(lines) - 0.5, -0.5)
    numbers(ax.xaxis, [0.03, 0.1, 0.3, 1, 3])
    ax.set(xlim=(0.02, 4.5), xlabel="ε at δ = 1e-5")
    ax.set_title("Published noise: claimed, proven, attacked", loc="left")
    for name, look in LOOKS.items():
        ax.plot([], [], linestyle="", label=name, **look | {"markersize": min(look["markersize"], 10)})
    ax.legend(loc="upper center", bbox_to_anchor=(0.3, -0.17), ncols=3, frameon=False, handletextpad=0.4)


def draw_accuracy(ax: Axes, rows: pd.DataFrame, peers: pd.DataFrame) -> None:
    """Draw test accuracy on Adult against ε: dpml's algorithms with 95 % intervals over seeds, and others' programs."""
    adult = rows[(rows["block"] == "binary") & (rows["dataset"] == "adult") & (rows["metric"] == "accuracy")]
    for algo, shift in OURS:
        curve = adult[(adult["algo"] == algo) & (adult["algo.shift"].fillna(0) == (shift or 0))].sort_values("eps")
        colour, marker = base_look(algo)
        name = algorithm(algo) + (f" shift={shift:g}" if shift else "")
        ax.plot(curve["eps"], curve["mean"], "-", marker=marker, color=colour, label=textwrap.fill(name, 24), ms=5)
        low, high = curve["mean"] - curve["interval"], curve["mean"] + curve["interval"]
        ax.fill_between(curve["eps"], low, high, color=colour, alpha=0.2, lw=0)
    for name in OTHERS:
        colour, marker = base_look(name)
        own = (peers["series"] == "adult") & (peers["algo"] == name) & (peers["metric"] == "accuracy")
        points = peers[own].sort_values("x")
        shown = points[points["mean"] >= _LEAST]
        ax.plot(shown["x"], shown["mean"], marker, mfc="white", color=colour, label=name, ms=5.5)
        for x, mean in points.loc[points["mean"] < _LEAST, ["x", "mean"]].itertuples(index=False):
            ax.annotate(f"◇ {mean:.2f}", (x, _LEAST - 0.012), (x, _LEAST), ha="left", va="top", arrowprops=_BEYOND)
    for algo in ("ceiling", "constant"):
        mean = adult[adult["algo"] == algo]["mean"].iloc[0]
        ax.axhline(mean, ls=REFERENCES[algo], color=base_look(algo)[0], lw=1, label=algorithm(algo))
    numbers(ax.xaxis, sorted(adult["eps"][np.isfinite(adult["eps"])].unique()))
    ax.set(ylim=(_LEAST - 0.012, 0.86), ylabel="test accuracy, Adult")
    ax.set_xlabel("ε proven, δ = 1e-5 (diffprivlib: δ = 0)")
    ax.set_title("One trusted centre, 30,162 records", loc="left")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def picture(lines: list[Headline]) -> Figure:
    """Draw both halves of the README's picture from the current results."""
    with in_style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.0), width_ratios=(1, 1.05), layout="constrained")
        draw_guarantees(left, lines)
        draw_accuracy(right, pd.read_csv(CENTRE), pd.read_csv(PEERS, comment="#"))
    return figure


def drawn(figure: Figure) -> str:
    """Return a digest of all points and words of a picture; it is stored, so that a test can detect an old picture."""
    points = [(line.get_label(), np.round(line.get_xydata(), 6).tolist()) for ax in figure.axes for line in ax.lines]
    bands = [np.round(one.get_paths()[0].vertices, 6).tolist() for ax in figure.axes for one in ax.collections]
    words = [text.get_text() for ax in figure.axes for text in ax.texts]
    return hashlib.sha256(repr((points, bands, words)).encode()).hexdigest()


def main() -> None:
    """Draw the picture and print the table."""
    lines = headlines(pd.read_csv(AUDIT))
    figure = picture(lines)
    with in_style():
        figure.savefig(PICTURE, metadata={"Date": None, "Description": drawn(figure)})
    print(markdown(lines))


if __name__ == "__main__":
    main()
