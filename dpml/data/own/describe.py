"""How a run would read a file, and which of its values lie outside the ranges and values that another file states."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpml.data.info import Column, Range
from dpml.data.own.bounds_file import FROM_ROWS, Stated
from dpml.data.own.columns import Found, as_text, feature, find
from dpml.data.own.labels import Labels, find_labels, to_labels
from dpml.data.own.reading import Columns, open_file, read
from dpml.data.own.table import Wanted, roles
from dpml.errors import UserError


@dataclass(frozen=True)
class Description:
    """The content found in a file.

    Attributes:
        columns: All columns that are not dropped: the features first.
        features: The properties of each feature.
        labels: The properties of the labels; None if no label column is named.
        classes: Rows of each class, in the order of ``labels.classes``; for a regression the smallest and largest
            target.
        parties: The number of parties; None if no column names the party.
        complete: Rows without a missing value.
    """

    columns: Columns
    features: tuple[Found, ...]
    labels: Labels | None
    classes: tuple[float, ...]
    parties: int | None
    complete: int

    @property
    def problems(self) -> list[Found]:
        """The columns that cannot be features."""
        return [found for found in self.features if found.problem]

    @property
    def width(self) -> int:
        """Features after one-hot coding, without the columns that cannot be features."""
        return sum(found.levels or 1 for found in self.features if not found.problem)


def describe(wanted: Wanted, stated: Stated | None = None) -> Description:
    """The content of a file, read in one pass; naming a label is optional.

    Raises:
        UserError: the file cannot be read, has no such column, its labels do not allow learning, or they are not those
            that are stated.
    """
    path, label, party = wanted.paths["rows"], wanted.label, wanted.party
    file = open_file(path)
    features = roles(file, wanted)
    if stated is not None:
        stated.of(features, path)
    texts = [name for name in features if stated is not None and stated.kind(name) == "category"]
    more = [name for name in (label, party) if name is not None]
    columns = read(file, [*features, *more], [*texts, *([party] if party is not None else [])])
    if not len(columns.X):
        raise UserError(f"{path} has no rows below the names.")
    found = tuple(_with_hint(columns, find(columns, name)) for name in features)
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
    return Description(columns, found, labels, classes, parties, complete)


def _with_hint(columns: Columns, found: Found) -> Found:
    """Add a hint to a column that looks like row numbers, which a run would use as a feature."""
    cells = columns[found.name]
    whole = found.kind == "number" and not found.problem and not found.missing
    if whole and len(cells) > 2 and found.high - found.low == len(cells) - 1 and len(np.unique(cells)) == len(cells):
        return replace(found, hint="numbers of rows?")
    return found


@dataclass(frozen=True)
class Outside:
    """Values of a column outside the stated range or values: their number, the first of them, and its location."""

    name: str
    count: int
    value: str
    where: str
    stated: str


def outside(description: Description, stated: Stated, label: str | None) -> list[Outside]:
    """The features, and the target of a regression, with values outside their stated range or values.

    Raises:
        UserError: a value is of another kind.
    """
    columns = description.columns
    known: dict[str, Column] = {found.name: stated.columns[found.name] for found in description.features}
    if label is not None and stated.target is not None:
        known[label] = stated.target
    result = []
    for name, column in known.items():
        values = () if isinstance(column, Range) else column
        cells = feature(columns, name, "number" if name == label else stated.kind(name), values)
        wrong = (cells < column.low) | (cells > column.high) if isinstance(column, Range) else cells < 0
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raw = columns[name][row]
            value = repr(columns.texts[name][int(raw)]) if name in columns.texts else f"{raw:g}"
            said = str(column) if isinstance(column, Range) else f"the {len(column)} values"
            result.append(Outside(name, int(wrong.sum()), value, columns.file.where(row), said))
    return result


def bounds_text(description: Description, label: str) -> str:
    """A file for `dataset.bounds` with the ranges and values of the rows; it is refused until the user has edited it.

    Raises:
        UserError: a column cannot be a feature.
    """
    import yaml  # slow to load

    for found in description.problems:
        raise UserError(
            f"the column {found.name!r} {found.problem}, so that nothing can be stated of it: --drop {found.name}."
        )
    content: dict[str, Any] = {"columns": {found.name: _stated(found) for found in description.features}}
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


def _stated(found: Found) -> Mapping[str, float] | list[str] | str:
    if found.kind == "boolean":
        return "boolean"
    return list(found.values) if found.kind == "category" else _range(found.low, found.high)


def _range(low: float, high: float) -> dict[str, float]:
    return {"low": _plain(low), "high": _plain(high)}


def _plain(value: float) -> float:
    return int(as_text(value)) if value.is_integer() else value
