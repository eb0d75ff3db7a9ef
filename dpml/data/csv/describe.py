"""Describe a file: how a run reads it, what may be wrong with it, and which values lie outside public ranges."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpml.data.csv.column_bounds import FROM_ROWS, WRITTEN
from dpml.data.csv.columns import ColumnKind, Kinds
from dpml.data.csv.labels import Labels, find_labels, to_labels
from dpml.data.csv.profile import ColumnProfile, gap_words, hint, profile_of, refuse_problems, with_commas
from dpml.data.csv.reading import COMMA, Columns, CsvFile, read
from dpml.data.info import Range
from dpml.data.sets.csv import CSV, read_columns, roles


@dataclass(frozen=True)
class Description:
    """The content of a file."""

    file: CsvFile
    columns: Columns  # all columns that are not dropped, the features first
    rows: int
    features: tuple[ColumnProfile, ...]
    labels: Labels | None
    classes: tuple[float, ...]  # the number of rows of each class, or the smallest and the largest target
    parties: int | None  # the number of parties, if a column names the party of each row
    complete: int  # the number of rows without a missing value
    options: CSV  # the user's options, and those that `as_meant` adds
    noticed: tuple[str, ...] = ()  # a sentence for each option that `as_meant` adds

    @property
    def problems(self) -> list[ColumnProfile]:
        return [profile for profile in self.features if profile.problem]

    @property
    def width(self) -> int:
        """The number of features after one-hot coding, without the columns that cannot be features."""
        return sum(len(profile.kind.values) or 1 for profile in self.features if not profile.problem)


def describe(options: CSV) -> Description:
    """Return a description of the file that the options name; the options need not name a label column."""
    options, noticed = as_meant(options)
    label, party, stated = options.label, options.party, options.statements
    file = options.file
    features = roles(file, options)
    kinds = stated.of(features, file.path).kinds if stated else {}
    columns = read_columns(file, features, options, stated)
    rows = len(columns[features[0]])
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
    """Return a sentence for each feature or target with values outside its public range or list of values."""
    stated, label = description.options.statements, description.options.label
    if stated is None:
        return []
    kinds: Kinds = stated.kinds
    if label is not None and stated.target is not None:
        kinds = {**kinds, label: ColumnKind("number", stated.target)}
    sentences = []
    for name, kind in kinds.items():
        found, column = description.columns[name], kind.column
        cells = kind.cells(found)
        wrong = (cells < column.low) | (cells > column.high) if isinstance(column, Range) else cells < 0
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            limits = f"the {len(kind.values)} values"
            if isinstance(column, Range):
                limits = f"{kind.shown(column.low)} to {kind.shown(column.high)}"
            sentences.append(
                f"{found.file.where(row)}, column {name!r}: {found.shown(row)} is outside {limits} of {stated.path} "
                f"({int(wrong.sum()):,} in all)."
            )
    return sentences


def bounds_text(description: Description) -> str:
    """Return a draft of a bounds file with the ranges of the rows; runs refuse the draft until the user edits it."""
    import yaml  # slow to load

    refuse_problems(description.file, description.features)
    content: dict[str, Any] = {"columns": {profile.name: _stated(profile) for profile in description.features}}
    labels = description.labels
    if labels is not None and labels.task == "regression":
        content["target"] = _ends(ColumnKind("number"), *description.classes)
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
    if kind.name == "date":
        return {"unit": "days", **_ends(kind, profile.low, np.ceil(profile.high - 1e-9)), "format": kind.form}
    return _ends(kind, profile.low, profile.high) if kind.name == "number" else kind.content()


def _ends(kind: ColumnKind, low: float, high: float) -> dict[str, Any]:
    return {"low": kind.shown(float(low)), "high": kind.shown(float(high))}


def as_meant(options: CSV) -> tuple[CSV, tuple[str, ...]]:
    """Return the options of dataset=csv with `decimal` and `na` corrected, and a sentence on each correction."""
    file = options.file
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
        words_only = [replace(column, file=options.file) for column in words_only]
    words = {text: column.name for column in words_only for text in gap_words(column)}
    if words:
        options = replace(options, na=(*options.na, *words))
        names, texts = _quoted(list(dict.fromkeys(words.values()))), _quoted(list(words))
        sentences.append(f"{names}: numbers, and {texts}, read as missing (dataset.na=[{','.join(words)}]).")
    return options, tuple(sentences)


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
