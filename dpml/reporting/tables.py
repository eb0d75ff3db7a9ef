"""Make tables from rows, write tables as Markdown and LaTeX, read tables, and merge the tables of several runs."""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from dpml.errors import UserError
from dpml.files import write_atomically
from dpml.privacy.guarantee import DECLARED
from dpml.privacy.safe import written, written_below
from dpml.reporting.curves import curves, label, named, settings, text
from dpml.reporting.manifest import beside, check_table
from dpml.reporting.numerals import SIGNED, SUPERSCRIPTS, ZERO, number, tex_number
from dpml.reporting.words import SYMBOLS
from dpml.running.rows import COLUMNS, EPS, PRIVACY, SETTING

# by basis, what is appended to the view; conditional: for hyper-parameters not selected on the private rows
_BASES = {"conditional": ", if fixed beforehand", DECLARED: ", declared"}


def wide(summary: pd.DataFrame, x: str, curve: Sequence[str] = ("algo",)) -> pd.DataFrame:
    """Return a table of means ± half their 95 % intervals, with a line per value of `x` and a column per curve."""
    panel = curves(summary, x, curve)
    keys = named(panel, curve)
    entries = pd.concat([each.rows.assign(curve=label(each, keys)) for each in panel])
    metric = str(summary["metric"].iloc[0]) if "metric" in summary else ""
    entries["entry"] = [value(line, "" if line["algo"] == "claimed" else metric) for line in entries.to_dict("records")]
    # entries in one cell have equal settings, and all of them are shown
    cells = entries.groupby([x, "curve"])["entry"].agg(lambda own: " or ".join(dict.fromkeys(own)))
    places = sorted(summary[x].unique()) if is_numeric_dtype(summary[x]) else summary[x].unique()
    table = cells.unstack().reindex(index=places, columns=entries["curve"].unique())
    table.insert(0, SYMBOLS.get(x, x), [text(place) for place in places])
    return table.reset_index(drop=True)


def value(line: Mapping[Any, Any], metric: str = "") -> str:
    """Return a mean ± half its confidence interval as text or, if some runs have NaN, the number of runs with NaN."""
    mean = float(line["mean"])
    if metric in EPS:
        return short(mean, up=True)
    if line.get("missing", 0) > 0:
        return f"NaN ({line['missing']:g} of {line['count']:g})"
    if metric == "optimality_gap" and abs(mean) < ZERO:
        return "0"
    return number(abs(mean) if metric in SIGNED else mean, float(line["interval"] or math.nan))


def proven(guarantees: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """Return a table of proven eps, with a column per requested eps, and a line per algorithm and observer (`view`).

    If the proven eps is infinite because hyper-parameters were selected, another line has the eps
    without the selection. A cell is empty if the eps of the algorithm does not depend on the setting. The eps is the
    largest over seeds, because the sizes of parties can depend on the seed.
    """
    given = guarantees[np.isfinite(guarantees["budget_eps"])]
    open_ = given.loc[(given["basis"] == "published") & np.isinf(given["eps"]), "algo"]
    given = given[~given["algo"].isin(open_)].reset_index(drop=True)  # the others claim no privacy
    keys = [key for key in SETTING if key not in ("algo", "variant", "eps", "delta")]
    keys = list(dict.fromkeys([*keys, "budget_delta", *also, *(key for key in given if "." in key)]))
    keys = [key for key in keys if key in given and given[key].nunique(dropna=False) > 1]
    given[keys] = given[keys].map(text)
    algorithms = given.groupby(["algo", "variant"], sort=False).groups.values()
    for key in reversed(keys):  # from the last: if two settings vary together, the first stays
        same = ["view", "basis", "budget_eps", *(other for other in keys if other != key)]
        for own in (own for own in algorithms if given.loc[own, key].nunique() > 1):
            worst = given.loc[own].groupby([*same, key], sort=False)["eps"].max()
            if worst.groupby(level=same, sort=False).nunique().max() < 2:  # the eps does not depend on the setting
                given.loc[own, key] = ""
    always = (*also, "calibration")
    keys = [key for key in keys if key in always or any(given.loc[own, key].nunique() > 1 for own in algorithms)]
    names = ["algo", "variant", *keys, "view"]
    given["view"] += given["basis"].map(_BASES).fillna("")
    is_claim = given["basis"] == "published"
    table = given[~is_claim].pivot_table(index=names, columns="budget_eps", values="eps", aggfunc="max", sort=False)
    table.columns = [f"ε = {eps:g}" for eps in table.columns]
    shown = table.map(lambda eps: short(eps, up=True)).reset_index()
    claims = set(map(tuple, given.loc[is_claim, names].to_numpy()))
    lines = shown[names].itertuples(index=False, name=None)
    shown.insert(len(names), "claimed", ["ε" if line in claims else "-" for line in lines])
    return shown.rename(columns=SYMBOLS)


def short(number: float, up: bool = False) -> str:
    """Write a number with 3 significant digits, rounded up if `up`. Numbers from 1000 to a million have no exponent."""
    if math.isinf(number):
        return "∞"
    if 999 < abs(number) < 1e6:
        return str(math.ceil(number)) if up else f"{float(f'{number:.3g}'):.0f}"
    return written(number, 3) if up else f"{number:.3g}"


Texts = dict[str, Any]
"""A table of texts, as a manifest stores it: its ``title``, its ``columns``, and its ``rows``, a list of cells each."""


def texts(table: pd.DataFrame, title: str = "") -> Texts:
    """Return a table whose cells are converted to text. A missing value is an empty text."""
    rows = [
        ["" if pd.isna(v) else f"{v:g}" if isinstance(v, float) else str(v) for v in row] for row in table.to_numpy()
    ]
    return {"title": title, "columns": [str(column) for column in table.columns], "rows": rows}


def markdown(table: Mapping[str, Any], align: str = "---") -> str:
    """Return a table in GitHub's Markdown, without its title. `align` is the alignment of all columns but the first."""
    head, *body = [[cell(text) for text in row] for row in [table["columns"], *table["rows"]]]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---", *[align] * (len(head) - 1)], *body])


def cell(text: str) -> str:
    """Put a text on one line and escape bars, as a cell of a Markdown table needs."""
    return " ".join(str(text).split()).replace("|", "\\|")


def file_of(table: pd.DataFrame, kind: str) -> str | bytes:
    """Return the content of a CSV or Parquet file with a table."""
    if kind == "csv":
        return table.to_csv(index=False)
    try:
        return table.to_parquet(index=False)
    except ImportError:
        raise UserError("a Parquet file needs pyarrow: pip install pyarrow.") from None


_TEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "ε": r"$\varepsilon$", "δ": r"$\delta$", "∞": r"$\infty$"}
_TEX |= {"<": "$<$", ">": "$>$"}
_TEX |= {"λ": r"$\lambda$", "·": r"$\cdot$", "⁻": "", "σ": r"$\sigma$", "μ": r"$\mu$"}
_TEX |= {character: f"\\{character}" for character in "&%$#_{}"} | {
    up: f"$^{{{down}}}$" for up, down in SUPERSCRIPTS.items()
}


def latex(table: Texts, caption: str, label: str) -> str:
    r"""Return a table in LaTeX for the packages booktabs and siunitx."""
    frame = pd.DataFrame(table["rows"], columns=table["columns"]).map(_tex).rename(columns=_tex)
    columns = f"l{'r' * (len(frame.columns) - 1)}"
    return frame.style.hide(axis="index").to_latex(
        column_format=columns, position_float="centering", hrules=True, caption=_tex(caption), label=f"tab:{label}"
    )


def _tex(text: str) -> str:
    numbers = [tex_number(part) for part in text.split(" to ")]  # of an interval
    if all(numbers):
        return " to ".join(map(str, numbers))
    return "".join(_TEX.get(character, character) for character in text)


def read_rows(path: Path) -> pd.DataFrame:
    """Read the rows that a run or a sweep wrote."""
    rows = read_table(path, COLUMNS)
    if not len(rows) or not is_numeric_dtype(rows["value"]):
        raise UserError(f"{path} has no numbers in its column 'value': repeat the command that wrote it.")
    return rows


def read_table(path: Path, columns: Sequence[str], **options: Any) -> pd.DataFrame:
    """Read a table that dpml wrote and that has the given columns. `options` are options of `pandas.read_csv`."""
    if not path.is_file():
        raise UserError(f"there is no {path}: name folders that dpml-run wrote.")
    check_table(path)
    try:
        content = path.read_text("utf-8")
        table = pd.read_csv(io.StringIO(content), **options)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # from the encoding, or from pandas
        reason = str(error).strip().splitlines()[0].rpartition(" error: ")[2]
        raise UserError(f"{path} is not a whole table ({reason}): repeat the command that wrote it.") from None
    missing = [column for column in columns if column not in table]
    if missing:
        raise UserError(f"{path} is not a table of a run: it has no column {missing[0]!r}.")
    if not content.endswith("\n"):
        raise UserError(f"{path} is cut off in its last line: repeat the command that wrote it.")
    return table


def merge(folders: Sequence[Path], target: Path) -> list[Path]:
    """Merge rows.csv and guarantees.csv of several runs or sweeps into the folder `target`. Each row occurs once."""
    rows, guarantees = (
        # numbers are read as text, to keep every digit; a setting that a folder lacks is empty in its rows
        pd.concat([read_table(folder / name, needed, dtype=str, keep_default_na=False) for folder in folders])
        .fillna("")
        .drop_duplicates()
        for name, needed in (("rows.csv", COLUMNS), ("guarantees.csv", ("algo", "eps")))
    )
    keys = [key for key in rows.columns if key not in ("value", *PRIVACY, "tuned", "private_preprocessing")]
    twice = rows[rows.duplicated(keys, keep=False)]
    if len(twice):
        what = " ".join(f"{key}={twice.iloc[0][key]}" for key in keys if twice.iloc[0][key])
        raise UserError(
            f"folders have different numbers for {what}: their noise draws, data, code, dpml version or machine differ."
        )
    known = beside(target).read()
    if (target / "rows.csv").exists() and ("merged" not in known or "command" in known):  # a sweep's manifest has both
        raise UserError(f"{target} has a rows.csv that dpml merge did not write: name another folder with -o.")
    target.mkdir(parents=True, exist_ok=True)
    paths = [target / "rows.csv", target / "guarantees.csv"]
    for path, table in zip(paths, (rows, guarantees), strict=True):
        write_atomically(path, table.to_csv(index=False))
    beside(target).keep({"merged": [str(folder) for folder in folders]}, paths)
    return paths


def shortened(summary: pd.DataFrame) -> pd.DataFrame:
    """Return a summary in which proven numbers are rounded up, and lower bounds down, to six digits."""
    known, metric = summary.copy(), summary["metric"]
    if "proven_eps" in known:
        known["proven_eps"] = [float(written(eps, 6)) for eps in known["proven_eps"].astype(float)]
    for names, rounded in (({"proven"}, written), ({"attacked", "power"}, written_below)):  # of an audit
        some = metric.isin(names)
        known.loc[some, "mean"] = [float(rounded(number, 6)) for number in known.loc[some, "mean"]]
    return known


def overview(summary: pd.DataFrame) -> pd.DataFrame:
    """Return an experiment block's summary as a table: a line per algorithm and settings, a column per metric."""
    keys = [key for key in ("algo", *settings(summary)) if summary[key].nunique(dropna=False) > 1] or ["algo"]
    table = shortened(summary)
    table[keys] = table[keys].map(text)
    return table.groupby([*keys, "metric"], sort=False)["mean"].last().unstack(sort=False).reset_index()
