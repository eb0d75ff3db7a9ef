"""A test of published numbers: means and standard deviations of the authors' runs compared with ours."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from dpml.reporting.claim_tests import fewest_seeds
from dpml.reporting.claims import MOST, Check, Evidence, Group, NotComputedError, Reading, Test, every
from dpml.reporting.criteria import Comparison
from dpml.reporting.statistics import per_seed

ERRORS = 3.0
"""Standard errors up to which chance explains a difference. Between two means of ten normal values each, 0.8 to 1.5 %
of the differences are larger (Welch's degrees of freedom are 18 to 9): one point in 70 to 130 is wrongly judged to
differ."""


def agrees(series: Mapping[str, str], algorithms: Sequence[str]) -> Test:
    """For every algorithm our runs reproduce at least nine in ten published points.

    A point is reproduced if the two means, in absolute size, are near (`criteria`), or within `ERRORS` standard errors
    of their difference: theirs over their runs, ours over our seeds, or over the draws if there is one seed. If that
    many of their standard errors alone do not explain the difference, more seeds of ours could refute the point: it is
    undecided.

    `series` gives the name of every block's published points. Points that were not computed count neither way. If they
    could change the decision, the claim cannot be tested.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = evidence.all_runs(dict.fromkeys(series, algorithms), reading)
        found: dict[str, dict[str, Comparison]] = {algorithm: {} for algorithm in algorithms}
        absent: dict[str, list[str]] = {algorithm: [] for algorithm in algorithms}
        for (block, algorithm), values in runs.items():
            on = evidence.scale(block, reading.metric)
            needs = f"at most {on.words(on.near)}, or {ERRORS:g} standard errors"
            for x, mean, error in _points(evidence.published, series[block], algorithm, reading):
                at = np.isclose(values.columns.to_numpy(dtype=float), x, atol=0)
                if not at.any():
                    absent[algorithm].append(f"{block} at {evidence.axis(block)} = {x:g}")
                    continue
                ours = values.loc[:, at].iloc[:, 0].dropna()
                theirs, here = on.badness(np.array([mean, abs(float(ours.mean()))]))
                apart = abs(float(theirs - here))
                one = Comparison(True) if apart <= on.near else by_chance(ours, mean, error)
                found[algorithm][f"{block} at {x:g}"] = replace(
                    one, value=on.words(apart), slack=on.near - apart, needs=needs
                )
        unpublished = [algorithm for algorithm in algorithms if not found[algorithm]]
        if unpublished:
            raise NotComputedError([f"published points of {', '.join(unpublished)}"])
        left_out = list(dict.fromkeys(point for points in absent.values() for point in points))
        holds, at_best = (
            [nine_in_ten([*found[a].values()], [absent_ones] * len(absent[a])) for a in algorithms]
            for absent_ones in (False, True)
        )
        if every(holds) != every(at_best) and every(holds) is not True:
            raise NotComputedError(left_out)
        groups = [Group("", a, "published points", found[a], one) for a, one in zip(algorithms, holds, strict=True)]
        return Check(groups, fewest_seeds(values[x] for values in runs.values() for x in values))

    return test


def by_chance(ours: pd.Series, theirs: float, error: float) -> Comparison:
    """Whether the standard errors explain the difference between a mean, in absolute size, and `theirs`.

    Args:
        ours: runs, indexed by (seed, draw).
        theirs: a published mean, in absolute size, and its standard `error`.

    Returns:
        None if more seeds (or draws of one seed) could refute it, with the same means.
    """
    means = per_seed(ours)
    means = means if len(means) > 1 else ours
    variance = float(means.var()) if len(means) > 1 else 0.0
    apart = (abs(float(ours.mean())) - theirs) ** 2 / ERRORS**2
    if apart <= error**2:
        return Comparison(True)
    if apart > error**2 + variance / len(means):
        return Comparison(False)
    return Comparison(None, slack=0.0)


def nine_in_ten(points: Sequence[Comparison], others: Sequence[bool] = ()) -> bool | None:
    """Whether nine in ten hold; None if that depends on the undecided ones."""
    values = [*(point.holds for point in points), *others]
    if values.count(True) >= MOST * len(values):
        return True
    return None if values.count(True) + values.count(None) >= MOST * len(values) else False


def _points(
    published: pd.DataFrame, series: str, algorithm: str, reading: Reading
) -> Iterator[tuple[float, float, float]]:
    """The published points of an algorithm: x, the mean in absolute size, and its standard error."""
    rows = published[
        (published["series"] == series) & (published["algo"] == algorithm) & (published["metric"] == reading.metric)
    ]
    numbers: Iterable[tuple[float, float, float, float]] = rows[["x", "mean", "std", "n"]].itertuples(index=False)
    for x, mean, std, n in numbers:
        # the standard error of a single run is unknown, as is that without a deviation
        yield float(x), abs(float(mean)), float(std) / float(np.sqrt(n)) if n > 1 and std >= 0 else 0.0
