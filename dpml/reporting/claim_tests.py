"""The tests of claims on runs: pairs (a, b) of runs of which a is better than b, as good as it, or equal to it.

What these words mean is defined in `criteria`. A test groups its pairs by block and algorithms. In every group all,
most or some of the pairs must be as the claim says; where a claim says better, none may be worse.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dpml.errors import UserError, nearest
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


Pairs = Mapping[Key, tuple[pd.Series, pd.Series]]
"""Pairs of runs, indexed by (seed, draw)."""


def most(values: Sequence[bool | None]) -> bool | None:
    """Whether more than half hold; None if that depends on the undecided ones."""
    won, possible = values.count(True), len(values) - values.count(False)
    return True if won > len(values) / 2 else None if possible > len(values) / 2 else False


AMOUNT: Mapping[str, Callable[[Sequence[bool | None]], bool | None]] = {
    "all": every,
    "most": most,
    "some": some,
    "any": some,  # whatever the others are: they may be worse
}
BY = ("better", "not better", "as good as", "equal")


def one_of(key: str, word: str, words: Iterable[str]) -> str:
    """Return the word of a card if it is one of these."""
    if word not in words:
        raise UserError(f"{key} of a test must be one of {', '.join(words)}, got {word!r}: {nearest(str(word), words)}")
    return word


def scales(evidence: Evidence, metric: str) -> Callable[[str], MetricScale]:
    return lambda block: scale(metric, evidence.room(block, metric) if not scale(metric).log else 0)


# ---- the test


def judged(
    pairs: Pairs,
    on: Callable[[str], MetricScale],
    by: str = "better",
    often: str = "all",
    limit: float | str | None = None,
    steps: Pairs | None = None,
) -> list[Group]:
    """Compare all pairs and decide for every group of them.

    Args:
        pairs: the runs.
        on: the scale of their metric.
        by: what the first of a pair must be (`BY`).
        often: how many pairs of a group must be so (`AMOUNT`).
        limit: the largest difference of what is equal or as good, if not that of the scale, or "matters".
        steps: further pairs. The first of them must not be worse.
    """
    groups: dict[tuple[str, str, str], dict[Any, Comparison]] = {}
    for key, one in _compared(pairs, on, by, limit).items():
        groups.setdefault(key[:3], {})[key.x] = one
    back: dict[tuple[str, str, str], dict[Any, Comparison]] = {}
    for key, one in better(steps or {}, {k: on(k.block) for k in steps or {}}, same_noise=True).items():
        if one.against:
            back.setdefault(key[:3], {})[key.x] = one
    found = []
    for (block, algorithm, against), shown in groups.items():
        worse = back.get((block, algorithm, against), {})
        lost = bool(worse) or (often != "any" and any(one.against for one in shown.values()))
        holds = every([AMOUNT[often]([one.holds for one in shown.values()]), not lost])
        found.append(Group(block, algorithm, against, {**shown, **worse}, holds))
    return found


def _compared(pairs: Pairs, on: Callable[[str], MetricScale], by: str, limit: Any) -> dict[Key, Comparison]:
    if by in ("as good as", "equal"):
        return {
            key: similar(a, b, on(key.block), on(key.block).matters if limit == "matters" else limit, better_too=by != "equal", same_noise=key.algorithm == key.against)
            for key, (a, b) in pairs.items()
        }
    shown: dict[Key, Comparison] = {}
    for own in (True, False):  # with itself an algorithm shares the noise
        part = {key: pair for key, pair in pairs.items() if (key.algorithm == key.against) == own}
        shown |= better(part, {k: on(k.block) for k in part}, same_noise=own)
    if by == "not better":
        turn = {True: False, False: True, None: None}
        return {k: replace(v, holds=turn[v.holds], against=False, slack=-v.slack) for k, v in shown.items()}
    return shown


def fewest_seeds(runs: Iterable[pd.Series]) -> int:
    """Return the smallest number of seeds among some runs."""
    return min(int(one.dropna().index.get_level_values("seed").nunique()) for one in runs)


def check_of(groups: Sequence[Group], pairs: Pairs) -> Check:
    """Return a check of groups, with the seeds of their pairs."""
    if not pairs:
        raise NotComputedError(["anything to compare"])
    seeds = fewest_seeds({id(one): one for pair in pairs.values() for one in pair}.values())
    return Check(groups, seeds)


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
    parts = {"": evidence}
    for key, values in (each or {}).items():
        if not isinstance(values, list | tuple) or not all(isinstance(value, int | float) for value in values):
            raise UserError(f"each of a test needs a list of numbers for {key}, got {values!r}.")
        if key not in evidence.rows:
            raise NotComputedError([f"anything by {key}"])
        at = [(where, part, value) for where, part in parts.items() for value in values]
        parts = {f"{where}, {key} = {value:g}": part.where(key, value) for where, part, value in at}
    runs: dict[tuple[str, str], pd.DataFrame] = {}
    missing: list[str] = []
    for where, part in parts.items():
        try:
            found = part.all_runs(blocks, reading)
        except NotComputedError as error:
            missing += [f"{name}{where.replace(',', ' at', 1)}" for name in error.missing]
        else:
            runs |= {
                (f"{block}{where}", algorithm): values.abs().clip(lower=part.floor(block, reading))
                for (block, algorithm), values in found.items()
            }
    if missing or not runs:
        raise NotComputedError(missing or ["anything to compare"])
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
    missing = [f"{block} at {runs.columns.name} = {end}" for end in ends if end not in grid]
    if missing:
        raise NotComputedError(missing)
    return [at for at in grid if ends[0] <= at <= ends[-1]] if isinstance(x, list) else ends


# ---- tests that compare algorithms


def compare(  # many parameters: the arguments of a test on a card
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
    one_of("by", by, BY)
    one_of("often", often, AMOUNT)
    firsts, seconds = ([*one] if isinstance(one, list | tuple) else [one] for one in (first, second))
    curves = [place for place in (*firsts, *seconds) if isinstance(place, str)]

    def pairs_of(evidence: Evidence, reading: Reading) -> dict[Key, tuple[pd.Series, pd.Series]]:
        runs = runs_of(evidence, reading, dict.fromkeys(blocks, curves), each) if curves else {}
        found = {}
        for panel in dict.fromkeys(panel for panel, _ in runs) if runs else blocks:
            grid = _chosen(runs[panel, curves[-1]], panel, x) if curves else [""]

            def at(place: Place, here: Any, panel: str = panel) -> pd.Series:
                if isinstance(place, str):
                    return runs[panel, place][here]
                return _runs_at(evidence, panel, place, reading)

            for (a, b), here in product(product(firsts, seconds), grid):
                if isinstance(b, int | float):
                    ours = at(a, here)
                    theirs = pd.Series(float(b), ours.index)
                else:
                    ours, theirs = at(a, here), at(b, here) / factor
                found[Key(panel, _name(a), _name(b), here)] = ours, theirs
        return found

    def test(evidence: Evidence, reading: Reading) -> Check:
        checks = []
        for metric in metrics or (reading.metric,):
            pairs = pairs_of(evidence, replace(reading, metric=metric))
            groups = judged(pairs, scales(evidence, metric), by, often, limit)
            if len(metrics) > 1:
                groups = [replace(group, block=f"{group.block}, {metric}") for group in groups]
            checks.append(check_of(groups, pairs))
        return together(checks)

    return test


def _name(place: Place) -> str:
    if isinstance(place, str):
        return place
    return f"{place:g}" if isinstance(place, int | float) else f"{place[0]} at {place[1]:g}"


def _runs_at(evidence: Evidence, block: str, place: Any, reading: Reading) -> pd.Series:
    name, x = place
    found = evidence.runs(block, name, reading).abs().clip(lower=evidence.floor(block, reading))
    if len(found) < 2 or x not in found:
        raise NotComputedError([f"{name} in {block} at {x:g}"])
    return found[x]


def easier(blocks: Mapping[str, str], algorithms: Sequence[str], often: str = "most", x: Any = "every") -> Test:
    """In each block an algorithm is better at most x, or as `often` says, than in the block that is named behind it."""
    one_of("often", often, AMOUNT)

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = runs_of(evidence, reading, dict.fromkeys((*blocks, *blocks.values()), algorithms))
        pairs: dict[Key, Any] = {}
        for (block, other), name in product(blocks.items(), algorithms):
            if missing := [where for where in (block, other) if (where, name) not in runs]:
                raise NotComputedError(missing)
            floor = max(evidence.floor(where, reading) for where in (block, other))  # zero is the same in both
            ours, theirs = (runs[where, name].clip(lower=floor) for where in (block, other))
            shared = [at for at in _chosen(ours, block, x) if at in theirs]
            if not shared:
                raise NotComputedError([f"{block} and {other} at the same {ours.columns.name}"])
            pairs |= {Key(block, name, f"{name} in {other}", at): (ours[at], theirs[at]) for at in shared}
        return check_of(judged(pairs, scales(evidence, reading.metric), often=often), pairs)

    return test


def wider_gap(gaps: Sequence[Sequence[Any]], algorithm: str, others: Sequence[str]) -> Test:
    """The gap between `algorithm` and each other one is larger in one place than in another.

    `gaps` lists [block, x, other block, other x]; an x may be "first" or "last".
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = runs_of(evidence, reading, {block: (algorithm, *others) for gap in gaps for block in (gap[0], gap[2])})

        if missing := [gap[k] for gap in gaps for k in (0, 2) if (gap[k], algorithm) not in runs]:
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
        return check_of(judged(pairs, scales(evidence, reading.metric)), pairs)

    return test


# ---- tests that compare an algorithm with itself at another x

Curve = Callable[[pd.DataFrame, list[Any], MetricScale], tuple[Mapping[str, Any], Mapping[str, Any]]]
"""What gives the pairs of a curve by x, and its steps, from its runs, the values of x, and the metric's scale."""


def _along(
    blocks: Sequence[str], algorithms: Sequence[str], curve: Curve, each: Each | None = None, **how: Any
) -> Test:
    """A test of the pairs on the curve of every algorithm in every block, with the options of `judged`."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        pairs: dict[Key, Any] = {}
        steps: dict[Key, Any] = {}
        on = scales(evidence, reading.metric)
        for (panel, name), values in runs_of(evidence, reading, dict.fromkeys(blocks, algorithms), each).items():
            for found, own in zip((pairs, steps), curve(values, several(values, panel), on(panel)), strict=True):
                found |= {Key(panel, name, name, x): pair for x, pair in own.items()}
        return check_of(judged(pairs, on, steps=steps, **how), pairs)

    return test


def _ends(way: int) -> Curve:
    def curve(values: pd.DataFrame, grid: list[Any], _: MetricScale) -> tuple[dict[str, Any], dict[str, Any]]:
        whole, *steps = (
            {f"{_plain(a)} to {_plain(b)}": (values[b], values[a])[::way]}
            for a, b in ((grid[0], grid[-1]), *pairwise(grid))
        )
        return whole, {key: pair for step in steps for key, pair in step.items()}

    return curve


def _plain(x: Any) -> str:
    return f"{x:g}" if isinstance(x, float) else str(x)


def improves(blocks: Sequence[str], algorithms: Sequence[str], each: Each | None = None) -> Test:
    """From the first to the last x every algorithm gets better, and at no step on the way worse."""
    return _along(blocks, algorithms, _ends(1), each)


def degrades(blocks: Sequence[str], algorithms: Sequence[str], each: Each | None = None) -> Test:
    """From the first to the last x every algorithm gets worse, and at no step on the way better."""
    return _along(blocks, algorithms, _ends(-1), each)


def is_steady(
    blocks: Sequence[str], algorithms: Sequence[str], each: Each | None = None, first: float | None = None
) -> Test:
    """At every x every algorithm is equal to what it is at the first, which is `first` if that is given."""
    return _along(blocks, algorithms, _from_first(first, 1), each, by="equal")


def fluctuates(blocks: Sequence[str], algorithms: Sequence[str], first: float | None = None) -> Test:
    """At some x every algorithm is worse than at the first; elsewhere it may be better."""
    return _along(blocks, algorithms, _from_first(first, -1), often="any")


def _from_first(first: float | None, way: int) -> Curve:
    def curve(values: pd.DataFrame, grid: list[Any], _: MetricScale) -> tuple[dict[str, Any], dict[str, Any]]:
        if first is not None and grid[0] != first:
            raise NotComputedError([f"anything at {values.columns.name} = {first:g}"])
        return {x: (values[x], values[grid[0]])[::way] for x in grid[1:]}, {}

    return curve


def depends(blocks: Sequence[str], algorithms: Sequence[str], others: Sequence[str]) -> Test:
    """The algorithms are better at the largest x than at the smallest; others do not differ there by what matters."""
    kinds = [(names, by) for names, by in ((algorithms, "better"), (others, "equal")) if names]

    def curve(values: pd.DataFrame, grid: list[Any], on: MetricScale) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        return _ends(1)(values, grid, on)[0], {}

    return all_of([_along([block], names, curve, by=by, limit="matters") for block in blocks for names, by in kinds])


def best_inside(blocks: Sequence[str], algorithms: Sequence[str], ends: Sequence[str] = ("first", "last")) -> Test:
    """On every curve the best x of all but the `ends` is better than these.

    It is chosen by the means that are then compared, which favours the claim.
    """

    def curve(values: pd.DataFrame, grid: list[Any], on: MetricScale) -> tuple[dict[str, Any], dict[str, Any]]:
        outer = [{"first": grid[0], "last": grid[-1]}[end] for end in ends]
        inner = [x for x in grid if x not in outer]
        if not inner:
            raise NotComputedError(["an x between the ends"])
        best = inner[int(np.argmin(on.badness(values[inner].mean().to_numpy())))]
        return {f"{best} against {x}": (values[best], values[x]) for x in outer}, {}

    return _along(blocks, algorithms, curve)


# ---- several tests, several data sets


def together(checks: Sequence[Check]) -> Check:
    """Return a check that holds if all of several do.

    Raises:
        NotComputedError: there are none.
    """
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

    A data set does not count if it is not here, or if nothing that is compared is more accurate
    than the constant classifier: chance. The claim is judged if more than half count.

    Args:
        blocks: one per data set.
        algorithms: those that are compared.
        tests: the test of a block.
        extra: an end of names: blocks with it are shown, too, and do not count.
        said: why they do not.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        have = set(evidence.rows["block"].unique())
        here = [block for block in blocks if block in have]
        if 2 * len(here) <= len(blocks):
            here = list(blocks)  # which says what is missing
        evidence.all_runs({block: algorithms for block in blocks if block in (*here, *have)}, reading)
        found: list[Check] = []
        left: list[Group] = []
        gone = []
        for block in blocks:
            why = _why_not(evidence, block, algorithms, reading)
            check = tests(block)(evidence, reading) if block in have else None
            if check and not why:
                found.append(check)
                continue
            gone.append(f"{block} ({why})")
            left += [replace(group, why=why) for group in (check.groups if check else ())]
        if 2 * len(found) <= len(blocks):
            raise NothingCountsError([f"{len(gone)} of {len(blocks)} data sets do not count: {', '.join(gone)}"])
        for block in blocks if extra else ():
            with suppress(NotComputedError):
                left += [replace(group, why=said) for group in tests(f"{block}{extra}")(evidence, reading).groups]
        whole = together(found)
        on = f"{len(found)} of {len(blocks)} data sets" if len(found) < len(blocks) else ""
        return replace(whole, groups=[*whole.groups, *left], on=on)

    return test


def _why_not(evidence: Evidence, block: str, algorithms: Sequence[str], reading: Reading) -> str:
    """Why a data set does not count; empty if it does."""
    curves = [evidence.runs(block, name, reading).abs() for name in algorithms]
    if any(values.empty for values in curves):
        return "it is not here"
    chance = evidence.runs(block, "constant", reading) if reading.metric == "accuracy" else pd.DataFrame()
    floor = -math.inf if chance.empty else float(np.nanmean(chance.to_numpy()))
    if all((values.mean() < floor + 1e-9).all() for values in curves):
        return f"none is above the constant classifier, {floor:.3g}"
    return ""


def by_data_set(  # many parameters: the arguments of a test on a card
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
