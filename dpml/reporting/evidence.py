"""The evidence of verdicts and tables: an experiment's rows, compressed, from which both are recomputed without data.

``FIGURE_rows.csv.xz`` lies beside the figure. The manifest has its checksum, and the verdicts; ``FIGURE.csv`` has the
values of the tables.
"""

import io
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpml import paths
from dpml.atomic import write_atomically
from dpml.errors import UserError
from dpml.reporting.charts import read_published
from dpml.reporting.claims import Evidence, Verdict, claims_of
from dpml.reporting.manifest import Manifest, changed
from dpml.reporting.statistics import summarise

_VALUES = ("mean", "std", "count", "missing", "seeds", "interval")
_CLOSE = 1e-5  # relative: tables have six digits


@dataclass(frozen=True)
class Verified:
    """How many verdicts, and values of tables, of an experiment follow from its rows, and those that do not."""

    experiment: str
    verdicts: int
    values: int
    wrong: tuple[str, ...]


def packed(rows: pd.DataFrame) -> bytes:
    """Rows as compressed CSV; the same rows give the same bytes."""
    return lzma.compress(rows.to_csv(index=False).encode(), preset=6)


def write_rows(rows: pd.DataFrame, base: Path) -> Path:
    """Write ``base_rows.csv.xz``."""
    path = _place(base)
    write_atomically(path, packed(rows))
    return path


def read_rows(base: Path, files: Mapping[str, Any]) -> pd.DataFrame:
    """The rows that were written for a figure.

    Args:
        base: the figure's path, without a suffix.
        files: the checksums of its manifest.

    Raises:
        UserError: there is no such file, or it was cut or edited.
    """
    path = _place(base)
    if not path.is_file():
        raise UserError(f"{path} is missing: without it nothing of {base} can be recomputed.")
    if path.name not in files or changed(path, files):
        raise UserError(f"{path} is not as it was written: no verdict follows from it; make it again.")
    try:
        return pd.read_csv(io.BytesIO(lzma.decompress(path.read_bytes())), float_precision="round_trip", low_memory=False)
    except (lzma.LZMAError, EOFError, ValueError):
        raise UserError(f"{path} holds no rows: no verdict follows from it; make it again.") from None


def verify(folder: Path) -> Iterator[Verified]:
    """Recompute the verdicts and the values of all tables under a results folder from their rows.

    Raises:
        UserError: there is no experiment with rows, or a file was cut or edited.
    """
    found = [path for path in sorted(folder.glob("*/*.json")) if _place(path.with_suffix("")).is_file()]
    if not found:
        raise UserError(f"there are no rows of experiments in {folder}: it has no PAPER/FIGURE_rows.csv.xz.")
    for path in found:
        about = Manifest(path).read()
        if about.get("experiment") != f"{path.parent.name}/{path.stem}":
            raise UserError(f"{path} is not as it was written: no verdict follows from it; make it again.")
        yield _verified(path.with_suffix(""), about)


def _verified(base: Path, about: Mapping[str, Any]) -> Verified:
    rows = read_rows(base, about["files"])
    wrong = [
        f"{new.id}: {old.outcome} is written, {new.outcome} follows from the rows"
        if new.outcome != old.outcome
        else f"{new.id}: other numbers follow from the rows than are written"
        for old, new in zip(map(Verdict.stored, about["claims"]), verdicts_from(rows, about), strict=True)
        if asdict(new) != asdict(old)
    ]
    values = 0
    for figure in about["figures"]:
        table = base.with_name(f"{figure['name']}.csv")
        if not table.is_file() or changed(table, about["files"]):
            raise UserError(f"{table} is not as it was written: make it again.")
        number, differ = _compared(pd.read_csv(table, low_memory=False), rows)
        values += number
        wrong += [f"{table.name}: {differ} of {number} values do not follow from the rows"] if differ else []
    return Verified(about["experiment"], len(about["claims"]), values, tuple(wrong))


def verdicts_from(rows: pd.DataFrame, about: Mapping[str, Any]) -> list[Verdict]:
    """The verdicts on the claims of an experiment, from its rows and what its manifest says of it."""
    if not about["claims"]:
        return []
    claims = claims_of(about["claims_from"])
    paper = about["experiment"].rpartition("/")[0]
    axes = {panel["block"]: panel["x"] for panel in reversed(about["panels"])}  # the first panel of a block decides
    published = read_published([paths.folder("experiments")], paper)
    evidence = Evidence(rows[rows["calibration"] == "published"], published, axes)
    return [claims[claim["id"]].judge(evidence) for claim in about["claims"]]


def _compared(table: pd.DataFrame, rows: pd.DataFrame) -> tuple[int, int]:
    """How many values a table has, and how many of them differ from those of the rows, whatever their order."""
    ours = summarise(rows)
    keys = [key for key in ours if key in table and key not in _VALUES and _is_label(ours[key]) and _is_label(table[key])]
    columns = [column for column in _VALUES if column in table]
    old, new = (part.assign(**{key: part[key].map(_text) for key in keys}) for part in (table, ours))
    both = old[[*keys, *columns]].merge(new[[*keys, *columns]], on=keys, how="left", suffixes=("", "_new"))
    a, b = both[columns].astype(float), both[[f"{column}_new" for column in columns]].astype(float)
    same = (a.to_numpy() - b.to_numpy()) / a.abs().clip(lower=1e-300).to_numpy()
    equal = (abs(same) <= _CLOSE) | (a.isna().to_numpy() & b.isna().to_numpy()) | (a.to_numpy() == b.to_numpy())
    lines = pd.Series(equal.all(axis=1)).groupby(both.groupby(keys, dropna=False).ngroup()).any()
    return len(lines) * len(columns), int((~lines).sum()) * len(columns)


def _is_label(column: pd.Series) -> bool:
    return not pd.api.types.is_float_dtype(column) or column.nunique() < len(column)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)


def _place(base: Path) -> Path:
    return base.with_name(f"{base.name}_rows.csv.xz")
