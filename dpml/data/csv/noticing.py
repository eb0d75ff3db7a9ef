"""What a file looks like: the keys that read it as it was probably meant, and columns that are hardly features."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dpml.arrays import Array
from dpml.data.csv.columns import COMMA, GROUPED, WORDS_FOR_MISSING, ColumnProfile, with_commas
from dpml.data.csv.csv_rows import CsvOptions
from dpml.data.csv.labels import Labels
from dpml.data.csv.reading import TextColumn, open_file, read

_NUMBERS_FOR_MISSING = (-9.0, -99.0, -999.0, -9999.0, 999.0, 9999.0, 99999.0)
_FEW = 20
"""The most values of a column of which it is asked whether they tell the label."""


@dataclass(frozen=True)
class Noticed:
    """A file as it was probably meant: the options that read it like this, and a sentence for each that differs."""

    options: CsvOptions
    sentences: tuple[str, ...] = ()


def as_meant(options: CsvOptions) -> Noticed:
    """Return the options with the decimal character and texts for missing values that the file seems to have."""
    file = open_file(options.paths["rows"], options.written)
    if not file.is_text:
        return Noticed(options)
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
        sentences.append(f"{names}: numbers, and {texts}, taken for a missing value (dataset.na=[{','.join(words)}]).")
    return Noticed(options, tuple(sentences))


def _gaps(column: TextColumn) -> list[str]:
    """The words for a missing value among texts that are numbers but for them; empty if others are not either."""
    words = [text for text, number in zip(column.texts, column.numbers, strict=True) if number is None]
    likely = [text for text in words if text.lower() in WORDS_FOR_MISSING]
    return likely if len(likely) == len(words) < len(column.texts) else []


def hint(column: TextColumn, profile: ColumnProfile, y: Array | None, labels: Labels | None) -> str:
    """Return what may be wrong with a column that can be a feature, and the key for that; empty if nothing is."""
    if profile.problem:
        return ""
    cells, name = _cells(column), profile.name
    values = np.unique(cells[~np.isnan(cells)])
    if y is not None and labels is not None and _tells(cells, y, labels):
        return f"tells the label: it may be the label under another name (dataset.drop=[{name}])"
    if profile.kind == "number":
        return _number_hint(profile, cells, values)
    if profile.kind == "date":
        return f"days; a bounds file says {{unit: days, low: ..., high: ..., format: '{profile.values[0]}'}}"
    folded = {value.lower() for value in profile.values}
    likely = [value for value in profile.values if value.lower() in WORDS_FOR_MISSING]
    if likely:
        return f"{likely[0]!r} is a category; dataset.na=[{likely[0]}] makes it a missing value"
    if profile.kind == "category" and len(folded) < len(profile.values):
        return "values that differ in capitals only are different categories"
    if any(GROUPED.fullmatch(value) for value in profile.values):
        return "numbers with grouped digits? write them without"
    return ""


def _cells(column: TextColumn) -> Array:
    """A number for every row: its number, or the place of its text; NaN if it is missing."""
    if column.is_number:
        return column.rows([np.nan if number is None else number for number in column.numbers])
    return column.rows(range(len(column.texts)))


def _number_hint(profile: ColumnProfile, cells: Array, values: Array) -> str:
    n = len(cells)
    whole = bool(np.all(values == np.round(values)))
    another = not profile.missing and len(values) == n > 2 and whole
    if another and profile.high - profile.low == n - 1:
        return f"numbers of rows? dataset.drop=[{profile.name}]"
    if another and n > _FEW and re.search(r"(^|[_ ])(id|nr|no|key|code|number)$|Id$|ID$", profile.name):
        return f"another number in every row: an id? dataset.drop=[{profile.name}]"
    for number, rest in ((profile.low, values[1:]), (profile.high, values[:-1])):
        low, high = (rest[0], rest[-1]) if len(rest) > 1 else (np.nan, np.nan)
        alone = low >= 0 > number or high * 3 < number if low >= 0 else False
        if number in _NUMBERS_FOR_MISSING and alone:
            return f"is {number:g} a missing value? dataset.na=[{number:g}]"
    return ""


def _tells(cells: Array, y: Array, labels: Labels) -> bool:
    """Whether a column has the label in it: a class for each of few values, or a threshold, or a straight line."""
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
