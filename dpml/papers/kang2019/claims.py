"""Kang, Liu & Wang 2019: the claims, each for every figure that it is made of.

*Better* is a higher accuracy or a smaller gap. *Similar*, *close* and *steady* are within 0.05 of accuracy, half of the
first digit that a figure's axis shows, or within a factor of two of the gap. A claim holds for a figure when it holds
for each of its data sets.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import pandas as pd

from dpml.reporting.criteria import on_runs, several
from dpml.reporting.judging import FACTOR, NEAR, Check, Claim, NotComputedError, Reading, Runs, Test
from dpml.reporting.statistics import LEVEL, algorithm_below, below, holm

SETS = ("kdd", "adult", "bank", "breast", "credit")
EPS, U = tuple(f"{name}_eps" for name in SETS), tuple(f"{name}_u" for name in SETS)

Curves = Mapping[str, pd.DataFrame]
"""The runs of one data set by algorithm."""


def _p_better(a: pd.Series, b: pd.Series, reading: Reading, p_below: Callable[..., float]) -> float:
    """p-value of "a is better than b"."""
    return p_below(b, a) if reading.metric == "accuracy" else p_below(a, b)


def _similar(a: float, b: float, reading: Reading) -> bool:
    if reading.metric == "accuracy":
        return abs(a - b) <= NEAR
    return max(a, b) <= FACTOR * min(a, b)


def _each(
    blocks: Sequence[str], algorithms: Sequence[str], judge: Callable[[Curves, Reading, str], tuple[bool, str]]
) -> Test:
    """A test that holds when `judge` does for each block."""

    def decide(runs: Runs, reading: Reading) -> Check:
        results = {block: judge({a: runs[block, a] for a in algorithms}, reading, block) for block in blocks}
        texts = [
            f"{block.split('_')[0]} ({'yes' if good else 'no'}): {text}" for block, (good, text) in results.items()
        ]
        return Check(all(good for good, _ in results.values()), "; ".join(texts))

    return on_runs(lambda _: dict.fromkeys(blocks, algorithms), decide)


def _beats(curves: Curves, reading: Reading, _: str) -> tuple[bool, str]:
    ours, theirs, centre = (curves[algorithm] for algorithm in ("wddp", "jayaraman", "wang"))
    grid = list(ours.columns)
    wins = holm({x: _p_better(ours[x], theirs[x], reading, algorithm_below) for x in grid})
    losses = holm({x: _p_better(theirs[x], ours[x], reading, algorithm_below) for x in grid})
    near = [_similar(ours[x].mean(), centre[x].mean(), reading) for x in grid]
    won, lost = sum(wins.values()), sum(losses.values())
    holds = won > len(grid) / 2 and not lost and all(near)
    last = grid[-1]
    means = ", ".join(f"{algorithm} {runs[last].mean():.3g}" for algorithm, runs in curves.items())
    return holds, f"{won} won, {lost} lost of {len(grid)}, close to wang at {sum(near)}; at {last:g}: {means}"


def _improves(curves: Curves, reading: Reading, block: str) -> tuple[bool, str]:
    runs = curves["wddp"]
    grid = several(runs, block)
    gain = _p_better(runs[grid[-1]], runs[grid[0]], reading, below)
    worse = holm({f"{a:g}-{b:g}": _p_better(runs[a], runs[b], reading, below) for a, b in pairwise(grid)})
    steps = [step for step, significant in worse.items() if significant]
    text = f"{runs[grid[0]].mean():.3g} to {runs[grid[-1]].mean():.3g}"
    return gain <= LEVEL and not steps, text + (f", worse at {', '.join(steps)}" if steps else "")


def _alike(curves: Curves, reading: Reading, block: str) -> tuple[bool, str]:
    ours, theirs = (_equal(curves, algorithm, block).mean() for algorithm in ("wddp", "jayaraman"))
    return _similar(ours, theirs, reading), f"wddp {ours:.3g}, jayaraman {theirs:.3g}"


def _steady(curves: Curves, reading: Reading, block: str) -> tuple[bool, str]:
    ours, theirs, equal = curves["wddp"].mean(), curves["jayaraman"], _equal(curves, "jayaraman", block)
    uneven = [u for u in several(theirs, block) if u != 1]
    worse = holm({u: _p_better(equal, theirs[u], reading, below) for u in uneven})
    text = f"wddp {ours.min():.3g} to {ours.max():.3g}; jayaraman significantly worse at {sum(worse.values())} of "
    text += f"{len(worse)} u, {equal.mean():.3g} to {theirs[uneven[-1]].mean():.3g}"
    return _similar(ours.max(), ours.min(), reading) and any(worse.values()), text


def _equal(curves: Curves, algorithm: str, block: str) -> pd.Series:
    """The runs with clients of equal size."""
    runs = curves[algorithm]
    if 1 not in runs.columns:
        raise NotComputedError([f"{algorithm} in {block} at u = 1"])
    return runs[1]


_SIMILAR = "within 0.05 of accuracy, or a factor of two of the gap"
_WORDS = {
    "K1.1": (
        "WD-DP is better than Jayaraman et al.'s method and similar to the centralised one.",
        "wddp is significantly better than jayaraman at more than half of the eps and significantly worse at none, and "
        f"similar to wang at all ({_SIMILAR})",
        _each(EPS, ("wddp", "jayaraman", "wang"), _beats),
    ),
    "K1.2": (
        "It gets better as eps grows.",
        "wddp is significantly better at the largest eps than at the smallest, and gets significantly worse at no step",
        _each(EPS, ("wddp",), _improves),
    ),
    "K2.1": (
        "With clients of equal size WD-DP and Jayaraman et al.'s method are alike.",
        f"at u = 1 the means of wddp and jayaraman are similar ({_SIMILAR})",
        _each(U, ("wddp", "jayaraman"), _alike),
    ),
    "K2.2": (
        "As sizes get more uneven WD-DP stays steady, while Jayaraman et al.'s method gets worse or fluctuates.",
        f"the means of wddp at all u are similar ({_SIMILAR}); jayaraman is significantly worse at some u than at "
        "u = 1",
        _each(U, ("wddp", "jayaraman"), _steady),
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
