"""Store the rows of an experiment, and recompute verdicts and tables from the rows, without the data set.

The rows are in ``FIGURE_rows.csv.xz``, next to the figure. The manifest has the verdicts and that file's checksum.
"""

import io
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from dpml import packs
from dpml.errors import UserError
from dpml.reporting.cards import claims_about
from dpml.reporting.charts import read_published
from dpml.reporting.claims import Claim, Evidence, Verdict
from dpml.reporting.manifest import Manifest, refuse_changed
from dpml.reporting.statistics import rows_of, summarise
from dpml.reporting.tables import shortened


@dataclass(frozen=True)
class Verified:
    """The result of verifying an experiment: the counts of recomputed verdicts and table values, and the errors."""

    experiment: str
    verdicts: int
    values: int
    wrong: tuple[str, ...]


def rows_file(base: Path) -> Path:
    """Return the path of the compressed file of a figure's result rows."""
    return base.with_name(f"{base.name}_rows.csv.xz")


def packed(rows: pd.DataFrame) -> bytes:
    """Compress rows as CSV, one column after the other, because a sequence of equal values compresses well."""
    return lzma.compress("\n".join(rows[[name]].to_csv(index=False) for name in rows).encode(), preset=6)


def unpacked(content: bytes) -> pd.DataFrame:
    """Return the rows that the function `packed` has compressed."""
    columns = lzma.decompress(content).decode().split("\n\n")
    return pd.concat([pd.read_csv(io.StringIO(column), low_memory=False) for column in columns], axis=1)


def read_rows(base: Path, files: Mapping[str, Any]) -> pd.DataFrame:
    """Return the stored rows of the figure whose path without suffix is `base`. Their checksum is in `files`."""
    path = rows_file(base)
    if not path.is_file():
        raise UserError(f"{path} is missing, so {base} cannot be recomputed: run the experiment again with dpml-run.")
    refuse_changed(path, {path.name: "", **files})  # rows without a checksum count as changed
    try:
        return unpacked(path.read_bytes())
    except (lzma.LZMAError, EOFError, ValueError):
        raise UserError(f"{path} does not contain rows: run the experiment again with dpml-run.") from None


def verify(path: Path) -> Iterator[Verified]:
    """Recompute the verdicts and tables of all experiments in a folder, or of a figure, from the stored rows."""
    found = [*path.glob("*/*.json"), *path.glob("*.json")] if path.is_dir() else [path.with_suffix(".json")]
    known = [one for one in sorted(found) if rows_file(one.with_suffix("")).is_file()]
    if not known:
        raise UserError(f"{path} has no stored rows: give a results folder, or one figure as results/PAPER/FIGURE.")
    yield from map(_verified, known)


def _verified(path: Path) -> Verified:
    base, about = path.with_suffix(""), Manifest(path).read()
    if about.get("experiment") != f"{path.parent.name}/{path.stem}":
        raise UserError(f"{path} was changed or moved after it was written: run the experiment again with dpml-run.")
    rows = read_rows(base, about["files"])
    points = read_published([packs.home(base.parent.name).parent], base.parent.name)
    old = {claim["id"]: Verdict(**claim) for claim in about["claims"]}
    claims = claims_about(about["experiment"])
    wrong = [f"{name}: the card has this claim, but no verdict is stored" for name in claims if name not in old]
    wrong += [f"{name}: no known pack has this claim: add --pack DIR" for name in old if name not in claims]
    for new in judge(rows, [claims[name] for name in old if name in claims], about["panels"], points):
        if new != old[new.id]:
            stored = old[new.id].decision
            numbers = ", with other numbers" if new.decision == stored else ""
            wrong.append(f"{new.id}: the stored verdict is {stored!r}, the recomputed {new.decision!r}{numbers}")
    values = 0
    twins = any(one["twin"] for one in about["figures"])
    for figure in about["figures"]:
        path = base.with_name(f"{figure['name']}.csv")
        refuse_changed(path, about["files"])
        part = rows_of(rows, figure["twin"] or "published") if twins else rows
        table = summarise(part, about["reference"], about["computed"])
        values += table.size
        if not _follows(path.read_text("utf-8"), table):
            wrong.append(f"{path.name}: some values do not follow from the rows")
    return Verified(about["experiment"], len(old), values, tuple(wrong))


def judge(
    rows: pd.DataFrame,
    claims: Iterable[Claim],
    panels: Sequence[Mapping[str, Any]],
    points: pd.DataFrame,
) -> list[Verdict]:
    """Judge claims by our result rows and by the paper's published points; `panels` name the columns on the x axes."""
    axes = {panel["block"]: panel["x"] for panel in reversed(panels)}  # the first panel of a block decides
    rows = rows[rows["calibration"] == "published"]
    evidence, theirs = Evidence(rows, points, axes), _of_points(points, panels, rows)
    return [replace(claim.judge(evidence), published=claim.by_points(theirs) if theirs else "") for claim in claims]


def _of_points(points: pd.DataFrame, panels: Sequence[Mapping[str, Any]], rows: pd.DataFrame) -> Evidence | None:
    """Turn a paper's published points, and our baselines' `rows`, into evidence on its claims; None without points.

    Every point becomes two equal runs, so that tests treat it as a mean without error.
    """
    shown = [
        (panel["published"], panel["y"], panel["block"], panel["x"], panel["where"].get("algo.variant", "paper"))
        for panel in panels
    ]
    table = pd.DataFrame(shown, columns=["series", "metric", "block", "axis", "variant"])
    own = points[~points["peer"].astype(bool)].merge(table, on=["series", "metric"])
    own["x"] = own["x"].where(own["axis"] != "inverse_eps", 1 / own["x"])
    own = own[["block", "variant", "algo", "metric", "x"]].assign(value=own["mean"], seed=0)
    runs = pd.concat([own.assign(draw=draw) for draw in (0, 1)], ignore_index=True)
    return Evidence(runs, points.iloc[:0], dict.fromkeys(table["block"], "x"), baselines=rows) if len(own) else None


def _follows(written: str, table: pd.DataFrame) -> bool:
    text = shortened(table).to_csv(index=False, float_format="%.6g")
    if text == written:
        return True
    old, new = (pd.read_csv(io.StringIO(content), low_memory=False) for content in (written, text))
    try:  # another processor may round the last of six digits differently
        pd.testing.assert_frame_equal(old, new, check_dtype=False, rtol=2e-5, atol=1e-12)
    except AssertionError:
        return False
    return True
