"""Kang, Liu & Wang 2019: the claims, each for every figure that it is made of.

*Better* is a higher accuracy or a smaller gap. *Similar*, *close* and *steady* are within 0.05 of accuracy, half of the
first digit that a figure's axis shows, or within a factor of two of the gap. A claim holds for a figure when it holds
for each of its data sets.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pandas as pd

from dpml.reporting.judging import FACTOR, LEVEL, Check, Claim, Evidence, Reading, Test, algorithm_below, below, holm

ABOUT = 0.05
SETS = ("kdd", "adult", "bank", "breast", "credit")
EPS, U = tuple(f"{name}_eps" for name in SETS), tuple(f"{name}_u" for name in SETS)


def _p_better(a: pd.Series, b: pd.Series, reading: Reading, p_below: Callable[..., float]) -> float:
    """p-value of "a is better than b"."""
    return p_below(b, a) if reading.metric == "accuracy" else p_below(a, b)


def _similar(a: float, b: float, reading: Reading) -> bool:
    if reading.metric == "accuracy":
        return abs(a - b) <= ABOUT
    return max(a, b) <= FACTOR * min(a, b)


def _each(blocks: Sequence[str], judge: Callable[[Evidence, Reading, str], Check | None]) -> Test:
    """A test that holds when `judge` does for each block that was computed."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        found = {block: judge(evidence, reading, block) for block in blocks}
        checks = {block: check for block, check in found.items() if check is not None}
        said = [f"{block.split('_')[0]} ({'yes' if good else 'no'}): {text}" for block, (good, text) in checks.items()]
        return (all(good for good, _ in checks.values()), "; ".join(said)) if checks else None

    return test


def _beats(evidence: Evidence, reading: Reading, block: str) -> Check | None:
    ours, theirs, centre = (evidence.runs(block, algo, reading) for algo in ("wddp", "jayaraman", "wang"))
    grid = ours.columns.intersection(theirs.columns).intersection(centre.columns)
    if not len(grid):
        return None
    wins = holm({x: _p_better(ours[x], theirs[x], reading, algorithm_below) for x in grid})
    losses = holm({x: _p_better(theirs[x], ours[x], reading, algorithm_below) for x in grid})
    near = [_similar(ours[x].mean(), centre[x].mean(), reading) for x in grid]
    won, lost = sum(wins.values()), sum(losses.values())
    good = won > len(grid) / 2 and not lost and all(near)
    last = grid[-1]
    means = ", ".join(
        f"{name} {runs[last].mean():.3g}" for name, runs in (("wddp", ours), ("jayaraman", theirs), ("wang", centre))
    )
    return good, f"{won} won, {lost} lost of {len(grid)}, close to wang at {sum(near)}; at {last:g}: {means}"


def _improves(evidence: Evidence, reading: Reading, block: str) -> Check | None:
    runs = evidence.runs(block, "wddp", reading)
    if runs.shape[1] < 2:
        return None
    columns = list(runs.columns)
    gain = _p_better(runs[columns[-1]], runs[columns[0]], reading, below)
    worse = holm({f"{a:g}-{b:g}": _p_better(runs[a], runs[b], reading, below) for a, b in pairwise(columns)})
    steps = [step for step, significant in worse.items() if significant]
    text = f"{runs[columns[0]].mean():.3g} to {runs[columns[-1]].mean():.3g}"
    return gain <= LEVEL and not steps, text + (f", worse at {', '.join(steps)}" if steps else "")


def _alike(evidence: Evidence, reading: Reading, block: str) -> Check | None:
    ours, theirs = (evidence.runs(block, algo, reading) for algo in ("wddp", "jayaraman"))
    if 1 not in ours or 1 not in theirs:
        return None
    a, b = ours[1].mean(), theirs[1].mean()
    return _similar(a, b, reading), f"wddp {a:.3g}, jayaraman {b:.3g}"


def _steady(evidence: Evidence, reading: Reading, block: str) -> Check | None:
    ours, theirs = (evidence.runs(block, algo, reading) for algo in ("wddp", "jayaraman"))
    if ours.shape[1] < 2 or theirs.shape[1] < 2 or 1 not in theirs:
        return None
    means = ours.mean()
    steady = _similar(means.max(), means.min(), reading)
    worse = holm({u: _p_better(theirs[1], theirs[u], reading, below) for u in theirs.columns[theirs.columns != 1]})
    text = f"wddp {means.min():.3g} to {means.max():.3g}; jayaraman significantly worse at {sum(worse.values())} of "
    text += f"{len(worse)} u, {theirs[1].mean():.3g} to {theirs.iloc[:, -1].mean():.3g}"
    return steady and any(worse.values()), text


_WORDS = {
    "K1.1": (
        "WD-DP is better than Jayaraman et al.'s method and similar to the centralised one.",
        "wddp is significantly better than jayaraman at more than half of the eps and significantly worse at none, and "
        "similar to wang at all",
        _each(EPS, _beats),
    ),
    "K1.2": (
        "It gets better as eps grows.",
        "wddp is significantly better at the largest eps than at the smallest, and gets significantly worse at no step",
        _each(EPS, _improves),
    ),
    "K2.1": (
        "With clients of equal size WD-DP and Jayaraman et al.'s method are alike.",
        "at u = 1 the means of wddp and jayaraman are similar",
        _each(U, _alike),
    ),
    "K2.2": (
        "As sizes get more uneven WD-DP stays steady, while Jayaraman et al.'s method gets worse or fluctuates.",
        "the means of wddp at all u are similar; jayaraman is significantly worse at some u than at u = 1",
        _each(U, _steady),
    ),
}
_ACCURACY, _GAP = Reading("accuracy", "paper", "accuracy"), Reading("gap", "paper", "optimality_gap")
_READINGS = {1: _ACCURACY, 2: _ACCURACY, 3: _GAP} | {n: (_ACCURACY, _GAP)[n % 2] for n in range(4, 12)}
_READINGS |= {12: _GAP} | {n: (_GAP, _ACCURACY)[n % 2] for n in range(13, 17)}

CLAIMS = tuple(
    Claim(f"{name}.fig{n}", f"kang2019/fig{n}", text, criterion, test, (reading,))
    for n, reading in sorted(_READINGS.items())
    for name, (text, criterion, test) in _WORDS.items()
    if name.startswith("K2") == (n == 2 or n >= 12)
)
