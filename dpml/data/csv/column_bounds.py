"""ColumnBounds ranges and values of the columns of a file, in a YAML file beside it (`dataset.bounds=PATH.yaml`).

columns:
  age: {low: 17, high: 90}
  gain: {low: 0, high: 99999, log: true}   # on the scale log(1 + value)
  hours: {low: 1, high: 99, edges: [20, 35, 40, 41, 50]}   # where the steps bin and spline cut it; 8: equal parts
  job: [clerk, farmer, other]
  member: boolean
  seen: {unit: days, low: 2019-01-01, high: 2024-12-31}   # dates; format: "%d.%m.%Y" if they are not 2019-01-01
classes: ["<=50K", ">50K"]                 # -1 and +1; or 0, 1, ..., K-1
# target: {low: 0, high: 100}              # instead of classes, for a regression
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dpml.data.csv.columns import ISO, Kind, as_text, day_of, iso
from dpml.data.info import Column, Range
from dpml.errors import UserError, nearest
from dpml.plain import read_mapping

FROM_ROWS = "from_rows"
"""The key that marks statements taken from the rows: such a file is refused until the user has edited it."""

_POWER = re.compile(r"([-+]?(?:\d{1,15}\.?|\d{0,15}\.\d{1,15}))[eE]([-+]?\d{1,4})")  # a number such as 1e6
_KEYS = ("columns", "classes", "target", FROM_ROWS)


@dataclass(frozen=True)
class ColumnBounds:
    """The statements of a file: about every feature, and about the labels, `classes` or `target`.

    `dates` has the form in which the dates of a column are written; their range is in days since 1970-01-01.
    """

    path: Path
    columns: Mapping[str, Column]
    booleans: Collection[str]
    classes: tuple[str, ...] = ()
    target: Range | None = None
    dates: Mapping[str, str] = field(default_factory=dict)

    def kind(self, name: str) -> Kind:
        """The kind of a column."""
        if name in self.booleans or name in self.dates:
            return "boolean" if name in self.booleans else "date"
        return "number" if isinstance(self.columns[name], Range) else "category"

    def values(self, name: str) -> tuple[str, ...]:
        """The values of a column of categories, or the form of a column of dates; empty for other kinds."""
        column = self.columns[name]
        return column if not isinstance(column, Range) else (self.dates[name],) if name in self.dates else ()

    def content(self) -> dict[str, Any]:
        """The same statements in the form above, for `bounds_from`."""
        columns = {name: self._written(name, column) for name, column in self.columns.items()}
        labels = {"classes": list(self.classes)} if self.target is None else {"target": _range_written(self.target)}
        return {"columns": columns, **labels}

    def _written(self, name: str, column: Column) -> Any:
        if isinstance(column, Range) and name in self.dates:
            ends = {"low": iso(column.low), "high": iso(column.high)}
            cut = {"edges": [iso(edge) for edge in column.edges]} if column.edges else {}
            return {"unit": "days", **ends, "format": self.dates[name], **cut}
        if isinstance(column, Range):
            return "boolean" if name in self.booleans else _range_written(column)
        return list(column)

    def of(self, features: Sequence[str], data: Path) -> dict[str, Column]:
        """The statement about each of the features, in their order."""
        for name in features:
            if name not in self.columns:
                raise UserError(f"{self.path} states nothing of the column {name!r} of {data}: add it under `columns`.")
        for name in self.columns:
            if name not in features:
                raise UserError(
                    f"{self.path} states something of {name!r}, no feature of {data}: {nearest(name, features)}"
                )
        return {name: self.columns[name] for name in features}


def load(path: Path) -> ColumnBounds:
    """The statements of the file at `path`."""
    return bounds_from(path, _content(path))


def bounds_from(path: Path, content: Mapping[Any, Any]) -> ColumnBounds:
    """The statements in `content`, which has the form above; `path` is its file."""
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
    booleans = {str(name) for name, said in columns.items() if said == "boolean"}
    dates = {str(name): _form(path, str(name), said) for name, said in columns.items() if _is_date(said)}
    known = {str(name): _column(path, f"columns.{name}", said) for name, said in columns.items()}
    if "target" in content:
        return ColumnBounds(path, known, booleans, (), _range(path, "target", content["target"]), dates)
    classes = _values(path, "classes", content["classes"])
    if len(classes) < 2:
        raise UserError(f"{path}: classes must be a list of two or more labels.")
    return ColumnBounds(path, known, booleans, classes, dates=dates)


def _content(path: Path) -> dict[Any, Any]:
    try:
        return read_mapping(path, "statements about columns", deepest=4)
    except OSError as error:
        raise UserError(
            f"dataset.bounds={path} cannot be read: {error.strerror}; it must be fitted, or a YAML file such as "
            "`dpml data describe FILE.csv --label COLUMN --bounds-out FILE.yaml` writes."
        ) from None


def _range_written(column: Range) -> dict[str, Any]:
    said = asdict(column) | {"edges": list(column.edges)}
    return said if column.edges else {key: said[key] for key in ("low", "high", "log")}


def _column(path: Path, key: str, said: Any) -> Column:
    if said == "boolean":
        return Range(0, 1)
    if _is_date(said):
        return _days(path, key, said)
    if isinstance(said, dict):
        return _range(path, key, said)
    return tuple(sorted(_values(path, key, said)))


def _is_date(said: Any) -> bool:
    return isinstance(said, dict) and "unit" in said


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
        values = tuple(value if isinstance(value, str) else as_text(value) for value in said)
    except OverflowError:
        raise UserError(f"{path}: {key} has a number that is too large.") from None
    twice, times = Counter(values).most_common(1)[0]
    if times > 1:
        raise UserError(f"{path}: {key} has {twice!r} twice.")
    return values
