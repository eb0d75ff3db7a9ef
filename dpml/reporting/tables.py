"""Tables from rows: summaries, guarantees, Markdown and LaTeX; reading rows, and merging several runs."""

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from dpml.errors import UserError
from dpml.files import write_atomically
from dpml.privacy.guarantee import DECLARED
from dpml.privacy.safe import written, written_below
from dpml.reporting.curves import assignment, curves, label, named, settings, text
from dpml.reporting.manifest import beside, check_table
from dpml.reporting.numerals import SIGNED, SUPERSCRIPTS, ZERO, Numerals, number, numerals, tex_number, times
from dpml.reporting.words import SYMBOLS
from dpml.running.rows import COLUMNS, EPS, PRIVACY, SETTING

CONDITIONAL = ", if fixed beforehand"
"""Appended to a view: the eps proven for hyper-parameters that are not selected on the private rows."""
_DECLARED = ", declared"


def wide(summary: pd.DataFrame, x: str, curve: Sequence[str] = ("algo",)) -> pd.DataFrame:
    """A line per value of `x`, a column per curve of the same panel, entries ``mean ± half the 95 % interval``.

    Columns are labelled like curves: by the algorithm, the keys in `curve`, and whatever else varies among the columns.
    """
    always = [key for key in curve if key != "algo"]
    panel = curves(summary, x, always)
    keys = named(panel, always)
    lines: dict[str, list[dict[Any, Any]]] = {}
    for each in panel:
        lines.setdefault(label(each, keys), []).extend(each.rows.to_dict("records"))
    places = list(dict.fromkeys(row[x] for rows in lines.values() for row in rows))
    if is_numeric_dtype(summary[x]):
        places.sort()
    columns = dict(_column(name, rows, x, places) for name, rows in lines.items())
    if x == "partition.u" and "n_min" in summary:
        columns = _sizes(summary, places) | columns
    return pd.DataFrame({SYMBOLS.get(x, x): [text(place) for place in places]} | columns)


def _column(
    name: str, rows: Sequence[Mapping[Any, Any]], x: str, places: Sequence[Any]
) -> tuple[str, list[str | None]]:
    """A column with its head: one power of ten for all its entries, and absolute values where figures draw those."""
    metric = "" if name == "claimed" else str(rows[0].get("metric", ""))
    power, numbers = cells(metric, [row["mean"] for row in rows], [row.get("interval", math.nan) for row in rows])
    entries: dict[Any, list[str]] = {}
    for row, cell in zip(rows, numbers, strict=True):
        entries.setdefault(row[x], []).append(value(row) if row.get("missing", 0) > 0 else cell)
    # two entries in one cell differ in no setting: they are two statements about the same setting
    column = [" or ".join(dict.fromkeys(entries[place])) if place in entries else None for place in places]
    return with_power(name, power), column


def cells(metric: str, means: Sequence[float], halves: Sequence[float]) -> Numerals:
    """The numbers of a column: sizes of a signed metric, gaps of rounding errors as 0, and a proven eps rounded up."""
    if metric in EPS:
        return Numerals(0, [short(mean, up=True) for mean in means])
    means = [abs(mean) if metric in SIGNED else mean for mean in means]
    left = [metric == "optimality_gap" and abs(mean) < ZERO for mean in means]  # by an optimiser
    means = [0.0 if gone else mean for mean, gone in zip(means, left, strict=True)]
    return numerals(means, [math.nan if gone else half for half, gone in zip(halves, left, strict=True)])


def with_power(name: str, power: int) -> str:
    """The head of a column whose numbers are over a power of ten."""
    return f"{name} / {times(power).removeprefix('·')}" if power else name


def _sizes(summary: pd.DataFrame, places: list[Any]) -> dict[str, list[str | None]]:
    """The actual unevenness of the parties if u was requested, and the number of rows of the smallest."""
    several = summary[summary["M"] > 1].groupby("partition.u")
    least, most = (several[key].agg(how).reindex(places) for key, how in (("n_min", "min"), ("n_max", "max")))
    return {
        "u as dealt": [None if pd.isna(ratio) else f"{ratio:.3g}" for ratio in most / least],
        "rows of the smallest": [None if pd.isna(number) else f"{number:.0f}" for number in least],
    }


def proven(guarantees: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """A line per algorithm and view: the claim, and the proven eps at every requested eps.

    If the proven eps is infinite because of a selection, a line below it, `CONDITIONAL`, has the eps without a
    selection.

    The table has every setting that changes some eps, and those in `also` that vary. Over seeds the largest eps is
    taken, because party sizes can depend on the seed.
    """
    given = guarantees[np.isfinite(guarantees["budget_eps"])]
    open_ = given.loc[(given["basis"] == "published") & np.isinf(given["eps"]), "algo"]
    given = given[~given["algo"].isin(open_)]  # these algorithms claim no privacy
    others = [key for key in SETTING if key not in ("algo", "variant", "eps", "delta")]
    others += ["budget_delta", *also, *(key for key in given if "." in key)]
    given = given.assign(**{key: given[key].map(text) for key in dict.fromkeys(others) if key in given})
    keys = _telling(given, dict.fromkeys(others), also)
    for key in keys:
        given = given.assign(**{key: given[key].where(_matters(given, key, keys), "")})
    names = ["algo", "variant", *keys, "view"]
    conditional = given["basis"] == "conditional"
    given = given.assign(view=given["view"].where(~conditional, given["view"] + CONDITIONAL))
    given = given.assign(view=given["view"].where(given["basis"] != DECLARED, given["view"] + _DECLARED))
    is_claim = given["basis"] == "published"
    table = given[~is_claim].pivot_table(index=names, columns="budget_eps", values="eps", aggfunc="max", sort=False)
    table.columns = [f"ε = {eps:g}" for eps in table.columns]
    shown = table.map(lambda eps: short(eps, up=True)).reset_index()
    claims = set(map(tuple, given.loc[is_claim, names].to_numpy()))
    lines = shown[names].itertuples(index=False, name=None)
    shown.insert(len(names), "claimed", ["ε" if line in claims else "-" for line in lines])
    return shown.rename(columns=SYMBOLS)


def _telling(guarantees: pd.DataFrame, candidates: Iterable[str], also: Sequence[str]) -> list[str]:
    """The settings that distinguish lines of guarantees: eps differs with them while all settings before are equal."""
    keys: list[str] = []
    for key in candidates:
        if key not in guarantees or guarantees[key].nunique() <= 1:
            continue
        if key in (*also, "calibration") or _matters(guarantees, key, keys).any():
            keys.append(key)
    return keys


def _matters(guarantees: pd.DataFrame, key: str, keys: Sequence[str]) -> pd.Series:
    """Whether the guarantees of a line's algorithm depend on `key` while all others of `keys` are equal, line by line.

    A setting with only one value for an algorithm is kept for its lines.
    """
    algorithm = ["algo", "variant"]
    same = [*algorithm, "view", "basis", "budget_eps", *(other for other in keys if other != key)]
    worst = guarantees.groupby([*same, key], sort=False, dropna=False)["eps"].max()
    depends = (worst.groupby(level=same, sort=False, dropna=False).nunique() > 1).groupby(level=algorithm).any()
    alone = guarantees.groupby(algorithm)[key].nunique() == 1
    index = pd.MultiIndex.from_frame(guarantees[algorithm])
    return pd.Series((depends if key not in keys else depends | alone).reindex(index).to_numpy(), guarantees.index)


def value(line: Mapping[Any, Any]) -> str:
    """The mean of a line of a summary with half its interval; how many values are NaN if any; empty without values."""
    if line.get("missing", 0) > 0:
        return f"NaN ({line['missing']:g} of {line['count']:g})"
    return number(line["mean"], line.get("interval") or math.nan)


def short(number: float, up: bool = False) -> str:
    """A number in three digits, without a power of ten if it is below a million; a proven eps rounded `up`, from a
    thousand on to a whole number."""
    if math.isinf(number):
        return "∞"
    if 999 < abs(number) < 1e6:
        return str(math.ceil(number)) if up else f"{float(f'{number:.3g}'):.0f}"
    return written(number, 3) if up else f"{number:.3g}"


Texts = dict[str, Any]
"""A table of texts, as a manifest stores it: its ``title``, its ``columns``, and its ``rows``, a list of cells each."""


def texts(table: pd.DataFrame, title: str = "") -> Texts:
    """A table as texts; a missing value is empty."""
    rows = [
        ["" if pd.isna(v) else f"{v:g}" if isinstance(v, float) else str(v) for v in row] for row in table.to_numpy()
    ]
    return {"title": title, "columns": [str(column) for column in table.columns], "rows": rows}


def markdown(table: Texts) -> str:
    """A GitHub table, without its title."""
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in [table["columns"], *table["rows"]]]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body]) + "\n"


def file_of(table: pd.DataFrame, kind: str) -> str | bytes:
    """Return a table as csv or parquet."""
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
    r"""A LaTeX table for the packages booktabs and siunitx, whose ``\num{...}`` it uses."""

    def escape(text: str) -> str:
        numbers = [tex_number(part) for part in text.split(" to ")]  # of an interval
        if all(numbers):
            return " to ".join(map(str, numbers))
        return "".join(_TEX.get(character, character) for character in text)

    head, *body = [" & ".join(map(escape, row)) + r" \\" for row in [table["columns"], *table["rows"]]]
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{escape(caption)}}}", rf"\label{{tab:{label}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(table['columns']) - 1)}}}", r"\toprule", head, r"\midrule", *body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def read_rows(path: Path) -> pd.DataFrame:
    """The rows that a run or a sweep wrote."""
    rows = read_table(path, COLUMNS)
    if not len(rows) or not is_numeric_dtype(rows["value"]):
        raise UserError(f"{path} has no numbers in its column 'value': run it again.")
    return rows


def read_table(path: Path, columns: Sequence[str], **options: Any) -> pd.DataFrame:
    """A table that dpml wrote, with at least these columns; `options` are those of `pandas.read_csv`."""
    if not path.is_file():
        raise UserError(f"there is no {path}: give folders that a dpml-run wrote to.")
    check_table(path)
    try:
        content = path.read_text("utf-8")
        table = pd.read_csv(io.StringIO(content), **options)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # from the encoding, or from pandas
        reason = str(error).strip().splitlines()[0].rpartition(" error: ")[2]
        raise UserError(f"{path} is not a whole table ({reason}): run it again.") from None
    missing = [column for column in columns if column not in table]
    if missing:
        raise UserError(f"{path} is no table of a run: it has no column {missing[0]!r}.")
    if not content.endswith("\n"):
        raise UserError(f"{path} is cut off in its last line: run it again.")
    return table


def merge(folders: Sequence[Path], target: Path) -> list[Path]:
    """Merge the tables of several runs or sweeps in `target`: rows.csv and guarantees.csv, each row once."""
    rows = _union([read_table(folder / "rows.csv", COLUMNS, **_AS_TEXT) for folder in folders])
    given = _union([read_table(folder / "guarantees.csv", ("algo", "eps"), **_AS_TEXT) for folder in folders])
    _refuse_conflicts(rows)
    known = beside(target).read()
    if (target / "rows.csv").exists() and ("merged" not in known or "command" in known):  # a sweep's manifest has both
        raise UserError(f"{target} has a rows.csv that no dpml merge wrote: name another folder with -o.")
    target.mkdir(parents=True, exist_ok=True)
    paths = [target / "rows.csv", target / "guarantees.csv"]
    for path, table in zip(paths, (rows, given), strict=True):
        write_atomically(path, table.to_csv(index=False))
    beside(target).keep_with({"merged": [str(folder) for folder in folders]}, paths)
    return paths


_AS_TEXT: dict[str, Any] = {"dtype": str, "keep_default_na": False}  # no number loses its last digit


def _union(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    # a setting that only some of them have is empty in the others
    return pd.concat(tables, ignore_index=True).fillna("").drop_duplicates()


def _refuse_conflicts(rows: pd.DataFrame) -> None:
    keys = [key for key in rows.columns if key not in ("value", *PRIVACY, "tuned", "private_preprocessing")]
    twice = rows[rows.duplicated(keys, keep=False)]
    if len(twice):
        first = twice.iloc[0]
        what = " ".join(assignment(key, first[key]) for key in keys if first[key])
        raise UserError(
            f"the folders disagree about {what}: the number of draws, data, code, dpml or the machine was another."
        )


def shortened(summary: pd.DataFrame) -> pd.DataFrame:
    """A summary with what is proven, or shown at least, in six digits: on the safe side, as `:g` would not round it."""
    known, metric = summary.copy(), summary["metric"]
    if "proven_eps" in known:
        known["proven_eps"] = [float(written(eps, 6)) for eps in known["proven_eps"].astype(float)]
    for names, rounded in (({"proven"}, written), ({"attacked", "power"}, written_below)):  # of an audit
        some = metric.isin(names)
        known.loc[some, "mean"] = [float(rounded(number, 6)) for number in known.loc[some, "mean"]]
    return known


def overview(summary: pd.DataFrame) -> pd.DataFrame:
    """A block's summary as a table: a line for every combination of its varying settings, a column per metric."""
    keys = [key for key in ("algo", *settings(summary)) if key in summary]
    keys = [key for key in keys if summary[key].nunique(dropna=False) > 1] or ["algo"]
    lines: dict[Any, dict[str, Any]] = {}
    for row in shortened(summary).to_dict("records"):
        place = {key: row[key] for key in keys}
        lines.setdefault(tuple(map(str, place.values())), place)[row["metric"]] = row["mean"]
    return pd.DataFrame(list(lines.values()))
