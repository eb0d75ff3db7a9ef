"""Kang, Liu & Wang 2019: the claims, each for every figure that it covers and for every open reading of the paper.

What their words mean is defined in `criteria`. *Similar* is two-sided, for the text says "similar": a method that is
much better than the centralised one is not similar to it. A claim holds for a figure if it holds for each of its data
sets. Figures follow the paper's protocol, steps by cross-validation, and have two readings: of where Jayaraman et al.'s
method has its noise. Other choices that the paper leaves open are in `kang2019/readings`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product

import numpy as np
import pandas as pd

from dpml.papers.kang2019 import theory
from dpml.reporting.claim_tests import fewest_seeds, most, several, steady, together, trend, wins
from dpml.reporting.claims import Check, Claim, Evidence, NotComputedError, Reading, Test
from dpml.reporting.claims import some as any_of
from dpml.reporting.criteria import better, scale, similar

SETS = ("kdd", "adult", "bank", "breast", "credit")

Curves = Mapping[str, pd.DataFrame]
"""The runs of one data set by algorithm."""

Judge = Callable[[Curves, Reading, str], Check]
"""The test of a claim on the runs of one data set."""


def _each(blocks: Callable[[Reading], Sequence[str]], algorithms: Sequence[str], judge: Judge) -> Test:
    """A test that holds if `judge` does for each block, one per data set.

    A data set is left out if it is not here, if it is a substitute, or if all that is compared is less accurate than
    the constant classifier: chance. The claim is judged if more than half are left; the numbers have the others too.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        wanted, have = blocks(reading), evidence.datasets
        here = [block for block in wanted if block in have and not evidence.stand_ins([block])]
        if 2 * len(here) <= len(wanted):
            here = list(wanted)  # which says what is missing
        names = {_baseline(reading) if name == "jayaraman" else name: name for name in algorithms}
        runs = evidence.all_runs({block: [*names] for block in wanted if block in (*here, *have)}, reading)
        texts, chance = [], []
        found: dict[str, Check] = {}
        for block in wanted:
            curves = {names[a]: values.abs() for (where, a), values in runs.items() if where == block}
            floor = _floor(evidence, block, reading)
            if curves and all((values.mean() < floor).all() for values in curves.values()):
                chance.append(block)
                left = f", all below the constant classifier ({floor:.3g}), so that it does not count"
            else:
                left = "" if block in here else f", on {', '.join(evidence.stand_ins([block]))}, which does not count"
            one = judge(curves, reading, block) if curves else None
            said = f"{_YES[one.holds]}{left}): {one.numbers}" if one else "not here)"
            texts.append(f"{block.split('_')[0]} ({said}")
            found |= {block: one} if one and not left else {}
        if 2 * len(found) <= len(wanted):
            raise NotComputedError([f"an algorithm above the constant classifier in {', '.join(chance)}"])
        on = f"{len(found)} of {len(wanted)} data sets" if len(found) < len(wanted) else ""
        seeds = fewest_seeds({key: values for key, values in runs.items() if key[0] in found})
        whole = replace(together([*found.values()]), numbers="; ".join(texts), seeds=seeds, on=on)
        return replace(whole, substitutes=evidence.stand_ins(found))

    return test


def _floor(evidence: Evidence, block: str, reading: Reading) -> float:
    """The mean accuracy of the constant classifier in a block; -inf for another metric, or if it is not there."""
    runs = evidence.runs(block, "constant", reading) if reading.metric == "accuracy" else pd.DataFrame()
    return -math.inf if runs.empty else float(np.nanmean(runs.to_numpy().ravel()))


def _of_figure(axis: str, algorithms: Sequence[str], judge: Judge) -> Test:
    """The test on a figure's data sets with the paper's protocol; the numbers say what comes of our rule's steps."""
    whole, by_rule = (
        _each(lambda _, end=end: [f"{name}_{axis}{end}" for name in SETS], algorithms, judge)  # type: ignore[misc]
        for end in ("", "_rule")
    )

    def test(evidence: Evidence, reading: Reading) -> Check:
        check = whole(evidence, reading)
        if reading.name.endswith(LOCAL):
            return check
        try:
            extra = by_rule(evidence, reading)
        except NotComputedError:
            return check
        return replace(check, numbers=f"{check.numbers}; with the rule's steps: {_YES[extra.holds]}, {extra.numbers}")

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
_FIGURES = {1: "accuracy", 2: "accuracy", 3: "gap"} | {n: ("accuracy", "gap")[n % 2] for n in range(4, 12)}
_FIGURES |= {12: "gap"} | {n: ("gap", "accuracy")[n % 2] for n in range(13, 17)}
_METRICS = {"accuracy": "accuracy", "gap": "optimality_gap"}

ONCE, LOCAL = "jayaraman's noise once on the average", "in local rounds, eq. (2)"
"""What the text says of Jayaraman et al.'s method: noise in its description, eq. (2), and in the sentence on an MPC."""


def _baseline(reading: Reading) -> str:
    return "jayaraman_local" if LOCAL in reading.name else "jayaraman"


@dataclass(frozen=True)
class Choice:
    """Blocks of `kang2019/readings`, ``eps_NAME`` and ``u_NAME``, and the settings of the rows that are taken."""

    block: str
    settings: Mapping[str, object] = field(default_factory=dict)


_FACTORS: Mapping[str, Mapping[object, str]] = {
    "algo.step_selection": {"validated": "", "rule": "the rule's steps"},
    "algo.noise_constant": {16: "", 1: "c = 1"},
    "dataset.steps": {"max_norm": "", "sample_norm": "rows of length 1"},
}
_ONE_AT_A_TIME = {"wddp's noise once too, eq. (4)": "once", "c = 4": "c4", "steps by an oracle": "oracle"}
_ONE_AT_A_TIME |= {"lam = 0": "lam0", "lam = 1e-2": "lam2"}


def _choices() -> dict[str, Choice]:
    """All readings of the settings by name: four choices crossed, and some one at a time, with the rule's steps."""
    found = {}
    for values in product(*_FACTORS.values()):
        words = [words[value] for words, value in zip(_FACTORS.values(), values, strict=True)]
        for noise in (ONCE, LOCAL):
            found[", ".join(filter(None, (*words, noise)))] = Choice(
                "factors", dict(zip(_FACTORS, values, strict=True))
            )
    return found | {f"the rule's steps, {words}, {ONCE}": Choice(block) for words, block in _ONE_AT_A_TIME.items()}


CHOICES = _choices()

OPEN_SETS = {"adult": "adult", "breast_cancer": "breast", "creditcard": "credit", "creditcard_subset": "credit"}
"""The data sets of `kang2019/readings`, by their names in rows."""


def _blocks(_: Reading | None = None) -> list[str]:
    return [f"{name}_chosen" for name in dict.fromkeys(OPEN_SETS.values())]


def _by_data_set(axis: str, test: Test) -> Test:
    """A test on the rows of a choice, one block per data set; the choice also sets the variant of wddp."""

    def judge(evidence: Evidence, reading: Reading) -> Check:
        return test(_chosen(evidence, axis, reading.name.partition(", ")[2]), reading)

    return judge


@lru_cache(maxsize=64)  # all metrics and claims ask for the same ones
def _chosen(evidence: Evidence, axis: str, name: str) -> Evidence:
    """The rows of a choice, by its name."""
    choice = CHOICES[name]
    rows = evidence.where("block", f"{axis}_{choice.block}").rows
    for key, value in choice.settings.items():
        if key not in rows:
            raise NotComputedError([f"{axis}_{choice.block} by {key}"])
        # constant has no noise and no steps; dataset.steps is a list in words, of which this is one
        own = (
            rows[key].astype(str).str.contains(str(value), regex=False)
            if isinstance(value, str)
            else rows[key] == value
        )
        rows = rows[own | rows[key].isna()]
    names = rows["dataset"].map(OPEN_SETS) + "_chosen"
    axes = dict.fromkeys(_blocks(), {"eps": "eps", "u": "partition.u"}[axis])
    return replace(evidence, rows=rows.assign(variant="paper", block=names, of=rows["block"]), axes=axes)


def _readings(metrics: Iterable[str], names: Iterable[str], algorithms: Sequence[str]) -> tuple[Reading, ...]:
    """A reading for every metric and name; the baseline makes no difference to a claim that is not about it."""
    about = [name for name in names if "jayaraman" in algorithms or LOCAL not in name]
    return tuple(Reading(f"{metric}, {name}", "paper", _METRICS[metric]) for metric in metrics for name in about)


CLAIMS = tuple(
    Claim(
        f"{name}.fig{n}", f"kang2019/fig{n}", f"{text} [by reading: {name}r]", criterion,
        _of_figure(axis, algorithms, judge), _readings((metric,), (ONCE, LOCAL), algorithms),
    )
    for n, metric in sorted(_FIGURES.items())
    for name, (text, criterion, axis, algorithms, judge) in _WORDS.items()
    if (axis == "u") == (n == 2 or n >= 12)
) + tuple(
    Claim(
        f"{name}r", "kang2019/readings", f"{text} [by reading]", criterion,
        _by_data_set(axis, _each(_blocks, algorithms, judge)), _readings(_METRICS, CHOICES, algorithms),
    )
    for name, (text, criterion, axis, algorithms, judge) in _WORDS.items()
)  # fmt: skip
CLAIMS += theory.CLAIMS
