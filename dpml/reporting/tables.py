"""Tables from rows: summaries, paired comparisons, Markdown and LaTeX, and the union of several runs."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpml.atomic import write_atomically
from dpml.errors import UserError
from dpml.reporting.statistics import STATISTICS
from dpml.running.rows import PRIVACY, SETTING, own_columns


def wide(summary: pd.DataFrame, x: str, curve: Sequence[str] = ("algo",)) -> pd.DataFrame:
    """A line per value of `x`, a column per algorithm and `curve`, entries ``mean ± half the 95 % interval``."""
    entries = summary.assign(
        entry=[value(mean, half) for mean, half in zip(summary["mean"], summary["interval"], strict=True)],
        curve=[
            ", ".join(str(key) for key in keys if pd.notna(key))
            for keys in summary[list(dict.fromkeys(["algo", *curve]))].to_numpy()
        ],
    )
    table = entries.pivot_table(index=x, columns="curve", values="entry", aggfunc="first", sort=False).sort_index()
    table.columns.name = None
    return table.reset_index().rename(columns={x: _HEADS.get(x, x)})


def proven(guarantees: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """A line per algorithm and view: what is claimed there, and the proven eps at every eps that was asked for.

    Columns in `also`, and the calibration, stand in it where they vary; over all else the largest eps is taken.
    """
    found = guarantees[np.isfinite(guarantees["budget_eps"])]
    open_ = found.loc[(found["basis"] == "published") & np.isinf(found["eps"]), "algo"]
    found = found[~found["algo"].isin(open_)]  # they claim no privacy
    is_proven = found["basis"] == "proven"
    # what else tells an algorithm's lines apart
    also = [key for key in ("calibration", *also) if key in found and found[key].nunique(dropna=False) > 1]
    names = ["algo", "variant", *also, "view"]
    found = found.assign(**{key: found[key].fillna("") for key in also})
    table = found[is_proven].pivot_table(index=names, columns="budget_eps", values="eps", aggfunc="max", sort=False)
    table.columns = [f"ε = {eps:g}" for eps in table.columns]
    shown = table.map(short).reset_index()
    claims = set(map(tuple, found.loc[~is_proven, names].to_numpy()))
    keys = shown[names].itertuples(index=False, name=None)
    shown.insert(len(names), "claimed", ["ε" if key in claims else "-" for key in keys])
    return shown


_HEADS = {"eps": "ε", "inverse_eps": "1/ε", "delta": "δ"}


def value(mean: float, half: float) -> str:
    """A mean with half its interval, three digits and one."""
    return short(mean) + (f" ± {half:.1g}" if half > 0 and math.isfinite(half) else "")


def short(number: float) -> str:
    """A number in three digits."""
    return "∞" if math.isinf(number) else f"{number:.3g}"


def _cells(table: pd.DataFrame) -> list[list[str]]:
    body = [
        ["" if pd.isna(v) else f"{v:g}" if isinstance(v, float) else str(v) for v in row] for row in table.to_numpy()
    ]
    return [[str(column) for column in table.columns], *body]


def markdown(table: pd.DataFrame) -> str:
    """A GitHub table."""
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in _cells(table)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body]) + "\n"


_TEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "ε": r"$\varepsilon$", "δ": r"$\delta$", "∞": r"$\infty$"}
_TEX |= {character: f"\\{character}" for character in "&%$#_{}"}


def latex(table: pd.DataFrame, caption: str) -> str:
    """A LaTeX table for the booktabs package."""

    def escape(text: str) -> str:
        return "".join(_TEX.get(character, character) for character in text)

    head, *body = [" & ".join(map(escape, row)) + r" \\" for row in _cells(table)]
    lines = [r"\begin{table}", rf"\caption{{{escape(caption)}}}", rf"\begin{{tabular}}{{{'l' * table.shape[1]}}}"]
    lines += [r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def merge(folders: Sequence[Path], target: Path) -> list[Path]:
    """Put the tables of several runs or sweeps together in `target`: rows.csv and guarantees.csv, each row once.

    Raises:
        UserError: a folder has no rows.csv, or two give different values for the same settings, seed and draw.
    """
    rows, guarantees = ([_read(folder / name) for folder in folders] for name in ("rows.csv", "guarantees.csv"))
    merged = pd.concat(rows, ignore_index=True).drop_duplicates()
    _refuse_conflicts(merged)
    target.mkdir(parents=True, exist_ok=True)
    write_atomically(target / "rows.csv", merged.to_csv(index=False))
    given = pd.concat(guarantees, ignore_index=True).drop_duplicates()
    write_atomically(target / "guarantees.csv", given.to_csv(index=False))
    return [target / "rows.csv", target / "guarantees.csv"]


def _read(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise UserError(f"there is no {path}: give folders that a dpml-run wrote to.")
    # as text: a number that is read and written again must not change in its last digit
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def _refuse_conflicts(rows: pd.DataFrame) -> None:
    keys = [key for key in rows.columns if key not in ("value", *PRIVACY, "tuned", "private_preprocessing")]
    twice = rows[rows.duplicated(keys, keep=False)]
    if len(twice):
        first = twice.iloc[0]
        what = " ".join(f"{key}={first[key]}" for key in keys if first[key])
        raise UserError(f"the folders disagree about {what}: they were made by different versions of dpml.")


def overview(summary: pd.DataFrame) -> pd.DataFrame:
    """A block's summary as a table: a line for every combination of what varies in it, a column per metric."""
    keys = [key for key in (*SETTING, *own_columns(summary)) if key in summary and key not in STATISTICS]
    keys = [key for key in keys if summary[key].nunique(dropna=False) > 1] or ["algo"]
    lines: dict[Any, dict[str, Any]] = {}
    for row in summary.to_dict("records"):
        values = {key: row[key] for key in keys}
        lines.setdefault(tuple(map(str, values.values())), values)[row["metric"]] = row["mean"]
    return pd.DataFrame(list(lines.values()))
