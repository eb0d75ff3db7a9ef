"""Tests that decide claims of more than one paper; `judging` says what is significant and what is undecided."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from dpml.reporting.judging import FACTOR, MOST, Check, Evidence, NotComputedError, Reading, Runs, Test, every
from dpml.reporting.statistics import Shown, algorithm_below, below, holm, matters, shows


def on_runs(needs: Callable[[Reading], Mapping[str, Sequence[str]]], decide: Callable[[Runs, Reading], Check]) -> Test:
    """A test on runs: `needs` gives the algorithms of every block; `decide` sees their values in absolute size.

    That is how losses are drawn that can have either sign.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = evidence.all_runs(needs(reading), reading)
        check = decide({key: values.abs() for key, values in runs.items()}, reading)
        return replace(check, seeds=fewest_seeds(runs))

    return test


def fewest_seeds(runs: Runs) -> int:
    """The number of seeds of what has the fewest."""
    return min(values.index.get_level_values("seed").nunique() for values in runs.values())


def several(runs: pd.DataFrame, name: str) -> list[Any]:
    """The x of some runs, from the first to the last.

    Raises:
        NotComputedError: there are not two.
    """
    if runs.shape[1] < 2:
        raise NotComputedError([f"a second x of {name}"])
    return list(runs.columns)


def falls(blocks: Sequence[str], algorithms: Sequence[str]) -> Test:
    """From the first to the last x the mean falls significantly, and no step on the way rises significantly."""

    def decide(runs: Runs, reading: Reading) -> Check:
        drops: dict[str, tuple[pd.Series, pd.Series]] = {}
        rises: dict[str, float] = {}
        means = []
        for (block, algorithm), values in runs.items():
            columns = several(values, block)
            curve = f"{algorithm} {block}"
            drops[curve] = values[columns[-1]], values[columns[0]]
            for a, b in pairwise(columns):
                rises[f"{curve} {a:g}-{b:g}"] = below(values[a], values[b])
            means.append(f"{curve} {values[columns[0]].mean():.3g} to {values[columns[-1]].mean():.3g}")
        shown = shows(drops, matters(reading.metric))
        risen = [key for key, significant in holm(rises).items() if significant]
        text = ", ".join(means) + failing("no fall", shown)
        text += f"; significant rises: {', '.join(risen)}" if risen else ""
        return Check.of(every([not risen, *(one.holds for one in shown.values())]), text, shown.values())

    return on_runs(lambda _: dict.fromkeys(blocks, algorithms), decide)


def failing(words: str, shown: Mapping[Any, Shown]) -> str:
    """What to add to a check's numbers: the comparisons that show nothing, and those that decide nothing."""
    texts = []
    for kind, name in ((False, words), (None, f"{words} to be seen with these seeds")):
        keys = [key if isinstance(key, str) else " ".join(map(str, key)) for key in shown if shown[key].holds is kind]
        texts += [f"; {name}: {', '.join(keys)}"] if keys else []
    return "".join(texts)


def beats(blocks: Sequence[str], algorithm: str, others: Sequence[str]) -> Test:
    """`algorithm` is significantly below each other at more than half of the x, and significantly above at none."""

    def decide(runs: Runs, reading: Reading) -> Check:
        lower: dict[tuple[str, str, Any], tuple[pd.Series, pd.Series]] = {}
        higher: dict[tuple[str, str, Any], float] = {}
        for block in blocks:
            ours = runs[block, algorithm]
            for other in others:
                theirs = runs[block, other]
                for x in ours:
                    lower[block, other, x] = ours[x], theirs[x]
                    higher[block, other, x] = algorithm_below(theirs[x], ours[x])
        shown, losses = shows(lower, matters(reading.metric), algorithm_below), holm(higher)
        holds, counts = [], []
        for block, other in dict.fromkeys(key[:2] for key in lower):
            keys = [key for key in lower if key[:2] == (block, other)]
            lost = sum(losses[key] for key in keys)
            holds += [most([shown[key].holds for key in keys]), not lost]
            won = sum(shown[key].holds is True for key in keys)
            counts.append(f"{block}: {won} won, {lost} lost of {len(keys)} against {other}")
        return Check.of(every(holds), ", ".join(counts), shown.values())

    return on_runs(lambda _: dict.fromkeys(blocks, (algorithm, *others)), decide)


def most(values: Sequence[bool | None]) -> bool | None:
    """Whether more than half hold; None where that rests on those that are undecided."""
    won, possible = values.count(True), len(values) - values.count(False)
    return True if won > len(values) / 2 else None if possible > len(values) / 2 else False


def weak(blocks: Sequence[str], algorithms: Sequence[str]) -> Test:
    """Over the whole grid the mean changes by less than a factor of two."""

    def decide(runs: Runs, _: Reading) -> Check:
        ratios = {}
        for (block, algorithm), values in runs.items():
            means = values[several(values, block)].mean()
            ratios[f"{algorithm} {block}"] = means.max() / means.min()
        return Check(
            max(ratios.values()) < FACTOR, ", ".join(f"{curve} x{ratio:.3g}" for curve, ratio in ratios.items())
        )

    return on_runs(lambda _: dict.fromkeys(blocks, algorithms), decide)


def ratio(a: float, b: float) -> float:
    """The larger over the smaller of two sizes."""
    return max(a, b) / min(a, b) if min(a, b) > 0 else float("inf")


def agrees(
    series: Mapping[str, str],
    algorithms: Sequence[str],
    distance: Callable[[float, float], float] = ratio,
    limit: float = FACTOR,
) -> Test:
    """For every algorithm at least nine in ten published points are within `limit` of our mean, in absolute size.

    `series` gives the name of every block's published points. Points that were not computed count neither way: where
    they could turn the decision, the claim cannot be tested.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        # published points are means of values with their signs
        runs = evidence.all_runs(dict.fromkeys(series, algorithms), reading)
        distances: dict[str, list[float]] = {algorithm: [] for algorithm in algorithms}
        absent: dict[str, list[str]] = {algorithm: [] for algorithm in algorithms}
        for (block, algorithm), values in runs.items():
            means = values.mean().abs()
            for x, theirs in _points(evidence.published, series[block], algorithm, reading):
                at = np.isclose(means.index.to_numpy(dtype=float), x)
                if at.any():
                    distances[algorithm].append(distance(float(means[at].iloc[0]), theirs))
                else:
                    absent[algorithm].append(f"{block} at {evidence.axis(block)} = {x:g}")
        unpublished = [algorithm for algorithm in algorithms if not distances[algorithm]]
        if unpublished:
            raise NotComputedError([f"published points of {', '.join(unpublished)}"])
        near = {a: sum(value <= limit for value in distances[a]) for a in algorithms}
        sizes = {a: len(distances[a]) + len(absent[a]) for a in algorithms}
        left_out = dict.fromkeys(point for points in absent.values() for point in points)
        holds = all(near[a] / sizes[a] >= MOST for a in algorithms)
        if not holds and all((near[a] + len(absent[a])) / sizes[a] >= MOST for a in algorithms):
            raise NotComputedError(left_out)
        text = ", ".join(f"{a} {near[a]} of {len(distances[a])}, furthest {max(distances[a]):.2g}" for a in algorithms)
        text += f"; not computed: {', '.join(left_out)}" if left_out else ""
        return Check(holds, text, fewest_seeds(runs))

    return test


def _points(published: pd.DataFrame, series: str, algorithm: str, reading: Reading) -> Iterable[tuple[float, float]]:
    """The published points of an algorithm: x, and the mean in absolute size."""
    rows = published[
        (published["series"] == series) & (published["algo"] == algorithm) & (published["metric"] == reading.metric)
    ]
    return zip(rows["x"].astype(float), rows["mean"].astype(float).abs(), strict=True)


def both(first: Test, second: Test) -> Test:
    """Both tests hold."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        checks = checks_of((first, second), evidence, reading)
        return together(checks, every(check.holds for check in checks))

    return test


def checks_of(tests: Iterable[Test], evidence: Evidence, reading: Reading) -> list[Check]:
    """What several tests come to.

    Raises:
        NotComputedError: with all that is missing for any of them.
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


def together(checks: Sequence[Check], holds: bool | None) -> Check:
    """One check of several, with the numbers of all."""
    seeds = [check.seeds for check in checks if check.seeds is not None]
    needed = max((check.needed for check in checks if check.needed is not None), default=None)
    numbers = "; ".join(check.numbers for check in checks)
    return Check(holds, numbers, min(seeds, default=None), needed if holds is None else None)
