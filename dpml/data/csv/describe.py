"""Describe a file: how a run reads it, what may be wrong, and which values lie outside public ranges."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dpml.arrays import Array
from dpml.data.csv.column_bounds import FROM_ROWS, WRITTEN
from dpml.data.csv.columns import (
    COMMA,
    GROUPED,
    WORDS_FOR_MISSING,
    ColumnKind,
    ColumnProfile,
    Date,
    Kinds,
    Number,
    profile_of,
    with_commas,
    with_unit,
)
from dpml.data.csv.labels import Labels, find_labels, to_labels
from dpml.data.csv.reading import Columns, CsvFile, FileColumn, open_file, read
from dpml.data.info import Range
from dpml.data.sets.csv import CSV, read_columns, roles
from dpml.errors import UserError


@dataclass(frozen=True)
class Description:
    """The content of a file.

    Attributes:
        columns: All columns that are not dropped, the features first.
        rows, complete: The number of rows, and of rows without a missing value.
        classes: Rows of each class, in the order of ``labels.classes``, or the smallest and the largest target.
        parties: The number of parties, if a column names them.
        options: The typed options, and those that `as_meant` adds; `noticed` explains the latter.
    """

    file: CsvFile
    columns: Columns
    rows: int
    features: tuple[ColumnProfile, ...]
    labels: Labels | None
    classes: tuple[float, ...]
    parties: int | None
    complete: int
    options: CSV
    noticed: tuple[str, ...] = ()

    @property
    def problems(self) -> list[ColumnProfile]:
        """The columns that cannot be features."""
        return [profile for profile in self.features if profile.problem]

    @property
    def width(self) -> int:
        """The number of features after one-hot coding, without the columns that cannot be features."""
        return sum(profile.levels or 1 for profile in self.features if not profile.problem)


def describe(options: CSV) -> Description:
    """Return the content of a file; a label is optional."""
    options, noticed = as_meant(options)
    label, party, stated = options.label, options.party, options.statements
    file = open_file(options.paths["rows"], options.written)
    features = roles(file, options)
    kinds = stated.of(features, file.path).kinds if stated else {}
    columns = read_columns(file, features, options, stated)
    rows = len(columns[features[0]])
    if not rows:
        raise UserError(f"{file.path} has no rows below the names.")
    labels, y = None, None
    classes: tuple[float, ...] = ()
    if label is not None:
        labels = find_labels(columns[label], "auto", None, stated)
        y = to_labels(columns[label], labels)
        classes = tuple(int(np.sum(y == number)) for number in labels.numbers)
        if labels.task == "regression":
            classes = float(np.nanmin(y)), float(np.nanmax(y))
    profiles = tuple(profile_of(columns[name]) for name in features)
    profiles = tuple(replace(each, hint=hint(columns[each.name], each, y, labels)) for each in profiles)
    parties = None if party is None else len(columns[party].texts)
    gaps = [column.missing for name, column in columns.items() if name not in kinds or kinds[name].fill is None]
    complete = int(np.sum(~np.any(gaps, axis=0))) if gaps else rows
    return Description(file, columns, rows, profiles, labels, classes, parties, complete, options, noticed)


def outside(description: Description) -> list[str]:
    """Return a sentence for each feature, and for the target, that has values outside its public range."""
    stated, label = description.options.statements, description.options.label
    if stated is None:
        return []
    kinds: Kinds = stated.kinds
    if label is not None and stated.target is not None:
        kinds = {**kinds, label: Number(stated.target)}
    sentences = []
    for name, kind in kinds.items():
        found, column = description.columns[name], kind.column
        cells = kind.cells(found)
        wrong = (cells < column.low) | (cells > column.high) if isinstance(column, Range) else cells < 0
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            limits = f"the {len(kind.statement())} values"
            if isinstance(column, Range):
                limits = f"{kind.shown(column.low)} to {kind.shown(column.high)}"
            sentences.append(
                f"{found.file.where(row)}, column {name!r}: {found.shown(row)} is outside {limits} of {stated.path} "
                f"({int(wrong.sum()):,} in all)."
            )
    return sentences


def bounds_text(description: Description) -> str:
    """Return a draft for `dataset.bounds` with the ranges of the rows; it is refused until the user edits it."""
    import yaml  # slow to load

    for profile in description.problems:
        raise UserError(
            f"the column {profile.name!r} {profile.problem}, so it cannot be a feature: leave it out with "
            f"--drop {profile.name}."
        )
    content: dict[str, Any] = {"columns": {profile.name: _stated(profile) for profile in description.features}}
    labels = description.labels
    if labels is not None and labels.task == "regression":
        content["target"] = _ends(Number(), *description.classes)
    elif labels is not None:
        content["classes"] = list(labels.classes)
    options, usual = description.options, CSV()
    for key in ("label", "party", "drop", *WRITTEN):
        value = getattr(options, key)
        if value != getattr(usual, key):
            content[key] = list(value) if isinstance(value, tuple) else value
    body = yaml.safe_dump(content, default_flow_style=None, sort_keys=False, allow_unicode=True, width=110)
    return (
        f"# Public ranges and values of the columns of {description.file.path.name}, and how to read it, "
        f"for dataset.bounds=THIS FILE.\n"
        "# The ranges and values below were taken from the rows, so they are as private as the rows. Replace them\n"
        "# by what the documentation or the meaning of each column says, then delete the next line.\n"
        "# Use {low: 0, high: 99, log: true} for amounts such as money. The classes are -1 and +1, or 0, 1, ...\n"
        f"{FROM_ROWS}: true\n{body}"
    )


def _stated(profile: ColumnProfile) -> Any:
    kind = profile.kind
    if isinstance(kind, Date):
        return {"unit": "days", **_ends(kind, profile.low, np.ceil(profile.high - 1e-9)), "format": kind.form}
    return _ends(kind, profile.low, profile.high) if isinstance(kind, Number) else kind.statement()


def _ends(kind: ColumnKind, low: float, high: float) -> dict[str, Any]:
    return {"low": kind.shown(float(low)), "high": kind.shown(float(high))}


# ---- possible problems


_NUMBERS_FOR_MISSING = (-9.0, -99.0, -999.0, -9999.0, 999.0, 9999.0, 99999.0)
_FEW = 20
"""The largest number of values of a column that may each determine a class."""


def as_meant(options: CSV) -> tuple[CSV, tuple[str, ...]]:
    """Return the options that probably read the file as meant, and a sentence for each changed option."""
    file = open_file(options.paths["rows"], options.written)
    if not file.is_text:
        return options, ()
    columns = read(file, [name for name in file.names if name not in options.drop]).values()
    words_only = [column for column in columns if not column.is_number]
    commas = [column for column in words_only if with_commas(column.texts)]
    sentences = []
    if commas and options.written.decimal == ".":
        example = next(text for text in commas[0].texts if COMMA.fullmatch(text))
        names = _quoted([column.name for column in commas])
        sentences.append(f"{names}: numbers such as {example} have a decimal comma (dataset.decimal=comma).")
        options = replace(options, decimal="comma")
        file = open_file(options.paths["rows"], options.written)
        words_only = [replace(column, file=file) for column in words_only]
    words = {text: column.name for column in words_only for text in _gaps(column)}
    if words:
        options = replace(options, na=(*options.na, *words))
        names, texts = _quoted(list(dict.fromkeys(words.values()))), _quoted(list(words))
        sentences.append(f"{names}: numbers, and {texts}, read as missing (dataset.na=[{','.join(words)}]).")
    return options, tuple(sentences)


def _gaps(column: FileColumn) -> list[str]:
    """Return the words for a missing value in a column that contains only numbers and such words."""
    words = [text for text, number in zip(column.texts, column.numbers, strict=True) if number is None]
    likely = [text for text in words if text.lower() in WORDS_FOR_MISSING]
    return likely if len(likely) == len(words) < len(column.texts) else []


def hint(column: FileColumn, profile: ColumnProfile, y: Array | None, labels: Labels | None) -> str:
    """Return what may be wrong with a column that can be a feature, and the option that repairs it."""
    if profile.problem:
        return ""
    cells, name = _cells(column), profile.name
    values = np.unique(cells[~np.isnan(cells)])
    if y is not None and labels is not None and _tells(cells, y, labels):
        return f"predicts the label exactly: is it the label under another name? dataset.drop=[{name}]"
    if isinstance(profile.kind, Number):
        return _number_hint(profile, cells, values)
    if isinstance(profile.kind, Date):
        return f"dates: write {{unit: days, low: ..., high: ..., format: '{profile.kind.form}'}} in a bounds file"
    if unit := with_unit(column):
        return f"numbers with a unit, such as {unit!r}? write numbers only"
    folded = {value.lower() for value in profile.values}
    likely = [value for value in profile.values if value.lower() in WORDS_FOR_MISSING]
    if likely:
        return f"{likely[0]!r} is a category; dataset.na=[{likely[0]}] makes it a missing value"
    if profile.levels and len(folded) < len(profile.values):
        return "values that differ in capitals only are different categories"
    if any(GROUPED.fullmatch(value) for value in profile.values):
        return "numbers with grouped digits? write 1000 instead of 1,000"
    return ""


def _cells(column: FileColumn) -> Array:
    return column.cells() if column.is_number else column.rows(range(len(column.texts)))


def _number_hint(profile: ColumnProfile, cells: Array, values: Array) -> str:
    n = len(cells)
    whole = bool(np.all(values == np.round(values)))
    another = not profile.missing and len(values) == n > 2 and whole
    if another and profile.high - profile.low == n - 1:
        return f"row numbers? dataset.drop=[{profile.name}]"
    if another and n > _FEW and re.search(r"(^|[_ ])(id|nr|no|key|code|number)$|Id$|ID$", profile.name):
        return f"a different number in every row: an identifier? dataset.drop=[{profile.name}]"
    for number, rest in ((profile.low, values[1:]), (profile.high, values[:-1])):
        low, high = (rest[0], rest[-1]) if len(rest) > 1 else (np.nan, np.nan)
        alone = low >= 0 > number or high * 3 < number if low >= 0 else False
        if number in _NUMBERS_FOR_MISSING and alone:
            return f"is {number:g} a missing value? dataset.na=[{number:g}]"
    return ""


def _tells(cells: Array, y: Array, labels: Labels) -> bool:
    """Return whether a column determines the label: by few values, by a threshold, or linearly."""
    known = ~np.isnan(cells) & ~np.isnan(y)
    x, y = cells[known], y[known]
    if len(x) < _FEW or np.ptp(x) == 0 or np.ptp(y) == 0:
        return False
    if labels.task == "regression":
        return bool(abs(np.corrcoef(x, y)[0, 1]) > 1 - 1e-9)
    pairs = np.unique(np.column_stack([x, y]), axis=0)
    values = len(np.unique(x))
    if values <= _FEW:
        return len(pairs) == values
    ends = sorted((x[y == label].min(), x[y == label].max()) for label in np.unique(y))
    return all(before[1] < after[0] for before, after in pairwise(ends))


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
