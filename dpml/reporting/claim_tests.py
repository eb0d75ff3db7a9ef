"""The tests of claims on runs: pairs (a, b) of runs of which a is better than b, as good as it, or equal to it.

What these words mean is defined in `criteria`. A test groups its pairs by block and algorithms. In every group all,
most or some of the pairs must be as the claim says; where a claim says better, none may be worse. At the end are the
tests of laws, which compare runs with a stated exponent or a bound, and of published points.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dpml.reporting.claims import Check, Evidence, Group, NotComputedError, Reading, Test, at_least, every
from dpml.reporting.criteria import Comparison, MetricScale, better, scale, similar
from dpml.reporting.statistics import per_seed

Each = Mapping[str, Sequence[float]]
"""A setting and its values, each of which a test looks at by itself."""

Place = str | float | Sequence[Any]
"""An algorithm, a pair of it and the x at which it is, or a number."""


class Key(NamedTuple):
    """What a pair is about: `algorithm` is compared with `against` in a block, at x."""

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
    "any": lambda n: 1,  # whatever the others are: they may be worse
}
"""How many of n pairs must be as a claim says."""


def checked(  # noqa: PLR0913 - what the pairs must be
    pairs: Pairs,
    evidence: Evidence,
    metric: str,
    by: str = "better",
    often: str = "all",
    limit: float | str | None = None,
    steps: Pairs | None = None,
) -> Check:
    """Compare all pairs and decide for every group of them.

    Args:
        pairs: the runs.
        evidence: where they are from.
        metric: of the runs.
        by: what the first of a pair must be: better, not better, as good as, or equal.
        often: how many pairs of a group must be so (`NEEDED`).
        limit: the largest difference of what is equal or as good, if not that of the metric, or "matters".
        steps: further pairs. The first of them must not be worse.
    """
    if not pairs:
        raise NotComputedError(["anything to compare"])
    scales = {key: evidence.scale(key.block.partition(",")[0], metric) for key in (*pairs, *(steps or {}))}
    shown: dict[Key, Comparison] = {}
    for own in (True, False):  # with itself an algorithm shares the noise
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
    back = {key: one for key, one in better(steps or {}, scales, same_noise=True).items() if one.against}
    groups = []
    for about in dict.fromkeys(key[:3] for key in pairs):
        here, worse = ({k.x: one for k, one in each.items() if k[:3] == about} for each in (shown, back))
        lost = bool(worse) or (often != "any" and any(one.against for one in here.values()))
        enough = at_least(NEEDED[often](len(here)), [one.holds for one in here.values()])
        groups.append(Group(*about, {**here, **worse}, every([enough, not lost])))
    return Check(groups, fewest_seeds({id(one): one for pair in pairs.values() for one in pair}.values()))


def fewest_seeds(runs: Iterable[pd.Series]) -> int:
    """Return the smallest number of seeds among some runs."""
    return min(int(one.dropna().index.get_level_values("seed").nunique()) for one in runs)


# ---- the runs


def runs_of(
    evidence: Evidence, reading: Reading, blocks: Mapping[str, Sequence[str]], each: Each | None = None
) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the runs of some algorithms by block and algorithm, in absolute size: losses may have either sign.

    With `each` the blocks are looked at for every combination of the values, which stands behind the block's name.
    """
    runs = {}
    for values in product(*(each or {}).values()):
        part, where = evidence, ""
        for key, value in zip(each or {}, values, strict=True):
            if key not in part.rows:
                raise NotComputedError([f"anything by {key}"])
            part, where = part.where(key, value), f"{where}, {key} = {value:g}"
        for block, algorithm in part.all_runs(blocks, reading):
            runs[f"{block}{where}", algorithm] = part.sizes(block, algorithm, reading)
    if not runs:
        raise NotComputedError(["anything to compare"])
    return runs


def several(runs: pd.DataFrame, name: str) -> list[Any]:
    """Return the values of x of some runs, from the first to the last: shares of parties from equal to skewed.

    Raises:
        NotComputedError: there are fewer than two.
    """
    if runs.shape[1] < 2:
        raise NotComputedError([f"a second x of {name}"])
    if all("/" in str(x) for x in runs.columns):
        return sorted(runs.columns, key=lambda shares: -min(map(float, str(shares).split("/"))))
    return list(runs.columns)


def _chosen(runs: pd.DataFrame, block: str, x: Any) -> list[Any]:
    """Return the values of x that a card chooses: every one, the first, the last, a number, or a range of two."""
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
) -> Test:
    """In every block each of `first` is better than each of `second` (or as `by` says) at all x (or as `often` says).

    Args:
        blocks: the blocks.
        first: an algorithm, or a list of algorithms, pairs [algorithm, x], and numbers.
        second: the same.
        by: better, not better, as good as, or equal.
        often: all, most, some (and worse at none), or any.
        x: every, first, last, a number, or a range [low, high], of which both must be there.
        metrics: those that are compared, if not that of the reading.
        factor: by which the first must be better.
        limit: the largest difference of what is equal or as good, or "matters".
        each: settings whose values are looked at one by one.
    """
    firsts, seconds = _listed(first), _listed(second)
    curves = [place for place in (*firsts, *seconds) if isinstance(place, str)]

    def pairs_of(evidence: Evidence, reading: Reading) -> Pairs:
        runs = runs_of(evidence, reading, dict.fromkeys(blocks, curves), each) if curves else {}
        found = {}
        for panel in dict.fromkeys(panel for panel, _ in runs) or blocks:

            def at(place: Place, here: Any, panel: str = panel) -> pd.Series:
                return runs[panel, place][here] if isinstance(place, str) else _at(evidence, panel, place, reading)

            grid = _chosen(runs[panel, curves[-1]], panel, x) if curves else [""]
            for a, b, here in product(firsts, seconds, grid):
                ours = at(a, here)
                theirs = pd.Series(float(b), ours.index) if isinstance(b, int | float) else at(b, here) / factor
                found[Key(panel, _name(a), _name(b), here)] = ours, theirs
        return found

    def test(evidence: Evidence, reading: Reading) -> Check:
        checks = []
        for metric in metrics or (reading.metric,):
            check = checked(pairs_of(evidence, replace(reading, metric=metric)), evidence, metric, by, often, limit)
            words = f", {metric}" if len(metrics) > 1 else ""
            groups = [replace(group, block=f"{group.block}{words}") for group in check.groups]
            checks.append(replace(check, groups=groups))
        return together(checks)

    return test


def _name(place: Place) -> str:
    if isinstance(place, str):
        return place
    return f"{place:g}" if isinstance(place, int | float) else f"{place[0]} at {place[1]:g}"


def _at(evidence: Evidence, block: str, place: Any, reading: Reading) -> pd.Series:
    name, x = place
    found = evidence.sizes(block, name, reading)
    if len(found) < 2 or x not in found:
        raise NotComputedError([f"{name} in {block} at {x:g}"])
    return found[x]


def easier(blocks: Mapping[str, str], algorithms: Sequence[str], often: str = "most", x: Any = "every") -> Test:
    """In each block an algorithm is better at most x, or as `often` says, than in the block that is named behind it."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = runs_of(evidence, reading, dict.fromkeys((*blocks, *blocks.values()), algorithms))
        pairs: dict[Key, Pair] = {}
        for (block, other), name in product(blocks.items(), algorithms):
            if missing := [where for where in (block, other) if (where, name) not in runs]:
                raise NotComputedError(missing)
            floor = max(evidence.floor(where, reading.metric) for where in (block, other))  # zero is the same in both
            ours, theirs = (runs[where, name].clip(lower=floor) for where in (block, other))
            shared = [at for at in _chosen(ours, block, x) if at in theirs]
            pairs |= {Key(block, name, f"{name} in {other}", at): (ours[at], theirs[at]) for at in shared}
        return checked(pairs, evidence, reading.metric, often=often)

    return test


def wider_gap(gaps: Sequence[Sequence[Any]], algorithm: str, others: Sequence[str]) -> Test:
    """The gap between `algorithm` and each other one is larger in one place than in another.

    `gaps` lists [block, x, other block, other x]; an x may be "first" or "last".
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        blocks = {block: (algorithm, *others) for gap in gaps for block in gap[::2]}
        runs = runs_of(evidence, reading, blocks)
        if missing := [block for block in blocks if (block, algorithm) not in runs]:
            raise NotComputedError(missing)

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
        return checked(pairs, evidence, reading.metric)

    return test


# ---- tests that compare an algorithm with itself at another x

Curve = Callable[[pd.DataFrame, list[Any], MetricScale], Mapping[Any, Pair]]
"""What gives the pairs of a curve by x, from its runs, the values of x, and the metric's scale."""


def _along(
    blocks: Sequence[str],
    algorithms: Sequence[str],
    curve: Curve,
    each: Each | None = None,
    way: int = 0,
    **how: Any,
) -> Test:
    """Test the pairs on the curve of every algorithm in every block, with the options of `checked`.

    With a `way` no step from one x to the next may go the other way.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        pairs: dict[Key, Pair] = {}
        steps: dict[Key, Pair] = {}
        for (panel, name), values in runs_of(evidence, reading, dict.fromkeys(blocks, algorithms), each).items():
            grid = several(values, panel)
            on = evidence.scale(panel.partition(",")[0], reading.metric)
            pairs |= {Key(panel, name, name, x): pair for x, pair in curve(values, grid, on).items()}
            for ends in pairwise(grid) if way else ():
                steps |= {Key(panel, name, name, x): pair for x, pair in _ends(way)(values, [*ends], on).items()}
        return checked(pairs, evidence, reading.metric, steps=steps, **how)

    return test


def _ends(way: int) -> Curve:
    def curve(values: pd.DataFrame, grid: list[Any], _: MetricScale) -> dict[str, Pair]:
        low, high = (f"{x:g}" if isinstance(x, float) else str(x) for x in (grid[0], grid[-1]))
        return {f"{low} to {high}": (values[grid[-1]], values[grid[0]])[::way]}

    return curve


def improves(blocks: Sequence[str], algorithms: Sequence[str], each: Each | None = None) -> Test:
    """From the first to the last x every algorithm gets better, and at no step on the way worse."""
    return _along(blocks, algorithms, _ends(1), each, way=1)


def degrades(blocks: Sequence[str], algorithms: Sequence[str], each: Each | None = None) -> Test:
    """From the first to the last x every algorithm gets worse, and at no step on the way better."""
    return _along(blocks, algorithms, _ends(-1), each, way=-1)


def is_steady(
    blocks: Sequence[str], algorithms: Sequence[str], each: Each | None = None, first: float | None = None
) -> Test:
    """At every x every algorithm is equal to what it is at the first, which is `first` if that is given."""
    return _along(blocks, algorithms, _from_first(first, 1), each, by="equal")


def fluctuates(blocks: Sequence[str], algorithms: Sequence[str], first: float | None = None) -> Test:
    """At some x every algorithm is worse than at the first; elsewhere it may be better."""
    return _along(blocks, algorithms, _from_first(first, -1), often="any")


def _from_first(first: float | None, way: int) -> Curve:
    def curve(values: pd.DataFrame, grid: list[Any], _: MetricScale) -> dict[Any, Pair]:
        if first is not None and grid[0] != first:
            raise NotComputedError([f"anything at {values.columns.name} = {first:g}"])
        return {x: (values[x], values[grid[0]])[::way] for x in grid[1:]}

    return curve


def depends(blocks: Sequence[str], algorithms: Sequence[str], others: Sequence[str]) -> Test:
    """The algorithms are better at the largest x than at the smallest; others do not differ there by what matters."""
    kinds = [(names, by) for names, by in ((algorithms, "better"), (others, "equal")) if names]
    return all_of([_along([one], names, _ends(1), by=by, limit="matters") for one in blocks for names, by in kinds])


def best_inside(blocks: Sequence[str], algorithms: Sequence[str], ends: Sequence[str] = ("first", "last")) -> Test:
    """On every curve the best x of all but the `ends` is better than these.

    It is chosen by the means that are then compared, which favours the claim.
    """

    def curve(values: pd.DataFrame, grid: list[Any], on: MetricScale) -> dict[str, Pair]:
        outer = [{"first": grid[0], "last": grid[-1]}[end] for end in ends]
        inner = [x for x in grid if x not in outer]
        if not inner:
            raise NotComputedError(["an x between the ends"])
        best = inner[int(np.argmin(on.badness(values[inner].mean().to_numpy())))]
        return {f"{best} against {x}": (values[best], values[x]) for x in outer}

    return _along(blocks, algorithms, curve)


# ---- several tests, several data sets


def together(checks: Sequence[Check]) -> Check:
    """Return a check that holds if all of several do."""
    groups = [group for check in checks for group in check.groups]
    seeds = min((check.seeds for check in checks if check.seeds is not None), default=None)
    return Check(groups, seeds, "; ".join(dict.fromkeys(check.on for check in checks if check.on)))


def all_of(tests: Sequence[Test]) -> Test:
    """All tests hold; what any of them lacks is missing."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        checks: list[Check] = []
        missing: list[str] = []
        for each in tests:
            try:
                checks.append(each(evidence, reading))
            except NotComputedError as error:
                missing += error.missing
        if missing:
            raise NotComputedError(missing)
        return together(checks)

    return test


def on_sets(
    blocks: Sequence[str],
    algorithms: Sequence[str],
    tests: Callable[[str], Test],
    extra: str = "",
    said: str = "",
) -> Test:
    """The tests hold in each block, one per data set.

    A data set does not count if it was not computed, or if nothing that is compared is more accurate than the constant
    classifier: chance. The claim is judged if more than half count.

    Args:
        blocks: one per data set.
        algorithms: those that are compared.
        tests: the test of a block.
        extra: an end of names: blocks with it are shown, too, and do not count.
        said: why they do not.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        known = set(evidence.rows["block"])
        here = [block for block in blocks if block in known]
        gone = {block: "not computed" for block in blocks if block not in known}
        if len(gone) >= len(here):
            raise NotComputedError(gone)
        found: list[Check] = []
        left: list[Group] = []
        for block in here:
            check = tests(block)(evidence, reading)
            if why := _no_better_than_chance(evidence, block, algorithms, reading):
                gone[block] = why
                left += [replace(group, why=why) for group in check.groups]
            else:
                found.append(check)
        if len(gone) >= len(found):
            reasons = ", ".join(f"{block} ({why})" for block, why in gone.items())
            raise NotComputedError([f"{len(gone)} of {len(blocks)} data sets do not count: {reasons}"], words="")
        for block in (f"{block}{extra}" for block in blocks if extra):
            if block in known:
                left += [replace(group, why=said) for group in tests(block)(evidence, reading).groups]
        whole = together(found)
        on = f"{len(found)} of {len(blocks)} data sets" if len(found) < len(blocks) else ""
        return replace(whole, groups=[*whole.groups, *left], on=on)

    return test


def _no_better_than_chance(evidence: Evidence, block: str, algorithms: Sequence[str], reading: Reading) -> str:
    """Return why a data set does not count: nothing is above chance. Empty if something is."""
    chance = evidence.runs(block, "constant", reading) if reading.metric == "accuracy" else pd.DataFrame()
    floor = -math.inf if chance.empty else float(np.nanmean(chance.to_numpy()))
    if any((evidence.runs(block, name, reading).mean() >= floor + 1e-9).any() for name in algorithms):
        return ""
    return f"none is above the constant classifier, {floor:.3g}"


def by_data_set(
    block: str,
    names: Mapping[str, str],
    axis: str,
    where: Mapping[str, object],
    algorithms: Sequence[str],
    tests: Callable[[str], Test],
) -> Test:
    """`on_sets` on the rows of one block with some settings, of any variant: its data sets are blocks of their own.

    Args:
        block: with several data sets.
        names: what the data sets are called, by their names in rows.
        axis: the column that is x.
        where: the settings; a text is a part of a list in words.
        algorithms: as for `on_sets`.
        tests: as for `on_sets`.
    """
    blocks = [f"{name}_chosen" for name in dict.fromkeys(names.values())]
    whole = on_sets(blocks, algorithms, tests)

    def chosen(evidence: Evidence, variant: str) -> Evidence:
        rows = evidence.where("block", block).rows
        for key, value in where.items():
            if key not in rows:
                raise NotComputedError([f"{block} by {key}"])
            text = rows[key].astype(str).str.contains(str(value), regex=False)
            # what has no such setting belongs to every value of it
            rows = rows[(text if isinstance(value, str) else rows[key] == value) | rows[key].isna()]
        rows = rows.assign(variant=variant, block=rows["dataset"].map(names) + "_chosen", of=rows["block"])
        return replace(evidence, rows=rows, axes=dict.fromkeys(blocks, axis))

    def test(evidence: Evidence, reading: Reading) -> Check:
        key = (block, *where.items(), axis, reading.variant)
        return whole(evidence.kept(key, lambda: chosen(evidence, reading.variant)), reading)

    return test


# ---- laws: how fast something falls, and what is on average below a bound

EXPONENTS = MetricScale(log=False, up=False, matters=0.1, near=0.1)


def falls_as(block: str, free: str, stated: Mapping[str, float], M: float | None = None) -> Test:
    """What noise adds to a metric falls as a power of x: its exponent is within 0.1 of the one stated for an algorithm.

    That is the metric less that of the same seed without noise; its exponent is the slope of its logarithm.

    Args:
        block: runs over M or eps.
        free: runs over M without noise.
        stated: the exponents.
        M: of `block`, if it is over eps.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        noisy = evidence.all_runs({block: tuple(stated)}, reading)
        groups = []
        for (_, algorithm), runs in noisy.items():
            base = evidence.runs(free, algorithm, reading)
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

    return test


def below_bound(blocks: Sequence[str], algorithm: str, metric: str, key: str) -> Test:
    """In every block, for every variant, x and value of the setting `key`, the mean of a metric is at most its bound.

    The bound is the metric of the reading.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        groups, seeds, missing = [], [], []
        for block in blocks:
            own = evidence.rows[evidence.rows["block"] == block]
            missing += [] if len(own) else [block]
            for variant, value in own[["variant", key]].drop_duplicates().itertuples(index=False):
                part = replace(evidence, rows=own[own[key] == value])
                name = f"{block}, {variant}, {key.rpartition('.')[2]} = {value:g}"
                risk, bound = (part.runs(block, algorithm, Reading("", variant, m)) for m in (metric, reading.metric))
                if risk.empty or bound.empty:
                    missing.append(name)
                    continue
                shown = {x: similar(risk[x], bound[x], scale(metric), 0.0, better_too=True) for x in risk}
                groups.append(Group(name, algorithm, "the bound", shown, every(one.holds for one in shown.values())))
                seeds.append(risk.index.get_level_values("seed").nunique())
        if missing or not groups:
            raise NotComputedError(missing)
        return Check(groups, min(seeds))

    return test


# ---- published points: means and standard deviations of the authors' runs compared with ours

MOST = 0.9  # nine in ten published points
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
                one = replace(one, value=on.words(apart), slack=on.near - apart, needs=needs)
                found[algorithm][f"{block} at {x:g}"] = one
        if unpublished := [algorithm for algorithm in algorithms if not found[algorithm]]:
            raise NotComputedError([f"published points of {', '.join(unpublished)}"])
        holds, at_best = (
            [nine_in_ten([*found[a].values()], [absent_ones] * len(absent[a])) for a in algorithms]
            for absent_ones in (False, True)
        )
        if every(holds) != every(at_best) and every(holds) is not True:
            raise NotComputedError([point for points in absent.values() for point in points])
        groups = [Group("", a, "published points", found[a], one) for a, one in zip(algorithms, holds, strict=True)]
        return Check(groups, fewest_seeds(values[x] for values in runs.values() for x in values))

    return test


def by_chance(ours: pd.Series, theirs: float, error: float) -> Comparison:
    """Return whether the standard errors explain the difference between a mean, in absolute size, and `theirs`.

    It is undecided if more seeds (or draws of one seed) could refute it, with the same means. `error` is the standard
    error of the published mean.
    """
    means = per_seed(ours)
    means = means if len(means) > 1 else ours
    variance = float(means.var()) if len(means) > 1 else 0.0
    apart = (abs(float(ours.mean())) - theirs) ** 2 / ERRORS**2
    if apart <= error**2:
        return Comparison(True)
    return Comparison(False) if apart > error**2 + variance / len(means) else Comparison(None, slack=0.0)


def nine_in_ten(points: Sequence[Comparison], others: Sequence[bool] = ()) -> bool | None:
    """Return whether nine in ten hold; None if that depends on the undecided ones."""
    values = [*(point.holds for point in points), *others]
    return at_least(MOST * len(values), values)


def _points(
    published: pd.DataFrame, series: str, algorithm: str, reading: Reading
) -> Iterator[tuple[float, float, float]]:
    """Yield the published points of an algorithm: x, the mean in absolute size, and its standard error."""
    own = (published["series"] == series) & (published["algo"] == algorithm) & (published["metric"] == reading.metric)
    for x, mean, std, n in published.loc[own, ["x", "mean", "std", "n"]].itertuples(index=False):
        # the standard error of a single run is unknown, as is that without a deviation
        yield float(x), abs(float(mean)), float(std) / float(np.sqrt(n)) if n > 1 and std >= 0 else 0.0
