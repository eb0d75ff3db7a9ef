"""The kind of a column of a file: numbers, categories, or booleans."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpml.arrays import Array
from dpml.data.csv.dates import days, forms_of
from dpml.data.csv.reading import CsvColumns, look_up

Kind = Literal["number", "category", "boolean", "date"]

WORDS = ({"false", "true"}, {"no", "yes"})
"""Pairs of words that are booleans, not categories, in any capitalisation: false and no are 0, true and yes are 1."""

_WORDS = "na|n.a.|n/a|k.a.|none|nil|null|nan|missing|unknown|not known|not available|unbekannt|keine angabe|inconnu"
WORDS_FOR_MISSING = frozenset(f"{_WORDS}|-|--|---|.|..|#n/a|#value!|#div/0!".split("|"))
"""Texts, in lower case, that probably stand for a missing value."""

COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
"""Numbers with a decimal comma."""

GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?|[-+]?\d{1,3}(\.\d{3})+(,\d+)?")
"""Numbers of which the digits are grouped."""

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
        low, high: The smallest and the largest number, or day since 1970; NaN if there is none.
        values: The texts of a column of categories or of booleans, sorted; the form of a column of dates.
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
    forms = forms_of(texts)
    if len(forms) == 1:
        found = days(texts, forms[0])
        return ColumnProfile(name, "date", missing, found.min(), found.max(), (forms[0],))
    if forms:
        problem = f"has dates such as {texts[0]!r}, of which day and month cannot be told apart: state their format"
        return ColumnProfile(name, "date", missing, np.nan, np.nan, (forms[0],), problem)
    return ColumnProfile(
        name, "category", missing, np.nan, np.nan, texts, _problem(columns, name, len(cells) - missing)
    )


def _problem(columns: CsvColumns, name: str, present: int) -> str:
    """Why a column of texts, `present` of which are not missing, is not categorical; empty if it is."""
    texts = columns.texts[name]
    if columns.file.written.decimal == "." and with_commas(texts):
        example = next(text for text in texts if COMMA.fullmatch(text))
        return f"has numbers with a decimal comma, such as {example!r} (dataset.decimal=comma reads them)"
    if len(texts) > _SURE_CATEGORIES:
        words = [code for code, value in enumerate(texts) if columns.file.written.number(value) is None]
        if len(words) < len(texts) / 2:
            code = words[0] if words else 0
            row = int(np.flatnonzero(columns[name] == code)[0])
            return (
                f"has numbers, and {texts[code][:40]!r}, which is none ({columns.file.where(row)}){_key(texts[code])}"
            )
        if len(texts) == present:
            return f"has another text in every row, such as {texts[0][:40]!r}, so that it tells nothing about new rows"
    if len(texts) > CATEGORIES:
        return f"has {len(texts):,} texts, such as {texts[0][:40]!r}, and {CATEGORIES:,} categories are the most"
    return ""


def with_commas(texts: Sequence[str]) -> bool:
    """Whether texts are numbers with a decimal comma, but for words that are none at all."""
    numbers = [text for text in texts if any(letter.isdigit() for letter in text)]
    with_comma = [text for text in numbers if COMMA.fullmatch(text)]
    whole = [text for text in numbers if text.lstrip("+-").isdigit()]
    grouped = all(GROUPED.fullmatch(text) for text in with_comma)  # 1,000 is more probably a thousand
    return bool(with_comma) and not grouped and len(with_comma) + len(whole) == len(numbers)


def is_boolean(texts: tuple[str, ...]) -> bool:
    """Whether all the texts are words for true and false."""
    return any({value.lower() for value in texts} <= words for words in WORDS)


def recode(codes: Array, texts: tuple[str, ...], values: tuple[str, ...]) -> Array:
    """Map codes of `texts` to codes of `values`: -1 for a text that is not in `values`; NaN stays NaN."""
    place = {value: float(number) for number, value in enumerate(values)}
    return look_up(codes, [place.get(value, -1.0) for value in texts])


def feature(columns: CsvColumns, name: str, kind: Kind, values: tuple[str, ...]) -> Array:
    """A column as a feature of that kind: numbers, codes of `values` (-1: another text), 0 and 1, or days.

    NaN is a missing value.

    Raises:
        UserError: a value is of another kind; the message names the line.
    """
    cells, texts = columns[name], columns.texts.get(name)
    if kind == "category":
        return recode(cells, columns.texts[name], values)
    if kind == "date":
        found = days(columns.texts[name], values[0])
        numbers = look_up(cells, list(np.where(np.isnan(found), np.inf, found)))
        what = f"no date of the form {values[0]}"
    else:
        numbers, what = _plain(columns, cells, texts, kind)
    wrong = np.isinf(numbers)
    if wrong.any() and texts is not None and kind == "number":
        what += _key(texts[int(cells[wrong][0])])
    columns.refuse(name, wrong, what)
    return numbers


def _key(text: str) -> str:
    """The option, in brackets, that probably reads a text where a number is expected; empty if none does."""
    if COMMA.fullmatch(text):
        return " (dataset.decimal=comma reads it)"
    return f" (dataset.na=[{text}] makes it a missing value)" if text.lower() in WORDS_FOR_MISSING else ""


def _plain(columns: CsvColumns, cells: Array, texts: Sequence[str] | None, kind: Kind) -> tuple[Array, str]:
    """Numbers, or 0 and 1, with infinity for a value of another kind, and what such a value is."""
    what = "no number" if kind == "number" else "not true or false, yes or no"
    if texts is None and kind == "boolean":
        return np.where(np.isin(cells, (0.0, 1.0)) | np.isnan(cells), cells, np.inf), what
    if texts is None:
        return cells, what
    found = [columns.file.written.number(value) for value in texts]
    numbers = [np.inf if value is None else value for value in found]
    if kind == "boolean":  # 0 and 1 are the same beside a word as they are alone
        numbers = [
            number if number in (0.0, 1.0) or np.isnan(number) else _boolean(value)
            for number, value in zip(numbers, texts, strict=True)
        ]
    return look_up(cells, numbers), what


def _boolean(text: str) -> float:
    return {"false": 0.0, "no": 0.0, "true": 1.0, "yes": 1.0}.get(text.lower(), np.inf)


def as_text(value: float) -> str:
    """A number as the name of a class: an integer has no decimal point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))
