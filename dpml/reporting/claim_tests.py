"""Test claims by comparing runs with other runs, with an exponent or a bound, or with points that a paper published."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from dpml.reporting.claims import ANY_VARIANT, Each, Evidence, Group, NotComputedError, Test, short
from dpml.reporting.criteria import FLOOR, Comparison, MetricScale, Pair, better, similar
from dpml.reporting.statistics import per_seed

Names = Sequence[str]


def compared(
    pairs: Sequence[Pair], by: str = "better", often: str = "all", limit: float | str | None = None
) -> list[Group]:
    """Compare the two sets of runs in each `Pair`, and group the pairs that differ only in their value on the x axis.

    The arguments `by`, `often` and `limit` are those of `compare`.
    """
    if by in ("equal", "as good as"):
        found = [similar(pair, limit, by == "as good as") for pair in pairs]
    else:
        found = better([replace(one, ours=one.theirs, theirs=one.ours) for one in pairs] if by == "worse" else pairs)
    if by == "not better":
        turned = {True: False, False: True, None: None}
        found = [replace(one, holds=turned[one.holds], against=False, slack=-one.slack) for one in found]
    groups: dict[tuple[str, str, str], dict[Any, Comparison]] = {}
    for pair, one in zip(pairs, found, strict=True):
        groups.setdefault((pair.block, pair.algorithm, pair.against), {})[pair.x] = one
    return [Group(*about, shown, often) for about, shown in groups.items()]


def several(runs: pd.DataFrame, name: str) -> list[Any]:
    """Return the x-axis values of runs in ascending order; raise NotComputedError if there is only one."""
    if runs.shape[1] < 2:
        raise NotComputedError([f"a second x of {name}"])
    if all("/" in str(x) for x in runs.columns):  # parties' shares such as 0.1/0.1/0.8: sort from equal to unequal
        return sorted(runs.columns, key=lambda shares: -min(map(float, str(shares).split("/"))))
    return list(runs.columns)


def _chosen(runs: pd.DataFrame, block: str, x: Any) -> list[Any]:
    if x == "every":
        return list(runs.columns)
    grid = several(runs, block)
    ends = [{"first": grid[0], "last": grid[-1]}.get(end, end) for end in _listed(x)]
    if missing := [f"{block} at {runs.columns.name} = {end}" for end in ends if end not in grid]:
        raise NotComputedError(missing)
    return [at for at in grid if ends[0] <= at <= ends[-1]] if isinstance(x, list) else ends


def _listed(places: Any) -> list[Any]:
    return [*places] if isinstance(places, list | tuple) else [places]


def compare(  # noqa: PLR0913 - the arguments of a test on a card
    evidence: Evidence,
    blocks: Names | Mapping[str, str],
    first: Any,
    second: Any,
    by: str = "better",
    often: str = "all",
    x: Any = "every",
    metrics: Names = (),
    factor: float = 1.0,
    limit: float | str | None = None,
    each: Each | None = None,
) -> list[Group]:
    """Check that each algorithm of `first` is better than each algorithm of `second` at every x.

    Args:
        blocks: the blocks (grids of settings) in which the algorithms are compared, or a mapping from the block of the
            first algorithm to the block of the second.
        first: an algorithm, or a list of algorithms or pairs [algorithm, x]; a pair can have a difference of two
            algorithms, `A minus B`. Its x is a number, first, last, previous, or best (except the last). The best x is
            chosen by the same means that are then compared, which favours the claim.
        second: what `first` is compared with, in the same form. `same` is the first algorithm. A list can also have
            numbers.
        by: the relation to check: better, worse, not better, as good as, or equal.
        often: how many x must pass: all, most, some or any. Unless it is any, no x may show the opposite effect.
        x: the x to compare at: every, first, last, a number, or a range [low, high] whose ends must have been computed.
        metrics: the metrics to compare; by default, the metric in `evidence.reading`.
        factor: the factor by which the first must be better.
        limit: the largest difference for equal and as good as: a number, or "matters" (the smallest relevant one).
        each: settings and their values; the check is repeated for every combination of values.
    """
    than = blocks if isinstance(blocks, Mapping) else {block: block for block in blocks}
    firsts, seconds = _listed(first), _listed(second)
    curves = [place for place in (*firsts, *seconds) if isinstance(place, str) and place != "same"]
    groups = []
    for metric in metrics or [evidence.reading.metric]:
        own = evidence.under(metric=metric)
        runs = own.all_runs(dict.fromkeys((*than, *than.values()), curves), each) if curves else {}
        pairs = []
        for panel in dict.fromkeys(panel for panel, _ in runs if panel.partition(",")[0] in than) if curves else than:
            grid = _chosen(runs[panel, curves[-1]], panel, x) if curves else [""]
            block, comma, part = panel.partition(",")
            other = f"{than[block]}{comma}{part}"
            for a, b, here in product(firsts, seconds, grid):
                name, at, ours = _at(own, runs, panel, a, here)
                against, before, theirs = _at(own, runs, other, b, here, name)
                if isinstance(a, str) and (name, panel, at) == (against, other, before):
                    continue
                where = f"{panel}, {metric}" if len(metrics) > 1 else panel
                against += f" in {other}" if other != panel else ""
                label = f"{own.axis(block)} = {short(at)}"
                label += "" if pd.isna(before) or before == at else f" against {short(before)}"
                theirs = theirs / factor if isinstance(theirs, pd.Series) else pd.Series(theirs, ours.index)
                pairs.append(own.pair(where, name, against, label, ours, theirs))
        groups += compared(pairs, by, often, limit)
    return groups


def _at(
    evidence: Evidence, tables: Mapping[Any, pd.DataFrame], block: str, place: Any, here: Any, same: str = ""
) -> tuple[str, Any, Any]:
    name, x = place if isinstance(place, list | tuple) else (place, here)
    if not isinstance(name, str):
        return f"{name:g}", None, float(name)
    name = same if name == "same" else name
    found = []
    for one in name.split(" minus "):
        runs = tables[block, one] if (block, one) in tables else evidence.runs(block, one)
        if x in ("first", "last", "previous", "best"):
            x = _named_x(evidence, runs, block, x, here)
        if len(runs) < 2 or x not in runs:
            raise NotComputedError([f"{one} in {block} at {short(x)}"])
        found.append(pd.Series(runs[x]))
    return name, x, found[0].sub(per_seed(found[1]), level="seed") if len(found) > 1 else found[0]


def _named_x(evidence: Evidence, runs: pd.DataFrame, block: str, x: str, here: Any) -> Any:
    grid = several(runs, block)
    if x == "best":
        return grid[int(np.argmin(evidence.scale(block).badness(runs[grid[:-1]].mean().to_numpy())))]
    return grid[{"first": 0, "last": -1}[x] if x in ("first", "last") else max(grid.index(here) - 1, 0)]


def improves(
    evidence: Evidence, blocks: Names, algorithms: Names, each: Each | None = None, by: str = "better"
) -> list[Group]:
    """Check that every algorithm is better at the last x than at the first, and at no x worse than at the x before."""
    ends = compare(evidence, blocks, algorithms, [["same", "first"]], by, x="last", each=each)
    steps = compare(evidence, blocks, algorithms, [["same", "previous"]], by, each=each)
    lost = [replace(group, shown={x: one for x, one in group.shown.items() if one.against}) for group in steps]
    return [*ends, *(group for group in lost if group.shown)]


def degrades(evidence: Evidence, blocks: Names, algorithms: Names, each: Each | None = None) -> list[Group]:
    """Check that every algorithm is worse at the last x than at the first, and never gets better at the next x."""
    return improves(evidence, blocks, algorithms, each, "worse")


def all_of(evidence: Evidence, tests: Sequence[Test], **more: Any) -> list[Group]:
    """Return the comparisons of all tests of a claim, or raise one error that names all results not yet computed."""
    groups: list[Group] = []
    missing: list[str] = []
    for test in tests:
        try:
            groups += test(evidence, **more)
        except NotComputedError as error:
            missing += error.missing
    if missing:
        raise NotComputedError(missing)
    return groups


def on_sets(evidence: Evidence, blocks: Names, algorithms: Names, tests: Test) -> list[Group]:
    """Check that a test holds on all data sets on which some algorithm is more accurate than the constant classifier.

    Each data set has its own block. The claim is judged only if it is tested on more than half of the data sets.

    Args:
        blocks: the block of each data set.
        tests: the test of a block.
    """
    groups: list[Group] = []
    gone: dict[str, str] = {}
    for block in blocks:
        own: Sequence[Group] = [Group(block, "", "", {})]
        if block not in set(evidence.rows["block"]):
            gone[block] = "it was not computed"
        else:
            own, chance = tests(evidence, blocks=[block]), evidence.runs(block, "constant")
            floor = float(np.nanmean(chance.to_numpy())) if len(chance) else -np.inf
            above = any((evidence.runs(block, name).mean() >= floor + 1e-9).any() for name in algorithms)
            if evidence.reading.metric == "accuracy" and not above:
                gone[block] = "no algorithm is more accurate than the constant classifier"
        groups += [replace(group, why=gone.get(block, "")) for group in own]
    if 2 * len(gone) >= len(blocks):
        reasons = ", ".join(f"{block} ({why})" for block, why in gone.items())
        raise NotComputedError([f"enough data sets: {len(gone)} of {len(blocks)} do not count: {reasons}"])
    return groups


def by_data_set(
    evidence: Evidence, block: str, names: Names, where: Mapping[str, object], algorithms: Names, tests: Test
) -> list[Group]:
    """Apply `on_sets` to rows of a block with settings `where`, as if each data set were a block (a grid of settings).

    Args:
        names: all data sets of the claim, also those that were not computed.
        where: the settings of the rows to use. If a setting here is a text, the row's setting must contain it.
        tests: the test of a data set.
    """

    def chosen() -> Evidence:
        rows = evidence.where("block", block).rows
        for key, value in where.items():
            contains = rows[key].astype(str).str.contains(str(value), regex=False)
            # rows without this setting belong to each of its values
            rows = rows[(contains if isinstance(value, str) else rows[key] == value) | rows[key].isna()]
        return replace(evidence, rows=rows.assign(block=rows["dataset"]), axes={})

    part = evidence.kept((block, *where.items()), chosen)
    return on_sets(part.under(evidence.reading, variant=ANY_VARIANT), names, algorithms, tests)


EXPONENTS = MetricScale(log=False, up=False, matters=0.1, near=0.1)


def falls_as(
    evidence: Evidence, block: str, free: str, stated: Mapping[str, float], M: float | None = None
) -> list[Group]:
    """Check that noise adds a multiple of x^p (x: M or eps) to a metric, with p within 0.1 of the stated exponent.

    The added part is the metric minus the same seed's metric without noise. p is the slope of its logarithm in log x.

    Args:
        block: a block whose x is M or eps.
        free: a block without noise whose x is M.
        stated: the exponent that the paper states, by algorithm.
        M: the number of parties in `block`, if its x is eps.
    """
    groups = []
    for (_, algorithm), runs in evidence.all_runs({block: tuple(stated)}).items():
        base = evidence.runs(free, algorithm)
        places = {x: x if M is None else M for x in several(runs, block)}
        if missing := [f"{algorithm} in {free} at M = {at:g}" for at in places.values() if at not in base]:
            raise NotComputedError(missing)
        added = pd.DataFrame({x: per_seed(runs[x]) - per_seed(base[at]) for x, at in places.items()})
        if (added <= 0).any(axis=None):
            raise NotComputedError([f"noise of {algorithm} in {block} that costs anything in every seed"])
        slopes = np.polyfit(np.log(np.array([*places], dtype=float)), np.log(added.to_numpy()).T, 1)[0]
        found = pd.Series(slopes, pd.MultiIndex.from_product([added.index, [0]], names=["seed", "draw"]))
        law = Pair(block, algorithm, "the stated exponent", "", found, 0 * found + stated[algorithm], EXPONENTS)
        one = replace(similar(law), value=f"exponent {slopes.mean():.3f}", needs=f"{stated[algorithm]:g} up to 0.1")
        groups.append(Group(block, algorithm, law.against, {"": one}))
    return groups


def below_bound(evidence: Evidence, blocks: Names, algorithm: str, metric: str, key: str) -> list[Group]:
    """Check that a metric's mean is at most its bound, for each block, variant, x-axis value and value of `key`.

    The values of the bound are rows, too: those with the metric of the interpretation (`evidence.reading`).
    """
    pairs = []
    for block in blocks:
        own = evidence.where("block", block)
        for variant, value in own.rows[["variant", key]].drop_duplicates().itertuples(index=False):
            bounds = own.where(key, value).under(variant=variant)
            risks, name = bounds.under(metric=metric), f"{block}, {variant}, {key.rpartition('.')[2]} = {value:g}"
            risk, bound = (each.all_runs({block: [algorithm]})[block, algorithm] for each in (risks, bounds))
            pairs += [risks.pair(name, algorithm, "the bound", x, risk[x], bound[x]) for x in risk if x in bound]
    return compared(pairs, "as good as", limit=0.0)


ERRORS = 3.0
"""The number of standard errors up to which chance explains a difference. Between two means of ten normal values each,
0.8 to 1.5 % of the differences are larger (Welch's degrees of freedom are 18 to 9). So one point in 70 to 130 is
wrongly judged to differ."""


def agrees(evidence: Evidence, series: Mapping[str, str], algorithms: Names) -> list[Group]:
    """Check that our runs reproduce at least nine in ten published points of every algorithm.

    A point is reproduced if the published mean and ours, without signs, are equal (`near` in `criteria`) or differ by
    at most `ERRORS` standard errors of the published mean. Any other point is not reproduced if they differ by more
    than `ERRORS` combined standard errors of both means; otherwise, more of our seeds could refute it: it is undecided.

    `series` maps blocks to names of published points. Points that we did not compute are undecided.
    """
    shown: dict[str, dict[str, Comparison]] = {algorithm: {} for algorithm in algorithms}
    points, absent = evidence.published[evidence.published["metric"] == evidence.reading.metric], []
    # the standard error is unknown for a single run, and without a standard deviation
    errors = (points["std"] / np.sqrt(points["n"])).where((points["n"] > 1) & (points["std"] >= 0), 0.0)
    for (block, algorithm), runs in evidence.all_runs(dict.fromkeys(series, algorithms)).items():
        on = replace(evidence.scale(block), zero=FLOOR)
        needs = f"at most {on.words(on.near)}, or {ERRORS:g} standard errors"
        own = (points["series"] == series[block]) & (points["algo"] == algorithm)
        for x, mean, error in (
            points[own].assign(error=errors)[["x", "mean", "error"]].astype(float).itertuples(index=False)
        ):
            name, at = f"{block} at {x:g}", np.flatnonzero(np.isclose(runs.columns.to_numpy(dtype=float), x, atol=0))
            if not len(at):
                shown[algorithm][name] = Comparison(None)
                absent.append(f"{block} at {evidence.axis(block)} = {x:g}")
                continue
            ours = runs.iloc[:, at[0]].dropna()
            theirs, here = on.badness(np.array([abs(mean), abs(float(ours.mean()))]))
            apart = abs(float(theirs - here))
            near = bool(apart <= on.near) or by_chance(ours, abs(mean), error)
            seeds = ours.index.get_level_values("seed").nunique()
            shown[algorithm][name] = Comparison(near, on.words(apart), needs, on.near - apart, seeds)
    if unpublished := [algorithm for algorithm in algorithms if not shown[algorithm]]:
        raise NotComputedError([f"published points of {', '.join(unpublished)}"])
    groups = [Group("", algorithm, "published points", own, "nine in ten") for algorithm, own in shown.items()]
    if absent and None in [group.holds for group in groups]:
        raise NotComputedError(absent)
    return groups


def by_chance(ours: pd.Series, theirs: float, error: float) -> bool | None:
    """Return whether chance explains the difference between the mean of our runs and the published mean `theirs`.

    Return None if chance explains it only with our own error, which more seeds (or draws of one seed) could reduce.
    """
    means = per_seed(ours)
    means = means if len(means) > 1 else ours
    variance = float(means.var()) if len(means) > 1 else 0.0
    apart = (abs(float(ours.mean())) - theirs) ** 2 / ERRORS**2
    if apart <= error**2:
        return True
    return False if apart > error**2 + variance / len(means) else None
