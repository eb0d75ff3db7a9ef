"""The tests of claims on runs: pairs (a, b) of runs of which a is better than b, as good as it, or equal to it.

What these words mean is defined in `criteria`. A test groups its pairs by block and algorithms. In every group all,
most or some of the pairs must be as the claim says; where a claim says better, none may be worse.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dpml.reporting.claims import (
    Check,
    Evidence,
    Group,
    NotComputedError,
    NothingCountsError,
    Reading,
    Runs,
    Test,
    every,
    some,
)
from dpml.reporting.criteria import Comparison, MetricScale, better, similar
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


Pairs = Mapping[Key, tuple[pd.Series, pd.Series]]
"""Pairs of runs, indexed by (seed, draw)."""


def most(values: Sequence[bool | None]) -> bool | None:
    """Return whether more than half hold; None if that depends on the undecided ones."""
    won, possible = values.count(True), len(values) - values.count(False)
    return True if won > len(values) / 2 else None if possible > len(values) / 2 else False


AMOUNT: Mapping[str, Callable[[Sequence[bool | None]], bool | None]] = {
    "all": every,
    "most": most,
    "some": some,
    "any": some,  # whatever the others are: they may be worse
}
_TURNED = {True: False, False: True, None: None}


# ---- the test


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
        often: how many pairs of a group must be so (`AMOUNT`).
        limit: the largest difference of what is equal or as good, if not that of the metric, or "matters".
        steps: further pairs. The first of them must not be worse.
    """
    if not pairs:
        raise NotComputedError(["anything to compare"])
    scales = {key: evidence.scale(key.block.partition(",")[0], metric) for key in (*pairs, *(steps or {}))}
    shown: dict[Key, Comparison] = {}
    for own in (True, False):  # with itself an algorithm shares the noise
        part = {key: pair for key, pair in pairs.items() if (key.algorithm == key.against) == own}
        if by in ("as good as", "equal"):
            for key, (a, b) in part.items():
                apart: Any = scales[key].matters if limit == "matters" else limit
                shown[key] = similar(a, b, scales[key], apart, better_too=by != "equal", same_noise=own)
        else:
            shown |= better(part, scales, same_noise=own)
    if by == "not better":
        shown = {k: replace(v, holds=_TURNED[v.holds], against=False, slack=-v.slack) for k, v in shown.items()}
    back = {key: one for key, one in better(steps or {}, scales, same_noise=True).items() if one.against}
    groups = []
    for about in dict.fromkeys(key[:3] for key in pairs):
        here, worse = ({k.x: one for k, one in each.items() if k[:3] == about} for each in (shown, back))
        lost = bool(worse) or (often != "any" and any(one.against for one in here.values()))
        holds = every([AMOUNT[often]([one.holds for one in here.values()]), not lost])
        groups.append(Group(*about, {**here, **worse}, holds))
    return Check(groups, fewest_seeds({id(one): one for pair in pairs.values() for one in pair}.values()))


def fewest_seeds(runs: Iterable[pd.Series]) -> int:
    """Return the smallest number of seeds among some runs."""
    return min(int(one.dropna().index.get_level_values("seed").nunique()) for one in runs)


# ---- the runs


def runs_of(
    evidence: Evidence, reading: Reading, blocks: Mapping[str, Sequence[str]], each: Each | None = None
) -> Runs:
    """Return the runs of some algorithms by block and algorithm, in absolute size: losses may have either sign.

    What counts as zero (`Evidence.floor`) is as large as the floor.

    Args:
        evidence: the rows.
        reading: the variant and the metric.
        blocks: the algorithms of every block.
        each: settings at each of whose values, of several all combinations, the blocks are looked at. They stand
            behind the name of a block.
    """
    runs: dict[tuple[str, str], pd.DataFrame] = {}
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
    """The values of x that a card chooses: every one, the first, the last, a number, or a range of two."""
    if x == "every":
        return list(runs.columns)
    grid = several(runs, block)
    ends = [{"first": grid[0], "last": grid[-1]}.get(end, end) for end in (x if isinstance(x, list) else [x])]
    if missing := [f"{block} at {runs.columns.name} = {end}" for end in ends if end not in grid]:
        raise NotComputedError(missing)
    return [at for at in grid if ends[0] <= at <= ends[-1]] if isinstance(x, list) else ends


def _listed(places: Place | Sequence[Place]) -> list[Any]:
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

    def pairs_of(evidence: Evidence, reading: Reading) -> dict[Key, tuple[pd.Series, pd.Series]]:
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
            checks.append(
                replace(check, groups=[replace(group, block=f"{group.block}{words}") for group in check.groups])
            )
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
        pairs: dict[Key, Any] = {}
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

        pairs = {
            Key(block, f"{algorithm} less {other}", f"the gap in {than} at {than_x}", x):
                (gap(block, x, other), gap(than, than_x, other))
            for (block, x, than, than_x), other in product(gaps, others)
        }  # fmt: skip
        return checked(pairs, evidence, reading.metric)

    return test


# ---- tests that compare an algorithm with itself at another x

Curve = Callable[[pd.DataFrame, list[Any], MetricScale], Mapping[Any, tuple[pd.Series, pd.Series]]]
"""What gives the pairs of a curve by x, from its runs, the values of x, and the metric's scale."""


def _along(
    blocks: Sequence[str],
    algorithms: Sequence[str],
    curve: Curve,
    each: Each | None = None,
    way: int = 0,
    **how: Any,
) -> Test:
    """A test of the pairs on the curve of every algorithm in every block, with the options of `checked`.

    With a `way` no step from one x to the next may go the other way.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        pairs: dict[Key, Any] = {}
        steps: dict[Key, Any] = {}
        for (panel, name), values in runs_of(evidence, reading, dict.fromkeys(blocks, algorithms), each).items():
            grid = several(values, panel)
            on = evidence.scale(panel.partition(",")[0], reading.metric)
            pairs |= {Key(panel, name, name, x): pair for x, pair in curve(values, grid, on).items()}
            for ends in pairwise(grid) if way else ():
                steps |= {Key(panel, name, name, x): pair for x, pair in _ends(way)(values, [*ends], on).items()}
        return checked(pairs, evidence, reading.metric, steps=steps, **how)

    return test


def _ends(way: int) -> Curve:
    def curve(values: pd.DataFrame, grid: list[Any], _: MetricScale) -> dict[str, tuple[pd.Series, pd.Series]]:
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
    def curve(values: pd.DataFrame, grid: list[Any], _: MetricScale) -> dict[Any, tuple[pd.Series, pd.Series]]:
        if first is not None and grid[0] != first:
            raise NotComputedError([f"anything at {values.columns.name} = {first:g}"])
        return {x: (values[x], values[grid[0]])[::way] for x in grid[1:]}

    return curve


def depends(blocks: Sequence[str], algorithms: Sequence[str], others: Sequence[str]) -> Test:
    """The algorithms are better at the largest x than at the smallest; others do not differ there by what matters."""
    kinds = [(names, by) for names, by in ((algorithms, "better"), (others, "equal")) if names]
    return all_of([
        _along([block], names, _ends(1), by=by, limit="matters") for block in blocks for names, by in kinds
    ])  # fmt: skip


def best_inside(blocks: Sequence[str], algorithms: Sequence[str], ends: Sequence[str] = ("first", "last")) -> Test:
    """On every curve the best x of all but the `ends` is better than these.

    It is chosen by the means that are then compared, which favours the claim.
    """

    def curve(values: pd.DataFrame, grid: list[Any], on: MetricScale) -> dict[str, tuple[pd.Series, pd.Series]]:
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
        here = [block for block in blocks if block in set(evidence.rows["block"])]
        gone = {block: "not computed" for block in blocks if block not in here}
        if len(gone) >= len(here):
            raise NotComputedError(gone)
        found: list[Check] = []
        left: list[Group] = []
        for block in here:
            check = tests(block)(evidence, reading)
            if why := _by_chance(evidence, block, algorithms, reading):
                gone[block] = why
                left += [replace(group, why=why) for group in check.groups]
            else:
                found.append(check)
        if len(gone) >= len(found):
            reasons = ", ".join(f"{block} ({why})" for block, why in gone.items())
            raise NothingCountsError([f"{len(gone)} of {len(blocks)} data sets do not count: {reasons}"])
        for block in blocks if extra else ():
            if f"{block}{extra}" in set(evidence.rows["block"]):
                left += [replace(group, why=said) for group in tests(f"{block}{extra}")(evidence, reading).groups]
        whole = together(found)
        on = f"{len(found)} of {len(blocks)} data sets" if len(found) < len(blocks) else ""
        return replace(whole, groups=[*whole.groups, *left], on=on)

    return test


def _by_chance(evidence: Evidence, block: str, algorithms: Sequence[str], reading: Reading) -> str:
    """Why a data set does not count: nothing is above chance. Empty if something is."""
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
