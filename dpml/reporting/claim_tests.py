"""Tests for the claims of more than one paper; `claims` defines "significant" and "undecided"."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from dpml.reporting.claims import FACTOR, Check, Evidence, NotComputedError, Reading, Runs, Test, every
from dpml.reporting.statistics import Comparison, algorithm_below, below, holm, matters, shows, worse

Amount = Callable[[Sequence[bool | None]], bool | None]
"""How many of several statements must hold, in three-valued logic: `every`, `some` or `most`."""

LOG_TENTH = -math.log(0.9)  # the difference of logarithms if the smaller value is a tenth below the larger


def on_runs(needs: Callable[[Reading], Mapping[str, Sequence[str]]], decide: Callable[[Runs, Reading], Check]) -> Test:
    """A test on runs: `needs` gives the algorithms of every block; `decide` gets their values in absolute size.

    Losses that can have either sign are drawn in absolute size, too.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = evidence.all_runs(needs(reading), reading)
        check = decide({key: values.abs() for key, values in runs.items()}, reading)
        return replace(check, seeds=fewest_seeds(runs))

    return test


def fewest_seeds(runs: Runs) -> int:
    """The smallest number of seeds among some runs."""
    return min(values.index.get_level_values("seed").nunique() for values in runs.values())


def several(runs: pd.DataFrame, name: str) -> list[Any]:
    """The values of x of some runs, from the first to the last.

    Raises:
        NotComputedError: there are fewer than two.
    """
    if runs.shape[1] < 2:
        raise NotComputedError([f"a second x of {name}"])
    return list(runs.columns)


def falls(blocks: Sequence[str], algorithms: Sequence[str]) -> Test:
    """From the first to the last x the mean falls significantly, and no step on the way rises significantly."""

    def decide(runs: Runs, reading: Reading) -> Check:
        drops: dict[str, tuple[pd.Series, pd.Series]] = {}
        rises: dict[str, tuple[pd.Series, pd.Series]] = {}
        means = []
        for (block, algorithm), values in runs.items():
            columns = several(values, block)
            curve = f"{algorithm} {block}"
            drops[curve] = values[columns[-1]], values[columns[0]]
            for a, b in pairwise(columns):
                rises[f"{curve} {a:g}-{b:g}"] = values[a], values[b]
            means.append(f"{curve} {values[columns[0]].mean():.3g} to {values[columns[-1]].mean():.3g}")
        shown = shows(drops, matters(reading.metric))
        risen = worse(rises, matters(reading.metric))
        text = ", ".join(means) + failing("no fall", shown)
        text += f"; significant rises: {', '.join(risen)}" if risen else ""
        return Check.of(every([not risen, *(one.holds for one in shown.values())]), text, shown.values())

    return on_runs(lambda _: dict.fromkeys(blocks, algorithms), decide)


def failing(words: str, shown: Mapping[Any, Comparison]) -> str:
    """Text to add to a check's numbers: the comparisons that fail, and those that are undecided."""
    texts = []
    for kind, name in ((False, words), (None, f"{words} to be seen with these seeds")):
        keys = [key if isinstance(key, str) else " ".join(map(str, key)) for key in shown if shown[key].holds is kind]
        texts += [f"; {name}: {', '.join(keys)}"] if keys else []
    return "".join(texts)


def beats(
    blocks: Sequence[str],
    algorithm: str,
    others: Sequence[str],
    enough: Callable[[Reading], Amount] | None = None,
    on_logs: bool = False,
) -> Test:
    """`algorithm` is significantly below each other one at enough x of every block, and significantly above at none.

    Enough is more than half, unless `enough` gives another amount for a reading. With `on_logs` the logarithms of all
    runs are compared: if a few draws of a heavy-tailed algorithm make up its mean and most of its spread, a test of
    means does not detect even a rival that is thousands of times larger. The difference that matters is a tenth in both
    cases.
    """

    def decide(runs: Runs, reading: Reading) -> Check:
        amount = most if enough is None else enough(reading)
        matter = (lambda a, b: LOG_TENTH) if on_logs else matters(reading.metric)
        if on_logs:
            runs = {key: values.apply(np.log) for key, values in runs.items()}
        lower: dict[tuple[str, str, Any], tuple[pd.Series, pd.Series]] = {}
        higher: dict[tuple[str, str, Any], tuple[pd.Series, pd.Series]] = {}
        for block in blocks:
            ours = runs[block, algorithm]
            for other in others:
                theirs = runs[block, other]
                for x in ours:
                    lower[block, other, x] = ours[x], theirs[x]
                    higher[block, other, x] = theirs[x], ours[x]
        shown, losses = shows(lower, matter, algorithm_below), worse(higher, matter, algorithm_below)
        holds, counts = [], []
        for block, other in dict.fromkeys(key[:2] for key in lower):
            keys = [key for key in lower if key[:2] == (block, other)]
            lost = sum(key in losses for key in keys)
            holds += [amount([shown[key].holds for key in keys]), not lost]
            won = sum(shown[key].holds is True for key in keys)
            counts.append(f"{block}: {won} won, {lost} lost of {len(keys)} against {other}")
        return Check.of(every(holds), ", ".join(counts), shown.values())

    return on_runs(lambda _: dict.fromkeys(blocks, (algorithm, *others)), decide)


def most(values: Sequence[bool | None]) -> bool | None:
    """Whether more than half hold; None if that depends on the undecided ones."""
    won, possible = values.count(True), len(values) - values.count(False)
    return True if won > len(values) / 2 else None if possible > len(values) / 2 else False


def weak(blocks: Sequence[str], algorithms: Sequence[str]) -> Test:
    """Over the whole grid the mean changes by less than a factor of two, significantly.

    This is false if the largest mean is significantly above twice the smallest; between the two it is undecided.
    """

    def decide(runs: Runs, reading: Reading) -> Check:
        ends, texts = {}, []
        for (block, algorithm), values in runs.items():
            means = values[several(values, block)].mean()
            ends[f"{algorithm} {block}"] = values[means.idxmax()] / FACTOR, values[means.idxmin()]
            texts.append(f"{algorithm} {block} x{means.max() / means.min():.3g}")
        shown = shows(ends, matters(reading.metric))
        strong = holm({curve: below(least, half) for curve, (half, least) in ends.items()})
        holds = every(True if shown[curve].holds else False if strong[curve] else None for curve in ends)
        return Check.of(holds, ", ".join(texts), shown.values())

    return on_runs(lambda _: dict.fromkeys(blocks, algorithms), decide)


def both(first: Test, second: Test) -> Test:
    """Both tests hold."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        checks = checks_of((first, second), evidence, reading)
        return together(checks, every(check.holds for check in checks))

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


def together(checks: Sequence[Check], holds: bool | None) -> Check:
    """Several checks combined into one, with the numbers of all."""
    seeds = [check.seeds for check in checks if check.seeds is not None]
    needed = max((check.needed for check in checks if check.needed is not None), default=None)
    numbers = "; ".join(check.numbers for check in checks)
    return Check(holds, numbers, min(seeds, default=None), needed if holds is None else None)
