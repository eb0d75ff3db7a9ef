"""Test claims about exact numbers and bounds that a function computed, without runs, seeds or intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from dpml.privacy.safe import written, written_below
from dpml.reporting.claims import Evidence, Group, NotComputedError, short
from dpml.reporting.criteria import Comparison, exact
from dpml.reporting.statistics import settings

Where = Mapping[str, Any]
"""Values of columns, or lists of them."""


def rows_of(evidence: Evidence, metric: str, where: Where | None = None) -> pd.DataFrame:
    """Return the rows of a metric that have the values in `where`; raise NotComputedError if no row has them."""
    rows, place = evidence.rows[evidence.rows["metric"] == metric], f"{metric} at "
    for key, value in (where or {}).items():
        values = value if isinstance(value, list) else [value]
        if missing := [one for one in values if key not in rows or not (rows[key] == one).any()]:
            raise NotComputedError([f"{place}{key} = {missing[0]}"])
        rows, place = rows[rows[key].isin(values)], f"{place}{key} = {value}, "
    if rows.empty:
        raise NotComputedError([metric])
    if broken := rows["value"].isna().sum():
        raise NotComputedError([f"{metric}: {broken} of {len(rows)} values are NaN"])
    return rows


def at_most(evidence: Evidence, metric: str, most: float | str, where: Where | None = None) -> list[Group]:
    """Check that no value of `metric` exceeds `most`: a number, or the value of another metric at the same settings."""
    rows = rows_of(evidence, metric, where).reset_index(drop=True)
    keys = [key for key in settings(rows) if rows[key].notna().any()]
    limits = pd.Series(most, rows.index)
    if isinstance(most, str):
        other = rows_of(evidence, most, where)[[*keys, "value"]].drop_duplicates()
        limits = rows[keys].merge(other, "left", keys)["value"]
        if limits.isna().any() or len(limits) != len(rows):
            raise NotComputedError([f"one {most} for every {metric}"])
    varying = [key for key in keys if rows[key].nunique() > 1 and key != "algo"]
    words = {"attacked": written_below, "proven": written}.get(metric.partition("_")[0])  # down, and up
    shown = {}
    for number, (value, limit) in enumerate(zip(rows["value"], limits, strict=True)):
        at = ", ".join(f"{key} = {short(rows[key][number])}" for key in varying)
        one = exact(value, limit)
        shown[at or number] = replace(one, value=words(value, 4)) if words else one
    return [Group(metric, "", f"{most}", shown)]


def _wide(rows: pd.DataFrame, index: str, columns: str, names: Sequence[str]) -> pd.DataFrame:
    """Return a table of values; raise NotComputedError if an entry of the table has no value or several values."""
    values = rows[[index, columns, "value"]].drop_duplicates()
    if values.duplicated([index, columns]).any() or len(values) != len(names) * values[index].nunique():
        raise NotComputedError([f"one value of {' and '.join(names)} for every {index}"])
    return values.pivot(index=index, columns=columns, values="value")[[*names]]


def exceeds(evidence: Evidence, blocks: Sequence[str], algorithm: str, other: str, kind: str) -> list[Group]:
    """Check that the value of `algorithm` exceeds the value of `other` at every x where `other` has a positive value.

    Args:
        blocks: the blocks to check, in which each of the two algorithms has one value for every x.
        kind: the interpretation whose rows are used: its name in the column `reading`.
    """
    groups = []
    for block in blocks:
        rows = rows_of(evidence, evidence.reading.metric, {"block": block, "reading": kind, "algo": [algorithm, other]})
        table = _wide(rows, evidence.axis(block), "algo", (algorithm, other))
        values = table[table[other] > 0].itertuples()
        # larger by more than rounding
        shown = {x: exact(theirs, ours - 1e-9 * abs(ours)) for x, ours, theirs in values}
        groups.append(Group(block, algorithm, other, shown))
    return groups


def as_stated(evidence: Evidence, metric: str, least: bool = False) -> list[Group]:
    """Check that computed values differ by at most 1 % from stated values; if `least` is true, larger values also pass.

    In the column `reading`, a computed value has the name of the interpretation; the paper's value has ``stated``.
    """
    name = evidence.reading.name
    rows = rows_of(evidence, metric, {"reading": [name, "stated"]})
    own = rows["setting"][rows["reading"] == name].unique()
    table = _wide(rows[rows["setting"].isin(own)], "setting", "reading", (name, "stated")).loc[own]
    shown = {
        setting: exact(ours, math.inf if least else stated * 1.01, stated * 0.99)
        for setting, ours, stated in table.itertuples()
    }
    return [Group(metric, "", "stated", shown)]


def private(evidence: Evidence, algorithms: Sequence[str]) -> list[Group]:
    """Check, for every observer, that neither the proven eps nor the eps of an attack exceeds the claimed eps.

    The claim remains open if neither a proof nor an attack decides it.
    """
    rows = evidence.rows
    if "verdict" not in rows:
        raise NotComputedError(["the audit"])
    rows = rows[(rows["variant"] == evidence.reading.variant) & (rows["noise"] == "published")]
    if missing := [f"{name} in the audit" for name in algorithms if name not in set(rows["algo"])]:
        raise NotComputedError(missing)
    rows = rows[rows["algo"].isin(algorithms)]
    own = [key for key in settings(rows) if key.startswith("algo.") and rows[key].nunique(dropna=False) > 1]
    table = rows.pivot(index=["algo", "loss", "view", "verdict", *own], columns="metric", values="value")
    groups = []
    for line in table.dropna(subset=["claimed"]).reset_index().to_dict("records"):
        claimed, proven, attacked = (float(line[name]) for name in ("claimed", "proven", "attacked"))
        violated = line["verdict"].startswith("claim violated")  # with 99.9 % confidence
        holds = False if violated else True if proven <= claimed * 1.0001 else None
        attack = f", attack ≥ {least}" if (least := written_below(attacked, 3)) != "0" else ""
        value = f"claimed ε {claimed:g}, proven {written(proven, 3)}{attack}"
        one = Comparison(holds, value, slack=claimed - (attacked if violated else proven))
        options = (f"{key.removeprefix('algo.')} = {line[key]}" for key in own if pd.notna(line[key]))
        groups.append(Group(", ".join([f"{line['loss']} loss", *options]), line["algo"], line["view"], {"": one}))
    return groups
