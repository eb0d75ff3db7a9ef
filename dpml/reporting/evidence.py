"""The evidence of verdicts and tables: an experiment's rows, compressed, from which both are recomputed without data.

``FIGURE_rows.csv.xz`` lies beside the figure. The manifest has its checksum, and the verdicts; ``FIGURE.csv`` has the
values of the tables. The file holds a table of one column after the other, an empty line between them: equal settings
stand together, and take no place.
"""

import io
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpml import packs
from dpml.errors import UserError
from dpml.files import write_atomically
from dpml.reporting.cards import claims_about
from dpml.reporting.charts import read_published
from dpml.reporting.claims import Claim, Evidence, Verdict
from dpml.reporting.manifest import Manifest, changed
from dpml.reporting.results import rows_of
from dpml.reporting.statistics import with_differences
from dpml.reporting.tables import shortened
from dpml.running.executors import WORTH, in_processes


@dataclass(frozen=True)
class Verified:
    """How many verdicts, and values of tables, of an experiment follow from its rows, and those that do not."""

    experiment: str
    verdicts: int
    values: int
    wrong: tuple[str, ...]


def packed(rows: pd.DataFrame) -> bytes:
    """Rows as compressed CSV, column by column; the same rows give the same bytes."""
    return lzma.compress("\n".join(rows[[name]].to_csv(index=False) for name in rows).encode(), preset=6)


def unpacked(content: bytes) -> pd.DataFrame:
    """The rows of `packed`."""
    columns = lzma.decompress(content).decode().split("\n\n")
    return pd.concat([pd.read_csv(io.StringIO(column), low_memory=False) for column in columns], axis=1)


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
    """
    path = _place(base)
    if not path.is_file():
        raise UserError(f"{path} is missing: without it nothing of {base} can be recomputed.")
    if path.name not in files or changed(path, files):
        raise UserError(f"{path} is not as it was written: no verdict follows from it; make it again.")
    try:
        return unpacked(path.read_bytes())
    except (lzma.LZMAError, EOFError, ValueError):
        raise UserError(f"{path} holds no rows: no verdict follows from it; make it again.") from None


def verify(path: Path) -> Iterator[Verified]:
    """Recompute the verdicts and the values of all tables from their rows.

    Args:
        path: a results folder, the folder of a paper in it, or a figure: PAPER/FIGURE, with or without a suffix.
    """
    found = [*path.glob("*/*.json"), *path.glob("*.json")] if path.is_dir() else [path.with_suffix(".json")]
    known = [one for one in sorted(found) if _place(one.with_suffix("")).is_file()]
    if not known:
        raise UserError(f"there are no rows of experiments in {path}: it has no FIGURE_rows.csv.xz.")
    size = sum(_place(path.with_suffix("")).stat().st_size for path in known)
    yield from in_processes(_verified, known, -1 if size > WORTH else 1)


def _verified(path: Path) -> Verified:
    """Recompute what one experiment's manifest, and the tables that it names, say."""
    base, about = path.with_suffix(""), Manifest(path).read()
    if about.get("experiment") != f"{path.parent.name}/{path.stem}":
        raise UserError(f"{path} is not as it was written: no verdict follows from it; make it again.")
    rows = read_rows(base, about["files"])
    points = read_published([packs.home(base.parent.name).parent], base.parent.name)
    old = [Verdict.stored(claim) for claim in about["claims"]]
    names = [one.id for one in old]
    claims = claims_about(about["experiment"])
    if unknown := [name for name in names if name not in claims]:
        raise UserError(
            f"{about['experiment']} has a verdict on {unknown[0]}, a claim that no pack here has: name it, --pack DIR."
        )
    new = judge(rows, [claims[name] for name in names], about["panels"], points)
    wrong = [
        f"{b.id}: written is {a.outcome!r}, from the rows follows {b.outcome!r}"
        + ("" if a.outcome != b.outcome else ", with other numbers")
        for a, b in zip(old, new, strict=True)
        if a != b
    ]
    wrong += [f"{name}: no verdict is written on this claim of the card" for name in claims if name not in names]
    values = 0
    for figure in about["figures"]:
        path = base.with_name(f"{figure['name']}.csv")
        if changed(path, about["files"]):
            raise UserError(f"{path} is not as it was written: make it again.")
        twins = any(one["twin"] for one in about["figures"])
        part = rows_of(rows, figure["twin"] or "published") if twins else rows
        table = with_differences(part, about["reference"], about["computed"])
        number, differ = _compared(path.read_text("utf-8"), table)
        values += number
        wrong += [f"{path.name}: {differ} of {number} values do not follow from the rows"] if differ else []
    return Verified(about["experiment"], len(old), values, tuple(wrong))


def judge(
    rows: pd.DataFrame,
    claims: Iterable[Claim],
    panels: Sequence[Mapping[str, Any]],
    points: pd.DataFrame,
) -> list[Verdict]:
    """The verdicts on the claims of an experiment, from its rows of the published calibration.

    Args:
        rows: of all calibrations.
        claims: of the experiment.
        panels: of the experiment, as plain values.
        points: the published ones.
    """
    axes = {panel["block"]: panel["x"] for panel in reversed(panels)}  # the first panel of a block decides
    rows = rows[rows["calibration"] == "published"]
    evidence, theirs = Evidence(rows, points, axes), _of_points(points, panels, rows)
    return [replace(claim.judge(evidence), published=claim.by_points(theirs) if theirs else "") for claim in claims]


def _of_points(points: pd.DataFrame, panels: Sequence[Mapping[str, Any]], rows: pd.DataFrame) -> Evidence | None:
    """Return the paper's own published points as evidence, with the constant model of our rows; None without any.

    Every point is two equal runs, so that a test asks of the points what it asks of means.
    """
    found: list[pd.DataFrame] = []
    for panel in panels:
        own = points[(points["series"] == panel["published"]) & (points["metric"] == panel["y"]) & ~points["peer"]]
        x, own = panel["x"], own[["x", "algo", "metric", "mean"]].rename(columns={"mean": "value"})
        own = own.assign(x=1 / own["x"]) if x == "inverse_eps" else own
        about = {"block": panel["block"], "variant": panel["where"].get("algo.variant", "paper"), "seed": 0}
        own = own.rename(columns={"x": "eps" if x == "inverse_eps" else x}).assign(**about)
        found += [own.assign(draw=draw) for draw in (0, 1)] if len(own) else []
    axes = {panel["block"]: panel["x"] for panel in reversed(panels)}
    return Evidence(pd.concat(found, ignore_index=True), points.iloc[:0], axes, baselines=rows) if found else None


def _compared(written: str, table: pd.DataFrame) -> tuple[int, int]:
    """How many values a table has, and how many of them differ from those that were written."""
    text = shortened(table).to_csv(index=False, float_format="%.6g")
    if text == written:
        return table.size, 0
    old, new = (pd.read_csv(io.StringIO(content), low_memory=False) for content in (written, text))
    if list(new) != list(old) or len(new) != len(old):
        return old.size, old.size
    return old.size, sum(_differ(old[column], new[column]) for column in old)


def _differ(old: pd.Series, new: pd.Series) -> int:
    if all(pd.api.types.is_numeric_dtype(column) for column in (old, new)):
        # another processor may round the last of six digits differently
        return int((~np.isclose(old, new, rtol=2e-5, atol=1e-12, equal_nan=True)).sum())
    return int((old.astype(object).fillna("").map(str) != new.astype(object).fillna("").map(str)).sum())


def _place(base: Path) -> Path:
    return base.with_name(f"{base.name}_rows.csv.xz")
