"""Split the rows of a panel into curves, and label curves by the settings that distinguish them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpml.reporting import statistics
from dpml.reporting.words import REFERENCES, SYMBOLS, algorithm
from dpml.running.rows import SETTING

_SIZES = ("N", "d")  # row and feature counts of the data, which other settings determine
_FILE = r"[/\\]|\.(?:csv|ya?ml|parquet|json)\b"


@dataclass(frozen=True)
class Curve:
    """The rows of one curve, and the `settings` that all rows of the curve share."""

    algo: str
    settings: Mapping[str, Any]
    rows: pd.DataFrame


def settings(table: pd.DataFrame) -> list[str]:
    """Return the columns of a summary that contain settings. The columns N and d come last."""
    keys = [key for key in statistics.settings(table) if key not in ("block", "algo", "inverse_eps")]
    return sorted(keys, key=_SIZES.__contains__)


def same_axis(x: str) -> tuple[str, ...]:
    """Return the columns that vary along the x axis: `x`, and those of eps, 1/eps and delta that change with `x`."""
    if x == "proven_eps":
        return ("proven_eps", "eps", "delta")
    return ("eps", "inverse_eps") if x in ("eps", "inverse_eps") else (x,)


def curves(summary: pd.DataFrame, x: str, always: Sequence[str] = ()) -> list[Curve]:
    """Split rows into curves by algorithm, settings in `always`, and other settings that x does not determine."""
    candidates = [key for key in settings(summary) if key not in same_axis(x)]
    keys = ["algo", *(key for key in dict.fromkeys(always) if key in candidates)]
    for key in candidates:
        if key in keys or summary[key].nunique(dropna=False) == 1:
            continue
        groups = summary.groupby(keys, sort=False, dropna=False)
        if not all(_follows(rows, key, x) for _, rows in groups):
            keys.append(key)
    found = []
    for _, rows in summary.groupby(keys, sort=False, dropna=False):
        same = {key: rows[key].iloc[0] for key in candidates if rows[key].nunique(dropna=False) == 1}
        found.append(Curve(str(rows["algo"].iloc[0]), same, rows))
    return found


def _follows(rows: pd.DataFrame, key: str, x: str) -> bool:
    """Return whether the setting `key` is constant along a curve or determined by x."""
    if rows[key].nunique(dropna=False) == 1:
        return True
    if x == "proven_eps":  # proven_eps is a result: along this axis, only the budget may vary
        return False
    pairs = rows[[x, key]].drop_duplicates()
    # sizes and options of x may have equal values at several x; another setting must have a new value at every x
    derived = key in _SIZES or key.startswith(f"{x}.")
    return bool(pairs[x].is_unique and (derived or pairs[key].is_unique))


def named(panel: Sequence[Curve], always: Sequence[str] = ()) -> dict[str, list[str]]:
    """Return, for each algorithm, the settings that must be in the labels of the algorithm's curves."""
    found = {}
    for algo in dict.fromkeys(curve.algo for curve in panel):
        own = [curve for curve in panel if curve.algo == algo]
        keys = [key for key in always if key != "algo" and algo not in REFERENCES]
        for key in dict.fromkeys([*always, *(key for curve in own for key in curve.settings)]):
            if key not in keys and algo != "claimed" and _labels(own, [*keys, key]) > _labels(own, keys):
                keys.append(key)
        found[algo] = keys
    return found


def _labels(panel: Sequence[Curve], keys: Sequence[str]) -> int:
    return len({tuple(text(curve.settings.get(key)) for key in keys) for curve in panel})


def label(curve: Curve, keys: Mapping[str, Sequence[str]]) -> str:
    """Return the label of a curve: the algorithm's key and the settings in `keys`."""
    name = curve.algo
    for key in keys.get(curve.algo, ()):
        value = text(curve.settings.get(key))
        if value and (key.rpartition(".")[2], value) != ("variant", "paper"):
            name += f" {key}={value}" if key in SETTING or "." in key else f", {value}"
    return name


def shared(table: pd.DataFrame, without: Iterable[str] = ()) -> str:
    """Describe the settings that all rows, or all rows of an algorithm, share: ``M = 5; λ = 0.01 for capeFM``."""
    lines = table[table["algo"] != "claimed"]  # a line without runs
    names = lines["algo"].map(algorithm)
    of_all, of_some = [], []
    for key in settings(table):
        values = lines[key].map(text)
        if key in {*without, "variant", "calibration"} or values.str.contains(_FILE).any():
            continue
        own = values[values != ""].groupby(names, sort=False).unique()
        if not len(own) or own.map(len).max() > 1:
            continue
        name = SYMBOLS.get(key, key.removeprefix("algo.").removeprefix("dataset."))
        groups = own.index.to_series().groupby(own.str[0], sort=False).agg(", ".join)  # algorithms by value
        if len(groups) == 1 and len(own) == names.nunique():
            of_all.append(f"{name} = {groups.index[0]}" + (" (if set)" if (values == "").any() else ""))
        elif len(groups) <= 3 and key not in _SIZES:
            of_some += [f"{name} = {value} for {algos}" for value, algos in groups.items()]
    return "; ".join(filter(None, [", ".join(dict.fromkeys(of_all)), *of_some]))


def moving(panel: Sequence[Curve], x: str) -> list[str]:
    """Return the settings that change together with `x` along the curves of a panel."""
    return [
        key
        for key in (settings(panel[0].rows) if panel else ())
        if key not in same_axis(x) and any(key not in curve.settings for curve in panel)
    ]


def text(value: Any) -> str:
    """Return the shortest text that represents a setting's value exactly, or an empty text if the value is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(float(value))
