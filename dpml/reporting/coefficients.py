"""Write the table of a released model's coefficients as Markdown, LaTeX, CSV or Parquet."""

import math
from collections.abc import Sequence
from dataclasses import asdict

import pandas as pd

from dpml.release.inference import Coefficient
from dpml.reporting.tables import file_of, latex, markdown, texts


def frame(lines: Sequence[Coefficient]) -> pd.DataFrame:
    """Return a table with column, unit, estimate, low, high, p and note; NaN if the noise hides a coefficient."""
    return pd.DataFrame([asdict(line) for line in lines])


def written(lines: Sequence[Coefficient], kind: str, heading: str) -> str | bytes:
    """Return the content of a file of a kind (md, tex, csv, parquet). CSV and Parquet contain all digits."""
    if kind in ("csv", "parquet"):
        return file_of(frame(lines), kind)
    table = texts(pd.DataFrame([_shown(line) for line in lines]))
    return latex(table, heading, "coefficients") if kind == "tex" else f"{heading}\n\n{markdown(table)}"


def _shown(line: Coefficient) -> dict[str, str]:
    """Return the texts of a line. The estimate is rounded to the second digit of half its interval."""
    names = {"column": line.column, "unit": line.unit}
    if line.note:
        return {**names, "estimate": "", "interval": line.note, "p": ""}
    half = (line.high - line.low) / 2
    digits = max(0, 1 - math.floor(math.log10(half))) if half > 0 else 6
    estimate, low, high = (f"{number:.{digits}f}" for number in (line.estimate, line.low, line.high))
    p = "< 0.001" if line.p < 0.001 else f"{line.p:.3f}"
    return {**names, "estimate": estimate, "interval": f"{low} to {high}", "p": p}
