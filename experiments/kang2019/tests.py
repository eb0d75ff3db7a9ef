"""Kang, Liu & Wang 2019: tests of its figures, for every open reading of the paper, and of the factors of Table 1.

*Similar* is two-sided, for the text says "similar": a method that is much better than the centralised one is not
similar to it. A claim holds for a figure if it holds for each of its data sets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from dpml.reporting.claim_sets import Curves, Judge, on_sets, with_numbers_of
from dpml.reporting.claim_tests import most, several, steady, together, trend, wins
from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Test, every, some
from dpml.reporting.criteria import MetricScale, better, similar

SETS = {"adult": "adult", "breast_cancer": "breast", "creditcard": "credit", "creditcard_subset": "credit"}
"""The data sets of `kang2019/readings`, by their names in rows."""


def in_figure(judge: str, algorithms: Mapping[str, str], blocks: Sequence[str], rule: bool) -> Test:
    """On a figure's data sets with the paper's protocol; by `rule` the numbers say what comes of our rule's steps."""
    whole = on_sets(blocks, algorithms, JUDGES[judge])
    by_rule = on_sets([f"{block}_rule" for block in blocks], algorithms, JUDGES[judge])
    return with_numbers_of(whole, by_rule, "with the rule's steps") if rule else whole


def chosen(judge: str, algorithms: Mapping[str, str], block: str, axis: str, where: Mapping[str, object]) -> Test:
    """On the rows of `kang2019/readings` with these settings, one block per data set, whatever the variant of wddp."""
    blocks = [f"{name}_chosen" for name in dict.fromkeys(SETS.values())]
    whole = on_sets(blocks, algorithms, JUDGES[judge])

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows[evidence.rows["block"] == block]
        for key, value in where.items():
            if key not in rows:
                raise NotComputedError([f"{block} by {key}"])
            # constant has no noise and no steps; dataset.steps is a list in words, of which this is one
            text = rows[key].astype(str).str.contains(str(value), regex=False)
            rows = rows[(text if isinstance(value, str) else rows[key] == value) | rows[key].isna()]
        rows = rows.assign(variant="paper", block=rows["dataset"].map(SETS) + "_chosen", of=rows["block"])
        return whole(replace(evidence, rows=rows, axes=dict.fromkeys(blocks, axis)), reading)

    return test


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


JUDGES: Mapping[str, Judge] = {made.__name__: made for made in (beats, improves, alike, keeps)}


def _equal(curves: Curves, algorithm: str, block: str) -> pd.Series:
    runs = curves[algorithm]
    if 1 not in runs.columns:
        raise NotComputedError([f"{algorithm} in {block} at u = 1"])
    return runs[1]


def factor(metric: str, least: bool = False) -> Test:
    """In every setting the ratio of two bounds is the stated factor to 1 %; with `least` it is at least that."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows
        if "reading" not in rows or not (rows["metric"] == metric).any():
            raise NotComputedError([metric])
        rows = rows[rows["metric"] == metric]
        found = {(reads, name): value for reads, name, value in rows[["reading", "setting", "value"]].to_numpy()}
        pairs = {
            name: (value, found["stated", name]) for (reads, name), value in found.items() if reads == reading.name
        }
        if not pairs:
            raise NotComputedError([f"{metric} [{reading.name}]"])
        holds = [ours >= s * 0.99 and (least or ours <= s * 1.01) for ours, s in pairs.values()]
        return Check(every(holds), ", ".join(f"{name}: {v:.3g}, stated {s:.3g}" for name, (v, s) in pairs.items()))

    return test
