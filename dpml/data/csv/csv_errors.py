"""A CSV file as text: the names in its first line, and the line and description of the first mistake.

Pandas, with which `dpml.data.csv.reading` reads files, fills rows that are too short and reports no line numbers. The
functions here read row by row with Python's own `csv`, for the first line and for messages about mistakes.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from dpml.data.sources.files import open_raw
from dpml.errors import UserError

SEPARATORS = (",", ";", "\t")
"""Possible separators: the one that splits the first line into the most names is used."""

_LONGEST = 1 << 24  # characters of a value; the default limit of the csv module is lower
csv.field_size_limit(_LONGEST)


def header(path: Path) -> tuple[tuple[str, ...], str]:
    """The names of a CSV file's columns, and the separator.

    Raises:
        UserError: the file is empty, is not UTF-8 text, or its first line does not name every column once.
    """
    with open_raw(path) as file:
        line = next((line for line in file if line.strip()), b"").decode("utf-8-sig", errors="replace")
    separator = max(SEPARATORS, key=line.count)
    rows = _rows(path, separator)
    _, names = next(rows, (1, []))
    _, values = next(rows, (2, names))
    _check_names(path, names)
    if len(values) != len(names):  # Pandas would take an extra value for the name of the row
        check(path, separator)
    return tuple(names), separator


def _check_names(path: Path, names: Sequence[str]) -> None:
    if not names:
        raise UserError(f"{path} is empty: its first line must name the columns.")
    if any("\0" in name for name in names):
        raise UserError(f"{path}, line 1: it is not UTF-8 text; save it as UTF-8.")
    for place, name in enumerate(names, start=1):
        if not name:
            raise UserError(
                f"{path}, line 1: column {place} has no name (row numbers that a program wrote?); name every column, "
                "and leave out those that are no features with dataset.drop=[NAME]."
            )
    if len(names) < 2:
        raise UserError(
            f"{path}, line 1: there is one column only, {names[0][:60]!r}, and a label and a feature are needed; "
            "values are parted by commas, semicolons or tabs."
        )
    for place, name in enumerate(names, start=1):
        if names.index(name) < place - 1:
            first = names.index(name) + 1
            raise UserError(f"{path}, line 1: columns {first} and {place} are both called {name!r}; rename one.")
    for name in names:
        if is_number(name) and not name.isdecimal():  # years and pixels are names, too
            raise UserError(
                f"{path}, line 1: {name} is a number where the name of a column is expected; the first line must name "
                "the columns."
            )


def is_number(text: str) -> bool:
    """Whether a text is a number in a data file; Python also accepts 1_000, which is none."""
    with suppress(ValueError):
        float(text)
        return "_" not in text
    return False


def check(path: Path, separator: str) -> None:
    """Raise UserError at the first place where a file's text is not a table.

    That is where there are wrong bytes, a quote that is never closed, or a row of another length.
    """
    columns = 0
    for line, row in _rows(path, separator):
        columns = columns or len(row)
        if len(row) != columns:
            counted = "there is 1 value" if len(row) == 1 else f"there are {len(row)} values"
            raise UserError(f"{path}, line {line}: {counted}, and line 1 names {columns} columns.")


def line_of(path: Path, separator: str, row: int) -> int:
    """The line on which row number `row` (0 is the first after the names) begins.

    Raises:
        UserError: the rows up to there cannot be read.
    """
    for number, (line, _) in enumerate(_rows(path, separator), start=-1):
        if number == row:
            return line
    raise IndexError(row)


def _rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file that are not blank, the names first, each with the line on which it begins."""
    start = 1
    try:
        with open_raw(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator, skipinitialspace=True, strict=True)
            for row in reader:
                if len(row) > 1 or "".join(row).strip():
                    yield start, row
                start = reader.line_num + 1
    except UnicodeDecodeError:
        raise _wrong_bytes(path) from None
    except csv.Error as error:
        what = "a quote is opened and never closed" if "unexpected end" in str(error) else str(error)
        raise UserError(f"{path}, line {start}: {what}.") from None


def _wrong_bytes(path: Path) -> UserError:
    with open_raw(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                shown = f"{line[error.start]:#04x}"
                return UserError(f"{path}, line {number}: it is not UTF-8 text (byte {shown}); save it as UTF-8.")
    return UserError(f"{path} is not UTF-8 text; save it as UTF-8.")
