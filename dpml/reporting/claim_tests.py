"""Tests for the claims of more than one paper. What their words mean is defined in `criteria`."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd

from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Runs, Test, every, worded
from dpml.reporting.criteria import Comparison, MetricScale, Rule, better, scale, similar

Amount = Callable[[Sequence[bool | None]], bool | None]
"""How many of several statements must hold, in three-valued logic: `every`, `some` or `most`."""


def on_runs(needs: Callable[[Reading], Mapping[str, Sequence[str]]], decide: Callable[[Runs, Reading], Check]) -> Test:
    """A test on runs: `needs` gives the algorithms of every block; `decide` gets their values in absolute size.

    Losses that can have either sign are drawn in absolute size, too.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = evidence.all_runs(needs(reading), reading)
        check = decide({key: values.abs() for key, values in runs.items()}, reading)
        return replace(check, seeds=fewest_seeds(runs), substitutes=evidence.stand_ins(needs(reading)))

    return test


Each = Mapping[str, Sequence[float]]
"""A setting and its values, each of which a test looks at by itself."""


def on_panels(
    blocks: Sequence[str] | Mapping[str, str],
    algorithms: Sequence[str],
    decide: Callable[[Runs, MetricScale], Check],
    each: Each | None = None,
) -> Test:
    """A test on the runs of some algorithms in every block, and with `each` at every value of a setting.

    Args:
        blocks: their names, or by what they are called in words.
        algorithms: in every block.
        decide: gets the runs by the block in words, in front of which stands the setting, and the algorithm.
        each: the setting.
    """
    known = blocks if isinstance(blocks, Mapping) else {block: block for block in blocks}

    def test(evidence: Evidence, reading: Reading) -> Check:
        parts = {"": evidence}
        for key, values in (each or {}).items():
            rows = {value: evidence.rows[evidence.rows[key] == value] for value in values}
            parts = {f"{key} = {value:g}, ": replace(evidence, rows=own) for value, own in rows.items()}
        runs: dict[tuple[str, str], pd.DataFrame] = {}
        missing: list[str] = []
        for words, part in parts.items():
            try:
                found = part.all_runs(dict.fromkeys(known.values(), algorithms), reading)
            except NotComputedError as error:
                missing += [f"{name}{f' at {words[:-2]}' if words else ''}" for name in error.missing]
            else:
                runs |= {
                    (f"{words}{label}", algorithm): found[block, algorithm].abs()
                    for label, block in known.items()
                    for algorithm in algorithms
                }
        if missing:
            raise NotComputedError(missing)
        check = decide(runs, scale(reading.metric))
        return replace(check, seeds=fewest_seeds(runs), substitutes=evidence.stand_ins(known.values()))

    return test


def curves_of(runs: Runs) -> dict[str, tuple[pd.DataFrame, list[Any]]]:
    """The runs of every panel and algorithm by a name of both, and their x in order."""
    between = {True: ", ", False: " "}  # a panel of several words
    return {
        f"{algo}{between[', ' in panel]}{panel}": (values, several(values, panel))
        for (panel, algo), values in runs.items()
    }


def fewest_seeds(runs: Runs) -> int:
    """The smallest number of seeds among some runs."""
    return min(values.index.get_level_values("seed").nunique() for values in runs.values())


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


def improves(blocks: Sequence[str] | Mapping[str, str], algorithms: Sequence[str], each: Each | None = None) -> Test:
    """From the first to the last x every algorithm gets better, and at no step on the way worse."""
    return on_panels(blocks, algorithms, lambda runs, on: trend(curves_of(runs), on, better_at_the_end=True), each)


def degrades(blocks: Sequence[str] | Mapping[str, str], algorithms: Sequence[str], each: Each | None = None) -> Test:
    """From the first to the last x every algorithm gets worse, and at no step on the way better."""
    return on_panels(blocks, algorithms, lambda runs, on: trend(curves_of(runs), on, better_at_the_end=False), each)


def failing(words: str, shown: Mapping[Any, Comparison]) -> str:
    """Text to add to a check's numbers: the comparisons that fail, and those that are undecided."""
    texts = []
    for kind, name in ((False, words), (None, f"undecided whether {words}")):
        keys = [worded(key) for key in shown if shown[key].holds is kind]
        texts += [f"; {name}: {', '.join(keys)}"] if keys else []
    return "".join(texts)


def beats(
    blocks: Sequence[str],
    algorithm: str,
    others: Sequence[str],
    enough: Callable[[Reading], Amount] | None = None,
) -> Test:
    """`algorithm` is better than each other one at enough x of every block, and worse at none.

    Enough is more than half, unless `enough` gives another amount for a reading.
    """

    def decide(runs: Runs, reading: Reading) -> Check:
        pairs = {
            (f"{block}, {algorithm} against {other}", x): (runs[block, algorithm][x], runs[block, other][x])
            for block in blocks for other in others for x in runs[block, algorithm]
        }  # fmt: skip
        return wins(pairs, scale(reading.metric), most if enough is None else enough(reading))

    return on_runs(lambda _: dict.fromkeys(blocks, (algorithm, *others)), decide)


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


def is_steady(blocks: Sequence[str] | Mapping[str, str], algorithms: Sequence[str], each: Each | None = None) -> Test:
    """At every x every algorithm is similar to what it is at the first."""
    return on_panels(blocks, algorithms, lambda runs, on: steady(curves_of(runs), on), each)


def alike(blocks: Sequence[str] | Mapping[str, str], algorithm: str, other: str, each: Each | None = None) -> Test:
    """At every x the two algorithms are similar."""

    def decide(runs: Runs, on: MetricScale) -> Check:
        pairs = {
            f"{panel} = {x}": (runs[panel, algorithm][x], runs[panel, other][x])
            for panel in dict.fromkeys(panel for panel, _ in runs)
            for x in runs[panel, other]
        }
        shown = all_similar(pairs, on)
        apart = {key: a.mean() - b.mean() for key, (a, b) in pairs.items()}
        worst = max(apart, key=lambda key: abs(apart[key]))
        text = f"{algorithm} - {other} is at most {apart[worst]:+.3g}, at {worst}{failing('not similar', shown)}"
        return Check.of(text, shown)

    return on_panels(blocks, (algorithm, other), decide, each)


def at(  # many parameters: the arguments of a test on a card
    blocks: Sequence[str] | Mapping[str, str],
    x: Mapping[str, Any],
    algorithm: str,
    other: str,
    by: str = "better",
    each: Each | None = None,
) -> Test:
    """At one x of every block, `first`, `last` or a value, one algorithm is better than the other, or similar to it."""

    def decide(runs: Runs, on: MetricScale) -> Check:
        pairs = {}
        for panel in dict.fromkeys(panel for panel, _ in runs):
            grid, place = several(runs[panel, other], panel), x[panel.rpartition(", ")[2]]
            place = {"first": grid[0], "last": grid[-1]}.get(place, place)
            if place not in grid:
                raise NotComputedError([f"{panel} = {place}"])
            pairs[f"{panel} = {place}"] = runs[panel, algorithm][place], runs[panel, other][place]
        shown = all_similar(pairs, on) if by == "similar" else better(pairs, on)
        means = "; ".join(f"{key}: {a.mean():.3g} against {b.mean():.3g}" for key, (a, b) in pairs.items())
        return Check.of(f"{algorithm} against {other}, {means}{failing(f'not {by}', shown)}", shown)

    return on_panels(blocks, (algorithm, other), decide, each)


def best_inside(
    blocks: Sequence[str] | Mapping[str, str], algorithms: Sequence[str], ends: Sequence[str] = ("first", "last")
) -> Test:
    """On every curve the x with the least mean, of all but the `ends`, is better than these.

    It is chosen by the means that are then compared, which favours the claim.
    """

    def decide(runs: Runs, on: MetricScale) -> Check:
        pairs, texts = {}, []
        for name, (values, grid) in curves_of(runs).items():
            places = {"first": grid[0], "last": grid[-1]}
            out = [places[end] for end in ends]
            means = values.mean()
            best = min((x for x in grid if x not in out), key=lambda x: on.badness(np.array([means[x]]))[0])
            pairs |= {(name, f"{best} against {x}"): (values[best], values[x]) for x in out}
            texts.append(f"{name} {' '.join(f'{means[x]:.4g}' for x in grid)}, best at {best}")
        shown = better(pairs, on, same_noise=True)
        return Check.of("; ".join(texts) + failing("not better", shown), shown)

    return on_panels(blocks, algorithms, decide)


def reaches(needs: Callable[[Reading], Mapping[str, tuple[str, str]]], until: float = math.inf) -> Test:
    """In every block of a reading the first algorithm is similar to the second at the last x up to `until`.

    The numbers say from which x on it is. That, unlike a share of the way from the first x, does not depend on where
    the grid starts.
    """

    def decide(runs: Runs, reading: Reading) -> Check:
        on, last, texts = scale(reading.metric), {}, []
        for block, (algorithm, target) in needs(reading).items():
            ours, theirs = (runs[block, name] for name in (algorithm, target))
            near = {x: similar(ours[x], theirs[x], on) for x in several(ours, block) if x <= until}
            if not near:
                raise NotComputedError([f"{block} at {ours.columns.name} <= {until:g}"])
            end = list(near)[-1]
            last[f"{block}, {algorithm} against {target}", end] = near[end]
            texts.append(f"{block}: {_reached(near)}, {ours[end].mean():.3g} and {theirs[end].mean():.3g} at {end:g}")
        return Check.of(", ".join(texts), last)

    return on_runs(needs, decide)


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


Place = str | tuple[str, float]
"""An algorithm, or a pair of it and the x at which it is; alone, it has one value for all."""

How = Callable[[Mapping[str, tuple[pd.Series, pd.Series]], Reading], Mapping[Any, Comparison]]
"""What is asked of pairs of runs."""


def compared(
    block: str,
    first: Sequence[Place],
    second: Sequence[Place],
    metrics: Sequence[str],
    by: str = "better",
    factor: float = 1.0,
) -> Test:
    """In a block every place of `first` is better than every one of `second`, by a `factor`, or `by` similar to it."""
    if by == "similar":
        return places(block, first, second, metrics, lambda pairs, reading: all_similar(pairs, scale(reading.metric)))
    return places(
        block, first, second, metrics,
        lambda pairs, reading: better({key: (a, b / factor) for key, (a, b) in pairs.items()}, scale(reading.metric)),
    )  # fmt: skip


def all_similar(pairs: Mapping[Any, tuple[pd.Series, pd.Series]], on: MetricScale) -> dict[Any, Comparison]:
    """Whether both of every pair are similar."""
    return {key: similar(a, b, on) for key, (a, b) in pairs.items()}


def places(block: str, first: Sequence[Place], second: Sequence[Place], metrics: Sequence[str], how: How) -> Test:
    """In a block, whose algorithms have one variant each, all pairs of places are as asked, by all of the metrics."""
    pairs = [(_place(a), _place(b)) for a, b in product(first, second)]

    def test(evidence: Evidence, reading: Reading) -> Check:
        known = replace(evidence, rows=evidence.rows.assign(variant=reading.variant))

        def by(metric: str) -> Check:
            own = replace(reading, metric=metric)
            values = {place: _runs_at(known, block, place, own) for pair in pairs for place in pair}
            shown = how({f"{_at(a)} against {_at(b)}": (values[a], values[b]) for a, b in pairs}, own)
            seeds = min(one.index.get_level_values("seed").nunique() for one in values.values())
            means = ", ".join(f"{_at(place)} {one.mean():.4g}" for place, one in values.items())
            text = f"{metric.removeprefix('optimality_')}: {means}{failing('not so', shown)}"
            return replace(Check.of(text, shown), seeds=seeds)

        return together([by(metric) for metric in metrics])

    return test


def _place(place: Place) -> tuple[str, float | None]:
    return (place, None) if isinstance(place, str) else (place[0], place[1])


def _at(place: tuple[str, float | None]) -> str:
    name, x = place
    return name if x is None else f"{name} at {x:g}"


def _runs_at(evidence: Evidence, block: str, place: tuple[str, float | None], reading: Reading) -> pd.Series:
    """The runs of an algorithm in a block at one x.

    Raises:
        NotComputedError: there are fewer than two.
    """
    name, x = place
    found = evidence.runs(block, name, reading).abs()
    if len(found) < 2 or (x is not None and x not in found):
        raise NotComputedError([f"{name} in {block}" + (f" at {x:g}" if x is not None else "")])
    return found.iloc[:, 0] if x is None else found[x]


def both(first: Test, second: Test) -> Test:
    """Both tests hold."""
    return all_of((first, second))


def all_of(tests: Sequence[Test]) -> Test:
    """All tests hold."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        return together(checks_of(tests, evidence, reading))

    return test


def checks_of(tests: Iterable[Test], evidence: Evidence, reading: Reading) -> list[Check]:
    """The result of several tests.

    Raises:
        NotComputedError: names everything that is missing for any of them.
    """
    checks: list[Check] = []
    missing: list[str] = []
    for test in tests:
        try:
            checks.append(test(evidence, reading))
        except NotComputedError as error:
            missing += error.missing
    if missing:
        raise NotComputedError(missing)
    return checks


def together(checks: Sequence[Check]) -> Check:
    """Several checks, all of which must hold, combined into one, with the numbers of all."""
    shown: dict[Any, Comparison] = {}
    rules: list[Rule[Any]] = []
    for part, check in enumerate(checks):
        keys = {key: key if key not in shown else (worded(key), f"({part + 1})") for key in check.shown}
        shown |= {keys[key]: one for key, one in check.shown.items()}
        rules.append(_part(check, keys))
    seeds = min((check.seeds for check in checks if check.seeds is not None), default=None)
    numbers = "; ".join(check.numbers for check in checks)
    stand_ins = tuple(dict.fromkeys(name for check in checks for name in check.substitutes))
    whole = Check.of(numbers, shown, lambda known: every(rule(known) for rule in rules))
    return replace(whole, seeds=seeds, substitutes=stand_ins)


def _part(check: Check, keys: Mapping[Any, Any]) -> Rule[Any]:
    """The rule of a check whose comparisons have other keys among those of several checks."""
    rule = check.rule
    if rule is None:
        return lambda _: check.holds
    return lambda known: rule({key: known[place] for key, place in keys.items()})
