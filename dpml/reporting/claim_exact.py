"""Tests of claims on numbers that a function computed exactly: no runs, no intervals."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Test
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
        wrong = ~(rows["value"] <= limit + 1e-12 * limit.abs())  # also of a limit that is NaN
        worst = int(np.argmax(rows["value"] - limit))
        at = ", ".join(f"{key} = {_plain(rows[key][worst])}" for key in varying)
        text = f"{metric} above {most if isinstance(most, str) else f'{most:g}'} at {wrong.sum()} of {len(rows)}; "
        text += f"most {rows['value'][worst]:.4g}" + (f" for {limit[worst]:.4g}" if isinstance(most, str) else "")
        return Check(not wrong.any(), text + (f", at {at}" if at else ""))

    return test


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
