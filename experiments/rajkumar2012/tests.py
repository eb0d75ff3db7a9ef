"""Rajkumar & Agarwal 2012: tests of Theorems 5.1 and 5.3, and of budgets that are halved in every round."""

from collections.abc import Sequence
from dataclasses import replace

from dpml.reporting.claim_tests import failing, several
from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Test
from dpml.reporting.criteria import better, covers, scale, similar

from .bounds import TAIL

ERRORS = scale("error")


def guesses(block: str, eps: Sequence[float]) -> Test:
    """At every eps, after the most rounds, halving budgets are similar to a guess, and plain psgd is better."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        pairs, half, texts = {}, {}, []
        for budget in eps:
            rows = evidence.where("eps", budget)
            runs = [rows.all_runs({block: ("psgd",)}, replace(reading, variant=v)) for v in (reading.variant, "paper")]
            ours, paper = (tables[block, "psgd"] for tables in runs)
            last = max(several(ours, block))
            if last not in paper:
                raise NotComputedError([f"psgd in {block} after {last:g} rounds"])
            half[f"guess at eps = {budget:g}"] = similar(ours[last], 0 * ours[last] + 0.5, ERRORS)
            pairs[f"psgd better at eps = {budget:g}"] = paper[last], ours[last]
            texts.append(
                f"eps = {budget:g}: {ours[last].mean():.3g} after {last:g} rounds, {ours.mean().min():.3g} after "
                f"{ours.mean().idxmin():g}, psgd {paper[last].mean():.3g}"
            )
        shown = half | better(pairs, ERRORS)
        seeds = evidence.rows.loc[evidence.rows["block"] == block, "seed"].nunique()
        return replace(Check.of("; ".join(texts) + failing("not so", shown), shown), seeds=seeds)

    return test


def bounded(block: str, bound: str, share: float) -> Test:
    """At every N the excess loss of every draw is at most the bound in at least this `share` of the seeds."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = evidence.all_runs({block: ("gop",)}, reading)[block, "gop"]
        bounds = evidence.runs(bound, "gop", replace(reading, metric="bound"))
        if bounds.empty or set(runs) - set(bounds):
            raise NotComputedError([f"the bound at every N of {block}"])
        limit = {N: float(bounds[N].iloc[0]) for N in runs}
        kept = {N: (runs[N] <= limit[N]).groupby(level="seed").all() for N in runs}
        shown = {f"N = {N}": covers(int(one.sum()), len(one), share) for N, one in kept.items()}
        texts = [f"N = {N}: {runs[N].mean():.3g}, bound {limit[N]:.3g}, {shown[f'N = {N}'].words}" for N in runs]
        return replace(Check.of("; ".join(texts), shown), seeds=runs.index.get_level_values("seed").nunique())

    return test


def gap_bounded(blocks: Sequence[str], eps: Sequence[float]) -> Test:
    """In every block and at every eps enough draws of gop keep the bound on its optimality gap.

    gop does not depend on the parties, so that its rows at one M are all of them. Its draws are independent, and the
    theorem holds for any rows: the draws of all seeds count.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        shown, texts, seeds = {}, [], []
        for block in blocks:
            for budget in eps:
                rows = evidence.where("eps", budget)
                one = replace(reading, metric="gap_bound")
                gap, bound = (rows.all_runs({block: ("gop",)}, metric)[block, "gop"] for metric in (reading, one))
                first = several(gap, block)[0]
                kept = gap[first].dropna() <= bound[first].dropna()
                key = f"{block.partition('_')[0]} lam, eps = {budget:g}"
                shown[key] = covers(int(kept.sum()), len(kept), 1 - TAIL)
                texts.append(f"{key}: {gap[first].mean():.3g}, bound {bound[first].mean():.3g}, {shown[key].words}")
                seeds.append(kept.index.get_level_values("seed").nunique())
        return replace(Check.of("; ".join(texts), shown), seeds=min(seeds))

    return test
