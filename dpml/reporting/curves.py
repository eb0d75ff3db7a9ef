"""The settings that distinguish the curves of a panel, or the columns of a table, and their labels.

Settings are named as on the command line (``algo.lam``). A difference between two rows appears on the axis, in the
label of the curve, or (if it changes along with the axis) in `moving`. `constant` gives the values that all rows share,
`of_some` those of all rows that have one.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpml.reporting.statistics import STATISTICS
from dpml.running.rows import SETTING, own_columns

_SIZES = ("N", "d")  # sizes of the data as read: they follow from other settings
_NOT_SETTINGS = {*STATISTICS, "seeds", "replicates", "published", "inverse_eps"}
_SYMBOLS = {"eps": "ε", "delta": "δ", "algo.variant": "variant"}


@dataclass(frozen=True)
class Curve:
    """The rows of one curve; `settings` are those that all of its rows share."""

    algo: str
    settings: Mapping[str, Any]
    rows: pd.DataFrame


def settings(table: pd.DataFrame) -> list[str]:
    """The columns of a summary that hold settings, the most informative about a curve first."""
    own = [key for key in own_columns(table) if key not in _NOT_SETTINGS]
    usual = [key for key in SETTING if key in table and key not in ("algo", *_SIZES)]
    return [*usual, *own, *(key for key in _SIZES if key in table)]


def same_axis(x: str) -> tuple[str, ...]:
    """The settings that determine where a row is on the axis `x`."""
    if x == "proven_eps":
        return ("proven_eps", "eps", "delta")
    return ("eps", "inverse_eps") if x in ("eps", "inverse_eps") else (x,)


def curves(summary: pd.DataFrame, x: str, always: Sequence[str] = ()) -> list[Curve]:
    """The rows of one panel curve by curve: by algorithm, the keys in `always`, and every other setting that differs.

    A setting that changes along with `x` (N, if there are 100 rows for each of M parties) does not split a curve.
    """
    summary = summary.assign(**{key: summary[key].map(text) for key in settings(summary) if _has_lists(summary[key])})
    candidates = [key for key in settings(summary) if key not in same_axis(x)]
    keys = ["algo", *(key for key in dict.fromkeys(always) if key in candidates)]
    for key in candidates:
        groups = summary.groupby(keys, sort=False, dropna=False)
        if key not in keys and not all(_follows(rows, key, x) for _, rows in groups):
            keys.append(key)
    return [
        Curve(
            str(rows["algo"].iloc[0]),
            {key: rows[key].iloc[0] for key in candidates if rows[key].nunique(dropna=False) == 1},
            rows,
        )
        for _, rows in summary.groupby(keys, sort=False, dropna=False)
    ]


def _follows(rows: pd.DataFrame, key: str, x: str) -> bool:
    """Whether `key` is constant along a curve, or is determined by the position on the axis."""
    if rows[key].nunique(dropna=False) == 1:
        return True
    if x == "proven_eps":  # a result, not a setting: nothing except the budget may change along it
        return False
    pairs = rows[[x, key]].drop_duplicates()
    # two points are not enough to say that a setting follows from the axis, but they are for a size
    derived = key in _SIZES or key.startswith(f"{x}.")
    return bool(pairs[x].is_unique and (derived or pairs[key].is_unique))


def named(panel: Sequence[Curve], always: Sequence[str] = ()) -> list[str]:
    """The keys in the labels of a panel's curves: those in `always`, and whatever else varies among the curves."""
    drawn = [curve for curve in panel if curve.algo not in ("claimed", "constant")] or panel
    keys: list[str] = []
    for key in dict.fromkeys([*always, *(key for curve in drawn for key in curve.settings)]):
        if key in always or (_varies(drawn, key) and not _determined(drawn, key, keys)):
            keys.append(key)
    return keys


def _varies(panel: Sequence[Curve], key: str) -> bool:
    """Whether curves differ in `key`: curves of one algorithm by having it at all, those of several by its value."""
    values: dict[str, set[str]] = {}
    for curve in panel:
        values.setdefault(curve.algo, set()).add(text(curve.settings.get(key)))
    return any(len(own) > 1 for own in values.values()) or len(set().union(*values.values()) - {""}) > 1


def _determined(panel: Sequence[Curve], key: str, keys: Sequence[str]) -> bool:
    """Whether labels that name `keys` already determine `key`: it is the same under another name, or a size."""
    values = {name: [text(curve.settings.get(name)) for curve in panel] for name in (key, *keys)}
    if any(name.endswith(f".{key}") or key.endswith(f".{name}") for name in keys if values[name] == values[key]):
        return True
    pairs = list(zip(*(values[name] for name in keys), strict=True))
    return key in _SIZES and len(set(pairs)) == len(set(zip(pairs, values[key], strict=True))) if keys else False


def label(curve: Curve, keys: Sequence[str]) -> str:
    """An algorithm's name and its settings among `keys`; columns that a computed block adds are already words."""
    if curve.algo == "claimed":
        return curve.algo
    pairs = [(key, curve.settings.get(key)) for key in keys]
    words = [text(value) for key, value in pairs if _is_word(key) and text(value)]
    given = [assignment(key, value) for key, value in pairs if not _is_word(key) and text(value)]
    return " ".join([", ".join([curve.algo, *words]), *given])


def _is_word(key: str) -> bool:
    return key not in SETTING and "." not in key


def assignment(key: str, value: Any) -> str:
    """A setting as on the command line, with the field's symbols."""
    return f"{_SYMBOLS.get(key, key)}={text(value)}"


def constant(table: pd.DataFrame, without: Iterable[str] = ()) -> str:
    """The settings that all rows of a summary share, in one line."""
    return "  ".join(_shared(table, without).get("", ()))


def of_some(table: pd.DataFrame, without: Iterable[str] = ()) -> list[str]:
    """The settings that are the same in all rows that have them, and the algorithms that do."""
    return [f"{'  '.join(given)} {who}" for who, given in _shared(table, without).items() if who]


def _shared(table: pd.DataFrame, without: Iterable[str]) -> dict[str, list[str]]:
    """The settings with one value in a summary, by who has them in words: nothing of those that every row has."""
    lines = table[table["algo"] != "claimed"]  # a line of no run
    found: dict[str, list[str]] = {}
    for key in settings(table):
        given = lines[key].map(text)
        has = given != ""
        if key in {*without, "variant", "calibration"} or given[has].nunique() != 1:
            continue
        who = "" if has.all() else "where set"  # one algorithm may have it in some lines only, such as a clip
        if not has.all() and not {*algorithms(lines[has])} & {*algorithms(lines[~has])}:
            who = f"of {', '.join(algorithms(lines[has]))}"
        found.setdefault(who, []).append(assignment(key, given[has].iloc[0]))
    return found


def moving(panel: Sequence[Curve], x: str) -> list[str]:
    """The settings that change along the curves of a panel together with `x`."""
    return [
        key
        for key in (settings(panel[0].rows) if panel else ())
        if key not in same_axis(x) and any(key not in curve.settings for curve in panel)
    ]


def text(value: Any) -> str:
    """A setting's value, in the shortest form that reads back exactly; empty if there is none."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {text(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text, value)) + "]"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(float(value))
    return str(value)


def _has_lists(column: pd.Series) -> bool:
    return column.dtype == object and any(isinstance(value, list | tuple | dict) for value in column)


def algorithms(rows: pd.DataFrame) -> list[str]:
    """The algorithms in rows, or in guarantees, each with its variant unless it is the paper's."""
    variant = rows["variant"].map(lambda name: "" if name == "paper" else f" {name}")
    return list(dict.fromkeys(rows["algo"] + variant))
