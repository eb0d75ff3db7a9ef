"""The kind of a column of a file: numbers, categories, or booleans."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpml.arrays import Array
from dpml.data.csv.csv_errors import is_number
from dpml.data.csv.reading import CsvColumns

Kind = Literal["number", "category", "boolean"]

WORDS = ({"false", "true"}, {"no", "yes"})
"""Pairs of words that are booleans, not categories, in any capitalisation: false and no are 0, true and yes are 1."""

CATEGORIES = 1000
"""The most categories that a column may have, unless they are stated: each becomes a feature."""

LARGEST = 1e100
"""The largest absolute value of a number: squares of larger ones overflow."""

_SURE_CATEGORIES = (
    20  # up to this many texts, a column may be categorical even if no text repeats, or most of them are numbers
)


@dataclass(frozen=True)
class ColumnProfile:
    """What the values of a column are.

    Attributes:
        kind: Its kind.
        missing: The number of its missing values.
        low, high: The smallest and the largest number; NaN if there is none.
        values: The texts of a column of categories or of booleans, sorted.
        problem: Why it cannot be a feature, a clause without the column's name; empty if it can be one.
        hint: A possible problem with a column that can be a feature.
    """

    name: str
    kind: Kind
    missing: int
    low: float
    high: float
    values: tuple[str, ...] = ()
    problem: str = ""
    hint: str = ""

    @property
    def levels(self) -> int:
        """The number of features that one-hot coding makes of it; 0 for a numeric column."""
        return len(self.values) if self.kind == "category" else 0


def profile_of(columns: CsvColumns, name: str) -> ColumnProfile:
    """The properties of a column, determined from its values."""
    cells, texts = columns[name], columns.texts.get(name, ())
    missing = int(np.isnan(cells).sum())
    if missing == len(cells):
        return ColumnProfile(name, "number", missing, np.nan, np.nan, problem="has no values")
    low, high = float(np.nanmin(cells)), float(np.nanmax(cells))
    if name not in columns.texts:
        problem = ""
        if max(-low, high) > LARGEST:
            row = int(np.flatnonzero(np.abs(cells) > LARGEST)[0])
            size = "an infinite value" if np.isinf(cells[row]) else f"a value beyond {LARGEST:g}"
            problem = f"has {size} ({columns.file.where(row)})"
        return ColumnProfile(name, "number", missing, low, high, problem=problem)
    if is_boolean(texts):
        yes = look_up(cells, [_boolean(value) for value in texts])
        return ColumnProfile(name, "boolean", missing, float(np.nanmin(yes)), float(np.nanmax(yes)), texts)
    return ColumnProfile(
        name, "category", missing, np.nan, np.nan, texts, _problem(columns, name, len(cells) - missing)
    )


def _problem(columns: CsvColumns, name: str, present: int) -> str:
    """Why a column of texts, `present` of which are not missing, is not categorical; empty if it is."""
    texts = columns.texts[name]
    if len(texts) > _SURE_CATEGORIES:
        words = [code for code, value in enumerate(texts) if not is_number(value)]
        if len(words) < len(texts) / 2:
            code = words[0] if words else 0
            row = int(np.flatnonzero(columns[name] == code)[0])
            return f"has numbers, and {texts[code][:40]!r}, which is none ({columns.file.where(row)})"
        if len(texts) == present:
            return f"has another text in every row, such as {texts[0][:40]!r}, so that it tells nothing about new rows"
    if len(texts) > CATEGORIES:
        return f"has {len(texts):,} texts, such as {texts[0][:40]!r}, and {CATEGORIES:,} categories are the most"
    return ""


def is_boolean(texts: tuple[str, ...]) -> bool:
    """Whether all the texts are words for true and false."""
    return any({value.lower() for value in texts} <= words for words in WORDS)


def recode(codes: Array, texts: tuple[str, ...], values: tuple[str, ...]) -> Array:
    """Map codes of `texts` to codes of `values`: -1 for a text that is not in `values`; NaN stays NaN."""
    place = {value: float(number) for number, value in enumerate(values)}
    return look_up(codes, [place.get(value, -1.0) for value in texts])


def look_up(codes: Array, numbers: Sequence[float]) -> Array:
    """The number at the index given by each code; NaN stays NaN."""
    return np.array([*numbers, np.nan])[np.where(np.isnan(codes), len(numbers), codes).astype(np.intp)]


def feature(columns: CsvColumns, name: str, kind: Kind, values: tuple[str, ...]) -> Array:
    """A column as a feature of that kind: numbers, codes of `values` (-1: another text), or 0 and 1; NaN is missing.

    Raises:
        UserError: a value is of another kind; the message names the line.
    """
    cells, texts = columns[name], columns.texts.get(name)
    if kind == "category":
        return recode(cells, columns.texts[name], values)
    if texts is not None:  # inf marks values of another kind
        read = _boolean if kind == "boolean" else _number
        numbers = look_up(cells, [read(value) for value in texts])
    elif kind == "boolean":
        numbers = np.where(np.isin(cells, (0.0, 1.0)) | np.isnan(cells), cells, np.inf)
    else:
        numbers = cells
    columns.refuse(name, np.isinf(numbers), "no number" if kind == "number" else "not true or false, yes or no")
    return numbers


def _number(text: str) -> float:
    return float(text) if is_number(text) else np.inf


def _boolean(text: str) -> float:
    return {"false": 0.0, "no": 0.0, "true": 1.0, "yes": 1.0}.get(text.lower(), np.inf)


def as_text(value: float) -> str:
    """A number as the name of a class: an integer has no decimal point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))
