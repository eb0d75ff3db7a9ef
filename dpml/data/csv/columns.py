"""Convert a column of texts into a feature; the kind of the column is number, boolean, category or date."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import numpy as np

from dpml.arrays import Array
from dpml.data.csv.reading import Columns, FileColumn
from dpml.data.info import Column, Range

BOOLEANS = {"false": 0.0, "no": 0.0, "true": 1.0, "yes": 1.0}

ZERO_ONE = Range(0, 1)

ISO = "iso"
"""The form of dates such as 2024-12-31, with or without a time of day."""

_START = datetime(1970, 1, 1)


@dataclass(frozen=True)
class ColumnKind:
    """The rule that converts each text of a column to a value of the feature, independently of all other rows.

    A category becomes its index in the list of values (-1 if unknown), and a date the number of days since 1970-01-01.

    Attributes:
        column: The range or the values of the feature; None: the range is taken from the rows.
        fill: The number that replaces a missing value; None: missing values stay missing.
        form: The pattern of dates for `strptime`, or `iso`.
    """

    name: Literal["number", "boolean", "category", "date"]
    column: Column | None = None
    fill: float | None = None
    indicator: bool = False
    form: str = ISO

    @property
    def is_text(self) -> bool:
        return self.name in ("category", "date")

    @property
    def values(self) -> tuple[str, ...]:
        return self.column if isinstance(self.column, tuple) else ()

    def cells(self, column: FileColumn) -> Array:
        """Return the feature's value in every row, (n,), or NaN if it is missing; raise UserError if it is invalid."""
        if self.name == "category":
            place = {value: float(code) for code, value in enumerate(self.values)}
            return column.rows([place.get(text, -1.0) for text in column.texts])
        expected = {"number": "not a number", "date": f"not a date of the form {self.form}"}
        cells = column.cells(np.inf)
        if self.name == "date":
            cells = column.rows([day_number(text, self.form) for text in column.texts])
        if self.name == "boolean" and column.texts:
            words = column.rows([BOOLEANS.get(text.lower(), np.inf) for text in column.texts])
            cells = np.where(np.isinf(cells), words, cells)
        wrong = np.isinf(cells) if self.name in expected else ~np.isnan(cells) & ~np.isin(cells, (0.0, 1.0))
        column.refuse(wrong, expected.get(self.name, "not true or false, yes or no"))
        return cells

    def shown(self, value: float) -> Any:
        if self.name == "date":
            return iso(value)
        if self.name == "category":
            return self.values[int(value)]
        return int(value) if float(value).is_integer() else value

    def content(self) -> Any:
        statement: Any = "boolean" if self.name == "boolean" else list(self.values)
        if isinstance(self.column, Range) and self.name == "number":
            statement = range_content(self.column)
        elif isinstance(self.column, Range) and self.name == "date":
            ends = {"low": iso(self.column.low), "high": iso(self.column.high)}
            cut = {"edges": [iso(edge) for edge in self.column.edges]} if self.column.edges else {}
            statement = {"unit": "days", **ends, "format": self.form, **cut}
        more = {} if self.fill is None else {"fill": self.shown(self.fill)}
        more |= {"missing": "indicator"} if self.indicator else {}
        if not more:
            return statement
        return (statement if isinstance(statement, dict) else {"values": statement}) | more


Kinds = Mapping[str, ColumnKind]
"""The kind of each column that becomes a feature, in order."""


def matrix(columns: Columns, kinds: Kinds) -> Array:
    """Return the features of all rows of a file, (n, p), with missing values replaced by the column's `fill` or NaN."""
    X = np.empty((len(columns[next(iter(kinds))]), len(features_of(kinds))), order="F")  # it is filled by columns
    features = iter(X.T)
    for name, kind in kinds.items():
        cells = kind.cells(columns[name])
        gaps = np.isnan(cells)
        next(features)[:] = cells if kind.fill is None else np.where(gaps, kind.fill, cells)
        if kind.indicator:
            next(features)[:] = gaps
    return X


def features_of(kinds: Kinds) -> dict[str, Column | None]:
    """Return the range or the values of each feature; None for a feature whose range is taken from the rows."""
    features: dict[str, Column | None] = {}
    for name, kind in kinds.items():
        features[name] = kind.column
        if kind.indicator:
            features[f"{name} is missing"] = ZERO_ONE
    return features


def range_content(column: Range) -> dict[str, Any]:
    """Return a range as the mapping that a bounds file shows, e.g. {low: 0, high: 1, log: false}."""
    content = asdict(column) | {"edges": list(column.edges)}
    return content if column.edges else {key: content[key] for key in ("low", "high", "log")}


def as_text(value: float) -> str:
    """Return the text of a number that names a class, without a decimal point if the number is whole."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def day_number(text: str, form: str) -> float:
    """Convert a date text to days since 1970-01-01, with a fraction for a time; infinity for an invalid date."""
    try:
        moment = datetime.fromisoformat(text) if form == ISO else datetime.strptime(text, form)
        moment -= moment.utcoffset() or timedelta()
    except (ValueError, OverflowError):
        return np.inf
    return (moment.replace(tzinfo=None) - _START) / timedelta(days=1)


def iso(day: float) -> str:
    """Return the date that is `day` days after 1970-01-01 as a text such as 2024-12-31."""
    return (_START.date() + timedelta(days=int(np.floor(day)))).isoformat()
