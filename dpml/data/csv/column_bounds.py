"""Read bounds files (`dataset.bounds=PATH.yaml`) with the public ranges and values of columns (docs/own_data.md)."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from dpml.data.csv.columns import ISO, ZERO_ONE, ColumnKind, Kinds, as_text, day_number, features_of, range_content
from dpml.data.info import Column, Range
from dpml.errors import UserError, nearest
from dpml.files import read_mapping

FROM_ROWS = "from_rows"
"""The key of a draft whose ranges were taken from the rows: the file is refused until the user removes it."""

WRITTEN = ("encoding", "separator", "decimal", "na")
"""The options of dataset=csv that say how a file is written."""

USUAL: dict[str, Any] = {
    "label": None,
    "positive": None,
    "party": None,
    "drop": (),
    "missing": "drop",
    "steps": ("one_hot", "symmetric", "bias", "sample_norm"),
    "encoding": "utf-8",
    "separator": None,
    "decimal": "point",
    "na": (),
}
"""The options of dataset=csv that a bounds file may set, with their usual values."""

_KEYS = ("columns", "classes", "target", FROM_ROWS, *USUAL)


@dataclass(frozen=True)
class ColumnBounds:
    """The content of a bounds file.

    Attributes:
        kinds: The kind of every column that becomes a feature, with its range or its values.
        reading: Options of dataset=csv that the bounds file sets.
    """

    path: Path
    kinds: Kinds
    classes: tuple[str, ...] = ()
    target: Range | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_columns(
        cls, path: Path, columns: Mapping[str, Column], classes: tuple[str, ...] = (), target: Range | None = None
    ) -> "ColumnBounds":
        names: dict[type, Any] = {Range: "number", tuple: "category"}
        kinds = {name: ColumnKind(names[type(each)], each) for name, each in columns.items()}
        return cls(path, kinds, classes, target)

    @property
    def columns(self) -> dict[str, Column]:
        """The range or the list of values of every feature; dates are numbers of days since 1970-01-01."""
        return {name: column for name, column in features_of(self.kinds).items() if column is not None}

    @property
    def texts(self) -> list[str]:
        return [name for name, kind in self.kinds.items() if kind.is_text]

    def kind_of(self, feature: str) -> str:
        """Return the kind of a feature, such as "number"; features that mark missing values have the kind "boolean"."""
        return self.kinds[feature].name if feature in self.kinds else "boolean"

    def gaps(self, imputed: bool) -> list[str]:
        """Return clauses on what replaces or marks missing values: "age counts as 40" if 40 replaces missing ages."""
        filled = {name: kind.fill for name, kind in self.kinds.items() if kind.fill is not None}
        values = [f"{name} counts as {self.kinds[name].shown(fill)}" for name, fill in filled.items()]
        values += [f"a feature marks where {name} is missing" for name, kind in self.kinds.items() if kind.indicator]
        for name, kind in self.kinds.items() if imputed else ():
            if isinstance(kind.column, Range) and name not in filled:
                values.append(f"{name} counts as {kind.shown(kind.column.parts(2)[0])}, the middle of its range")
        return values

    def content(self) -> dict[str, Any]:
        columns = {name: kind.content() for name, kind in self.kinds.items()}
        labels = {"classes": list(self.classes)} if self.target is None else {"target": range_content(self.target)}
        reading = {key: list(value) if isinstance(value, tuple) else value for key, value in self.reading.items()}
        return {"columns": columns, **labels, **reading}

    def of(self, names: Sequence[str], data: Path) -> "ColumnBounds":
        """Return the bounds in the order of the features `names`; raise UserError if they are for other features."""
        for name in names:
            if name not in self.kinds:
                raise UserError(f"{self.path} does not describe the column {name!r} of {data}: add it under `columns`.")
        for name in self.kinds:
            if name not in names:
                near = nearest(name, names)
                raise UserError(f"{self.path} describes {name!r}, which is not a feature of {data}: {near}")
        return replace(self, kinds={name: self.kinds[name] for name in names})


def load(path: Path) -> ColumnBounds:
    """Read a bounds file."""
    try:
        content = read_mapping(path, "statements about columns", deepest=4)
    except OSError as error:
        raise UserError(
            f"dataset.bounds={path} cannot be read: {error.strerror}. Write dataset.bounds=fitted or name a YAML file; "
            "`dpml data describe FILE.csv --label COLUMN --bounds-out FILE.yaml` drafts such a file."
        ) from None
    return bounds_from(path, content)


def bounds_from(path: Path, content: Mapping[Any, Any]) -> ColumnBounds:
    """Return the bounds that a bounds file declares, given its `path` and its parsed YAML `content`."""
    for key in content:
        if key not in _KEYS:
            raise UserError(f"{path}: unknown key {str(key)!r}: {nearest(str(key), _KEYS)}")
    if content.get(FROM_ROWS):
        raise UserError(
            f"{path} still says `from_rows: true`: its ranges were computed from the private rows. Replace them by "
            "ranges that are public, then delete that line."
        )
    columns = content.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise UserError(f"{path} needs `columns`, with a range or a list of values for every feature.")
    if ("classes" in content) == ("target" in content):
        raise UserError(f"{path} needs either `classes`, a list of labels, or (for regression) `target`, a range.")
    key = ""
    try:
        kinds = {}
        for name, said in columns.items():
            key = f"columns.{name}"
            kinds[str(name)] = _kind(said)
        key = "target"
        target = _range(content["target"], _number, ("log",)) if "target" in content else None
        key = "classes"
        classes = () if target else _values(content["classes"])
        reading = {}
        for key, usual in USUAL.items():
            if key in content:
                reading[key] = _option(content[key], isinstance(usual, tuple))
    except (UserError, OverflowError) as error:
        raise UserError(f"{path}: {key}: {error}") from None
    if len(classes) == 1:
        raise UserError(f"{path}: classes must be a list of two or more labels.")
    return ColumnBounds(path, kinds, classes, target, reading)


def _option(value: Any, is_list: bool) -> Any:
    if is_list and isinstance(value, list):
        return tuple(map(_text, value))
    if is_list:
        raise UserError(f"the value must be a list of texts, got {value!r}.")
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UserError(f"{value!r} is not a text: put words such as yes and null in quotes.")
    return value if isinstance(value, str) else as_text(value)


def _kind(statement: Any) -> ColumnKind:
    said = dict(statement) if isinstance(statement, dict) else {"values": statement}
    fill, missing = said.pop("fill", None), said.pop("missing", None)
    if missing not in (None, "indicator"):
        raise UserError(f"the key `missing` must have the value `indicator`, got {missing!r}.")
    if said == {"values": "boolean"}:
        kind = ColumnKind("boolean", ZERO_ONE)
    elif said.keys() == {"values"}:
        kind = ColumnKind("category", _values(said["values"]))
    elif said.get("unit") == "days":
        form = said.get("format", ISO)
        if not isinstance(form, str) or (form != ISO and "%" not in form):
            raise UserError(f"format must be iso or a pattern such as '%d.%m.%Y', got {form!r}.")
        kind = ColumnKind("date", _range(said, _day, ("unit", "format")), form=form)
    else:
        kind = ColumnKind("number", _range(said, _number, ("log",)))
    return replace(kind, fill=None if fill is None else _fill(kind, fill), indicator=missing is not None)


def _fill(kind: ColumnKind, value: Any) -> float:
    if kind.name == "category":
        if _text(value) not in kind.values:
            raise UserError(f"fill must be one of the column's values, got {value!r}.")
        return float(kind.values.index(_text(value)))
    number = _day(value) if kind.name == "date" else _number(value)
    if isinstance(kind.column, Range) and not kind.column.low <= number <= kind.column.high:
        raise UserError(f"fill must be within the column's range, got {value!r}.")
    return number


def _range(statement: Any, read: Callable[[Any], float], others: Collection[str]) -> Range:
    if not isinstance(statement, dict) or not {"low", "high"} <= statement.keys() <= {"low", "high", "edges", *others}:
        raise UserError(
            f"{statement} is not a range. For numbers, write {{low: NUMBER, high: NUMBER}}, optionally with log: true, "
            "edges: [NUMBER, ...] or edges: 8 (eight equal parts). For dates, write {unit: days, low: 2019-01-01, "
            "high: 2024-12-31}, optionally with format: '%d.%m.%Y', edges: [DATE, ...]."
        )
    edges, log = statement.get("edges", []), statement.get("log", False)
    if not isinstance(log, bool):
        raise UserError(f"log must be true or false, got {log!r}.")
    whole = Range(read(statement["low"]), read(statement["high"]), log)
    return replace(whole, edges=tuple(map(read, edges)) if isinstance(edges, list) else whole.parts(_number(edges)))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{value!r} is not a number (1e6 is a text in YAML: write 1.0e+6).")
    return float(value)


def _day(value: Any) -> float:
    day = day_number(str(value), ISO) if isinstance(value, str | date) else math.inf
    if math.isinf(day):
        raise UserError(f"{value!r} is not a date: write it as 2024-12-31.")
    return day


def _values(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not values:
        raise UserError(f"the value must be a range {{low: 0, high: 1}}, a list of values, or boolean, got {values}.")
    texts = tuple(map(_text, values))
    twice, times = Counter(texts).most_common(1)[0]
    if times > 1:
        raise UserError(f"the value {twice!r} is listed twice.")
    return texts
