"""Kang, Liu & Wang 2019: the claims, each for every figure that it covers and for every open reading of the paper.

*Better* means a higher accuracy or a smaller gap. *Similar*, *close* and *steady* mean within 0.05 of accuracy, half of
the first digit that a figure's axis shows, or within a factor of two of the gap. *Close* to the centralised method
means not worse: the text praises WD-DP for being "straight up to centralized methods", so being better is no failure.
A claim holds for a figure if it holds for each of its data sets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from dpml.reporting.claim_tests import most, on_runs, several
from dpml.reporting.claims import FACTOR, NEAR, Check, Claim, Evidence, NotComputedError, Reading, Runs, Test
from dpml.reporting.claims import every as all_of
from dpml.reporting.claims import some as any_of
from dpml.reporting.statistics import Comparison, algorithm_below, below, matters, shows, worse

SETS = ("kdd", "adult", "bank", "breast", "credit")
EPS, U = tuple(f"{name}_eps" for name in SETS), tuple(f"{name}_u" for name in SETS)

Curves = Mapping[str, pd.DataFrame]
"""The runs of one data set by algorithm."""

Pair = tuple[pd.Series, pd.Series]
PBelow = Callable[[pd.Series, pd.Series], float]


@dataclass(frozen=True)
class Judged:
    """The evidence of one data set: the comparisons that its decision rests on."""

    holds: bool | None
    text: str
    shown: Sequence[Comparison] = ()


def _better(a: pd.Series, b: pd.Series, reading: Reading) -> Pair:
    """The pair whose first mean is below its second if a is better than b."""
    return (a, b) if reading.metric == "optimality_gap" else (b, a)


def _no_worse(a: pd.Series, b: pd.Series, reading: Reading) -> Pair:
    """The pair for "a is not worse than b, up to the tolerance of *similar*"."""
    return (a, FACTOR * b) if reading.metric == "optimality_gap" else (b - NEAR, a)


def _shown(pairs: Mapping[Any, Pair], reading: Reading, p_below: PBelow) -> dict[Any, Comparison]:
    return shows(pairs, matters(reading.metric), p_below)


def _each(
    blocks: Callable[[Reading], Sequence[str]],
    algorithms: Sequence[str],
    judge: Callable[[Curves, Reading, str], Judged],
) -> Test:
    """A test that holds if `judge` does for each block."""

    def decide(runs: Runs, reading: Reading) -> Check:
        found = {block: judge({a: runs[block, a] for a in algorithms}, reading, block) for block in blocks(reading)}
        texts = [f"{block.split('_')[0]} ({_YES[one.holds]}): {one.text}" for block, one in found.items()]
        shown = [comparison for one in found.values() for comparison in one.shown]
        return Check.of(all_of(one.holds for one in found.values()), "; ".join(texts), shown)

    return on_runs(lambda reading: dict.fromkeys(blocks(reading), algorithms), decide)


_YES = {True: "yes", False: "no", None: "undecided"}


def _beats(curves: Curves, reading: Reading, _: str) -> Judged:
    ours, theirs, centre = (curves[algorithm] for algorithm in ("wddp", "jayaraman", "wang"))
    grid = list(ours.columns)
    wins = _shown({x: _better(ours[x], theirs[x], reading) for x in grid}, reading, algorithm_below)
    losses = worse({x: _better(theirs[x], ours[x], reading) for x in grid}, matters(reading.metric), algorithm_below)
    near = _shown({x: _no_worse(ours[x], centre[x], reading) for x in grid}, reading, algorithm_below)
    held = all_of([most([wins[x].holds for x in grid]), not losses, *(near[x].holds for x in grid)])
    won, close = (sum(one.holds is True for one in found.values()) for found in (wins, near))
    last = grid[-1]
    means = ", ".join(f"{algorithm} {runs[last].mean():.3g}" for algorithm, runs in curves.items())
    text = f"{won} won, {len(losses)} lost of {len(grid)}, no worse than wang at {close}; at {last:g}: {means}"
    return Judged(held, text, [*wins.values(), *near.values()])


def _improves(curves: Curves, reading: Reading, block: str) -> Judged:
    runs = curves["wddp"]
    grid = several(runs, block)
    gain = _shown({"": _better(runs[grid[-1]], runs[grid[0]], reading)}, reading, below)[""]
    ways = {f"{a:g}-{b:g}": _better(runs[a], runs[b], reading) for a, b in pairwise(grid)}
    steps = worse(ways, matters(reading.metric))
    text = f"{runs[grid[0]].mean():.3g} to {runs[grid[-1]].mean():.3g}"
    return Judged(all_of([gain.holds, not steps]), text + (f", worse at {', '.join(steps)}" if steps else ""), [gain])


def _alike(curves: Curves, reading: Reading, block: str) -> Judged:
    ours, theirs = (_equal(curves, algorithm, block) for algorithm in ("wddp", "jayaraman"))
    found = _both_ways({"": (ours, theirs)}, reading, algorithm_below)
    return Judged(all_of(one.holds for one in found), f"wddp {ours.mean():.3g}, jayaraman {theirs.mean():.3g}", found)


def _steady(curves: Curves, reading: Reading, block: str) -> Judged:
    ours, theirs = curves["wddp"], curves["jayaraman"]
    our_equal, equal = (_equal(curves, algorithm, block) for algorithm in ("wddp", "jayaraman"))
    uneven = [u for u in several(theirs, block) if u != 1]
    lower = _shown({u: _better(equal, theirs[u], reading) for u in uneven}, reading, below)
    steady = _both_ways({u: (ours[u], our_equal) for u in uneven}, reading, below)
    means, lost = ours.mean(), sum(one.holds is True for one in lower.values())
    text = f"wddp {means.min():.3g} to {means.max():.3g}; jayaraman significantly worse at {lost} of {len(lower)} u, "
    text += f"{equal.mean():.3g} to {theirs[uneven[-1]].mean():.3g}"
    held = all_of([any_of(one.holds for one in lower.values()), *(one.holds for one in steady)])
    return Judged(held, text, [*lower.values(), *steady])


def _both_ways(pairs: Mapping[Any, Pair], reading: Reading, p_below: PBelow) -> list[Comparison]:
    """In no pair is one worse than the other, up to the tolerance of *similar*."""
    ways = {(x, way): _no_worse(*ab, reading) for x, (a, b) in pairs.items() for way, ab in enumerate(((a, b), (b, a)))}
    return list(_shown(ways, reading, p_below).values())


def _equal(curves: Curves, algorithm: str, block: str) -> pd.Series:
    """The runs with clients of equal size."""
    runs = curves[algorithm]
    if 1 not in runs.columns:
        raise NotComputedError([f"{algorithm} in {block} at u = 1"])
    return runs[1]


_MARGIN = "0.05 of accuracy, or a factor of two of the gap"
_WORDS = {
    "K1.1": (
        "WD-DP is better than Jayaraman et al.'s method and similar to the centralised one.",
        "wddp is significantly better than jayaraman at more than half of the eps and significantly worse at none, and "
        f"at all of them not worse than wang by more than {_MARGIN}, significantly; better than wang is no failure",
        "eps",
        ("wddp", "jayaraman", "wang"),
        _beats,
    ),
    "K1.2": (
        "It gets better as eps grows.",
        "wddp is significantly better at the largest eps than at the smallest, and gets significantly worse at no step",
        "eps",
        ("wddp",),
        _improves,
    ),
    "K2.1": (
        "With clients of equal size WD-DP and Jayaraman et al.'s method are alike.",
        f"at u = 1 neither wddp nor jayaraman is worse than the other by more than {_MARGIN}, significantly",
        "u",
        ("wddp", "jayaraman"),
        _alike,
    ),
    "K2.2": (
        "As sizes get more uneven WD-DP stays steady, while Jayaraman et al.'s method gets worse or fluctuates.",
        f"at every u wddp is within {_MARGIN} of itself at u = 1, significantly; jayaraman is significantly worse at "
        "some u than at u = 1",
        "u",
        ("wddp", "jayaraman"),
        _steady,
    ),
}
_ACCURACY, _GAP = Reading("accuracy", "paper", "accuracy"), Reading("gap", "paper", "optimality_gap")
_READINGS = {1: _ACCURACY, 2: _ACCURACY, 3: _GAP} | {n: (_ACCURACY, _GAP)[n % 2] for n in range(4, 12)}
_READINGS |= {12: _GAP} | {n: (_GAP, _ACCURACY)[n % 2] for n in range(13, 17)}

CHOICES = {
    "as in the figures": "paper",
    "noise once on the average, eq. (4)": "once",
    "c = 1": "c1",
    "c = 4": "c4",
    "rows of length 1": "unit",
    "steps cross-validated": "validated",
    "steps by an oracle": "oracle",
    "lam = 0": "lam0",
    "lam = 1e-2": "lam2",
}
"""The choices that the paper leaves open, all else as in the figures, and their names in `kang2019/readings`."""

OPEN = tuple(
    Reading(f"{metric.name}, {name}", "paper", metric.metric) for metric in (_ACCURACY, _GAP) for name in CHOICES
)


def _of_figure(axis: str) -> Callable[[Reading], Sequence[str]]:
    return lambda _: {"eps": EPS, "u": U}[axis]


OPEN_SETS = {"adult": "adult", "breast_cancer": "breast", "creditcard_subset": "credit"}
"""The data sets of `kang2019/readings`, by their names in rows."""


def _of_choice(axis: str) -> Callable[[Reading], Sequence[str]]:
    """The blocks of a choice, by data set: ``adult_eps_once``."""
    return lambda reading: [f"{name}_{axis}_{_choice(reading)}" for name in OPEN_SETS.values()]


def _choice(reading: Reading) -> str:
    return CHOICES[reading.name.partition(", ")[2]]


def _by_data_set(axis: str, test: Test) -> Test:
    """A test on the blocks of a choice, one per data set; the choice also sets the variant of wddp."""

    def judge(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows[evidence.rows["block"] == f"{axis}_{_choice(reading)}"]
        names = rows["dataset"].map(OPEN_SETS).str.cat(rows["block"], sep="_")
        axes = dict.fromkeys(_of_choice(axis)(reading), {"eps": "eps", "u": "partition.u"}[axis])
        return test(Evidence(rows.assign(variant="paper", block=names), evidence.published, axes), reading)

    return judge


CLAIMS = tuple(
    Claim(f"{name}.fig{n}", f"kang2019/fig{n}", text, criterion, _each(_of_figure(axis), algorithms, judge), (reading,))
    for n, reading in sorted(_READINGS.items())
    for name, (text, criterion, axis, algorithms, judge) in _WORDS.items()
    if (axis == "u") == (n == 2 or n >= 12)
) + tuple(
    Claim(
        f"{name}r", "kang2019/readings", text, criterion,
        _by_data_set(axis, _each(_of_choice(axis), algorithms, judge)), OPEN,
    )
    for name, (text, criterion, axis, algorithms, judge) in _WORDS.items()
)  # fmt: skip
