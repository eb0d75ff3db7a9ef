"""Represent the claims of papers, and compute verdicts on the claims from rows of results alone.

A claim is judged under every interpretation (`Reading`) whose blocks and algorithms were all computed, at the same x.
If those of an interpretation were not, the claim cannot be tested, unless it holds under one and fails under another.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, TypeVar

import pandas as pd

from dpml.reporting.criteria import FLOOR, Comparison, MetricScale, Pair, is_share, scale
from dpml.reporting.statistics import settings
from dpml.running.rows import own_columns

K = TypeVar("K")

MIXED, UNTESTED = "depends on an unstated choice", "cannot be tested here"
DECISIONS = {True: "reproduced", False: "not reproduced", None: "undecided with these seeds"}
IN_WORDS = {True: "holds", False: "does not hold", None: "is undecided"}

ZERO = 0.01  # the share of the constant model's loss below which a loss counts as zero
ANY_VARIANT = "any"  # the rows of every variant are used; each algorithm must have only one

Each = Mapping[str, Sequence[float]]
"""Settings and their values: a test is repeated for every value."""


class NotComputedError(Exception):
    """Raised if rows that a claim needs were not computed. `missing` names these rows."""

    def __init__(self, missing: Iterable[str]):
        self.missing = tuple(dict.fromkeys(missing))
        super().__init__("; ".join(self.missing))


@dataclass(frozen=True)
class Reading:
    """An interpretation of a claim, which fixes the metric, the variant of the algorithms, and options of the test."""

    name: str
    variant: str
    metric: str
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)


NEEDED = {"all": 1.0, "nine in ten": 0.9, "most": 0.5 + 1e-9, "some": 1e-9, "any": 1e-9}
"""The share of comparisons that must hold in a group. If it is "any", the other comparisons may even be worse."""


@dataclass(frozen=True)
class Group:
    """The comparisons of two algorithms in one block (grid of settings): one comparison for each x-axis value."""

    block: str  # the block of settings and the part of it that is compared, or a metric of exact numbers
    algorithm: str  # the algorithm that the claim is about
    against: str  # another algorithm, the same one at another x, or a number
    shown: Mapping[Any, Comparison]  # by x
    often: str = "all"  # how many comparisons must hold (`NEEDED`)
    why: str = ""  # why the group does not count; empty if it counts

    @property
    def holds(self) -> bool | None:
        """Return whether the claim holds in this group of comparisons; None if more seeds are needed to decide."""
        found = list(self.shown.values())
        if not found:
            return None
        lost = self.often != "any" and any(one.against for one in found)
        return False if lost else at_least(NEEDED[self.often] * len(found), [one.holds for one in found])


def at_least(number: float, values: Sequence[bool | None]) -> bool | None:
    """Return whether at least `number` of the values are True, or None if too many values are undecided (None)."""
    if values.count(True) >= number:
        return True
    return None if len(values) - values.count(False) >= number else False


def holds(groups: Sequence[Group]) -> bool | None:
    """Return whether a claim holds in all groups of comparisons, except those ignored for a reason. None: undecided."""
    if not any(group.shown for group in groups):
        raise NotComputedError(["anything to compare"])
    found = [group.holds for group in groups if not group.why]
    return at_least(len(found), found)


@dataclass(frozen=True)
class Verdict:
    """The decision on a claim, with the comparisons behind the decision."""

    id: str
    text: str
    criterion: str  # the test of the claim, in words
    decision: str  # one of `DECISIONS`, MIXED, or UNTESTED
    # for every interpretation: its name, metric, outcome, missing rows (`lacks`), and `groups`, with a list for each
    # `Group`: its block, algorithm, against, outcome (in words), and why
    readings: Sequence[Mapping[str, Any]] = ()
    # the comparison with the least slack among those with the claim's worst outcome (it does not hold, is undecided,
    # holds): its interpretation, block, algorithm, against and x, the effect, and what the effect had to be
    deciding: Mapping[str, str] = field(default_factory=dict)
    seeds: int | None = None  # the smallest number of seeds among all runs that count; None if there are no runs
    published: str = ""  # the outcome of the same test on the paper's own published points; empty if there are none


RUN = ["seed", "draw"]
_REFERENCES = ("nonpriv", "nn_nonpriv", "batch")  # models without privacy


@dataclass(eq=False)
class Evidence:
    """The rows that decide a claim under one interpretation."""

    rows: pd.DataFrame  # of results with the published calibration; or published points
    published: pd.DataFrame  # the published points
    axes: Mapping[str, str] = field(default_factory=dict)  # the x axis by block; if absent, the only varying setting
    baselines: pd.DataFrame | None = None  # result rows with the baselines, if `rows` are published points
    reading: Reading = Reading("", "paper", "")  # chooses the variant of the algorithms and the metric
    _kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def under(self, reading: Reading | None = None, **changes: Any) -> "Evidence":
        """Return the evidence for another interpretation of a claim: `reading` or the current one, with `changes`."""
        other = copy(self)  # shares what was derived from the rows
        other.reading = replace(reading or self.reading, **changes)
        return other

    def kept(self, key: Hashable, made: Callable[[], K]) -> K:
        """Call the function `made` once for each value of `key`, and return the cached result."""
        if key not in self._kept:
            self._kept[key] = made()
        return self._kept[key]

    def where(self, column: str, value: Any) -> "Evidence":
        """Return evidence with the rows that have `value` in `column`; raise NotComputedError if no row has it."""
        if column not in self.rows or not (self.rows[column] == value).any():
            raise NotComputedError([f"{column} = {value}"])
        part = self.kept((column, value), lambda: replace(self, rows=self.rows[self.rows[column] == value]))
        return part.under(self.reading)

    def axis(self, block: str) -> str:
        """Return the column on the x axis of the panel that shows a block's rows, or eps if the axis shows 1/eps."""
        x = self.axes[block] if block in self.axes else self.kept(("axis", block), lambda: self._only_axis(block))
        return "eps" if x == "inverse_eps" else x

    def _only_axis(self, block: str) -> str:
        rows = self.rows[self.rows["block"] == block]
        candidates = [key for key in ("eps", "delta", "M", "N", *own_columns(rows)) if key in rows]
        rows = rows[["algo", "variant", *candidates]].drop_duplicates()
        varying = [key for key in candidates if (rows.groupby(["algo", "variant"])[key].nunique() > 1).any()]
        if len(varying) != 1:
            raise NotComputedError([f"{block} along one axis"])
        return varying[0]

    def runs(self, block: str, algorithm: str) -> pd.DataFrame:
        """Return a table of the metric: a line per run (seed, draw), a column per x-axis value; empty without runs."""
        key = block, algorithm, self.reading.metric, self.reading.variant
        return self.kept(key, lambda: self._runs(*key))

    def _places(self) -> Mapping[Any, Any]:
        return self.kept("places", lambda: dict(self.rows.groupby(["block", "algo", "metric"]).indices))

    def _runs(self, block: str, algorithm: str, metric: str, variant: str) -> pd.DataFrame:
        rows = self.rows.iloc[self._places().get((block, algorithm, metric), [])]
        rows = rows if variant == ANY_VARIANT else rows[rows["variant"] == variant]
        if rows.empty or (x := self.axis(block)) not in rows:
            return pd.DataFrame()
        if broken := rows["value"].isna().sum():
            raise NotComputedError([f"{algorithm} in {block}: {broken} of {len(rows)} values are NaN"])
        runs = rows.drop_duplicates([*RUN, x, "value"])  # a duplicate run counts once
        if runs.duplicated([*RUN, x]).any():
            varying = [key for key in settings(rows) if key != x and rows[key].nunique(dropna=False) > 1]
            raise NotComputedError([f"{algorithm} in {block} with one value of {', '.join(varying)}"])
        return runs.pivot(index=RUN, columns=x, values="value")

    def all_runs(
        self, blocks: Mapping[str, Sequence[str]], each: Each | None = None
    ) -> dict[tuple[str, str], pd.DataFrame]:
        """Return runs by block and algorithm; raise NotComputedError if an x-axis value or a second run is missing.

        With `each`, every combination of its settings' values has its own runs; it is appended to the block's name.
        """
        if self.baselines is not None:  # `rows` are published points: use only the blocks with points
            here = {block for block, _, metric in self._places() if metric == self.reading.metric}
            blocks = {block: names for block, names in blocks.items() if block in here} or blocks
        tables, missing = dict[tuple[str, str], pd.DataFrame](), list[str]()
        for values in product(*(each or {}).values()):
            part, where = self, ""
            for key, value in zip(each or {}, values, strict=True):
                part, where = part.where(key, value), f"{where}, {key} = {value:g}"
            for block, algorithms in blocks.items():
                own = {name: part.runs(block, name) for name in algorithms}
                tables |= {(f"{block}{where}", name): runs for name, runs in own.items()}
                grid = list(dict.fromkeys(x for runs in own.values() for x in runs.columns))
                missing += [f"{name} in {block}" if grid else block for name, runs in own.items() if runs.empty]
                for name, runs in own.items():
                    lacks = ", ".join(short(x) for x in grid if x not in runs)
                    missing += [f"{name} in {block} at {self.axis(block)} = {lacks}"] if lacks and len(runs) else []
                    missing += [f"a second run of {name} in {block}"] if len(runs) == 1 else []
        if missing:
            raise NotComputedError(missing)
        return tables

    def pair(self, block: str, algorithm: str, against: str, x: Any, ours: pd.Series, theirs: pd.Series) -> Pair:
        """Return a `Pair`: a metric's values in two sets of runs, and the scale on which to compare these values."""
        return Pair(block, algorithm, against, x, ours, theirs, self.scale(block.partition(",")[0]))

    def scale(self, block: str) -> MetricScale:
        """Return the metric's scale (linear or log) and which differences matter, given the baselines in the block."""
        metric = self.reading.metric
        same = {"noisy_objective": "loss", "train_accuracy": "accuracy"}.get(metric, metric)
        means = self.kept("baselines", self._baselines)
        constant, *others = (means.get((block, name, same)) for name in ("constant", *_REFERENCES))
        ceiling = next((mean for mean in others if mean is not None), None)
        if not is_share(metric):
            return scale(metric, zero=max(ZERO * (constant or 0.0), FLOOR))
        if constant is None or ceiling is None:
            raise NotComputedError([f"constant and nonpriv in {block}"])
        return scale(metric, abs(ceiling - constant))

    def _baselines(self) -> Mapping[Any, float]:
        rows = self.rows if self.baselines is None else self.baselines
        rows = rows[rows["algo"].isin(("constant", *_REFERENCES))]
        return dict(rows["value"].abs().groupby([rows[key] for key in ("block", "algo", "metric")]).mean())


def short(x: Any) -> str:
    """Return a value on the x axis as a short text for verdicts."""
    return f"{x:g}" if isinstance(x, float) else str(x)


Test = Callable[..., Sequence[Group]]
"""A function that tests a claim on `Evidence`, and returns groups. It raises NotComputedError if rows are missing."""


@dataclass(frozen=True)
class Claim:
    """A statement of a paper. `criterion` says in words how `test` judges each interpretation of the statement."""

    id: str
    figure: str
    text: str
    criterion: str
    test: Test
    readings: Sequence[Reading]

    def by_points(self, evidence: Evidence) -> str:
        """Test the claim on points that the paper published, and return the outcome in words; empty without points."""
        tested = [one for one in self.judge(evidence).readings if not one["lacks"]]
        names = {kind: ", ".join(one["name"] for one in tested if one["outcome"] == kind) for kind in IN_WORDS.values()}
        found = {one["outcome"]: names[one["outcome"]] for one in tested}
        return "; ".join(f"[{names}] {kind}" if len(found) > 1 else kind for kind, names in found.items())

    def judge(self, evidence: Evidence) -> Verdict:
        readings: list[dict[str, Any]] = []
        outcomes: dict[str, bool | None] = {}
        counted: list[tuple[str, Group, Any, Comparison]] = []
        for reading in self.readings:
            entry: dict[str, Any] = {"name": reading.name, "metric": reading.metric}
            readings.append(entry | {"outcome": UNTESTED, "lacks": [], "groups": []})
            try:
                groups = self.test(evidence.under(reading))
                outcomes[reading.name] = holds(groups)
            except NotComputedError as error:
                readings[-1]["lacks"] = [f"not computed: {error}"]
                continue
            found = [[one.block, one.algorithm, one.against, IN_WORDS[one.holds], one.why] for one in groups]
            readings[-1] |= {"outcome": IN_WORDS[outcomes[reading.name]], "groups": found}
            counted += [(reading.name, one, x, each) for one in groups if not one.why for x, each in one.shown.items()]
        kinds = [kind for kind in (False, None, True) if kind in outcomes.values()]
        mixed = {True, False} <= {*kinds}
        if len(outcomes) < len(readings) and not mixed:
            return Verdict(self.id, self.text, self.criterion, UNTESTED, readings)
        decision = MIXED if mixed else DECISIONS[None if None in kinds else kinds[0]]
        seeds = min((one.seeds for *_, one in counted if one.seeds is not None), default=None)
        deciding, least = dict[str, str](), math.inf
        for name, group, x, one in counted:
            if outcomes[name] is group.holds is one.holds is kinds[0] and one.slack < least:
                deciding = {"reading": name, "block": group.block, "algorithm": group.algorithm}
                deciding |= {"against": group.against, "x": short(x), "effect": one.value, "needs": one.needs}
                least = one.slack
        return Verdict(self.id, self.text, self.criterion, decision, readings, deciding, seeds)
