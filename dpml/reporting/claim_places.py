"""Tests that compare two algorithms, or one in two places: at one x, at the ends, or at every x."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from dpml.reporting.claim_tests import (
    Blocks,
    Each,
    curves_of,
    failing,
    in_blocks,
    most,
    one_of,
    several,
    together,
    wins,
)
from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Runs, Test
from dpml.reporting.criteria import Comparison, MetricScale, better, scale, similar


def alike(blocks: Blocks, algorithm: str, other: str, each: Each | None = None) -> Test:
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

    return in_blocks(blocks, (algorithm, other), decide, each)


def at(  # many parameters: the arguments of a test on a card
    blocks: Blocks,
    x: Mapping[str, Any],
    algorithm: str,
    other: str,
    by: str = "better",
    each: Each | None = None,
) -> Test:
    """At one x of every block, `first`, `last` or a value, one algorithm is better than the other, or similar to it."""
    one_of("by", by, _BY)

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

    return in_blocks(blocks, (algorithm, other), decide, each)


def easier(low: str, high: str, algorithm: str) -> Test:
    """At more than half of the x the algorithm is better in the block `low` than in `high`, and worse at none."""

    def decide(runs: Runs, on: MetricScale) -> Check:
        ours, theirs = (runs[block, algorithm] for block in (low, high))
        grid = [x for x in ours if x in theirs]
        name = ours.columns.name
        if not grid:
            raise NotComputedError([f"{low} and {high} at the same {name}"])
        text = [f"at {name} = {x:g} {ours[x].mean():.3g} and {theirs[x].mean():.3g}" for x in (grid[0], grid[-1])]
        check = wins({(f"{low} against {high}", x): (ours[x], theirs[x]) for x in grid}, on, most)
        return replace(check, numbers=", ".join([check.numbers, *text]))

    return in_blocks((low, high), (algorithm,), decide)


def best_inside(blocks: Blocks, algorithms: Sequence[str], ends: Sequence[str] = ("first", "last")) -> Test:
    """On every curve the best x of all but the `ends` is better than these.

    It is chosen by the means that are then compared, which favours the claim.
    """

    def decide(runs: Runs, on: MetricScale) -> Check:
        pairs: dict[Any, tuple[pd.Series, pd.Series]] = {}
        texts = []
        for name, (values, grid) in curves_of(runs).items():
            outer = [{"first": grid[0], "last": grid[-1]}[end] for end in ends]
            inner = [x for x in grid if x not in outer]
            if not inner:
                raise NotComputedError([f"an x inside {name}"])
            means = dict(zip(grid, values[grid].mean().to_numpy(), strict=True))
            best = inner[int(np.argmin(on.badness(np.array([means[x] for x in inner]))))]
            pairs |= {(name, f"{best} against {x}"): (values[best], values[x]) for x in outer}
            texts.append(f"{name} {' '.join(f'{means[x]:.4g}' for x in grid)}, best at {best}")
        shown = better(pairs, on, same_noise=True)
        return Check.of("; ".join(texts) + failing("not better", shown), shown)

    return in_blocks(blocks, algorithms, decide)


def depends(block: str, algorithms: Sequence[str], others: Sequence[str]) -> Test:
    """The algorithms are better at the largest x than at the smallest; others do not differ there by what matters."""

    def decide(runs: Runs, on: MetricScale) -> Check:
        ends = {}
        for (_, algorithm), values in runs.items():
            grid = several(values, block)
            ends[algorithm] = values[grid[-1]], values[grid[0]]
        shown = better({f"{algorithm} {block}": ends[algorithm] for algorithm in algorithms}, on, same_noise=True)
        same = {f"{a} {block}, no change": similar(*ends[a], on, on.matters, same_noise=True) for a in others}
        means = [f"{algorithm} {last.mean():.3g} and {first.mean():.3g}" for algorithm, (last, first) in ends.items()]
        numbers = f"{block}, largest and smallest: {', '.join(means)}" + failing("no dependence", shown)
        return Check.of(numbers + failing("not alike", same), shown | same)

    return in_blocks((block,), (*algorithms, *others), decide)


def gap_grows(block: str, algorithm: str, other: str) -> Test:
    """The mean gap between the two algorithms is smaller at the smallest x than at the largest."""

    def decide(runs: Runs, on: MetricScale) -> Check:
        ours, theirs = (runs[block, name] for name in (algorithm, other))
        grid = several(ours, block)
        first, last = ((ours[x] - theirs[x]).dropna() for x in (grid[0], grid[-1]))
        text = f"gap {first.mean():.3g} at {grid[0]:g}, {last.mean():.3g} at {grid[-1]:g}"
        shown = better({block: (last, first)}, on)
        return Check.of(text + failing("no smaller gap", shown), shown)

    return in_blocks((block,), (algorithm, other), decide)


_BY = ("better", "similar")

Place = str | tuple[str, float]
"""An algorithm, or a pair of it and the x at which it is; alone, it has one value for all."""

Pairs = Mapping[str, tuple[pd.Series, pd.Series]]
How = Callable[[Pairs, Reading], Mapping[Any, Comparison]]
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
    if one_of("by", by, _BY) == "similar":
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
        NotComputedError: there are fewer than two, or without an x they are not the same at all.
    """
    name, x = place
    found = evidence.runs(block, name, reading).abs()
    if len(found) < 2 or (x is not None and x not in found):
        raise NotComputedError([f"{name} in {block}" + (f" at {x:g}" if x is not None else "")])
    if x is None and not found.eq(found.iloc[:, 0], axis=0).all(axis=None):
        raise NotComputedError([f"{name} in {block} with one value for all {found.columns.name}: name one"])
    return found.iloc[:, 0] if x is None else found[x]
