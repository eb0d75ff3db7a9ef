"""Rajkumar & Agarwal 2012: tests of Theorems 5.1 and 5.3, and of budgets that are halved in every round."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpml.reporting.claim_tests import Key, checked, several, together
from dpml.reporting.claims import Check, Evidence, Group, NotComputedError, Reading, Test, every
from dpml.reporting.criteria import Comparison, covers

from .bounds import TAIL


def guesses(block: str, eps: Sequence[float]) -> Test:
    """At every eps, after the most rounds, halving budgets are similar to a guess, and plain psgd is better."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        pairs: dict[Key, Any] = {}
        half: dict[Key, Any] = {}
        for budget in eps:
            rows = evidence.where("eps", budget)
            runs = [rows.all_runs({block: ("psgd",)}, replace(reading, variant=v)) for v in (reading.variant, "paper")]
            ours, paper = (tables[block, "psgd"] for tables in runs)
            last = max(several(ours, block))
            if last not in paper:
                raise NotComputedError([f"psgd in {block} after {last:g} rounds"])
            half[Key(block, "halving budgets", "a guess", f"eps = {budget:g}")] = ours[last], 0 * ours[last] + 0.5
            pairs[Key(block, "psgd", "halving budgets", f"eps = {budget:g}")] = paper[last], ours[last]

        checks = [checked(half, evidence, "error", "equal"), checked(pairs, evidence, "error")]
        return together(checks)

    return test


def bounded(block: str, bound: str, share: float) -> Test:
    """At every N the excess loss of every draw is at most the bound in at least this `share` of the seeds."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = evidence.all_runs({block: ("gop",)}, reading)[block, "gop"]
        bounds = evidence.runs(bound, "gop", replace(reading, metric="bound"))
        if bounds.empty or set(runs) - set(bounds):
            raise NotComputedError([f"the bound at every N of {block}"])
        kept = {N: (runs[N] <= float(bounds[N].iloc[0])).groupby(level="seed").all() for N in runs}
        shown = {f"N = {N}": covers(int(one.sum()), len(one), share) for N, one in kept.items()}
        return Check([_bounded(block, shown)], runs.index.get_level_values("seed").nunique())

    return test


def _bounded(block: str, shown: Mapping[str, Comparison]) -> Group:
    return Group(block, "gop", "the bound", shown, every(one.holds for one in shown.values()))


def gap_bounded(blocks: Sequence[str], eps: Sequence[float]) -> Test:
    """In every block and at every eps enough draws of gop keep the bound on its optimality gap.

    gop does not depend on the parties, so that its rows at one M are all of them. Its draws are independent, and the
    theorem holds for any rows: the draws of all seeds count.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        groups, seeds = [], []
        for block in blocks:
            shown = {}
            for budget in eps:
                rows = evidence.where("eps", budget)
                one = replace(reading, metric="gap_bound")
                gap, bound = (rows.all_runs({block: ("gop",)}, metric)[block, "gop"] for metric in (reading, one))
                first = several(gap, block)[0]
                kept = gap[first].dropna() <= bound[first].dropna()
                shown[f"eps = {budget:g}"] = covers(int(kept.sum()), len(kept), 1 - TAIL)
                seeds.append(kept.index.get_level_values("seed").nunique())
            groups.append(_bounded(block, shown))
        return Check(groups, min(seeds))

    return test
