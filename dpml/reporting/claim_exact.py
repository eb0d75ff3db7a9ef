"""Tests of claims on numbers that a function computed, exactly or with a bound: no runs, no intervals of seeds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from dpml.privacy.safe import written, written_below
from dpml.reporting.claims import Check, Evidence, Group, NotComputedError, Reading, Test, every
from dpml.reporting.criteria import Comparison, exact
from dpml.reporting.statistics import settings

Where = Mapping[str, Any]
"""Values of columns, or lists of them."""


def rows_of(evidence: Evidence, metric: str, where: Where | None = None) -> pd.DataFrame:
    """The rows of a metric with these values.

    Raises:
        NotComputedError: of one of the values there are none, or some of them are NaN.
    """
    rows = evidence.rows[evidence.rows["metric"] == metric]
    for key, value in (where or {}).items():
        for one in value if isinstance(value, list) else [value]:
            if key not in rows or not (rows[key] == one).any():
                raise NotComputedError([f"{metric} at {key} = {one}"])
        rows = rows[rows[key].isin(value if isinstance(value, list) else [value])]
    if rows.empty:
        raise NotComputedError([metric])
    if broken := rows["value"].isna().sum():
        raise NotComputedError([f"{metric}: {broken} of {len(rows)} values are NaN"])
    return rows


def at_most(metric: str, most: float | str, where: Where | None = None) -> Test:
    """No value of a metric, which a function computed exactly, is above a number or another metric of the same rows."""

    def test(evidence: Evidence, _: Reading) -> Check:
        rows = rows_of(evidence, metric, where).reset_index(drop=True)
        limit = pd.Series(most, rows.index) if not isinstance(most, str) else _beside(evidence, most, rows, where)
        varying = [key for key in settings(rows) if rows[key].nunique() > 1 and key != "algo"]
        shown = {}
        for number, (value, top) in enumerate(zip(rows["value"], limit, strict=True)):
            at = ", ".join(f"{key} = {_plain(rows[key][number])}" for key in varying)
            one = replace(exact(value, top), holds=bool(value <= top + 1e-12 * abs(top)))
            words = {"attacked": written_below, "proven": written}.get(metric.partition("_")[0])  # down, and up
            shown[at or number] = replace(one, value=words(value, 4)) if words else one
        return exact_check([(metric, "", f"{most}", shown)])

    return test


def exact_check(groups: Iterable[tuple[str, str, str, Mapping[Any, Comparison]]]) -> Check:
    """Return a check of numbers that were computed exactly, from groups of (what, algorithm, limit, comparisons)."""
    return Check([
        Group(what, algorithm, limit, shown, every(one.holds for one in shown.values()))
        for what, algorithm, limit, shown in groups
    ])  # fmt: skip


def _beside(evidence: Evidence, metric: str, rows: pd.DataFrame, where: Where | None) -> pd.Series:
    """The values of another metric with the settings of some rows."""
    keys = [key for key in settings(rows) if rows[key].notna().any()]
    other = rows_of(evidence, metric, where)[[*keys, "value"]].drop_duplicates()
    values = rows[keys].merge(other, "left", keys)["value"]
    if values.isna().any() or len(values) != len(rows):
        raise NotComputedError([f"one {metric} for every {rows['metric'][0]}"])
    return values


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def one_value(values: pd.Series) -> float:
    """Return the only value of a series; NaN if there are several."""
    return float(values.iloc[0]) if values.nunique(dropna=False) == 1 else math.nan


def exceeds(blocks: Sequence[str], algorithm: str, other: str, kind: str) -> Test:
    """In every block, wherever the other's value is above 0, the algorithm's is larger: of computed rows, no runs.

    Args:
        blocks: of rows with one value for every x.
        algorithm: whose value is larger.
        other: the algorithm that it is compared with.
        kind: the `reading` of the rows.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows[evidence.rows["metric"] == reading.metric]
        if not len(rows):
            raise NotComputedError(blocks)
        rows = rows[(rows["reading"] == kind) & rows["algo"].isin([algorithm, other])]
        groups = []
        for block in blocks:
            own = rows[rows["block"] == block]
            missing = [f"{name} in {block}" for name in (algorithm, other) if not (own["algo"] == name).any()]
            if missing:
                raise NotComputedError(missing)
            x = evidence.axis(block)
            table = own.pivot_table("value", x, "algo", one_value, dropna=False)
            if table.isna().any(axis=None):
                raise NotComputedError([f"{algorithm} and {other} in {block} with one value each at every {x}"])
            above = table[table[other] > 0]
            shown = {
                x: exact(theirs, math.nextafter(ours, 0)) for x, ours, theirs in above[[algorithm, other]].itertuples()
            }
            groups.append((block, algorithm, other, shown))
        return exact_check(groups)

    return test


def as_stated(metric: str, least: bool = False) -> Test:
    """In every setting the value of a computed row is the stated one to 1 %; with `least` it is at least that.

    The rows of the reading have its name as `reading`, those of what is stated have ``stated``.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows
        if "reading" not in rows or not (rows["metric"] == metric).any():
            raise NotComputedError([metric])
        rows = rows[(rows["metric"] == metric) & rows["reading"].isin([reading.name, "stated"])]
        table = rows.pivot_table("value", "setting", "reading", one_value, dropna=False)
        if not {reading.name, "stated"} <= {*table}:
            raise NotComputedError([f"{metric} [{reading.name}]"])
        table = table.loc[rows["setting"][rows["reading"] == reading.name].unique()]
        if missing := [*table.index[table.isna().any(axis=1)]]:
            names = ", ".join(map(str, missing))
            raise NotComputedError([f"one value, and one that is stated, of {metric} for {names}"])
        shown = {
            name: exact(ours, math.inf if least else stated * 1.01, stated * 0.99)
            for name, ours, stated in table[[reading.name, "stated"]].itertuples()
        }
        return exact_check([(metric, "", "stated", shown)])

    return test


def private(algorithms: Sequence[str]) -> Test:
    """In every view the proven eps is at most the claimed one; the claim fails if an attack exceeds it.

    The rows are those of the audit (`dpml.audit.table`) with the published noise. A claim that neither a proof nor an
    attack decides is open.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows
        if "verdict" not in rows:
            raise NotComputedError(["the audit"])
        stated = (rows["variant"] == reading.variant) & (rows["noise"] == "published")
        rows = rows[rows["algo"].isin(algorithms) & stated]
        if missing := [name for name in algorithms if name not in set(rows["algo"])]:
            raise NotComputedError([f"{name} in the audit" for name in missing])
        own = [key for key in settings(rows) if key.startswith("algo.") and rows[key].nunique(dropna=False) > 1]
        keys = ["algo", "loss", "view", "verdict", *own]
        table = rows.pivot_table("value", keys, "metric", one_value, dropna=False).dropna(subset=["claimed"])
        groups = []
        for (algo, loss, view, verdict, *more), claimed, proven, attacked in zip(
            table.index, table["claimed"], table["proven"], table["attacked"], strict=True
        ):
            violated = str(verdict).startswith("claim violated")  # with 99.9 % confidence
            holds = False if violated else True if proven <= claimed * 1.0001 else None
            slack = claimed - (attacked if violated else proven)
            value = f"proven eps {written(proven, 3)}, attacked eps at least {written_below(attacked, 3)}"
            one = Comparison(holds, slack=slack, needs=f"at most {claimed:g}", value=value)
            about = ", ".join([f"{loss} loss", *(str(each) for each in more if each == each)])
            groups.append(Group(about, algo, view, {"": one}, holds))
        return Check(groups)

    return test
