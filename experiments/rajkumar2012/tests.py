"""Test Theorems 5.1 and 5.3 of Rajkumar & Agarwal 2012, and budgets that are halved in every round."""

from collections.abc import Sequence

from dpml.reporting.claim_tests import compared, several
from dpml.reporting.claims import Evidence, Group, NotComputedError
from dpml.reporting.criteria import covers

from .bounds import TAIL


def guesses(evidence: Evidence, block: str, eps: Sequence[float]) -> list[Group]:
    """Test that after the most rounds, at every eps, halving is similar to random guesses, and plain psgd is better."""
    half, pairs, errors = [], [], evidence.under(metric="error")
    for budget in eps:
        rows = evidence.where("eps", budget)
        runs = [rows.under(variant=v).all_runs({block: ("psgd",)}) for v in (rows.reading.variant, "paper")]
        ours, paper = (tables[block, "psgd"] for tables in runs)
        last = max(several(ours, block))
        if last not in paper:
            raise NotComputedError([f"psgd in {block} after {last:g} rounds"])
        at, guess = f"eps = {budget:g}", 0 * ours[last] + 0.5
        half.append(errors.pair(block, "halving budgets", "a guess", at, ours[last], guess))
        pairs.append(errors.pair(block, "psgd", "halving budgets", at, paper[last], ours[last]))
    return [*compared(half, "equal"), *compared(pairs)]


def bounded(evidence: Evidence, block: str, bound: str, share: float) -> list[Group]:
    """Test that at every N, the bound on the excess loss holds for all draws in at least this `share` of the seeds."""
    runs = evidence.all_runs({block: ("gop",)})[block, "gop"]
    bounds = evidence.under(metric="bound").runs(bound, "gop")
    if bounds.empty or set(runs) - set(bounds):
        raise NotComputedError([f"the bound at every N of {block}"])
    kept = {N: (runs[N] <= float(bounds[N].iloc[0])).groupby(level="seed").all() for N in runs}
    shown = {f"N = {N}": covers(int(one.sum()), len(one), share, len(one)) for N, one in kept.items()}
    return [Group(block, "gop", "the bound", shown)]


def gap_bounded(evidence: Evidence, blocks: Sequence[str], eps: Sequence[float]) -> list[Group]:
    """Test that the bound on the optimality gap of gop holds for enough noise draws, in every block and at every eps.

    The draws of all seeds are counted together, because draws are independent and the theorem holds for any rows.
    """
    groups = []
    for block in blocks:
        shown = {}
        for budget in eps:
            rows = evidence.where("eps", budget)
            both = rows, rows.under(metric="gap_bound")
            gap, bound = (each.all_runs({block: ("gop",)})[block, "gop"] for each in both)
            first = several(gap, block)[0]
            kept = gap[first].dropna() <= bound[first].dropna()
            seeds = kept.index.get_level_values("seed").nunique()
            shown[f"eps = {budget:g}"] = covers(int(kept.sum()), len(kept), 1 - TAIL, seeds)
        groups.append(Group(block, "gop", "the bound", shown))
    return groups
