"""What a claim is, and the tests that decide claims of more than one paper, from rows only.

A verdict is computed, never typed in. Tolerances and tests follow from the claim's wording and were chosen before any
result was looked at:

- *significant*: a one-sided t-test at 5 %, Holm-corrected over all comparisons of one reading of the claim
  (`dpml.reporting.statistics`): in pairs over seeds, of the means over their draws. With one seed it is over the
  draws, of one algorithm in pairs, of two by Welch's test, and the verdict says that it is about these rows and this
  partition.
- *agrees*, *weak*: within a factor of two.

A claim that can be read in more than one way is judged under every reading; when they disagree, that is the verdict. A
claim is judged when all that it is about has been computed: every reading, block and algorithm, at the same x. If not,
it cannot be tested here, and the verdict names what is missing.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd

from dpml.errors import UserError
from dpml.reporting.statistics import algorithm_below, below, holm, settings
from dpml.running.rows import own_columns

Decision = Literal["reproduced", "not reproduced", "cannot be tested here", "depends on an unstated choice"]

FACTOR = 2.0
NEAR = 0.05  # of accuracy: half of the first digit that a text or an axis shows
MOST = 0.9  # nine in ten published points

ONE_SEED = "one seed: these rows and this partition only"


class NotComputedError(Exception):
    """A claim is about something that the rows do not have. `missing` names it."""

    def __init__(self, missing: Iterable[str]):
        self.missing = tuple(dict.fromkeys(missing))
        super().__init__("; ".join(self.missing))


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
class Check:
    """Whether a test holds under one reading, the numbers that say so, and over how many seeds (None: no runs)."""

    holds: bool
    numbers: str
    seeds: int | None = None


Runs = Mapping[tuple[str, str], pd.DataFrame]
"""By block and algorithm: a line per run (seed, draw), a column per x, the same x for all algorithms of a block."""


@dataclass(frozen=True)
class Evidence:
    """What a claim may look at.

    Args:
        rows: of the published calibration, with their block.
        published: the published points.
        axes: by block, the column that its panel has as x. A block without a panel runs over the one setting that
            varies in it.
    """

    rows: pd.DataFrame
    published: pd.DataFrame
    axes: Mapping[str, str] = field(default_factory=dict)

    def axis(self, block: str) -> str:
        """The column over which a block runs; a panel over 1/eps shows runs over eps.

        Raises:
            NotComputedError: the block has no panel and not one setting that varies.
        """
        if block in self.axes:
            return "eps" if self.axes[block] == "inverse_eps" else self.axes[block]
        rows = self.rows[self.rows["block"] == block]
        candidates = [key for key in ("eps", "delta", "M", "N", *own_columns(rows)) if key in rows]
        varying = [key for key in candidates if (rows.groupby(["algo", "variant"])[key].nunique() > 1).any()]
        if len(varying) != 1:
            raise NotComputedError([f"{block} along one axis"])
        return varying[0]

    def runs(self, block: str, algorithm: str, reading: Reading) -> pd.DataFrame:
        """Values, a line per run (seed, draw), a column per x; empty when nothing was computed.

        Raises:
            NotComputedError: the rows have several values of some other setting.
        """
        rows = self.rows[
            (self.rows["block"] == block)
            & (self.rows["algo"] == algorithm)
            & (self.rows["variant"] == reading.variant)
            & (self.rows["metric"] == reading.metric)
        ]
        if rows.empty:
            return pd.DataFrame()
        x = self.axis(block)
        if x not in rows:  # a setting's own column, which no cell has filled
            return pd.DataFrame()
        run = ["seed", "draw", x]
        rows = rows.drop_duplicates([*run, "value"])  # a run that stands twice counts once
        clash = rows[rows.duplicated(run, keep=False)]
        if len(clash):
            varying = [key for key in settings(rows) if key != x and clash[key].nunique(dropna=False) > 1]
            raise NotComputedError(
                [f"{algorithm} in {block} with one value of {', '.join(varying) or 'every setting'}"]
            )
        return rows.pivot(index=["seed", "draw"], columns=x, values="value").dropna(axis=1, how="all")

    def all_runs(self, blocks: Mapping[str, Sequence[str]], reading: Reading) -> Runs:
        """The runs of some algorithms in every block, two at least, at the same x.

        Raises:
            NotComputedError: with the names of all that is missing.
        """
        tables: dict[tuple[str, str], pd.DataFrame] = {}
        absent: dict[tuple[str, ...], list[str]] = {}
        missing: list[str] = []
        for block, algorithms in blocks.items():
            own = {algorithm: self.runs(block, algorithm, reading) for algorithm in algorithms}
            grid = list(dict.fromkeys(x for runs in own.values() for x in runs.columns))
            none = tuple(algorithm for algorithm, runs in own.items() if runs.empty)
            if none:
                absent.setdefault(none if len(none) < len(own) else (), []).append(block)
            for algorithm, runs in own.items():
                lacks = [f"{x:g}" if isinstance(x, float) else str(x) for x in grid if x not in runs.columns]
                if lacks and not runs.empty:
                    missing.append(f"{algorithm} in {block} at {self.axis(block)} = {', '.join(lacks)}")
                if len(runs) == 1:
                    missing.append(f"a second run of {algorithm} in {block}")
                tables[block, algorithm] = runs
        names = [f"{_and(who)} in {_and(where)}" if who else _and(where) for who, where in absent.items()]
        if names or missing:
            raise NotComputedError([*names, *missing])
        return tables


def _and(words: Sequence[str]) -> str:
    """Words in a sentence: "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


Test = Callable[[Evidence, Reading], Check]
"""What decides a claim under one reading; it raises NotComputedError."""


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
        checks: dict[str, Check] = {}
        missing: dict[tuple[str, ...], list[str]] = {}
        for reading in self.readings:
            try:
                checks[reading.name] = self.test(evidence, reading)
            except NotComputedError as error:
                missing.setdefault(error.missing, []).append(reading.name)
        numbers = "; ".join(f"[{name}] {check.numbers}" for name, check in checks.items())
        if any(check.seeds == 1 for check in checks.values()):
            numbers += f"; {ONE_SEED}"
        if missing:
            lists = "; ".join(f"[{', '.join(names)}] {'; '.join(what)}" for what, names in missing.items())
            others = "".join(f"; [{name}] {'holds' if c.holds else 'does not hold'}" for name, c in checks.items())
            return Verdict("cannot be tested here", f"not computed: {lists}{others}")
        holds = [name for name, check in checks.items() if check.holds]
        if 0 < len(holds) < len(checks):
            choices = ", ".join(f"[{name}]" for name in holds)
            return Verdict("depends on an unstated choice", f"holds only for {choices}: {numbers}")
        return Verdict("reproduced" if holds else "not reproduced", numbers)


def claims_of(module: str) -> dict[str, Claim]:
    """The claims of an importable module, its tuple ``CLAIMS``, by id.

    Raises:
        UserError: there is no such module, or it has no claims.
    """
    try:
        claims = importlib.import_module(module).CLAIMS
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise UserError(f"claims_from={module!r} must be an importable module with a tuple CLAIMS: {error}.") from None
    if not all(isinstance(claim, Claim) for claim in claims):
        raise UserError(f"CLAIMS of claims_from={module!r} must hold nothing but dpml.reporting.judging.Claim.")
    return {claim.id: claim for claim in claims}


# ---- tests


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

    def decide(runs: Runs, _: Reading) -> Check:
        drops: dict[str, float] = {}
        rises: dict[str, float] = {}
        means = []
        for (block, algorithm), values in runs.items():
            columns = several(values, block)
            curve = f"{algorithm} {block}"
            drops[curve] = below(values[columns[-1]], values[columns[0]])
            for a, b in pairwise(columns):
                rises[f"{curve} {a:g}-{b:g}"] = below(values[a], values[b])
            means.append(f"{curve} {values[columns[0]].mean():.3g} to {values[columns[-1]].mean():.3g}")
        no_drop = [key for key, significant in holm(drops).items() if not significant]
        risen = [key for key, significant in holm(rises).items() if significant]
        text = ", ".join(means)
        text += f"; no significant fall: {', '.join(no_drop)}" if no_drop else ""
        text += f"; significant rises: {', '.join(risen)}" if risen else ""
        return Check(not no_drop and not risen, text)

    return on_runs(lambda _: dict.fromkeys(blocks, algorithms), decide)


def beats(blocks: Sequence[str], algorithm: str, others: Sequence[str]) -> Test:
    """`algorithm` is significantly below each other at more than half of the x, and significantly above at none."""

    def decide(runs: Runs, _: Reading) -> Check:
        lower: dict[tuple[str, str, Any], float] = {}
        higher: dict[tuple[str, str, Any], float] = {}
        for block in blocks:
            ours = runs[block, algorithm]
            for other in others:
                theirs = runs[block, other]
                for x in ours:
                    lower[block, other, x] = algorithm_below(ours[x], theirs[x])
                    higher[block, other, x] = algorithm_below(theirs[x], ours[x])
        wins, losses = holm(lower), holm(higher)
        holds, counts = True, []
        for block, other in dict.fromkeys(key[:2] for key in lower):
            keys = [key for key in lower if key[:2] == (block, other)]
            won, lost = sum(wins[key] for key in keys), sum(losses[key] for key in keys)
            holds &= won > len(keys) / 2 and lost == 0
            counts.append(f"{block}: {won} won, {lost} lost of {len(keys)} against {other}")
        return Check(holds, ", ".join(counts))

    return on_runs(lambda _: dict.fromkeys(blocks, (algorithm, *others)), decide)


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
        return together(checks, all(check.holds for check in checks))

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


def together(checks: Sequence[Check], holds: bool) -> Check:
    """One check of several, with the numbers of all."""
    seeds = [check.seeds for check in checks if check.seeds is not None]
    return Check(holds, "; ".join(check.numbers for check in checks), min(seeds, default=None))
