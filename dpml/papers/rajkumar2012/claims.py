"""Rajkumar & Agarwal 2012: the claims, all about the mean test error in its two figures.

*Significant* is defined in `claims`: the tests are paired over data sets or folds, which are the seeds. A difference
that is not significant makes a claim false only if a difference of one in a hundred test rows is ruled out. *Similar*,
and *not affected*, mean a difference of at most five in a hundred test rows: smaller differences cannot be seen in such
a figure, and it is a tenth of the distance between guessing and no error.

The paper does not state its lam. Two readings use the best of a fixed grid, the same for all three algorithms: `noisy`
chooses it with their noise, `plain` without, as one would choose without accounting for noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pandas as pd

from dpml.reporting.claim_tests import both, failing, fewest_seeds, several
from dpml.reporting.claims import NEAR, Check, Claim, Evidence, NotComputedError, Reading, Runs, Test, every
from dpml.reporting.statistics import Comparison, algorithm_below, alike, matters, shows, worse

EPS = (0.1, 0.2)
ERRORS = matters("error")

ERROR = (Reading("noisy", "paper", "error"), Reading("plain", "paper", "error"))


def _on_panels(axes: Sequence[str], algorithms: Sequence[str], decide: Callable[[Runs], Check]) -> Test:
    """A test on the panels of a reading, one for every eps and axis, whose names stand for blocks in the runs."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs: dict[tuple[str, str], Any] = {}
        missing: list[str] = []
        for eps in EPS:
            rows = replace(evidence, rows=evidence.rows[evidence.rows["eps"] == eps])
            for axis in axes:
                block = f"{reading.name}_{axis}"
                try:
                    panel = rows.all_runs({block: algorithms}, reading)
                except NotComputedError as error:
                    missing += [f"{name} at eps = {eps:g}" for name in error.missing]
                else:
                    runs |= {(f"eps = {eps:g}, {axis}", algorithm): values for (_, algorithm), values in panel.items()}
        if missing:
            raise NotComputedError(missing)
        return replace(decide(runs), seeds=fewest_seeds(runs))

    return test


def _near(a: float, b: float) -> float:
    return NEAR


def _in_order(columns: Sequence[object]) -> list[Any]:
    """Numbers of parties, ascending; shares of parties from equal to skewed, by the smallest share, descending."""
    shares = all("/" in str(column) for column in columns)
    return sorted(columns, key=lambda c: -min(map(float, str(c).split("/"))) if shares else float(str(c)))


def degrades(axis: str, algorithm: str) -> Test:
    """From the first to the last x the mean error rises significantly, and no single step falls significantly."""

    def decide(runs: Runs) -> Check:
        rises: dict[str, tuple[pd.Series, pd.Series]] = {}
        drops: dict[str, tuple[pd.Series, pd.Series]] = {}
        texts = []
        for (panel, _), values in runs.items():
            columns = _in_order(several(values, panel))
            rises[panel] = values[columns[0]], values[columns[-1]]
            for a, b in pairwise(columns):
                drops[f"{panel} {a} to {b}"] = values[b], values[a]
            texts.append(f"{panel}: " + " ".join(f"{values[column].mean():.3g}" for column in columns))
        shown = shows(rises, ERRORS)
        fallen = worse(drops, ERRORS)
        text = f"{algorithm}, {'; '.join(texts)}{failing('no rise', shown)}"
        text += f"; significant falls at {', '.join(fallen)}" if fallen else ""
        return Check.of(every([not fallen, *(one.holds for one in shown.values())]), text, shown.values())

    return _on_panels((axis,), (algorithm,), decide)


def similar(algorithm: str, other: str) -> Test:
    """At every x the mean errors of two algorithms differ by at most NEAR, by the 95 % bound on the difference."""

    def decide(runs: Runs) -> Check:
        apart, shown = {}, {}
        for panel in dict.fromkeys(panel for panel, _ in runs):
            ours, theirs = runs[panel, algorithm], runs[panel, other]
            for x in ours:
                apart[f"{panel} = {x}"] = ours[x].mean() - theirs[x].mean()
                shown[f"{panel} = {x}"] = alike(ours[x], theirs[x], _near)
        worst = max(apart, key=lambda key: abs(apart[key]))
        text = f"{algorithm} - {other} is at most {apart[worst]:+.3g}, at {worst}{failing('not similar', shown)}"
        return Check.of(every(one.holds for one in shown.values()), text, shown.values())

    return _on_panels(("M", "partition"), (algorithm, other), decide)


def unaffected(axis: str, algorithms: Sequence[str]) -> Test:
    """From the first x to every other the mean error of each algorithm changes by at most NEAR, by its 95 % bound."""

    def decide(runs: Runs) -> Check:
        spans: dict[str, float] = {}
        shown: dict[str, Comparison] = {}
        for (panel, algorithm), values in runs.items():
            first, *others = _in_order(several(values, panel))
            curve = f"{algorithm}, {panel}"
            spans[curve] = max(abs(values[x].mean() - values[first].mean()) for x in others)
            shown |= {f"{curve} = {x}": alike(values[first], values[x], _near) for x in others}
        text = "; ".join(f"{curve}: moves by {span:.2g}" for curve, span in spans.items())
        return Check.of(every(one.holds for one in shown.values()), text + failing("moves", shown), shown.values())

    return _on_panels((axis,), algorithms, decide)


def wins_at(axis: str, x: object, algorithm: str, other: str) -> Test:
    """At one x the mean error of `algorithm` is significantly below the other's, at every eps."""

    def decide(runs: Runs) -> Check:
        pairs, texts = {}, []
        for panel in dict.fromkeys(panel for panel, _ in runs):
            ours, theirs = runs[panel, algorithm], runs[panel, other]
            if x not in ours:
                raise NotComputedError([f"{panel} = {x}"])
            pairs[panel] = ours[x], theirs[x]
            texts.append(f"{panel} = {x}: {ours[x].mean():.3g} against {theirs[x].mean():.3g}")
        shown = shows(pairs, ERRORS, algorithm_below)
        text = f"{algorithm} against {other}, {'; '.join(texts)}{failing('not lower', shown)}"
        return Check.of(every(one.holds for one in shown.values()), text, shown.values())

    return _on_panels((axis,), (algorithm, other), decide)


def _claims(prefix: str, figure: str, where: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{prefix}.1",
            figure,
            f"{where}, local aggregation degrades as the number of parties grows.",
            "at both eps the mean test error of la rises significantly from M = 5 to 15, and falls significantly at no "
            "step; it does not where a rise of 0.01 is ruled out",
            degrades("M", "la"),
            ERROR,
        ),
        Claim(
            f"{prefix}.2",
            figure,
            f"{where}, psgd performs like gop.",
            "at every M, every share vector and both eps the mean test errors differ by at most 0.05, "
            "and so do the 95 % bounds",
            similar("psgd", "gop"),
            ERROR,
        ),
        Claim(
            f"{prefix}.3",
            figure,
            f"{where}, psgd is better than local aggregation even with few parties.",
            "at M = 5 and both eps the mean test error of psgd is significantly below that of la; it is not where a "
            "difference of 0.01 is ruled out",
            wins_at("M", 5, "psgd", "la"),
            ERROR,
        ),
        Claim(
            f"{prefix}.4",
            figure,
            f"{where}, local aggregation degrades as the smallest party gets smaller; psgd and gop are not affected.",
            "at both eps the mean test error of la rises significantly from equal shares to the most skewed, and falls "
            "significantly at no step; those of psgd and gop stay within 0.05 of their values at equal shares",
            both(degrades("partition", "la"), unaffected("partition", ("psgd", "gop"))),
            ERROR,
        ),
    )


HALVING = Reading("as stated", "halving", "error")
SPENT = (0.1, 0.2, 1.0, 10.0)
EXCESS = Reading("as stated", "paper", "excess_loss")
SHARE = 0.9  # 1 - 2 delta' of Theorem 5.3


def guesses(block: str) -> Test:
    """At every eps, after the most rounds, halving budgets guess (within NEAR of 1/2), and plain psgd is better."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        pairs, half, texts = {}, {}, []
        for eps in SPENT:
            rows = replace(evidence, rows=evidence.rows[evidence.rows["eps"] == eps])
            runs = [rows.all_runs({block: ("psgd",)}, replace(reading, variant=v)) for v in (reading.variant, "paper")]
            ours, paper = (tables[block, "psgd"] for tables in runs)
            last = max(several(ours, block))
            if last not in paper:
                raise NotComputedError([f"psgd in {block} after {last} rounds"])
            half[f"eps = {eps:g}"] = alike(ours[last], 0 * ours[last] + 0.5, _near)
            pairs[f"eps = {eps:g}"] = paper[last], ours[last]
            texts.append(
                f"eps = {eps:g}: {ours[last].mean():.3g} after {last} rounds, {ours.mean().min():.3g} after "
                f"{ours.mean().idxmin()}, psgd {paper[last].mean():.3g}"
            )
        shown = shows(pairs, ERRORS)
        all_shown = (*half.values(), *shown.values())
        text = "; ".join(texts) + failing("no guess", half) + failing("psgd not better", shown)
        seeds = evidence.rows.loc[evidence.rows["block"] == block, "seed"].nunique()
        return replace(Check.of(every(one.holds for one in all_shown), text, all_shown), seeds=seeds)

    return test


def bounded(block: str, bound: str) -> Test:
    """At every N, in at least `SHARE` of the seeds the excess loss of every draw is at most the bound."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = evidence.all_runs({block: ("gop",)}, reading)[block, "gop"]
        bounds = evidence.runs(bound, "gop", replace(reading, metric="bound"))
        if bounds.empty or set(runs) - set(bounds):
            raise NotComputedError([f"the bound at every N of {block}"])
        limit = {N: float(bounds[N].iloc[0]) for N in runs}
        kept = {N: float((runs[N] <= limit[N]).groupby(level="seed").all().mean()) for N in runs}
        texts = [f"N = {N}: {runs[N].mean():.3g}, bound {limit[N]:.3g}, kept by {kept[N]:.0%}" for N in runs]
        return Check(min(kept.values()) >= SHARE, "; ".join(texts), runs.index.get_level_values("seed").nunique())

    return test


CLAIMS = (
    *_claims("R1", "rajkumar2012/fig1", "On simulated data"),
    *_claims("R2", "rajkumar2012/fig2", "On the Wisconsin breast cancer data"),
    Claim(
        "R3.2",
        "rajkumar2012/halving",
        "With budgets of eps/2^t the gradients are so noisy after many rounds that the classifier is unlikely to "
        "generalise.",
        "at eps = 0.1, 0.2, 1 and 10 its mean test error after the most rounds is within 0.05 of 1/2, and so is its "
        "95 % bound, and that of psgd after as many is significantly lower",
        guesses("rounds"),
        (HALVING,),
    ),
    Claim(
        "R5.3",
        "rajkumar2012/theorem53",
        "Theorem 5.3: with probability 1 - 2 delta' the expected loss of gop is at most a bound above that of w_0.",
        "at every N, all draws of at least 90 % of the seeds keep the bound, with the constants of the proof",
        bounded("excess_N", "bound_N"),
        (EXCESS,),
    ),
)
