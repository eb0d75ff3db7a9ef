"""What a claim is, and the tests that decide claims of more than one paper, from rows only.

A verdict is computed, never typed in. Tolerances and tests follow from the claim's wording and were chosen before any
result was looked at:

- *significant*: a one-sided t-test at 5 %, Holm-corrected over all comparisons of one reading of the claim. Runs of one
  algorithm under two settings are compared in pairs (they share data and noise directions); two algorithms in pairs
  over seeds, or by Welch's test over draws when there is one seed.
- *agrees*, *weak*: within a factor of two.

A claim that can be read in more than one way is judged under every reading; when they disagree, that is the verdict.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from scipy import stats

from dpml.arrays import Array

Decision = Literal["reproduced", "not reproduced", "cannot be tested here", "depends on an unstated choice"]

FACTOR = 2.0
LEVEL = 0.05


@dataclass(frozen=True)
class Reading:
    """One way to read what a figure shows: a metric of one variant of the algorithms."""

    name: str
    variant: str
    metric: str


@dataclass(frozen=True)
class Verdict:
    """A decision and the numbers that made it."""

    decision: Decision
    numbers: str


@dataclass(frozen=True)
class Evidence:
    """Rows of the published calibration, and the published points, that a claim may look at."""

    rows: pd.DataFrame
    published: pd.DataFrame

    def runs(self, block: str, algo: str, reading: Reading) -> pd.DataFrame:
        """Values, a line per run (seed, draw), a column per x; empty when nothing was computed.

        Where they are compared they are compared in absolute size, as they are drawn.
        """
        return self.signed(block, algo, reading).abs()

    def signed(self, block: str, algo: str, reading: Reading) -> pd.DataFrame:
        """The same with their signs: the published points are means of these, in absolute size."""
        rows, x = self.rows, block.split("_")[-1]
        if x not in rows:  # a setting's own column, which no cell has filled
            return pd.DataFrame()
        rows = rows[
            (rows["block"] == block)
            & (rows["algo"] == algo)
            & (rows["variant"] == reading.variant)
            & (rows["metric"] == reading.metric)
        ]
        return rows.pivot_table(index=["seed", "draw"], columns=x, values="value", dropna=False)


Check = tuple[bool, str]
Test = Callable[[Evidence, Reading], Check | None]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper. `criterion` says in words what `test` computes, for every one of the `readings`."""

    id: str
    figure: str
    text: str
    criterion: str
    test: Test
    readings: Sequence[Reading]

    def judge(self, evidence: Evidence) -> Verdict:
        """Apply the test to every reading."""
        checks = {reading.name: self.test(evidence, reading) for reading in self.readings}
        found = {name: check for name, check in checks.items() if check is not None}
        missing = [name for name in checks if name not in found]
        numbers = "; ".join(f"[{name}] {check[1]}" for name, check in found.items())
        if not found:
            return Verdict("cannot be tested here", "none of the cells that it needs has been computed")
        if missing:
            numbers += f"; [{', '.join(missing)}] not computed"
        outcomes = {check[0] for check in found.values()}
        if len(outcomes) == 2:
            holds = [name for name, check in found.items() if check[0]]
            return Verdict("depends on an unstated choice", f"holds only if read as {', '.join(holds)}: {numbers}")
        return Verdict("reproduced" if outcomes == {True} else "not reproduced", numbers)


# ---- tests


def falls(blocks: Sequence[str], algorithms: Sequence[str]) -> Test:
    """From the first to the last x the mean falls significantly, and no step on the way rises significantly."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        drops: dict[str, float] = {}
        rises: dict[str, float] = {}
        said = []
        for block in blocks:
            for algo in algorithms:
                runs = evidence.runs(block, algo, reading)
                if runs.shape[1] < 2:
                    continue
                columns = list(runs.columns)
                where = f"{algo} {block}"
                drops[where] = below(runs[columns[-1]], runs[columns[0]])
                for a, b in pairwise(columns):
                    rises[f"{where} {a:g}-{b:g}"] = below(runs[a], runs[b])
                said.append(f"{where} {runs[columns[0]].mean():.3g} to {runs[columns[-1]].mean():.3g}")
        if not drops:
            return None
        no_drop = [key for key, significant in holm(drops).items() if not significant]
        risen = [key for key, significant in holm(rises).items() if significant]
        text = ", ".join(said)
        text += f"; no significant fall: {', '.join(no_drop)}" if no_drop else ""
        text += f"; significant rises: {', '.join(risen)}" if risen else ""
        return not no_drop and not risen, text

    return test


def beats(blocks: Sequence[str], algorithm: str, others: Sequence[str]) -> Test:
    """`algorithm` is significantly below each other at more than half of the x, and significantly above at none."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        below: dict[tuple[str, str, Any], float] = {}
        above: dict[tuple[str, str, Any], float] = {}
        for block in blocks:
            ours = evidence.runs(block, algorithm, reading)
            for other in others:
                theirs = evidence.runs(block, other, reading)
                for x in ours.columns.intersection(theirs.columns):
                    below[block, other, x] = algorithm_below(ours[x], theirs[x])
                    above[block, other, x] = algorithm_below(theirs[x], ours[x])
        if not below:
            return None
        wins, losses = holm(below), holm(above)
        good, said = True, []
        for block, other in dict.fromkeys(key[:2] for key in below):
            keys = [key for key in below if key[:2] == (block, other)]
            won, lost = sum(wins[key] for key in keys), sum(losses[key] for key in keys)
            good &= won > len(keys) / 2 and lost == 0
            said.append(f"{block}: {won} won, {lost} lost of {len(keys)} against {other}")
        return good, ", ".join(said)

    return test


def both(first: Test, second: Test) -> Test:
    """Both tests hold."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        checks = [check for check in (first(evidence, reading), second(evidence, reading)) if check is not None]
        return (all(good for good, _ in checks), "; ".join(text for _, text in checks)) if checks else None

    return test


def weak(blocks: Sequence[str], algorithms: Sequence[str]) -> Test:
    """Over the whole grid the mean changes by less than a factor of two."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        ratios = {}
        for block in blocks:
            for algo in algorithms:
                means = evidence.runs(block, algo, reading).mean()
                if len(means) > 1:
                    ratios[f"{algo} {block}"] = means.max() / means.min()
        said = ", ".join(f"{key} x{ratio:.3g}" for key, ratio in ratios.items())
        return (max(ratios.values()) < FACTOR, said) if ratios else None

    return test


def agrees(series: Mapping[str, str], algorithms: Sequence[str]) -> Test:
    """For every algorithm at least nine in ten published points lie within a factor of two of our mean."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        near: dict[str, list[bool]] = {}
        for block, name in series.items():
            points = evidence.published
            points = points[(points["series"] == name) & (points["metric"] == reading.metric)]
            for algo in algorithms:
                means = evidence.signed(block, algo, reading).mean().abs()
                theirs = points[points["algo"] == algo].set_index("x")["mean"].abs()
                for x in means.index:
                    close = np.isclose(theirs.index.to_numpy(dtype=float), x)
                    if close.any():
                        ratio = means[x] / theirs[close].iloc[0]
                        near.setdefault(algo, []).append(bool(1 / FACTOR <= ratio <= FACTOR))
        said = ", ".join(f"{algo} {sum(found)} of {len(found)}" for algo, found in near.items())
        return (all(np.mean(found) >= 0.9 for found in near.values()), said) if near else None

    return test


# ---- statistics

K = TypeVar("K")


def below(a: pd.Series, b: pd.Series) -> float:
    """p-value of "the mean of a is below that of b", runs in pairs."""
    difference = (a - b).dropna().to_numpy(dtype=float)
    return _one_sided(difference)


def algorithm_below(a: pd.Series, b: pd.Series) -> float:
    """The same for two algorithms: in pairs over seeds; over draws when there is one seed."""
    ours, theirs = (runs.groupby(level="seed").mean() for runs in (a, b))
    if len(ours) > 1:
        return _one_sided((ours - theirs).dropna().to_numpy(dtype=float))
    return welch(a, b)


def welch(a: pd.Series, b: pd.Series) -> float:
    """p-value of "the mean of a is below that of b" by Welch's test; the sign decides where nothing varies."""
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        return 0.0 if a.iloc[0] < b.iloc[0] else 1.0
    # from moments: of a constant sample, scipy's own would warn
    one, other = ((runs.mean(), runs.std(), len(runs)) for runs in (a, b))
    return float(stats.ttest_ind_from_stats(*one, *other, equal_var=False, alternative="less").pvalue)


def _one_sided(difference: Array) -> float:
    if len(difference) < 2 or np.ptp(difference) == 0:  # no spread: the sign decides
        return 0.0 if len(difference) and difference[0] < 0 else 1.0
    return float(stats.ttest_1samp(difference, 0.0, alternative="less").pvalue)


def holm(values: Mapping[K, float]) -> dict[K, bool]:
    """Which of several p-values are significant when all are looked at together."""
    left, found = len(values), dict.fromkeys(values, False)
    for key in sorted(values, key=lambda key: values[key]):
        if values[key] > LEVEL / left:
            break
        found[key] = True
        left -= 1
    return found
