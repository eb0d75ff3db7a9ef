"""Kang, Liu & Wang 2019: tests of claims on the runs of one data set.

*Similar* is two-sided, for the text says "similar": a method that is much better than the centralised one is not
similar to it. A claim holds for a figure if it holds for each of its data sets.
"""

import pandas as pd

from dpml.reporting.claim_sets import Curves
from dpml.reporting.claim_tests import most, several, steady, together, trend, wins
from dpml.reporting.claims import Check, NotComputedError, some
from dpml.reporting.criteria import MetricScale, better, similar


def beats(curves: Curves, on: MetricScale, block: str) -> Check:
    """wddp is better than jayaraman at more than half of the x and worse at none, and similar to wang at all."""
    ours, theirs, centre = (curves[algorithm] for algorithm in ("wddp", "jayaraman", "wang"))
    won = wins({(f"{block}, against jayaraman", x): (ours[x], theirs[x]) for x in ours}, on, most)
    near = {(f"{block}, similar to wang", x): similar(ours[x], centre[x], on) for x in ours}
    above = sum(one.slack < 0 and one.significant for one in near.values())
    like = sum(one.holds is True for one in near.values())
    last = list(ours)[-1]
    means = ", ".join(f"{algorithm} {runs[last].mean():.3g}" for algorithm, runs in curves.items())
    text = f"similar to wang at {like}, better than similar at {above} of {len(near)}; at {last:g}: {means}"
    return together([won, Check.of(text, near)])


def improves(curves: Curves, on: MetricScale, block: str) -> Check:
    """Wddp gets better from the first x to the last, and at no step worse."""
    runs = curves["wddp"]
    return trend({f"wddp {block}": (runs, several(runs, block))}, on, better_at_the_end=True)


def alike(curves: Curves, on: MetricScale, block: str) -> Check:
    """Both are similar for clients of equal size."""
    ours, theirs = (_equal(curves, algorithm, block) for algorithm in ("wddp", "jayaraman"))
    found = similar(ours, theirs, on)
    return Check.of(f"wddp {ours.mean():.3g}, jayaraman {theirs.mean():.3g}", {f"{block}, u = 1": found})


def keeps(curves: Curves, on: MetricScale, block: str) -> Check:
    """Wddp is similar to itself at u = 1 everywhere, and jayaraman is worse somewhere."""
    ours, theirs = curves["wddp"], curves["jayaraman"]
    _, equal = (_equal(curves, algorithm, block) for algorithm in ("wddp", "jayaraman"))
    uneven = [u for u in several(theirs, block) if u != 1]
    lower = better({(f"jayaraman worse, {block}", u): (equal, theirs[u]) for u in uneven}, on, same_noise=True)
    worse = sum(one.holds is True for one in lower.values())
    text = f"jayaraman worse at {worse} of {len(lower)} u, {equal.mean():.3g} to {theirs[uneven[-1]].mean():.3g}"
    kept = steady({f"wddp {block}": (ours, [1, *uneven])}, on)
    return together([kept, Check.of(text, lower, lambda known: some(known.values()))])


def _equal(curves: Curves, algorithm: str, block: str) -> pd.Series:
    runs = curves[algorithm]
    if 1 not in runs.columns:
        raise NotComputedError([f"{algorithm} in {block} at u = 1"])
    return runs[1]
