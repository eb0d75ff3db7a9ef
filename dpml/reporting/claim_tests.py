"""Tests for the claims of more than one paper. What their words mean is defined in `criteria`."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pandas as pd

from dpml.errors import UserError, nearest
from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Runs, Test, every, some, worded
from dpml.reporting.criteria import Comparison, MetricScale, better, scale, similar

Amount = Callable[[Sequence[bool | None]], bool | None]
"""How many of several statements must hold, in three-valued logic: `every`, `some` or `most`."""


Each = Mapping[str, Sequence[float]]
"""A setting and its values, each of which a test looks at by itself."""

Blocks = Sequence[str] | Mapping[str, str]
"""Blocks, or blocks by what they are called in words."""


def on_runs(
    needs: Mapping[str, Sequence[str]],
    decide: Callable[[Runs, MetricScale], Check],
    each: Each | None = None,
    words: Mapping[str, str] | None = None,
) -> Test:
    """A test on runs in absolute size: losses that can have either sign are drawn so, too.

    Args:
        needs: the algorithms of every block.
        decide: gets the runs by block and algorithm, and the scale of their metric.
        each: settings at each of whose values, of several all combinations, the blocks are looked at; they stand in
            front of their names.
        words: what `decide` and readers call a block, unless by its name.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        parts = {"": evidence}
        for key, values in (each or {}).items():
            if not isinstance(values, list | tuple) or not all(isinstance(value, int | float) for value in values):
                raise UserError(f"each of a test needs a list of numbers for {key}, got {values!r}.")
            if key not in evidence.rows:
                raise NotComputedError([f"anything by {key}"])
            at = [(where, part, value) for where, part in parts.items() for value in values]
            parts = {f"{where}{key} = {value:g}, ": part.where(key, value) for where, part, value in at}
        runs: dict[tuple[str, str], pd.DataFrame] = {}
        missing: list[str] = []
        for where, part in parts.items():
            try:
                found = part.all_runs(needs, reading)
            except NotComputedError as error:
                missing += [f"{name}{f' at {where[:-2]}' if where else ''}" for name in error.missing]
            else:
                runs |= {
                    (f"{where}{(words or {}).get(block, block)}", algorithm): values.abs()
                    for (block, algorithm), values in found.items()
                }
        if missing or not runs:
            raise NotComputedError(missing or ["anything to compare"])
        check = decide(runs, scale(reading.metric))
        return replace(check, seeds=fewest_seeds(runs), substitutes=evidence.stand_ins(needs))

    return test


def in_blocks(
    blocks: Blocks, algorithms: Sequence[str], decide: Callable[[Runs, MetricScale], Check], each: Each | None = None
) -> Test:
    """A test on the runs of the same algorithms in all blocks."""
    named = blocks if isinstance(blocks, Mapping) else {block: block for block in blocks}
    return on_runs(dict.fromkeys(named.values(), algorithms), decide, each, {b: word for word, b in named.items()})


def curves_of(runs: Runs) -> dict[str, tuple[pd.DataFrame, list[Any]]]:
    """The runs of every panel and algorithm by a name of both, and their x in order."""
    between = {True: ", ", False: " "}  # a panel of several words
    return {
        f"{algo}{between[', ' in panel]}{panel}": (values, several(values, panel))
        for (panel, algo), values in runs.items()
    }


def fewest_seeds(runs: Runs) -> int:
    """The smallest number of seeds among some runs, at the x that has the fewest."""
    fewest = []
    for values in runs.values():
        known = values.notna()
        whole = known.to_numpy().all()  # nearly always
        fewest.append(
            values.index.get_level_values("seed").nunique() if whole else known.groupby(level="seed").any().sum().min()
        )
    return int(min(fewest))


def several(runs: pd.DataFrame, name: str) -> list[Any]:
    """The values of x of some runs, from the first to the last: shares of parties from equal to skewed.

    Raises:
        NotComputedError: there are fewer than two.
    """
    if runs.shape[1] < 2:
        raise NotComputedError([f"a second x of {name}"])
    if all("/" in str(x) for x in runs.columns):
        return sorted(runs.columns, key=lambda shares: -min(map(float, str(shares).split("/"))))
    return list(runs.columns)


def trend(curves: Mapping[str, tuple[pd.DataFrame, Sequence[Any]]], on: MetricScale, better_at_the_end: bool) -> Check:
    """From the first to the last x every curve gets better (or worse), and the opposite at no step on the way.

    Args:
        curves: by name, their runs and their x in order.
        on: the scale of the metric.
        better_at_the_end: the direction.
    """
    way = slice(None, None, -1 if better_at_the_end else 1)
    ends: dict[Any, Any] = {}
    steps: dict[Any, Any] = {}
    means = []
    for name, (values, grid) in curves.items():
        ends[name] = tuple(values[x] for x in (grid[0], grid[-1])[way])
        steps |= {(name, f"{a} to {b}"): tuple(values[x] for x in (a, b)[way]) for a, b in pairwise(grid)}
        means.append(f"{name} {' '.join(f'{values[x].mean():.3g}' for x in grid)}")
    shown, back = (better(pairs, on, same_noise=True) for pairs in (ends, steps))
    turned = [key for key, one in back.items() if one.against]
    text = "; ".join(means) + failing(f"not {'better' if better_at_the_end else 'worse'} in the end", shown)
    text += f"; the other way: {', '.join(map(worded, turned))}" if turned else ""
    return Check.of(text, shown | {key: back[key] for key in turned}, lambda k: every([not turned, *map(k.get, shown)]))


def one_of(key: str, word: str, words: Sequence[str]) -> str:
    """The word of a card, if it is one of these.

    Raises:
        UserError: it is none.
    """
    if word not in words:
        raise UserError(f"{key} of a test must be one of {', '.join(words)}, got {word!r}: {nearest(str(word), words)}")
    return word


def improves(blocks: Blocks, algorithms: Sequence[str], each: Each | None = None) -> Test:
    """From the first to the last x every algorithm gets better, and at no step on the way worse."""
    return in_blocks(blocks, algorithms, lambda runs, on: trend(curves_of(runs), on, better_at_the_end=True), each)


def degrades(blocks: Blocks, algorithms: Sequence[str], each: Each | None = None) -> Test:
    """From the first to the last x every algorithm gets worse, and at no step on the way better."""
    return in_blocks(blocks, algorithms, lambda runs, on: trend(curves_of(runs), on, better_at_the_end=False), each)


def failing(words: str, shown: Mapping[Any, Comparison]) -> str:
    """Text to add to a check's numbers: the comparisons that fail, and those that are undecided."""
    texts = []
    for kind, name in ((False, words), (None, f"undecided whether {words}")):
        keys = [worded(key) for key in shown if shown[key].holds is kind]
        texts += [f"; {name}: {', '.join(keys)}"] if keys else []
    return "".join(texts)


def beats(blocks: Blocks, algorithm: str, others: Sequence[str], often: str = "most") -> Test:
    """`algorithm` is better than each other one at most x of every block, or at `some`, and worse at none."""
    amount = {"most": most, "some": some}[one_of("often", often, ("most", "some"))]

    def decide(runs: Runs, on: MetricScale) -> Check:
        pairs = {
            (f"{block}, {algorithm} against {other}", x): (runs[block, algorithm][x], runs[block, other][x])
            for block in dict.fromkeys(block for block, _ in runs) for other in others for x in runs[block, algorithm]
        }  # fmt: skip
        return wins(pairs, on, amount)

    return in_blocks(blocks, (algorithm, *others), decide)


def wins(pairs: Mapping[tuple[str, Any], tuple[pd.Series, pd.Series]], on: MetricScale, amount: Amount) -> Check:
    """Of the pairs (a, b) of every group, the first part of a key, a is better in an `amount`, and worse in none."""
    shown = better(pairs, on)
    groups = {name: [key for key in shown if key[0] == name] for name in dict.fromkeys(key[0] for key in shown)}
    lost = {name: sum(shown[key].against for key in keys) for name, keys in groups.items()}
    texts = [
        f"{name}: {sum(shown[key].holds is True for key in keys)} won, {lost[name]} lost of {len(keys)}"
        for name, keys in groups.items()
    ]

    def rule(known: Mapping[tuple[str, Any], bool | None]) -> bool | None:
        return every(every([amount([known[key] for key in keys]), not lost[name]]) for name, keys in groups.items())

    return Check.of(", ".join(texts), shown, rule)


def most(values: Sequence[bool | None]) -> bool | None:
    """Whether more than half hold; None if that depends on the undecided ones."""
    won, possible = values.count(True), len(values) - values.count(False)
    return True if won > len(values) / 2 else None if possible > len(values) / 2 else False


def steady(curves: Mapping[str, tuple[pd.DataFrame, Sequence[Any]]], on: MetricScale) -> Check:
    """At every x every curve is similar to what it is at the first."""
    shown: dict[Any, Comparison] = {}
    texts = []
    for name, (values, (first, *others)) in curves.items():
        shown |= {(name, x): similar(values[x], values[first], on, same_noise=True) for x in others}
        means = [values[x].mean() for x in (first, *others)]
        texts.append(f"{name} {min(means):.3g} to {max(means):.3g}")
    return Check.of(", ".join(texts) + failing("not as at first", shown), shown)


def is_steady(blocks: Blocks, algorithms: Sequence[str], each: Each | None = None) -> Test:
    """At every x every algorithm is similar to what it is at the first."""
    return in_blocks(blocks, algorithms, lambda runs, on: steady(curves_of(runs), on), each)


def reaches(blocks: Mapping[str, Sequence[str]], until: float = math.inf) -> Test:
    """In every block the first of two algorithms is similar to the second at the last x up to `until`.

    The numbers say from which x on it is. That, unlike a share of the way from the first x, does not depend on where
    the grid starts.
    """

    def decide(runs: Runs, on: MetricScale) -> Check:
        last, texts = {}, []
        for block, (algorithm, target) in blocks.items():
            ours, theirs = (runs[block, name] for name in (algorithm, target))
            near = {x: similar(ours[x], theirs[x], on) for x in several(ours, block) if x <= until}
            if not near:
                raise NotComputedError([f"{block} at {ours.columns.name} <= {until:g}"])
            end = list(near)[-1]
            last[f"{block}, {algorithm} against {target}", end] = near[end]
            texts.append(f"{block}: {_reached(near)}, {ours[end].mean():.3g} and {theirs[end].mean():.3g} at {end:g}")
        return Check.of(", ".join(texts), last)

    return on_runs(blocks, decide)


def _reached(near: Mapping[Any, Comparison]) -> str:
    """From which x on all are near: with undecided points as near, and as not near."""
    places, ends = list(near), []
    for far in (False,), (False, None):
        beyond = [number for number, one in enumerate(near.values()) if one.holds in far]
        ends.append(
            places[beyond[-1] + 1] if beyond and beyond[-1] + 1 < len(places) else None if beyond else places[0]
        )
    early, late = (None if end is None else f"{end:g}" for end in ends)
    if early == late:
        return "never reached" if early is None else f"reached from {early} on"
    return f"reached from {early} on or {'never' if late is None else f'from {late} on'}"


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


def together(checks: Sequence[Check]) -> Check:
    """Several checks, all of which must hold, combined into one, with the numbers of all.

    Raises:
        NotComputedError: there are none.
    """
    if not checks:
        raise NotComputedError(["anything to compare"])
    shown: dict[Any, Comparison] = {}
    for part, check in enumerate(checks):
        shown |= {key if key not in shown else (worded(key), f"({part + 1})"): one for key, one in check.shown.items()}
    seeds = min((check.seeds for check in checks if check.seeds is not None), default=None)
    numbers = "; ".join(check.numbers for check in checks)
    stand_ins = tuple(dict.fromkeys(name for check in checks for name in check.substitutes))
    on = "; ".join(dict.fromkeys(check.on for check in checks if check.on))
    holds = every(check.holds for check in checks)  # also of exact numbers, which have no comparisons
    return Check(holds, numbers, seeds, shown, on, stand_ins)
