"""Test claims about runs. A test compares pairs (a, b): is a better than b, as good as b, or equal to b?

`criteria` defines these words. A test groups its pairs by block and algorithms. In every group, all, most or some pairs
must be as the claim says. If the claim says better, no pair may be worse. The last tests compare runs with a law (an
exponent or a bound) and with published points.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dpml.reporting.claims import Check, Evidence, Group, NotComputedError, Test, at_least, every
from dpml.reporting.criteria import Comparison, MetricScale, better, similar
from dpml.reporting.statistics import per_seed

Each = Mapping[str, Sequence[float]]
"""Settings and their values: a test is repeated for every value."""

Place = str | float | Sequence[Any]
"""An algorithm, a pair [algorithm, x], or a number."""


class Key(NamedTuple):
    """The name of a pair: `algorithm` is compared with `against` in a block, at x."""

    block: str
    algorithm: str
    against: str
    x: Any


Pair = tuple[pd.Series, pd.Series]  # runs, indexed by (seed, draw)
Pairs = Mapping[Key, Pair]

NEEDED: Mapping[str, Callable[[int], int]] = {
    "all": lambda n: n,
    "most": lambda n: n // 2 + 1,
    "some": lambda n: 1,
    "any": lambda n: 1,  # the other pairs may even be worse
}
"""The number of pairs, out of n, that must be as a claim says."""


def checked(
    pairs: Pairs,
    evidence: Evidence,
    by: str = "better",
    often: str = "all",
    limit: float | str | None = None,
    steps: Pairs | None = None,
) -> Check:
    """Compare all pairs and decide for every group of them.

    Args:
        pairs: the pairs of runs.
        evidence: the rows from which the runs are, with their metric.
        by: what the first run of a pair must be: better, not better, as good as, or equal.
        often: how many pairs of a group must be so (`NEEDED`).
        limit: the largest difference for "equal" and "as good as"; default: the metric's; "matters": a relevant one.
        steps: further pairs, whose first run must not be worse.
    """
    steps = steps or {}
    scales = {key: evidence.scale(key.block.partition(",")[0]) for key in (*pairs, *steps)}
    shown: dict[Key, Comparison] = {}
    for own in (True, False):  # two settings of one algorithm share the noise
        part = {key: pair for key, pair in pairs.items() if (key.algorithm == key.against) == own}
        if by in ("better", "not better"):
            shown |= better(part, scales, same_noise=own)
            continue
        for key, (a, b) in part.items():
            apart: Any = scales[key].matters if limit == "matters" else limit
            shown[key] = similar(a, b, scales[key], apart, better_too=by != "equal", same_noise=own)
    if by == "not better":
        turned = {True: False, False: True, None: None}
        shown = {k: replace(v, holds=turned[v.holds], against=False, slack=-v.slack) for k, v in shown.items()}
    back = {key: one for key, one in better(steps, scales, same_noise=True).items() if one.against}
    groups = []
    for about in dict.fromkeys(key[:3] for key in pairs):
        here, worse = ({k.x: one for k, one in each.items() if k[:3] == about} for each in (shown, back))
        lost = bool(worse) or (often != "any" and any(one.against for one in here.values()))
        enough = at_least(NEEDED[often](len(here)), [one.holds for one in here.values()])
        groups.append(Group(*about, {**here, **worse}, every([enough, not lost])))
    return Check(groups, fewest_seeds(run for pair in pairs.values() for run in pair))


def fewest_seeds(runs: Iterable[pd.Series]) -> int | None:
    """Return the smallest number of seeds among some runs; None if there are no runs."""
    different = {id(one): one for one in runs}.values()
    return min((int(one.dropna().index.get_level_values("seed").nunique()) for one in different), default=None)


# ---- the runs


def runs_of(
    evidence: Evidence, blocks: Mapping[str, Sequence[str]], each: Each | None = None
) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the runs of some algorithms by block and algorithm, in absolute value, because losses can be negative.

    With `each`, the runs are separated by every combination of its values, which is appended to the block's name.
    """
    runs = {}
    for values in product(*(each or {}).values()):
        part, where = evidence, ""
        for key, value in zip(each or {}, values, strict=True):
            if key not in part.rows:
                raise NotComputedError([f"anything by {key}"])
            part, where = part.where(key, value), f"{where}, {key} = {value:g}"
        for block, algorithm in part.all_runs(blocks):
            runs[f"{block}{where}", algorithm] = part.sizes(block, algorithm)
    if not runs:
        raise NotComputedError(["anything to compare"])
    return runs


def several(runs: pd.DataFrame, name: str) -> list[Any]:
    """Return the values of x in ascending order. Shares of parties, such as 1/1/8, go from equal to unequal."""
    if runs.shape[1] < 2:
        raise NotComputedError([f"a second x of {name}"])
    if all("/" in str(x) for x in runs.columns):
        return sorted(runs.columns, key=lambda shares: -min(map(float, str(shares).split("/"))))
    return list(runs.columns)


def _chosen(runs: pd.DataFrame, block: str, x: Any) -> list[Any]:
    """Return the values of x that a card chooses: every, first, last, a number, or a range [low, high]."""
    if x == "every":
        return list(runs.columns)
    grid = several(runs, block)
    ends = [{"first": grid[0], "last": grid[-1]}.get(end, end) for end in _listed(x)]
    if missing := [f"{block} at {runs.columns.name} = {end}" for end in ends if end not in grid]:
        raise NotComputedError(missing)
    return [at for at in grid if ends[0] <= at <= ends[-1]] if isinstance(x, list) else ends


def _listed(places: Any) -> list[Any]:
    return [*places] if isinstance(places, list | tuple) else [places]


# ---- tests that compare algorithms


def compare(  # noqa: PLR0913 - the arguments of a test on a card
    evidence: Evidence,
    blocks: Sequence[str],
    first: Place | Sequence[Place],
    second: Place | Sequence[Place],
    by: str = "better",
    often: str = "all",
    x: Any = "every",
    metrics: Sequence[str] = (),
    factor: float = 1.0,
    limit: float | str | None = None,
    each: Each | None = None,
) -> Check:
    """Check that each of `first` is better than each of `second` (or as `by` says) at all x (or as `often` says).

    Args:
        blocks: the blocks in which this is checked.
        first: an algorithm, or a list of algorithms, pairs [algorithm, x], and numbers.
        second: what the first is compared with, in the same form.
        by: better, not better, as good as, or equal.
        often: all, most, some (and worse at none), or any.
        x: every, first, last, a number, or a range [low, high] whose ends must have been computed.
        metrics: the metrics to compare; by default the metric of the interpretation.
        factor: the factor by which the first must be better.
        limit: the largest difference for "equal" and "as good as", or "matters" (a relevant difference).
        each: settings for whose values the check is repeated.
    """
    firsts, seconds = _listed(first), _listed(second)
    curves = [place for place in (*firsts, *seconds) if isinstance(place, str)]
    checks = []
    for metric in metrics or [evidence.reading.metric]:
        own = evidence.under(metric=metric)
        runs = runs_of(own, dict.fromkeys(blocks, curves), each) if curves else {}
        pairs = {}
        for panel in dict.fromkeys(panel for panel, _ in runs) or blocks:
            grid = _chosen(runs[panel, curves[-1]], panel, x) if curves else [""]
            for a, b, here in product(firsts, seconds, grid):
                ours = runs[panel, a][here] if isinstance(a, str) else _at(own, panel, a)
                if isinstance(b, int | float):
                    theirs = pd.Series(float(b), ours.index)
                else:
                    theirs = (runs[panel, b][here] if isinstance(b, str) else _at(own, panel, b)) / factor
                pairs[Key(panel, _name(a), _name(b), here)] = ours, theirs
        check = checked(pairs, own, by, often, limit)
        words = f", {metric}" if len(metrics) > 1 else ""
        checks.append(replace(check, groups=[replace(one, block=f"{one.block}{words}") for one in check.groups]))
    return together(checks)


def _name(place: Place) -> str:
    if isinstance(place, str):
        return place
    return f"{place:g}" if isinstance(place, int | float) else f"{place[0]} at {place[1]:g}"


def _at(evidence: Evidence, block: str, place: Any) -> pd.Series:
    name, x = place
    found = evidence.sizes(block, name)
    if len(found) < 2 or x not in found:
        raise NotComputedError([f"{name} in {block} at {x:g}"])
    return found[x]


def easier(
    evidence: Evidence, blocks: Mapping[str, str], algorithms: Sequence[str], often: str = "most", x: Any = "every"
) -> Check:
    """Check that an algorithm is better in each block than in the block to which `blocks` maps it, as `often` says."""
    runs = runs_of(evidence, dict.fromkeys((*blocks, *blocks.values()), algorithms))
    pairs: dict[Key, Pair] = {}
    for (block, other), name in product(blocks.items(), algorithms):
        _refuse_missing(runs, (block, other), name)
        floor = max(evidence.floor(where) for where in (block, other))  # the same size counts as zero in both
        ours, theirs = (runs[where, name].clip(lower=floor) for where in (block, other))
        shared = [at for at in _chosen(ours, block, x) if at in theirs]
        pairs |= {Key(block, name, f"{name} in {other}", at): (ours[at], theirs[at]) for at in shared}
    return checked(pairs, evidence, often=often)


def _refuse_missing(runs: Mapping[tuple[str, str], pd.DataFrame], blocks: Iterable[str], algorithm: str) -> None:
    """Raise NotComputedError if an algorithm has no runs in a block, as published points can lack some blocks."""
    if missing := [block for block in blocks if (block, algorithm) not in runs]:
        raise NotComputedError(missing)


def wider_gap(evidence: Evidence, gaps: Sequence[Sequence[Any]], algorithm: str, others: Sequence[str]) -> Check:
    """Check that the gap between `algorithm` and each of the others is wider at one point than at another point.

    `gaps` lists [block, x, other block, other x]; an x can be "first" or "last".
    """
    blocks = {block: (algorithm, *others) for gap in gaps for block in gap[::2]}
    runs = runs_of(evidence, blocks)
    _refuse_missing(runs, blocks, algorithm)

    def gap(block: str, x: Any, other: str) -> pd.Series:
        best, ours = runs[block, algorithm], runs[block, other]
        (at,) = _chosen(best, block, x)
        if best.index.equals(ours.index):
            return (best[at] - ours[at]).dropna()
        apart = (per_seed(best[at]) - per_seed(ours[at])).dropna()
        if len(apart) < 2:
            raise NotComputedError([f"a second seed of {algorithm} and {other} in {block}"])
        return pd.concat({0: apart}, names=["draw"]).swaplevel()

    pairs = {}
    for (block, x, than, than_x), other in product(gaps, others):
        key = Key(block, f"{algorithm} less {other}", f"the gap in {than} at {than_x}", x)
        pairs[key] = gap(block, x, other), gap(than, than_x, other)
    return checked(pairs, evidence)


# ---- tests that compare an algorithm with itself at another x


def _curves(
    evidence: Evidence, blocks: Sequence[str], algorithms: Sequence[str], each: Each | None = None
) -> Iterator[tuple[str, str, pd.DataFrame, list[Any]]]:
    """Yield the block, the algorithm, the runs and the values of x of every curve."""
    for (block, name), runs in runs_of(evidence, dict.fromkeys(blocks, algorithms), each).items():
        yield block, name, runs, several(runs, block)


def _ends(
    evidence: Evidence, blocks: Sequence[str], algorithms: Sequence[str], each: Each | None = None, way: int = 1
) -> tuple[Pairs, Pairs]:
    """Return the pairs (last x, first x) of every curve, and the pairs of every step; `way` = -1 swaps each pair."""
    ends: dict[Key, Pair] = {}
    steps: dict[Key, Pair] = {}
    for block, name, runs, grid in _curves(evidence, blocks, algorithms, each):
        for pairs, places in ((ends, [(grid[0], grid[-1])]), (steps, [*pairwise(grid)])):
            for low, high in places:
                x = " to ".join(f"{at:g}" if isinstance(at, float) else str(at) for at in (low, high))
                pairs[Key(block, name, name, x)] = (runs[high], runs[low])[::way]
    return ends, steps


def improves(evidence: Evidence, blocks: Sequence[str], algorithms: Sequence[str], each: Each | None = None) -> Check:
    """Check that every algorithm gets better from the first to the last x, and worse at no step on the way."""
    ends, steps = _ends(evidence, blocks, algorithms, each)
    return checked(ends, evidence, steps=steps)


def degrades(evidence: Evidence, blocks: Sequence[str], algorithms: Sequence[str], each: Each | None = None) -> Check:
    """Check that every algorithm gets worse from the first to the last x, and better at no step on the way."""
    ends, steps = _ends(evidence, blocks, algorithms, each, way=-1)
    return checked(ends, evidence, steps=steps)


def is_steady(
    evidence: Evidence,
    blocks: Sequence[str],
    algorithms: Sequence[str],
    each: Each | None = None,
    first: float | None = None,
) -> Check:
    """Check that every algorithm is as at the first x, at every other x. If `first` is given, it must be this x."""
    return checked(_from_first(evidence, blocks, algorithms, each, first), evidence, "equal")


def fluctuates(
    evidence: Evidence, blocks: Sequence[str], algorithms: Sequence[str], first: float | None = None
) -> Check:
    """Check that every algorithm is worse at some x than at the first x; at other x it may be better."""
    pairs = _from_first(evidence, blocks, algorithms, None, first)
    return checked({key: (b, a) for key, (a, b) in pairs.items()}, evidence, often="any")


def _from_first(
    evidence: Evidence, blocks: Sequence[str], algorithms: Sequence[str], each: Each | None, first: float | None
) -> Pairs:
    pairs: dict[Key, Pair] = {}
    for block, name, runs, grid in _curves(evidence, blocks, algorithms, each):
        if first is not None and grid[0] != first:
            raise NotComputedError([f"anything at {runs.columns.name} = {first:g}"])
        pairs |= {Key(block, name, name, x): (runs[x], runs[grid[0]]) for x in grid[1:]}
    return pairs


def depends(evidence: Evidence, blocks: Sequence[str], algorithms: Sequence[str], others: Sequence[str]) -> Check:
    """Check that `algorithms` are better at the last x than at the first, and `others` do not differ relevantly."""
    checks = []
    for block, (names, by) in product(blocks, ((algorithms, "better"), (others, "equal"))):
        if names:
            ends, _ = _ends(evidence, [block], names)
            checks.append(checked(ends, evidence, by, limit="matters"))
    return together(checks)


def best_inside(
    evidence: Evidence, blocks: Sequence[str], algorithms: Sequence[str], ends: Sequence[str] = ("first", "last")
) -> Check:
    """Check that on every curve the best x between the `ends` is better than the ends.

    The best x is chosen by the same means that are then compared, which favours the claim.
    """
    pairs: dict[Key, Pair] = {}
    for block, name, runs, grid in _curves(evidence, blocks, algorithms):
        outer = [{"first": grid[0], "last": grid[-1]}[end] for end in ends]
        inner = [x for x in grid if x not in outer]
        if not inner:
            raise NotComputedError(["an x between the ends"])
        bad = evidence.scale(block).badness(runs[inner].mean().to_numpy())
        best = inner[int(np.argmin(bad))]
        pairs |= {Key(block, name, name, f"{best} against {x}"): (runs[best], runs[x]) for x in outer}
    return checked(pairs, evidence)


# ---- several tests, several data sets


def together(checks: Sequence[Check]) -> Check:
    """Combine several checks into one, which holds if all of them hold."""
    groups = [group for check in checks for group in check.groups]
    seeds = min((check.seeds for check in checks if check.seeds is not None), default=None)
    return Check(groups, seeds, "; ".join(dict.fromkeys(check.on for check in checks if check.on)))


def all_of(evidence: Evidence, tests: Sequence[Test]) -> Check:
    """Check that all tests hold. If some lack rows, report everything that is missing."""
    checks: list[Check] = []
    missing: list[str] = []
    for test in tests:
        try:
            checks.append(test(evidence))
        except NotComputedError as error:
            missing += error.missing
    if missing:
        raise NotComputedError(missing)
    return together(checks)


def on_sets(
    evidence: Evidence,
    blocks: Sequence[str],
    algorithms: Sequence[str],
    tests: Callable[[str], Test],
    extra: str = "",
    said: str = "",
) -> Check:
    """Check that the tests hold in each block. There is one block for each data set.

    A data set does not count if it was not computed, or if no compared algorithm is more accurate than the constant
    classifier. The claim is judged only if more than half of the data sets count.

    Args:
        blocks: the block of each data set.
        algorithms: the algorithms that are compared.
        tests: a function that returns the test of a block.
        extra: a suffix: blocks whose names have it are shown as well, but do not count.
        said: the reason why these blocks do not count.
    """
    known = set(evidence.rows["block"])
    gone = {block: "not computed" for block in blocks if block not in known}
    if len(gone) >= len(blocks) - len(gone):
        raise NotComputedError(gone)
    counted: list[Check] = []
    left: list[Group] = []
    for block in (block for block in blocks if block in known):
        check = tests(block)(evidence)
        if why := _no_better_than_chance(evidence, block, algorithms):
            gone[block] = why
            left += [replace(group, why=why) for group in check.groups]
        else:
            counted.append(check)
    if len(gone) >= len(counted):
        reasons = ", ".join(f"{block} ({why})" for block, why in gone.items())
        raise NotComputedError([f"{len(gone)} of {len(blocks)} data sets do not count: {reasons}"], words="")
    for block in (f"{block}{extra}" for block in blocks if extra):
        if block in known:
            left += [replace(group, why=said) for group in tests(block)(evidence).groups]
    whole = together(counted)
    on = f"{len(counted)} of {len(blocks)} data sets" if gone else ""
    return replace(whole, groups=[*whole.groups, *left], on=on)


def _no_better_than_chance(evidence: Evidence, block: str, algorithms: Sequence[str]) -> str:
    """Return why a data set does not count, if no algorithm is above the constant classifier; otherwise empty."""
    chance = evidence.runs(block, "constant") if evidence.reading.metric == "accuracy" else pd.DataFrame()
    floor = -math.inf if chance.empty else float(np.nanmean(chance.to_numpy()))
    if any((evidence.runs(block, name).mean() >= floor + 1e-9).any() for name in algorithms):
        return ""
    return f"none is above the constant classifier, {floor:.3g}"


def by_data_set(  # noqa: PLR0913 - the arguments of a test on a card
    evidence: Evidence,
    block: str,
    names: Mapping[str, str],
    axis: str,
    where: Mapping[str, object],
    algorithms: Sequence[str],
    tests: Callable[[str], Test],
) -> Check:
    """Apply `on_sets` to the data sets of one block, as if each were a block, under some settings and any variant.

    Args:
        block: a block with several data sets.
        names: the names of the data sets, by their names in the rows.
        axis: the column that is x.
        where: the settings of the rows. A text must be contained in the value.
        algorithms: as for `on_sets`.
        tests: as for `on_sets`.
    """
    blocks = [f"{name}_chosen" for name in dict.fromkeys(names.values())]
    variant = evidence.reading.variant

    def chosen() -> Evidence:
        rows = evidence.where("block", block).rows
        for key, value in where.items():
            if key not in rows:
                raise NotComputedError([f"{block} by {key}"])
            text = rows[key].astype(str).str.contains(str(value), regex=False)
            # rows without this setting belong to each of its values
            rows = rows[(text if isinstance(value, str) else rows[key] == value) | rows[key].isna()]
        rows = rows.assign(variant=variant, block=rows["dataset"].map(names) + "_chosen", of=rows["block"])
        return replace(evidence, rows=rows, axes=dict.fromkeys(blocks, axis))

    part = evidence.kept((block, *where.items(), axis, variant), chosen)
    return on_sets(part.under(evidence.reading), blocks, algorithms, tests)


# ---- laws: exponents, and bounds on means

EXPONENTS = MetricScale(log=False, up=False, matters=0.1, near=0.1)


def falls_as(evidence: Evidence, block: str, free: str, stated: Mapping[str, float], M: float | None = None) -> Check:
    """Check that the cost of noise falls as a power of x, with an exponent within 0.1 of the stated one.

    The cost is the metric minus the metric of the same seed without noise. Its exponent is the slope of its logarithm.

    Args:
        block: a block over M or eps.
        free: a block over M without noise.
        stated: the stated exponents by algorithm.
        M: the number of parties of `block`, if the block is over eps.
    """
    noisy = evidence.all_runs({block: tuple(stated)})
    groups = []
    for (_, algorithm), runs in noisy.items():
        base = evidence.runs(free, algorithm)
        if base.empty:
            raise NotComputedError([f"{algorithm} in {free}"])
        places = {x: x if M is None else M for x in several(runs, block)}
        if missing := [f"{algorithm} in {free} at M = {at:g}" for at in places.values() if at not in base]:
            raise NotComputedError(missing)
        added = pd.DataFrame({x: per_seed(runs[x]) - per_seed(base[at]) for x, at in places.items()})
        if (added <= 0).any(axis=None):
            raise NotComputedError([f"noise of {algorithm} in {block} that costs anything in every seed"])
        slopes = np.polyfit(np.log(np.array([*places], dtype=float)), np.log(added.to_numpy()).T, 1)[0]
        found = pd.Series(slopes, pd.MultiIndex.from_product([added.index, [0]], names=["seed", "draw"]))
        one = similar(found, 0 * found + stated[algorithm], EXPONENTS)
        one = replace(one, value=f"exponent {slopes.mean():.3f}", needs=f"{stated[algorithm]:g} up to 0.1")
        groups.append(Group(block, algorithm, "the stated exponent", {"": one}, one.holds))
    return Check(groups, fewest_seeds(runs[x] for runs in noisy.values() for x in runs))


def below_bound(evidence: Evidence, blocks: Sequence[str], algorithm: str, metric: str, key: str) -> Check:
    """Check that the mean of a metric is at most its bound: in every block and variant, for all x and values of `key`.

    The bound is the metric of the interpretation.
    """
    pairs: dict[Key, Pair] = {}
    missing = []
    for block in blocks:
        own = evidence.where("block", block)
        settings = own.rows[["variant", key]].drop_duplicates()
        missing += [block] if settings.empty else []
        for variant, value in settings.itertuples(index=False):
            part, name = own.where(key, value), f"{block}, {variant}, {key.rpartition('.')[2]} = {value:g}"
            risk, bound = (
                part.under(variant=variant, metric=one).runs(block, algorithm)
                for one in (metric, evidence.reading.metric)
            )
            missing += [name] if risk.empty or bound.empty else []
            pairs |= {Key(name, algorithm, "the bound", x): (risk[x], bound[x]) for x in risk if x in bound}
    if missing:
        raise NotComputedError(missing)
    return checked(pairs, evidence.under(metric=metric), "as good as", limit=0.0)


# ---- published points: means and standard deviations of the authors' runs compared with ours

MOST = 0.9  # the share of published points that must be reproduced
ERRORS = 3.0
"""The number of standard errors up to which chance explains a difference. Between two means of ten normal values each,
0.8 to 1.5 % of the differences are larger (Welch's degrees of freedom are 18 to 9). So one point in 70 to 130 is
wrongly judged to differ."""


def agrees(evidence: Evidence, series: Mapping[str, str], algorithms: Sequence[str]) -> Check:
    """Check that our runs reproduce at least nine in ten published points of every algorithm.

    A point is reproduced if the two means, in absolute value, are near (`criteria`), or if their difference is at most
    `ERRORS` standard errors. The error combines theirs over their runs and ours over our seeds (over draws, with one
    seed). If their error alone does not explain the difference, more of our seeds could refute the point: it is
    undecided.

    `series` names the published points of every block. Points that were not computed count neither for nor against the
    claim. If they could change the decision, the claim cannot be tested.
    """
    runs = evidence.all_runs(dict.fromkeys(series, algorithms))
    found: dict[str, dict[str, Comparison]] = {algorithm: {} for algorithm in algorithms}
    absent: dict[str, list[str]] = {algorithm: [] for algorithm in algorithms}
    for (block, algorithm), values in runs.items():
        on = evidence.scale(block)
        needs = f"at most {on.words(on.near)}, or {ERRORS:g} standard errors"
        for x, mean, error in _points(evidence, series[block], algorithm):
            at = np.isclose(values.columns.to_numpy(dtype=float), x, atol=0)
            if not at.any():
                absent[algorithm].append(f"{block} at {evidence.axis(block)} = {x:g}")
                continue
            ours = values.loc[:, at].iloc[:, 0].dropna()
            theirs, here = on.badness(np.array([mean, abs(float(ours.mean()))]))
            apart = abs(float(theirs - here))
            holds = bool(apart <= on.near) or by_chance(ours, mean, error)
            one = Comparison(holds, value=on.words(apart), slack=on.near - apart, needs=needs)
            found[algorithm][f"{block} at {x:g}"] = one
    if unpublished := [algorithm for algorithm in algorithms if not found[algorithm]]:
        raise NotComputedError([f"published points of {', '.join(unpublished)}"])
    groups, at_best = [], []
    for algorithm, shown in found.items():
        points, lack = [one.holds for one in shown.values()], len(absent[algorithm])
        groups.append(Group("", algorithm, "published points", shown, nine_in_ten([*points, *[False] * lack])))
        at_best.append(nine_in_ten([*points, *[True] * lack]))
    check = Check(groups, fewest_seeds(values[x] for values in runs.values() for x in values))
    if check.holds is not True and check.holds != every(at_best):
        raise NotComputedError([point for points in absent.values() for point in points])
    return check


def by_chance(ours: pd.Series, theirs: float, error: float) -> bool | None:
    """Return whether standard errors explain the difference between our mean, in absolute value, and `theirs`.

    Return None if more seeds, or more draws of one seed, could refute this with the same means. `error` is the standard
    error of the published mean.
    """
    means = per_seed(ours)
    means = means if len(means) > 1 else ours
    variance = float(means.var()) if len(means) > 1 else 0.0
    apart = (abs(float(ours.mean())) - theirs) ** 2 / ERRORS**2
    if apart <= error**2:
        return True
    return False if apart > error**2 + variance / len(means) else None


def nine_in_ten(points: Sequence[bool | None]) -> bool | None:
    """Return whether nine in ten points are true; None if that depends on undecided points."""
    return at_least(MOST * len(points), points)


def _points(evidence: Evidence, series: str, algorithm: str) -> Iterator[tuple[float, float, float]]:
    """Yield the published points of an algorithm: x, the absolute value of the mean, and its standard error."""
    points, metric = evidence.published, evidence.reading.metric
    own = (points["series"] == series) & (points["algo"] == algorithm) & (points["metric"] == metric)
    for x, mean, std, n in points.loc[own, ["x", "mean", "std", "n"]].itertuples(index=False):
        # the standard error is unknown for a single run, and without a standard deviation
        yield float(x), abs(float(mean)), float(std) / float(np.sqrt(n)) if n > 1 and std >= 0 else 0.0
