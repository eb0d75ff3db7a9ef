"""The kinds of a column (numbers, booleans, categories, dates), and how each turns texts into a feature."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Any, ClassVar

import numpy as np

from dpml.arrays import Array
from dpml.data.csv.reading import Columns, FileColumn
from dpml.data.info import Column, Range

BOOLEANS = {"false": 0.0, "no": 0.0, "true": 1.0, "yes": 1.0}

ISO = "iso"
"""The form 2024-12-31, with or without a time of day."""

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
        column.refuse(np.isinf(cells), "no number")
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


def day_of(value: object) -> float | None:
    """Return the day of a YAML date or of a text such as 2024-12-31; None for other values."""
    day = _day(str(value), ISO) if isinstance(value, str | date) else np.nan
    return None if np.isnan(day) else day


def iso(day: float) -> str:
    """Return a day as 2024-12-31."""
    return (_START.date() + timedelta(days=int(np.floor(day)))).isoformat()
