"""Kang, Liu & Wang 2019: the claims, each for every figure that it covers and for every open reading of the paper.

What their words mean is defined in `criteria`. *Similar* is two-sided, for the text says "similar": a method that is
much better than the centralised one is not similar to it. A claim holds for a figure if it holds for
each of its data sets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from dpml.papers.kang2019 import theory
from dpml.reporting.claim_tests import fewest_seeds, most, several, steady, together, trend, wins
from dpml.reporting.claims import Check, Claim, Evidence, NotComputedError, Reading, Test
from dpml.reporting.claims import some as any_of
from dpml.reporting.criteria import better, scale, similar

SETS = ("kdd", "adult", "bank", "breast", "credit")
EPS, U = tuple(f"{name}_eps" for name in SETS), tuple(f"{name}_u" for name in SETS)

Curves = Mapping[str, pd.DataFrame]
"""The runs of one data set by algorithm."""

Judge = Callable[[Curves, Reading, str], Check]
"""The test of a claim on the runs of one data set."""


def _each(blocks: Callable[[Reading], Sequence[str]], algorithms: Sequence[str], judge: Judge) -> Test:
    """A test that holds if `judge` does for each block, one per data set.

    Data sets that are not here, and substitutes, are left out if more than half are left; the numbers have both.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        wanted, have = blocks(reading), set(evidence.rows["block"])
        here = [block for block in wanted if block in have and not evidence.stand_ins([block])]
        if 2 * len(here) <= len(wanted):
            here = list(wanted)  # which says what is missing
        runs = evidence.all_runs({block: algorithms for block in wanted if block in (*here, *have)}, reading)
        texts, found = [], []
        for block in wanted:
            name = block.split("_")[0]
            if (block, algorithms[0]) not in runs:
                texts.append(f"{name}: not here")
                continue
            one = judge({a: runs[block, a].abs() for a in algorithms}, reading, block)
            left = "" if block in here else f", on {', '.join(evidence.stand_ins([block]))}, which does not count"
            texts.append(f"{name} ({_YES[one.holds]}{left}): {one.numbers}")
            found += [one] if block in here else []
        on = f"{len(here)} of {len(wanted)} data sets" if len(here) < len(wanted) else ""
        counted = {key: values for key, values in runs.items() if key[0] in here}
        whole = replace(together(found), numbers="; ".join(texts), seeds=fewest_seeds(counted), on=on)
        return replace(whole, substitutes=evidence.stand_ins(here))

    return test


_YES = {True: "yes", False: "no", None: "undecided"}


def _beats(curves: Curves, reading: Reading, block: str) -> Check:
    ours, theirs, centre = (curves[algorithm] for algorithm in ("wddp", "jayaraman", "wang"))
    on = scale(reading.metric)
    won = wins({(f"{block}, against jayaraman", x): (ours[x], theirs[x]) for x in ours}, on, most)
    near = {(f"{block}, similar to wang", x): similar(ours[x], centre[x], on) for x in ours}
    above = sum(one.slack < 0 and one.significant for one in near.values())
    like = sum(one.holds is True for one in near.values())
    last = list(ours)[-1]
    means = ", ".join(f"{algorithm} {runs[last].mean():.3g}" for algorithm, runs in curves.items())
    text = f"similar to wang at {like}, better than similar at {above} of {len(near)}; at {last:g}: {means}"
    return together([won, Check.of(text, near)])


def _improves(curves: Curves, reading: Reading, block: str) -> Check:
    runs = curves["wddp"]
    return trend({f"wddp {block}": (runs, several(runs, block))}, scale(reading.metric), better_at_the_end=True)


def _alike(curves: Curves, reading: Reading, block: str) -> Check:
    ours, theirs = (_equal(curves, algorithm, block) for algorithm in ("wddp", "jayaraman"))
    found = similar(ours, theirs, scale(reading.metric))
    return Check.of(f"wddp {ours.mean():.3g}, jayaraman {theirs.mean():.3g}", {f"{block}, u = 1": found})


def _steady(curves: Curves, reading: Reading, block: str) -> Check:
    ours, theirs = curves["wddp"], curves["jayaraman"]
    _, equal = (_equal(curves, algorithm, block) for algorithm in ("wddp", "jayaraman"))
    uneven = [u for u in several(theirs, block) if u != 1]
    pairs = {(f"jayaraman worse, {block}", u): (equal, theirs[u]) for u in uneven}
    lower = better(pairs, scale(reading.metric), same_noise=True)
    worse = sum(one.holds is True for one in lower.values())
    text = f"jayaraman worse at {worse} of {len(lower)} u, {equal.mean():.3g} to {theirs[uneven[-1]].mean():.3g}"
    kept = steady({f"wddp {block}": (ours, [1, *uneven])}, scale(reading.metric))
    return together([kept, Check.of(text, lower, lambda known: any_of(known.values()))])


def _equal(curves: Curves, algorithm: str, block: str) -> pd.Series:
    """The runs with clients of equal size."""
    runs = curves[algorithm]
    if 1 not in runs.columns:
        raise NotComputedError([f"{algorithm} in {block} at u = 1"])
    return runs[1]


_WORDS = {
    "K1.1": (
        "WD-DP is better than Jayaraman et al.'s method and similar to the centralised one.",
        "wddp is better than jayaraman at more than half of the eps and worse at none, and similar to wang at all of "
        "them",
        "eps",
        ("wddp", "jayaraman", "wang"),
        _beats,
    ),
    "K1.2": (
        "It gets better as eps grows.",
        "wddp is better at the largest eps than at the smallest, and gets worse at no step",
        "eps",
        ("wddp",),
        _improves,
    ),
    "K2.1": (
        "With clients of equal size WD-DP and Jayaraman et al.'s method are alike.",
        "at u = 1 wddp is similar to jayaraman",
        "u",
        ("wddp", "jayaraman"),
        _alike,
    ),
    "K2.2": (
        "As sizes get more uneven WD-DP stays steady, while Jayaraman et al.'s method gets worse or fluctuates.",
        "at every u wddp is similar to itself at u = 1; jayaraman is worse at some u than at u = 1",
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


OPEN_SETS = {"adult": "adult", "breast_cancer": "breast", "creditcard": "credit", "creditcard_subset": "credit"}
"""The data sets of `kang2019/readings`, by their names in rows."""


def _of_choice(axis: str) -> Callable[[Reading], Sequence[str]]:
    """The blocks of a choice, by data set: ``adult_eps_once``."""
    return lambda reading: [f"{name}_{axis}_{_choice(reading)}" for name in dict.fromkeys(OPEN_SETS.values())]


def _choice(reading: Reading) -> str:
    return CHOICES[reading.name.partition(", ")[2]]


def _by_data_set(axis: str, test: Test) -> Test:
    """A test on the blocks of a choice, one per data set; the choice also sets the variant of wddp."""

    def judge(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows[evidence.rows["block"] == f"{axis}_{_choice(reading)}"]
        names = rows["dataset"].map(OPEN_SETS).str.cat(rows["block"], sep="_")
        axes = dict.fromkeys(_of_choice(axis)(reading), {"eps": "eps", "u": "partition.u"}[axis])
        return test(replace(evidence, rows=rows.assign(variant="paper", block=names), axes=axes), reading)

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
CLAIMS += theory.CLAIMS
