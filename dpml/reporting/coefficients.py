"""Write the table of a released model's coefficients as Markdown, LaTeX, CSV or Parquet."""

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from dpml.release.inference import Coefficient
from dpml.reporting.tables import file_of, latex, markdown, texts


def frame(lines: Sequence[Coefficient], odds: bool) -> pd.DataFrame:
    """Return a table of all coefficients, with odds ratios if `odds` is true. Coefficients that noise hides are NaN."""
    table = pd.DataFrame([asdict(line) for line in lines])
    if odds:
        table[["odds_ratio", "odds_low", "odds_high"]] = np.exp(table[["estimate", "low", "high"]])
    return table


def written(lines: Sequence[Coefficient], kind: str, heading: str, odds: bool) -> str | bytes:
    """Return a file (md, tex, csv or parquet) of a model's coefficients; with `odds`, md and tex show odds ratios."""
    if kind in ("csv", "parquet"):
        return file_of(frame(lines, odds), kind)
    table = texts(pd.DataFrame([_shown(line, odds) for line in lines]))
    return latex(table, heading, "coefficients") if kind == "tex" else f"{heading}\n\n{markdown(table)}"


def _shown(line: Coefficient, odds: bool) -> dict[str, str]:
    names, what = {"column": line.column, "unit": line.unit}, "odds ratio" if odds else "estimate"
    if line.note:
        return {**names, what: "", "interval": line.note, "p": ""}
    numbers = np.array([line.estimate, line.low, line.high])
    if odds:
        numbers = np.exp(numbers)
    half = (numbers[2] - numbers[1]) / 2
    digits = max(0, 1 - math.floor(math.log10(half))) if 0 < half < math.inf else 6
    estimate, low, high = (f"{number:.{digits}f}" for number in numbers)
    p = "< 0.001" if line.p < 0.001 else f"{line.p:.3f}"
    return {**names, what: estimate, "interval": f"{low} to {high}", "p": p}
