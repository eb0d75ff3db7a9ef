"""How a run would read a file, what its owner should know of it, and which values lie outside stated ranges."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpml.data.csv.column_bounds import FROM_ROWS, ColumnBounds
from dpml.data.csv.columns import ColumnProfile, Kind, as_text, feature, profile_of
from dpml.data.csv.csv_rows import CsvOptions, roles
from dpml.data.csv.dates import iso
from dpml.data.csv.labels import Labels, find_labels, to_labels
from dpml.data.csv.noticing import as_meant, hint
from dpml.data.csv.reading import Columns, CsvFile, open_file, read
from dpml.data.info import Column, Range
from dpml.errors import UserError


@dataclass(frozen=True)
class Description:
    """The content of a file.

    Attributes:
        file: The file.
        columns: All columns that are not dropped: the features first.
        rows: The number of its rows.
        features: The properties of each feature.
        labels: The properties of the labels; None if no label column is named.
        classes: Rows of each class, in the order of ``labels.classes``; for a regression the smallest and largest
            target.
        parties: The number of parties; None if no column names the party.
        complete: Rows without a missing value.
        options: What the file was read with: what was said, and what `as_meant` noticed.
        noticed: A sentence for everything that was noticed.
    """

    file: CsvFile
    columns: Columns
    rows: int
    features: tuple[ColumnProfile, ...]
    labels: Labels | None
    classes: tuple[float, ...]
    parties: int | None
    complete: int
    options: CsvOptions
    noticed: tuple[str, ...] = ()

    @property
    def problems(self) -> list[ColumnProfile]:
        """The columns that cannot be features."""
        return [profile for profile in self.features if profile.problem]

    @property
    def width(self) -> int:
        """Features after one-hot coding, without the columns that cannot be features."""
        return sum(profile.levels or 1 for profile in self.features if not profile.problem)


def describe(options: CsvOptions, stated: ColumnBounds | None = None) -> Description:
    """Return the content of a file; naming a label is optional."""
    noticed = as_meant(options)
    options = noticed.options
    path, label, party = options.paths["rows"], options.label, options.party
    file = open_file(path, options.written)
    features = roles(file, options)
    if stated is not None:
        stated.of(features, path)
    columns = read(file, [*features, *(name for name in (label, party) if name is not None)])
    rows = len(columns[features[0]].codes)
    if not rows:
        raise UserError(f"{path} has no rows below the names.")
    labels = None if label is None else find_labels(columns[label], "auto", None, stated)
    classes: tuple[float, ...] = ()
    y = None
    if label is not None and labels is not None:
        y = to_labels(columns[label], labels)
        if labels.task == "regression":
            classes = float(np.nanmin(y)), float(np.nanmax(y))
        else:
            classes = tuple(int(np.sum(y == number)) for number in labels.numbers)
    profiles = tuple(profile_of(columns[name]) for name in features)
    profiles = tuple(replace(each, hint=hint(columns[each.name], each, y, labels)) for each in profiles)
    parties = None if party is None else len(columns[party].texts)
    complete = int(np.sum(~np.any([column.missing for column in columns.values()], axis=0)))
    return Description(file, columns, rows, profiles, labels, classes, parties, complete, options, noticed.sentences)


@dataclass(frozen=True)
class OutOfBounds:
    """Values of a column outside the stated range or values: their number, the first of them, and its location."""

    name: str
    count: int
    value: str
    where: str
    stated: str


def outside(description: Description, stated: ColumnBounds, label: str | None) -> list[OutOfBounds]:
    """Return the features, and the target of a regression, with values outside their stated range or values."""
    known: dict[str, Column] = {profile.name: stated.columns[profile.name] for profile in description.features}
    if label is not None and stated.target is not None:
        known[label] = stated.target
    result = []
    for name, column in known.items():
        kind, values = ("number", ()) if name == label else (stated.kind(name), stated.values(name))
        found = description.columns[name]
        cells = feature(found, kind, values)
        wrong = (cells < column.low) | (cells > column.high) if isinstance(column, Range) else cells < 0
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            said = _said(column, kind)
            result.append(OutOfBounds(name, int(wrong.sum()), found.shown(row), found.file.where(row), said))
    return result


def _said(column: Column, kind: Kind) -> str:
    if not isinstance(column, Range):
        return f"the {len(column)} values"
    return f"{iso(column.low)} to {iso(column.high)}" if kind == "date" else str(column)


def bounds_text(description: Description, label: str) -> str:
    """Return a file for `dataset.bounds` with what the rows have; it is refused until the user has edited it."""
    import yaml  # slow to load

    for profile in description.problems:
        raise UserError(
            f"the column {profile.name!r} {profile.problem}, so that nothing can be stated of it: "
            f"--drop {profile.name}."
        )
    content: dict[str, Any] = {"columns": {profile.name: _stated(profile) for profile in description.features}}
    labels = description.labels
    if labels is not None and labels.task == "regression":
        content["target"] = _range(*description.classes)
    elif labels is not None:
        content["classes"] = list(labels.classes)
    body = yaml.safe_dump(content, default_flow_style=None, sort_keys=False, allow_unicode=True, width=110)
    return (
        f"# What is known of the columns of {description.file.path.name} without its rows, "
        f"for dataset.label={label} dataset.bounds=THIS FILE.\n"
        "# The ranges and values below were taken from the rows: they are as private as the rows. Put in their place\n"
        "# what the documentation or the meaning of a column says, then delete the next line.\n"
        "# {low: 0, high: 99, log: true} is for amounts of money and the like; classes are -1 and +1, or 0, 1, ...\n"
        f"{FROM_ROWS}: true\n{body}"
    )


def _stated(profile: ColumnProfile) -> Mapping[str, float | str] | list[str] | str:
    if profile.kind == "boolean":
        return "boolean"
    if profile.kind == "date":
        ends = {"low": iso(profile.low), "high": iso(np.ceil(profile.high - 1e-9))}
        return {"unit": "days", **ends, "format": profile.values[0]}
    return list(profile.values) if profile.kind == "category" else _range(profile.low, profile.high)


def _range(low: float, high: float) -> dict[str, float]:
    return {"low": _plain(low), "high": _plain(high)}


def _plain(value: float) -> float:
    return int(as_text(value)) if value.is_integer() else value
