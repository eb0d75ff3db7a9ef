"""How a run would read a file, and which of its values lie outside the ranges and values that another file states."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpml.data.csv.column_bounds import FROM_ROWS, ColumnBounds
from dpml.data.csv.columns import ColumnProfile, as_text, feature, profile_of
from dpml.data.csv.csv_rows import CsvOptions, roles
from dpml.data.csv.labels import Labels, find_labels, to_labels
from dpml.data.csv.reading import CsvColumns, open_file, read
from dpml.data.info import Column, Range
from dpml.errors import UserError


@dataclass(frozen=True)
class Description:
    """The content of a file.

    Attributes:
        columns: All columns that are not dropped: the features first.
        features: The properties of each feature.
        labels: The properties of the labels; None if no label column is named.
        classes: Rows of each class, in the order of ``labels.classes``; for a regression the smallest and largest
            target.
        parties: The number of parties; None if no column names the party.
        complete: Rows without a missing value.
    """

    columns: CsvColumns
    features: tuple[ColumnProfile, ...]
    labels: Labels | None
    classes: tuple[float, ...]
    parties: int | None
    complete: int

    @property
    def problems(self) -> list[ColumnProfile]:
        """The columns that cannot be features."""
        return [profile for profile in self.features if profile.problem]

    @property
    def width(self) -> int:
        """Features after one-hot coding, without the columns that cannot be features."""
        return sum(profile.levels or 1 for profile in self.features if not profile.problem)


def describe(options: CsvOptions, stated: ColumnBounds | None = None) -> Description:
    """The content of a file, read in one pass; naming a label is optional.

    Raises:
        UserError: the file cannot be read, has no such column, its labels do not allow learning, or they are not those
            that are stated.
    """
    path, label, party = options.paths["rows"], options.label, options.party
    file = open_file(path)
    features = roles(file, options)
    if stated is not None:
        stated.of(features, path)
    texts = [name for name in features if stated is not None and stated.kind(name) == "category"]
    more = [name for name in (label, party) if name is not None]
    columns = read(file, [*features, *more], [*texts, *([party] if party is not None else [])])
    if not len(columns.X):
        raise UserError(f"{path} has no rows below the names.")
    profiles = tuple(_with_hint(columns, profile_of(columns, name)) for name in features)
    labels = None if label is None else find_labels(columns, label, "auto", None, stated)
    classes: tuple[float, ...] = ()
    if label is not None and labels is not None:
        y = to_labels(columns, label, labels)
        if labels.task == "regression":
            classes = float(np.nanmin(y)), float(np.nanmax(y))
        else:
            classes = tuple(int(np.sum(y == number)) for number in labels.numbers)
    parties = None if party is None else len(columns.texts[party])
    complete = int(np.sum(~np.isnan(columns.X).any(axis=1)))
    return Description(columns, profiles, labels, classes, parties, complete)


def _with_hint(columns: CsvColumns, profile: ColumnProfile) -> ColumnProfile:
    """Add a hint to a column that looks like row numbers, which a run would use as a feature."""
    cells = columns[profile.name]
    n = len(cells)
    whole = profile.kind == "number" and not profile.problem and not profile.missing
    if whole and n > 2 and profile.high - profile.low == n - 1 and len(np.unique(cells)) == n:
        return replace(profile, hint="numbers of rows?")
    return profile


@dataclass(frozen=True)
class OutOfBounds:
    """Values of a column outside the stated range or values: their number, the first of them, and its location."""

    name: str
    count: int
    value: str
    where: str
    stated: str


def outside(description: Description, stated: ColumnBounds, label: str | None) -> list[OutOfBounds]:
    """The features, and the target of a regression, with values outside their stated range or values.

    Raises:
        UserError: a value is of another kind.
    """
    columns = description.columns
    known: dict[str, Column] = {profile.name: stated.columns[profile.name] for profile in description.features}
    if label is not None and stated.target is not None:
        known[label] = stated.target
    result = []
    for name, column in known.items():
        values = () if isinstance(column, Range) else column
        cells = feature(columns, name, "number" if name == label else stated.kind(name), values)
        wrong = (cells < column.low) | (cells > column.high) if isinstance(column, Range) else cells < 0
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            said = str(column) if isinstance(column, Range) else f"the {len(column)} values"
            result.append(OutOfBounds(name, int(wrong.sum()), columns.text(name, row), columns.file.where(row), said))
    return result


def bounds_text(description: Description, label: str) -> str:
    """A file for `dataset.bounds` with the ranges and values of the rows; it is refused until the user has edited it.

    Raises:
        UserError: a column cannot be a feature.
    """
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
        f"# What is known of the columns of {description.columns.file.path.name} without its rows, "
        f"for dataset.label={label} dataset.bounds=THIS FILE.\n"
        "# The ranges and values below were taken from the rows: they are as private as the rows. Put in their place\n"
        "# what the documentation or the meaning of a column says, then delete the next line.\n"
        "# {low: 0, high: 99, log: true} is for amounts of money and the like; classes are -1 and +1, or 0, 1, ...\n"
        f"{FROM_ROWS}: true\n{body}"
    )


def _stated(profile: ColumnProfile) -> Mapping[str, float] | list[str] | str:
    if profile.kind == "boolean":
        return "boolean"
    return list(profile.values) if profile.kind == "category" else _range(profile.low, profile.high)


def _range(low: float, high: float) -> dict[str, float]:
    return {"low": _plain(low), "high": _plain(high)}


def _plain(value: float) -> float:
    return int(as_text(value)) if value.is_integer() else value
