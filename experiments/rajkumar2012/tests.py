"""Test Theorems 5.1 and 5.3 of Rajkumar & Agarwal 2012, and budgets that are halved in every round."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpml.reporting.claim_tests import Key, checked, several, together
from dpml.reporting.claims import Check, Evidence, Group, NotComputedError, every
from dpml.reporting.criteria import Comparison, covers

from .bounds import TAIL


def guesses(evidence: Evidence, block: str, eps: Sequence[float]) -> Check:
    """Test that after the most rounds, at every eps, halving is similar to random guesses, and plain psgd is better."""
    pairs: dict[Key, Any] = {}
    half: dict[Key, Any] = {}
    for budget in eps:
        rows = evidence.where("eps", budget)
        runs = [rows.under(variant=v).all_runs({block: ("psgd",)}) for v in (rows.reading.variant, "paper")]
        ours, paper = (tables[block, "psgd"] for tables in runs)
        last = max(several(ours, block))
        if last not in paper:
            raise NotComputedError([f"psgd in {block} after {last:g} rounds"])
        half[Key(block, "halving budgets", "a guess", f"eps = {budget:g}")] = ours[last], 0 * ours[last] + 0.5
        pairs[Key(block, "psgd", "halving budgets", f"eps = {budget:g}")] = paper[last], ours[last]

    errors = evidence.under(metric="error")
    checks = [checked(half, errors, "equal"), checked(pairs, errors)]
    return together(checks)


def bounded(evidence: Evidence, block: str, bound: str, share: float) -> Check:
    """Test that at every N, the bound on the excess loss holds for all draws in at least this `share` of the seeds."""
    runs = evidence.all_runs({block: ("gop",)})[block, "gop"]
    bounds = evidence.under(metric="bound").runs(bound, "gop")
    if bounds.empty or set(runs) - set(bounds):
        raise NotComputedError([f"the bound at every N of {block}"])
    kept = {N: (runs[N] <= float(bounds[N].iloc[0])).groupby(level="seed").all() for N in runs}
    shown = {f"N = {N}": covers(int(one.sum()), len(one), share) for N, one in kept.items()}
    return Check([_bounded(block, shown)], runs.index.get_level_values("seed").nunique())


def _bounded(block: str, shown: Mapping[str, Comparison]) -> Group:
    return Group(block, "gop", "the bound", shown, every(one.holds for one in shown.values()))


def gap_bounded(evidence: Evidence, blocks: Sequence[str], eps: Sequence[float]) -> Check:
    """Test that the bound on the optimality gap of gop holds for enough noise draws, in every block and at every eps.

    gop does not depend on the parties, so its results at one M are those at all M. Draws are independent, and the
    theorem holds for any rows, so the draws of all seeds are counted together.
    """
    groups, seeds = [], []
    for block in blocks:
        shown = {}
        for budget in eps:
            rows = evidence.where("eps", budget)
            both = rows, rows.under(metric="gap_bound")
            gap, bound = (each.all_runs({block: ("gop",)})[block, "gop"] for each in both)
            first = several(gap, block)[0]
            kept = gap[first].dropna() <= bound[first].dropna()
            shown[f"eps = {budget:g}"] = covers(int(kept.sum()), len(kept), 1 - TAIL)
            seeds.append(kept.index.get_level_values("seed").nunique())
        groups.append(_bounded(block, shown))
    return Check(groups, min(seeds))
