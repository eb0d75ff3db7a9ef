"""The kind of a column of a file: numbers, categories, booleans or dates, and its values as a feature."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from dpml.arrays import Array
from dpml.data.csv.reading import FileColumn

Kind = Literal["number", "category", "boolean", "date"]

AS_NUMBERS = ("number", "boolean")
"""The kinds of which a column may be read as numbers alone."""

WORDS = ({"false", "true"}, {"no", "yes"})
"""Pairs of words that are booleans, not categories, in any capitalisation: false and no are 0, true and yes are 1."""

_WORDS = "na|n.a.|n/a|k.a.|none|nil|null|nan|missing|unknown|not known|not available|unbekannt|keine angabe|inconnu"
WORDS_FOR_MISSING = frozenset(f"{_WORDS}|-|--|---|.|..|#n/a|#value!|#div/0!".split("|"))
"""Texts, in lower case, that probably stand for a missing value."""

COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
"""Numbers with a decimal comma."""

GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?|[-+]?\d{1,3}(\.\d{3})+(,\d+)?")
"""Numbers of which the digits are grouped."""

_UNIT = re.compile(r"[-+]?\d+(?:[.,]\d+)?\s?(%|[^\W\d_]{1,3}(?:/[^\W\d_]{1,3})?)")

CATEGORIES = 1000
"""The most categories that a column may have, unless they are stated: each becomes a feature."""

LARGEST = 1e100
"""The largest absolute value of a number: squares of larger ones overflow."""

_SURE_CATEGORIES = 20
"""Up to this many texts, a column may be categorical even if no text repeats, or most of them are numbers."""

ISO = "iso"
"""The form 2024-12-31, with or without a time of day."""

_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d.%m.%y")
FORMS = (ISO, *_DATES, *(f"{form} %H:%M" for form in _DATES))
"""The forms that are recognised; any other one that `strptime` knows can be stated."""

_DAY = pd.Timedelta(days=1)
_START = pd.Timestamp(0, tz="UTC")
_EPOCH = datetime.date(1970, 1, 1).toordinal()


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
    low: float = np.nan
    high: float = np.nan
    values: tuple[str, ...] = ()
    problem: str = ""
    hint: str = ""

    @property
    def levels(self) -> int:
        """The number of features that one-hot coding makes of it; 0 for a numeric column."""
        return len(self.values) if self.kind == "category" else 0


def profile_of(column: FileColumn) -> ColumnProfile:
    """Return the properties of a column, determined from its values."""
    name, texts = column.name, column.texts
    if column.is_number:
        return _number_profile(column)
    missing = int(np.sum(column.codes < 0))
    if is_boolean(texts):
        yes = [_boolean(text) for text in texts]
        return ColumnProfile(name, "boolean", missing, min(yes), max(yes), texts)
    forms = forms_of(texts)
    if len(forms) == 1:
        found = days(texts, forms[0])
        return ColumnProfile(name, "date", missing, found.min(), found.max(), (forms[0],))
    if forms:
        problem = f"has dates such as {texts[0]!r}, of which day and month cannot be told apart: state their format"
        return ColumnProfile(name, "date", missing, values=(forms[0],), problem=problem)
    problem, unit = _problem(column, len(column.codes) - missing), with_unit(column)
    problem = f"has numbers with a unit, such as {unit!r}: write them without it" if problem and unit else problem
    return ColumnProfile(name, "category", missing, values=texts, problem=problem)


def _number_profile(column: FileColumn) -> ColumnProfile:
    cells = column.cells()
    missing = int(np.isnan(cells).sum())
    if missing == len(cells):
        return ColumnProfile(column.name, "number", missing, problem="has no values")
    low, high, problem = float(np.nanmin(cells)), float(np.nanmax(cells)), ""
    if max(-low, high) > LARGEST:
        row = int(np.flatnonzero(np.abs(cells) > LARGEST)[0])
        size = "an infinite value" if np.isinf(cells[row]) else f"a value beyond {LARGEST:g}"
        problem = f"has {size} ({column.file.where(row)})"
    return ColumnProfile(column.name, "number", missing, low, high, problem=problem)


def _problem(column: FileColumn, present: int) -> str:
    """Why a column of texts, `present` of which are not missing, is not categorical; empty if it is."""
    texts = column.texts
    if column.file.written.decimal == "." and with_commas(texts):
        example = next(text for text in texts if COMMA.fullmatch(text))
        return f"has numbers with a decimal comma, such as {example!r} (dataset.decimal=comma reads them)"
    if len(texts) > _SURE_CATEGORIES:
        words = [code for code, number in enumerate(column.numbers) if number is None]
        if len(words) < len(texts) / 2:
            row = int(np.flatnonzero(column.codes == words[0])[0])
            word = texts[words[0]]
            return f"has numbers, and {word[:40]!r}, which is none ({column.file.where(row)}){_key(word)}"
        if len(texts) == present:
            return f"has another text in every row, such as {texts[0][:40]!r}, so that it tells nothing about new rows"
    if len(texts) > CATEGORIES:
        return f"has {len(texts):,} texts, such as {texts[0][:40]!r}, and {CATEGORIES:,} categories are the most"
    return ""


def with_commas(texts: Sequence[str]) -> bool:
    """Return whether texts are numbers with a decimal comma, but for words that are none at all."""
    numbers = [text for text in texts if any(letter.isdigit() for letter in text)]
    with_comma = [text for text in numbers if COMMA.fullmatch(text)]
    whole = [text for text in numbers if text.lstrip("+-").isdigit()]
    grouped = all(GROUPED.fullmatch(text) for text in with_comma)  # 1,000 is more probably a thousand
    return bool(with_comma) and not grouped and len(with_comma) + len(whole) == len(numbers)


def with_unit(column: FileColumn) -> str:
    """Return an example, such as 50 kg, if all texts of a column are numbers, or numbers with one unit."""
    words = [text for text, number in zip(column.texts, column.numbers, strict=True) if number is None]
    found = [_UNIT.fullmatch(text) for text in words]
    return words[0] if len(found) > 1 and None not in found and len({each and each[1] for each in found}) == 1 else ""


def is_boolean(texts: tuple[str, ...]) -> bool:
    """Return whether all the texts are words for true and false."""
    return any({text.lower() for text in texts} <= words for words in WORDS)


def feature(column: FileColumn, kind: Kind, values: tuple[str, ...]) -> Array:
    """Return a column (n,) as a feature of that kind; NaN is a missing value.

    A number, a boolean (0 or 1), a day since 1970, or the place of a category in `values`, -1 for another text. A value
    of another kind is a UserError that names its line. What a value is never depends on other rows.
    """
    texts = column.texts
    if kind == "category":
        place = {value: float(number) for number, value in enumerate(values)}
        return column.rows([place.get(text, -1.0) for text in texts])
    if kind == "date":
        found, what = days(texts, values[0]), f"no date of the form {values[0]}"
        cells = column.rows(np.where(np.isnan(found), np.inf, found).tolist())
    else:
        what = "no number" if kind == "number" else "not true or false, yes or no"
        cells = column.cells(np.inf)
        if kind == "boolean":  # 0 and 1 are the same beside a word as they are alone
            words = np.inf if column.plain is not None else column.rows([_boolean(text) for text in texts])
            cells = np.where(np.isnan(cells) | np.isin(cells, (0.0, 1.0)), cells, words)
    wrong = np.isinf(cells)
    if wrong.any() and kind == "number" and texts:
        what += _key(texts[column.codes[wrong][0]])
    column.refuse(wrong, what)
    return cells


def _key(text: str) -> str:
    """The option, in brackets, that probably reads a text where a number is expected; empty if none does."""
    if COMMA.fullmatch(text):
        return " (dataset.decimal=comma reads it)"
    return f" (dataset.na=[{text}] makes it a missing value)" if text.lower() in WORDS_FOR_MISSING else ""


def _boolean(text: str) -> float:
    return {"false": 0.0, "no": 0.0, "true": 1.0, "yes": 1.0}.get(text.lower(), np.inf)


def as_text(value: float) -> str:
    """Return a number as the name of a class: an integer has no decimal point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


# ---- dates


def days(texts: Sequence[str], form: str) -> Array:
    """The days from 1970-01-01 to each date (n,), with the time of day as a fraction; NaN for what is no date."""
    found = _days(texts, form)
    late = np.flatnonzero(np.isnan(found))
    if 0 < len(late) < len(found):  # one date with nanoseconds takes the years after 2262 from the others
        found[late] = _days([texts[int(place)] for place in late], form)
    return found


def _days(texts: Sequence[str], form: str) -> Array:
    stamps = pd.to_datetime(list(texts), format="ISO8601" if form == ISO else form, errors="coerce", utc=True)
    if not len(texts):
        return np.empty(0)
    since = stamps - _START.as_unit(stamps.unit)  # in nanoseconds there is no year 9999
    # the same bits in every unit, which the finest of the dates decides: both parts of the fraction are exact
    return np.asarray(since // _DAY, dtype=float) + np.asarray(since % _DAY / _DAY, dtype=float)


def forms_of(texts: Sequence[str]) -> list[str]:
    """The forms of which all the texts are dates; empty if they are no dates, more than one if it cannot be told."""
    if not texts or any(len(text) < 8 or not text[:1].isdigit() for text in texts):
        return []
    likely = [form for form in FORMS if not np.isnan(days(texts[:50], form)).any()]
    return [form for form in likely if not np.isnan(days(texts, form)).any()]


def day_of(said: object) -> float | None:
    """The day that a YAML file states, a date or a text such as 2024-12-31; None if it is none."""
    if isinstance(said, datetime.date):
        return float(said.toordinal() - _EPOCH)
    found = days([said], ISO)[0] if isinstance(said, str) else np.nan
    return None if np.isnan(found) else float(found)


def iso(day: float) -> str:
    """A day as 2024-12-31."""
    return datetime.date.fromordinal(_EPOCH + int(np.floor(day))).isoformat()
