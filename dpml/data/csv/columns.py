"""The kinds of a column (numbers, booleans, categories, dates), and how each turns texts into a feature."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Any, ClassVar

import numpy as np

from dpml.arrays import Array
from dpml.data.csv.reading import Columns, FileColumn
from dpml.data.info import Column, Range

BOOLEANS = {"false": 0.0, "no": 0.0, "true": 1.0, "yes": 1.0}

_WORDS = "na|n.a.|n/a|k.a.|none|nil|null|nan|missing|unknown|not known|not available|unbekannt|keine angabe|inconnu"
WORDS_FOR_MISSING = frozenset(f"{_WORDS}|-|--|---|.|..|#n/a|#value!|#div/0!".split("|"))
"""Texts, in lower case, that probably stand for a missing value."""

COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
"""Numbers with a decimal comma."""

GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?|[-+]?\d{1,3}(\.\d{3})+(,\d+)?")
"""Numbers whose digits are grouped."""

_UNIT = re.compile(r"[-+]?\d+(?:[.,]\d+)?\s?(%|[^\W\d_]{1,3}(?:/[^\W\d_]{1,3})?)")

CATEGORIES = 1000
"""The largest number of categories of a column without bounds: each category becomes a feature."""

LARGEST = 1e100
"""The largest absolute value of a number: squares of larger ones overflow."""

_SURE_CATEGORIES = 20
"""A column with at most so many texts may be categorical even if no text repeats or most are numbers."""

ISO = "iso"
"""The form 2024-12-31, with or without a time of day."""

_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d.%m.%y")
FORMS = (ISO, *_DATES, *(f"{form} %H:%M" for form in _DATES))
"""The forms that are recognised; a bounds file may name any other form of `strptime`."""

_START = datetime(1970, 1, 1)
_ZERO_ONE = Range(0, 1)


# ---- kinds


@dataclass(frozen=True)
class ColumnKind:
    """How the texts of a column become a feature. A row's feature never depends on other rows.

    Attributes:
        column: The range or the values of the feature; None: the range of the rows.
        fill: The number that replaces a missing value; None: missing values stay missing.
        indicator: Whether a second feature marks missing values.
    """

    name: ClassVar[str]
    is_text: ClassVar[bool] = True
    column: Column | None = None
    fill: float | None = None
    indicator: bool = False

    def cells(self, column: FileColumn) -> Array:
        """Return a number for every row (n,), NaN for a missing value; raise UserError at an invalid value."""
        raise NotImplementedError

    def shown(self, value: float) -> Any:
        """Return a value of the feature as a bounds file writes it."""
        return int(value) if float(value).is_integer() else value

    def content(self) -> Any:
        """Return the column's entry in a bounds file."""
        more = {} if self.fill is None else {"fill": self.shown(self.fill)}
        more |= {"missing": "indicator"} if self.indicator else {}
        statement = self.statement()
        if not more:
            return statement
        return (statement if isinstance(statement, dict) else {"values": statement}) | more

    def statement(self) -> Any:
        """Return `content` without the keys for missing values."""
        assert isinstance(self.column, Range)
        return range_content(self.column)


@dataclass(frozen=True)
class Number(ColumnKind):
    """Numbers."""

    name = "number"
    is_text = False

    def cells(self, column: FileColumn) -> Array:
        cells = column.cells(np.inf)
        wrong = np.isinf(cells)
        hint = mend(column.texts[column.codes[wrong][0]]) if wrong.any() and column.texts else ""
        column.refuse(wrong, f"no number{hint}")
        return cells


@dataclass(frozen=True)
class Boolean(ColumnKind):
    """Words for false and true, or 0 and 1."""

    name = "boolean"
    is_text = False
    column: Column | None = _ZERO_ONE

    def cells(self, column: FileColumn) -> Array:
        cells = column.cells(np.inf)
        if column.plain is None:
            words = column.rows([BOOLEANS.get(text.lower(), np.inf) for text in column.texts])
            cells = np.where(np.isinf(cells), words, cells)
        wrong = ~np.isnan(cells) & ~np.isin(cells, (0.0, 1.0))
        column.refuse(wrong, "not true or false, yes or no")
        return cells

    def statement(self) -> str:
        return "boolean"


@dataclass(frozen=True)
class Category(ColumnKind):
    """Categories: each text becomes its index in `values`; an unknown text becomes -1."""

    name = "category"

    @property
    def values(self) -> tuple[str, ...]:
        assert isinstance(self.column, tuple)
        return self.column

    def cells(self, column: FileColumn) -> Array:
        place = {value: float(number) for number, value in enumerate(self.values)}
        return column.rows([place.get(text, -1.0) for text in column.texts])

    def shown(self, value: float) -> str:
        return self.values[int(value)]

    def statement(self) -> list[str]:
        return list(self.values)


@dataclass(frozen=True)
class Date(ColumnKind):
    """Dates, as days since 1970; `form` is the `strptime` pattern of the texts, or `iso`."""

    name = "date"
    form: str = ISO

    def cells(self, column: FileColumn) -> Array:
        found = days(column.texts, self.form)
        cells = column.rows(np.where(np.isnan(found), np.inf, found).tolist())
        column.refuse(np.isinf(cells), f"not a date of the form {self.form}")
        return cells

    def shown(self, value: float) -> str:
        return iso(value)

    def statement(self) -> dict[str, Any]:
        assert isinstance(self.column, Range)
        ends = {"low": iso(self.column.low), "high": iso(self.column.high)}
        cut = {"edges": [iso(edge) for edge in self.column.edges]} if self.column.edges else {}
        return {"unit": "days", **ends, "format": self.form, **cut}


Kinds = Mapping[str, ColumnKind]
"""The kind of each column that becomes a feature, in order."""


def matrix(columns: Columns, kinds: Kinds) -> Array:
    """Return the features of the rows of a file, (n, p); NaN is a missing value that no `fill` replaces."""
    width = sum(1 + kind.indicator for kind in kinds.values())
    X = np.empty((len(columns[next(iter(kinds))]), width), order="F")  # it is filled column by column
    place = 0
    for name, kind in kinds.items():
        cells = kind.cells(columns[name])
        gaps = np.isnan(cells)
        X[:, place] = cells if kind.fill is None else np.where(gaps, kind.fill, cells)
        if kind.indicator:
            X[:, place + 1] = gaps
        place += 1 + kind.indicator
    return X


def features_of(kinds: Kinds) -> dict[str, Column | None]:
    """Return the range or the values of each feature; None: the range of the rows."""
    features: dict[str, Column | None] = {}
    for name, kind in kinds.items():
        features[name] = kind.column
        if kind.indicator:
            features[f"{name} is missing"] = _ZERO_ONE
    return features


def range_content(column: Range) -> dict[str, Any]:
    """Return a range as a bounds file writes it."""
    content = asdict(column) | {"edges": list(column.edges)}
    return content if column.edges else {key: content[key] for key in ("low", "high", "log")}


# ---- the kind that the values of a column imply


@dataclass(frozen=True)
class ColumnProfile:
    """The properties of a column, as its values imply them.

    Attributes:
        missing: The number of missing values.
        low, high: The smallest and the largest number, or day since 1970; NaN if there is none.
        problem: Why the column cannot be a feature, a clause without its name; empty if it can.
        hint: A possible problem with a column that can be a feature.
        values: The sorted texts of a categorical or boolean column.
    """

    name: str
    kind: ColumnKind
    missing: int
    low: float = np.nan
    high: float = np.nan
    problem: str = ""
    hint: str = ""
    values: tuple[str, ...] = ()

    @property
    def levels(self) -> int:
        """The number of features of the column after one-hot coding; 0 for a numeric column."""
        return len(self.values) if isinstance(self.kind, Category) else 0


def profile_of(column: FileColumn) -> ColumnProfile:
    """Return the properties of a column, determined from its values."""
    name, texts, missing = column.name, column.texts, int(column.missing.sum())
    if column.is_number:
        cells = column.cells()
        if missing == len(cells):
            return ColumnProfile(name, Number(), missing, problem="has no values")
        return ColumnProfile(name, Number(), missing, np.nanmin(cells), np.nanmax(cells), _too_large(column, cells))
    if any({text.lower() for text in texts} <= words for words in ({"false", "true"}, {"no", "yes"})):
        cells = Boolean().cells(column)
        return ColumnProfile(name, Boolean(), missing, np.nanmin(cells), np.nanmax(cells), values=texts)
    forms = forms_of(texts)
    if len(forms) == 1:
        found = days(texts, forms[0])
        return ColumnProfile(name, Date(form=forms[0]), missing, found.min(), found.max())
    if forms:
        problem = f"has dates such as {texts[0]!r}, in which the day may be the month (set format in a bounds file)"
        return ColumnProfile(name, Date(form=forms[0]), missing, problem=problem)
    problem = _problem(column, len(column) - missing)
    if problem and (unit := with_unit(column)):
        problem = f"has numbers with a unit, such as {unit!r} (write numbers only)"
    return ColumnProfile(name, Category(texts), missing, problem=problem, values=texts)


def _too_large(column: FileColumn, cells: Array) -> str:
    large = np.flatnonzero(np.abs(cells) > LARGEST)
    if not len(large):
        return ""
    size = "an infinite value" if np.isinf(cells[large[0]]) else f"a value beyond {LARGEST:g}"
    return f"has {size} ({column.file.where(int(large[0]))})"


def _problem(column: FileColumn, present: int) -> str:
    texts = column.texts
    if column.file.written.decimal == "." and with_commas(texts):
        example = next(text for text in texts if COMMA.fullmatch(text))
        return f"has numbers with a decimal comma, such as {example!r} (dataset.decimal=comma reads them)"
    if len(texts) > _SURE_CATEGORIES:
        words = [code for code, number in enumerate(column.numbers) if number is None]
        if len(words) < len(texts) / 2:
            row = int(np.flatnonzero(column.codes == words[0])[0])
            word = texts[words[0]]
            return f"has numbers, but {word[:40]!r} is not a number ({column.file.where(row)}){mend(word)}"
        if len(texts) == present:
            return f"has a different text in every row, such as {texts[0][:40]!r}, like an identifier"
    if len(texts) > CATEGORIES:
        return f"has {len(texts):,} texts, such as {texts[0][:40]!r}, but at most {CATEGORIES:,} may be categories"
    return ""


def with_commas(texts: Sequence[str]) -> bool:
    """Return whether all texts that contain numbers use a decimal comma."""
    numbers = [text for text in texts if any(letter.isdigit() for letter in text)]
    with_comma = [text for text in numbers if COMMA.fullmatch(text)]
    whole = [text for text in numbers if text.lstrip("+-").isdigit()]
    grouped = all(GROUPED.fullmatch(text) for text in with_comma)  # 1,000 is more probably a thousand
    return bool(with_comma) and not grouped and len(with_comma) + len(whole) == len(numbers)


def with_unit(column: FileColumn) -> str:
    """Return an example such as 50 kg if all texts are numbers, some with one unit; empty otherwise."""
    words = [text for text, number in zip(column.texts, column.numbers, strict=True) if number is None]
    found = [_UNIT.fullmatch(text) for text in words]
    return words[0] if len(found) > 1 and None not in found and len({each and each[1] for each in found}) == 1 else ""


def mend(text: str) -> str:
    """Return the option, in brackets, that probably makes a text readable; empty if there is none."""
    if COMMA.fullmatch(text):
        return " (dataset.decimal=comma reads it)"
    return f" (dataset.na=[{text}] makes it a missing value)" if text.lower() in WORDS_FOR_MISSING else ""


def as_text(value: float) -> str:
    """Return a number as the name of a class: an integer has no decimal point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


# ---- dates


def days(texts: Sequence[str], form: str) -> Array:
    """Return the days from 1970-01-01 to each date, (n,), with fractions for times; NaN for other texts."""
    return np.array([_day(text, form) for text in texts], dtype=float)


def _day(text: str, form: str) -> float:
    try:
        moment = datetime.fromisoformat(text) if form == ISO else datetime.strptime(text, form)
        moment -= moment.utcoffset() or timedelta()
    except (ValueError, OverflowError):
        return np.nan
    return (moment.replace(tzinfo=None) - _START) / timedelta(days=1)


def forms_of(texts: Sequence[str]) -> list[str]:
    """Return the forms in which all texts are dates."""
    if not texts or any(len(text) < 8 or not text[:1].isdigit() for text in texts):
        return []
    likely = [form for form in FORMS if not np.isnan(days(texts[:50], form)).any()]
    return [form for form in likely if not np.isnan(days(texts, form)).any()]


def day_of(value: object) -> float | None:
    """Return the day of a YAML date or of a text such as 2024-12-31; None for other values."""
    day = _day(str(value), ISO) if isinstance(value, str | date) else np.nan
    return None if np.isnan(day) else day


def iso(day: float) -> str:
    """Return a day as 2024-12-31."""
    return (_START.date() + timedelta(days=int(np.floor(day)))).isoformat()
