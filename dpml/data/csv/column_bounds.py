"""What is publicly known of the columns of a file, and how it is read: a YAML file (`dataset.bounds=PATH.yaml`).

columns:
  age: {low: 17, high: 90}
  gain: {low: 0, high: 99999, log: true}   # on the scale log(1 + value)
  hours: {low: 1, high: 99, edges: [20, 35, 40, 41, 50]}   # where the steps bin and spline cut it; 8: equal parts
  crp: {low: 0, high: 500, fill: 0.4, missing: indicator}   # 0.4 stands for a missing value, and a feature marks it
  job: [clerk, farmer, other]
  care: {values: [home, ward], fill: home}
  member: boolean
  seen: {unit: days, low: 2019-01-01, high: 2024-12-31}   # dates; format: "%d.%m.%Y" if they are not 2019-01-01
classes: ["<=50K", ">50K"]                 # -1 and +1; or 0, 1, ..., K-1
# target: {low: 0, high: 100}              # instead of classes, for a regression
label: income                              # and other options of dataset=csv (`READING`), unless they are typed
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpml.arrays import Array
from dpml.data.csv.columns import AS_NUMBERS, ISO, Kind, as_text, day_of, feature, iso
from dpml.data.csv.reading import Columns
from dpml.data.info import Column, Range
from dpml.errors import UserError, nearest
from dpml.files import read_mapping

FROM_ROWS = "from_rows"
"""The key that marks statements taken from the rows: such a file is refused until the user has edited it."""

WRITTEN = ("encoding", "separator", "decimal", "na")
"""The options of dataset=csv that say how a file is written."""

READING = ("label", "positive", "party", "drop", "missing", "steps", *WRITTEN)
"""The options of dataset=csv that a file may state."""

_LISTS = ("drop", "steps", "na")
_POWER = re.compile(r"([-+]?(?:\d{1,15}\.?|\d{0,15}\.\d{1,15}))[eE]([-+]?\d{1,4})")  # a number such as 1e6
_KEYS = ("columns", "classes", "target", FROM_ROWS, *READING)


@dataclass(frozen=True)
class ColumnBounds:
    """The statements of a file.

    Attributes:
        columns: The range or the values of every feature; of dates in days since 1970-01-01.
        booleans: The features that are booleans.
        classes, target: The labels, or the range of the label of a regression.
        dates: The form in which the dates of a column are written.
        fills: What stands for a missing value of a feature, as a number.
        indicators: The column whose missing values a feature marks.
        reading: The values of some options of dataset=csv.
    """

    path: Path
    columns: Mapping[str, Column]
    booleans: Collection[str]
    classes: tuple[str, ...] = ()
    target: Range | None = None
    dates: Mapping[str, str] = field(default_factory=dict)
    fills: Mapping[str, float] = field(default_factory=dict)
    indicators: Mapping[str, str] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sources(self) -> list[str]:
        """The columns of a file that the features are made of."""
        return [name for name in self.columns if name not in self.indicators]

    @property
    def texts(self) -> list[str]:
        """The columns of a file that are read as texts."""
        return [name for name in self.sources if self.kind(name) not in AS_NUMBERS]

    def kind(self, name: str) -> Kind:
        """Return the kind of a feature."""
        if name in self.booleans or name in self.dates:
            return "boolean" if name in self.booleans else "date"
        return "number" if isinstance(self.columns[name], Range) else "category"

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of a column of categories, or the form of a column of dates; empty for other kinds."""
        column = self.columns[name]
        return column if not isinstance(column, Range) else (self.dates[name],) if name in self.dates else ()

    def feature(self, columns: Columns, name: str) -> Array:
        """Return a feature (n,) of the rows of a file; NaN is a missing value for which nothing stands."""
        if name in self.indicators:
            source = self.indicators[name]
            return np.isnan(feature(columns[source], self.kind(source), self.values(source))).astype(float)
        cells = feature(columns[name], self.kind(name), self.values(name))
        return np.where(np.isnan(cells), self.fills.get(name, np.nan), cells)

    def gaps(self, imputed: bool) -> list[str]:
        """Return what stands for a missing value of each column; with the step `impute` the middle of a range."""
        values = [f"{name} counts as {self._text(name, value)}" for name, value in self.fills.items()]
        values += [f"a feature marks where {name} is missing" for name in self.indicators.values()]
        for name in self.sources if imputed else ():
            column = self.columns[name]
            if isinstance(column, Range) and name not in self.fills:
                middle = float(column.parts(2)[0])
                values.append(f"{name} counts as {self._text(name, middle)}, the middle of its range")
        return values

    def _text(self, name: str, value: float) -> Any:
        column = self.columns[name]
        if not isinstance(column, Range):
            return column[int(value)]
        return iso(value) if name in self.dates else int(value) if value.is_integer() else value

    def content(self) -> dict[str, Any]:
        """Return the same statements in the form above, for `bounds_from`."""
        columns = {name: self._written(name, self.columns[name]) for name in self.sources}
        for name, value in self.fills.items():
            said = columns[name] if isinstance(columns[name], dict) else {"values": columns[name]}
            columns[name] = said | {"fill": self._text(name, value)}
        for name in self.indicators.values():
            said = columns[name] if isinstance(columns[name], dict) else {"values": columns[name]}
            columns[name] = said | {"missing": "indicator"}
        labels = {"classes": list(self.classes)} if self.target is None else {"target": _range_written(self.target)}
        reading = {key: list(said) if key in _LISTS else said for key, said in self.reading.items()}
        return {"columns": columns, **labels, **reading}

    def _written(self, name: str, column: Column) -> Any:
        if isinstance(column, Range) and name in self.dates:
            ends = {"low": iso(column.low), "high": iso(column.high)}
            cut = {"edges": [iso(edge) for edge in column.edges]} if column.edges else {}
            return {"unit": "days", **ends, "format": self.dates[name], **cut}
        if isinstance(column, Range):
            return "boolean" if name in self.booleans else _range_written(column)
        return list(column)

    def of(self, names: Sequence[str], data: Path) -> dict[str, Column]:
        """Return the statement about each feature, in the order of the file's columns `names` that are features.

        A column without a statement, or a statement about a column that is no feature, is a UserError.
        """
        for name in names:
            if name not in self.sources:
                raise UserError(f"{self.path} states nothing of the column {name!r} of {data}: add it under `columns`.")
        for name in self.sources:
            if name not in names:
                raise UserError(
                    f"{self.path} states something of {name!r}, no feature of {data}: {nearest(name, names)}"
                )
        marks = {source: name for name, source in self.indicators.items()}
        order = [each for name in names for each in (name, marks.get(name)) if each is not None]
        return {name: self.columns[name] for name in order}


def load(path: Path) -> ColumnBounds:
    """Return the statements of the file at `path`."""
    try:
        content = read_mapping(path, "statements about columns", deepest=4)
    except OSError as error:
        raise UserError(
            f"dataset.bounds={path} cannot be read: {error.strerror}; it must be fitted, or a YAML file such as "
            "`dpml data describe FILE.csv --label COLUMN --bounds-out FILE.yaml` writes."
        ) from None
    return bounds_from(path, content)


def bounds_from(path: Path, content: Mapping[Any, Any]) -> ColumnBounds:
    """Return the statements in `content`, which has the form above; `path` is its file."""
    for key in content:
        if key not in _KEYS:
            raise UserError(f"{path}: unknown key {str(key)!r}: {nearest(str(key), _KEYS)}")
    if content.get(FROM_ROWS):
        raise UserError(
            f"{path} still says `{FROM_ROWS}: true`: its ranges are those of the private rows, and no public "
            "knowledge. Write what is known without the rows, then delete that line."
        )
    columns = content.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise UserError(f"{path} needs `columns`, with a range or a list of values for every feature.")
    if ("classes" in content) == ("target" in content):
        raise UserError(f"{path} needs either `classes`, a list of the labels, or `target`, the range of numbers.")
    target = _range(path, "target", content["target"]) if "target" in content else None
    classes = () if target else _values(path, "classes", content["classes"])
    if len(classes) == 1:
        raise UserError(f"{path}: classes must be a list of two or more labels.")
    result = ColumnBounds(path, {}, set(), classes, target, {}, {}, {}, _reading(path, content))
    for name, said in columns.items():
        _add(result, str(name), said)
    for name in result.indicators:
        if name in map(str, columns):
            raise UserError(f"{path}: columns.{name} has the name of the feature that marks missing values.")
    return result


def _reading(path: Path, content: Mapping[Any, Any]) -> dict[str, Any]:
    reading = {key: content[key] for key in READING if key in content}
    for key, said in reading.items():
        many = key in _LISTS
        values = said if many and isinstance(said, list) else [said]
        texts = [value for value in values if isinstance(value, str | int | float) and not isinstance(value, bool)]
        if texts != values or (many and values is not said):
            raise UserError(f"{path}: {key} must be {'a list of texts' if many else 'a text'}, got {said!r}.")
        reading[key] = tuple(_name(value) for value in values) if many else _name(said)
    return reading


def _name(value: str | float) -> str:
    return value if isinstance(value, str) else as_text(value)


def _add(result: Any, name: str, said: Any) -> None:
    """Add the statement about a column to the mappings of `result`."""
    path, key = result.path, f"columns.{name}"
    extra = {} if not isinstance(said, dict) else {each: said[each] for each in ("fill", "missing") if each in said}
    if extra:
        said = {each: value for each, value in said.items() if each not in extra}
        said = said["values"] if said.keys() == {"values"} else said
    if extra.get("missing", "indicator") != "indicator":
        raise UserError(f"{path}: {key}: missing must be indicator, got {extra['missing']!r}.")
    is_date = isinstance(said, dict) and "unit" in said
    if said == "boolean":
        result.booleans.add(name)
        result.columns[name] = Range(0, 1)
    elif is_date:
        result.dates[name] = _form(path, name, said)
        result.columns[name] = _days(path, key, said)
    else:
        categories = () if isinstance(said, dict) else tuple(sorted(_values(path, key, said)))
        result.columns[name] = categories or _range(path, key, said)
    if "fill" in extra:
        result.fills[name] = _fill(path, key, result.columns[name], extra["fill"], is_date)
    if "missing" in extra:
        mark = f"{name} is missing"
        result.columns[mark], result.indicators[mark] = Range(0, 1), name
        result.booleans.add(mark)


def _fill(path: Path, key: str, column: Column, said: Any, is_date: bool) -> float:
    if not isinstance(column, Range):
        text = _name(said) if isinstance(said, str | int | float) else ""
        if text not in column:
            raise UserError(f"{path}: {key}: fill must be one of its values, got {said!r}.")
        return float(column.index(text))
    value = day_of(said) if is_date else said
    if not isinstance(value, int | float) or not column.low <= value <= column.high:
        raise UserError(f"{path}: {key}: fill must be within its range, got {said!r}.")
    return float(value)


def _range_written(column: Range) -> dict[str, Any]:
    said = asdict(column) | {"edges": list(column.edges)}
    return said if column.edges else {key: said[key] for key in ("low", "high", "log")}


def _form(path: Path, name: str, said: Mapping[Any, Any]) -> str:
    form = said.get("format", ISO)
    if not isinstance(form, str) or (form != ISO and "%" not in form):
        raise UserError(f"{path}: columns.{name} has format {form!r}: write iso, or such as '%d.%m.%Y'.")
    return form


def _days(path: Path, key: str, said: Mapping[Any, Any]) -> Range:
    cut = said.get("edges", [])
    ends = [day_of(said.get("low")), day_of(said.get("high")), *map(day_of, cut if isinstance(cut, list) else [None])]
    if said["unit"] != "days" or not said.keys() <= {"unit", "low", "high", "format", "edges"} or None in ends:
        form = "{unit: days, low: 2019-01-01, high: 2024-12-31}, or with format: '%d.%m.%Y' beside them"
        raise UserError(f"{path}: {key} must be {form}, got { {str(k): str(v) for k, v in said.items()} }.")
    low, high, *edges = (float(end) for end in ends if end is not None)
    if low >= high:
        raise UserError(f"{path}: {key} ends on {said['high']}, and must begin earlier than that.")
    try:
        return Range(low, high, edges=tuple(edges))
    except UserError:
        raise UserError(f"{path}: {key}: edges must be dates that increase, between low and high, got {cut}.") from None


def _range(path: Path, key: str, said: Any) -> Range:
    form = "{low: NUMBER, high: NUMBER}, or with log: true, edges: [NUMBER, ...] or edges: 8 (equal parts) beside them"
    if not isinstance(said, dict) or not {"low", "high"} <= said.keys() <= {"low", "high", "log", "edges"}:
        raise UserError(f"{path}: {key} must be {form}, got {said}.")
    edges = said.get("edges", 1)
    numbers = [said["low"], said["high"], *(edges if isinstance(edges, list) else [edges])]
    log = said.get("log", False)
    for number in numbers:
        power = _POWER.fullmatch(number) if isinstance(number, str) else None
        if power:  # YAML 1.1 wants a point and a sign
            said_so = f"{float(power[1])}e{int(power[2]):+d}"
            raise UserError(f"{path}: {key} has {number}, which YAML reads as text: write {said_so}.")
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers) or not isinstance(log, bool):
        raise UserError(f"{path}: {key} must be {form}, got {said}.")
    try:
        whole = Range(float(said["low"]), float(said["high"]), log)
        return replace(whole, edges=tuple(map(float, edges)) if isinstance(edges, list) else whole.parts(edges))
    except (UserError, OverflowError) as error:
        raise UserError(f"{path}: {key}: {error}") from None


def _values(path: Path, key: str, said: Any) -> tuple[str, ...]:
    if not isinstance(said, list) or not said:
        raise UserError(f"{path}: {key} must be a range {{low: 0, high: 1}}, a list of values, or boolean, got {said}.")
    for value in said:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UserError(f"{path}: {key} has {value!r}, which is no text: put yes, null and the like in quotes.")
    try:
        values = tuple(map(_name, said))
    except OverflowError:
        raise UserError(f"{path}: {key} has a number that is too large.") from None
    twice, times = Counter(values).most_common(1)[0]
    if times > 1:
        raise UserError(f"{path}: {key} has {twice!r} twice.")
    return values
