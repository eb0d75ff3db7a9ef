"""Read the columns of a CSV or Parquet file as numbers or as texts; any error rejects the whole file."""

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.data.sources.files import open_raw
from dpml.errors import UserError, nearest

MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL")
"""Texts that stand for a missing value in every file."""

MARKS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "point": "."}
"""Names of the characters that would need quotes on a command line."""

SEPARATORS = (",", ";", "\t", "|")
"""The separators that are recognised if none is set."""

_WORDS = "na|n.a.|n/a|k.a.|none|nil|null|nan|missing|unknown|not known|not available|unbekannt|keine angabe|inconnu"
WORDS_FOR_MISSING = frozenset(f"{_WORDS}|-|--|---|.|..|#n/a|#value!|#div/0!".split("|"))
"""Texts, in lower case, that probably stand for a missing value."""

COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
"""Numbers with a decimal comma."""

_UTF8 = "utf-8-sig"
_ROWS = 1 << 16  # rows in memory as text at a time
_START = 1 << 16  # bytes at the start of a file that decide the separator

# from 3.1 on pandas always reads a number to the nearest float, as Python does
_OLD = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _OLD else {}


@dataclass(frozen=True)
class Dialect:
    """The encoding, separator ("" if unknown), decimal mark and missing-value texts of a CSV file."""

    encoding: str = "utf-8"
    separator: str = ""
    decimal: str = "."
    na: tuple[str, ...] = ()

    @property
    def codec(self) -> str:
        return _UTF8 if codecs.lookup(self.encoding).name == "utf-8" else self.encoding

    @cached_property
    def gaps(self) -> frozenset[float]:
        """The numbers that mean a missing value, such as -999.0 if `na` contains the text -999."""
        return frozenset(value for text in self.na for value in (_float(text), self.number(text)) if value is not None)

    def number(self, text: str) -> float | None:
        return _float(text if self.decimal == "." else "_" if "." in text else text.replace(self.decimal, "."))


def _float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)  # Python also accepts 1_000
    except ValueError:
        return None


def dialect(encoding: Any = "utf-8", separator: Any = None, decimal: Any = ".", na: Sequence[Any] = ()) -> Dialect:
    """Return the dialect that the options `dataset.encoding`, `separator`, `decimal` and `na` describe."""
    try:
        "a".encode(str(encoding))
    except (LookupError, ValueError):  # an unknown codec, or one that does not decode text
        usual = ("utf-8", "utf-16", "latin-1", "cp1252", "cp1250", "cp1251", "mac_roman", "shift_jis", "gb18030")
        raise UserError(f"unknown dataset.encoding={encoding}: {nearest(str(encoding), usual)}") from None
    parting = "" if separator is None else MARKS.get(str(separator), str(separator))
    if len(parting) > 1 or parting in ('"', "\n", "\r"):
        allowed = ", ".join(name for name, mark in MARKS.items() if mark in SEPARATORS)
        raise UserError(f"dataset.separator must be one character or one of {allowed}, got {separator!r}.")
    point = MARKS.get(str(decimal), str(decimal))
    if point not in (".", ","):
        raise UserError(f"dataset.decimal must be point or comma, got {decimal!r}.")
    if isinstance(na, str):
        raise UserError(f"dataset.na must be a list of texts, got {na}: write dataset.na=[{na}].")
    return Dialect(str(encoding), parting, point, tuple(str(text).rstrip() for text in na))


@dataclass(frozen=True)
class CsvFile:
    """A CSV or Parquet file: its path, the names of its columns in order, and its dialect."""

    path: Path
    names: tuple[str, ...]
    written: Dialect
    is_text: bool

    def where(self, row: int) -> str:
        """Return the file name and the line number of a row; row 0 is the first row below the column names."""
        if not self.is_text:
            return f"{self.path}, row {row + 1}"
        return f"{self.path}, line {next(islice(_rows(self.path, self.written), row + 1, None))[0]}"


@dataclass(frozen=True)
class FileColumn:
    """A column of a file. Row i has the value ``values[codes[i]]``, and the code -1 is a missing value."""

    file: CsvFile
    name: str
    codes: NDArray[np.int32]
    values: tuple[str, ...] | Array

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def texts(self) -> tuple[str, ...]:
        """The distinct texts in the column; empty if the column was read as numbers."""
        return self.values if isinstance(self.values, tuple) else ()

    @cached_property
    def words(self) -> list[str]:
        return [text for text, number in zip(self.texts, self.numbers, strict=False) if number is None]

    @cached_property
    def numbers(self) -> Sequence[float | None] | Array:
        """The distinct values as numbers: NaN for a missing value, None for a text that is not a number."""
        if not isinstance(self.values, tuple):
            return self.values
        written = self.file.written
        return [float("nan") if number in written.gaps else number for number in map(written.number, self.values)]

    @property
    def is_number(self) -> bool:
        return not self.words

    def cells(self, other: float = np.nan) -> Array:
        """Return the number in each row, (n,): NaN for a missing value, `other` for a text that is not a number."""
        return self.rows(
            [other if number is None else number for number in self.numbers] if self.words else self.numbers
        )

    @property
    def missing(self) -> NDArray[np.bool_]:
        return np.isnan(self.cells(np.inf))

    def rows(self, values: Sequence[float | None] | Array) -> Array:
        """Replace every text by its number in `values`, and return the numbers of all rows, (n,); NaN if missing."""
        return np.append(np.asarray(values, dtype=float), np.nan)[self.codes]

    def shown(self, row: int) -> str:
        code = self.codes[row]
        return repr(self.values[code]) if self.numbers[code] is None else f"{self.numbers[code]:g}"

    def refuse(self, wrong: NDArray[np.bool_], what: str) -> None:
        """Raise UserError if the mask `wrong` (n,) marks a row; the error says `what` is wrong, e.g. "not a number"."""
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            hint = mend(str(self.values[self.codes[row]]))
            raise UserError(f"{self.file.where(row)}, column {self.name!r}: {self.shown(row)} is {what}{hint}.")


Columns = Mapping[str, FileColumn]


def mend(text: str) -> str:
    """Return a hint to set dataset.decimal for a text like "1,5", or dataset.na for the text "unknown"; else ""."""
    if COMMA.fullmatch(text):
        return " (dataset.decimal=comma reads it)"
    return f" (dataset.na=[{text}] makes it a missing value)" if text.lower() in WORDS_FOR_MISSING else ""


def open_file(path: Path, written: Dialect) -> CsvFile:
    """Read the names of a file's columns, and detect its separator."""
    if not path.exists():
        raise UserError(f"there is no file {path}: correct dataset.path or dataset.test_path.")
    if not path.is_file():
        raise UserError(f"{path} is a folder, not a file: name a CSV file in it.")
    with _readable(path):
        with path.open("rb") as file:
            is_parquet = file.read(4) == b"PAR1"
        if is_parquet:
            return CsvFile(path, tuple(map(str, _parquet(path, rows=False).columns)), Dialect(), is_text=False)
        written = replace(written, separator=written.separator or _separator(path, written))
        rows = _rows(path, written)
        names = [name.rstrip() for name in next(rows, (1, []))[1]]
        _check_names(path, names)
        next(rows, None)  # refuses an extra value in the first row, which pandas would read as an index
        return CsvFile(path, tuple(names), written, is_text=True)


def read(file: CsvFile, names: Sequence[str], text: Collection[str] = ()) -> dict[str, FileColumn]:
    """Read the columns `names` as numbers or texts; if one row has a text, numbers in other rows stay the same."""
    for name in names:
        if name not in file.names:
            raise UserError(f"{file.path} must have a column {name!r}: {nearest(name, file.names)}")
    with _readable(file.path):
        try:
            frame = _frame(file, text)
            words = {*text, *(name for name in names if frame[name].dtype.kind not in "iuf")}
            if not words <= {*text}:  # pandas reads words such as TRUE as booleans: read columns of words as texts
                del frame
                frame = _frame(file, words)
        except (pd.errors.ParserError, UnicodeError) as error:
            _check(file)
            raise UserError(f"{file.path} cannot be read as a table: {error}.") from None
    if frame.empty:
        raise UserError(f"{file.path} has no rows below the column names.")
    return {name: _column(file, name, frame.pop(name), name in words) for name in names}


def _frame(file: CsvFile, text: Collection[str]) -> pd.DataFrame:
    if not file.is_text:
        return _parquet(file.path)
    written = file.written
    words = [text for text in written.na if _float(text) is None]  # with -999, pandas would also read -999.0 as missing
    options: dict[str, Any] = {
        "sep": written.separator,
        "encoding": written.codec,
        "decimal": written.decimal,
        **_EXACT,
    }
    options |= {"header": 0, "names": list(file.names), "index_col": False, "skipinitialspace": True}
    options |= {"na_values": [*MISSING, *words], "keep_default_na": False, "dtype": dict.fromkeys(text, object)}
    # blocks take less memory than the whole text
    with open_raw(file.path) as raw, pd.read_csv(raw, chunksize=_ROWS, low_memory=False, **options) as reader:
        frame = pd.concat(reader)
    if frame.iloc[:, -1].isna().any():  # pandas fills rows that are too short
        _check(file)
    return frame


def _column(file: CsvFile, name: str, cells: "pd.Series[Any]", as_text: bool) -> FileColumn:
    values: tuple[str, ...] | Array
    codes, found = pd.factorize(cells)  # the code of a missing value is -1
    if as_text:
        different = [str(value).rstrip() for value in found.tolist()]
        values = tuple(sorted({*different} - {*MISSING, *file.written.na}))
        place = {text: code for code, text in enumerate(values)}
        codes = np.array([*(place.get(text, -1) for text in different), -1])[codes]
    else:
        values = found.to_numpy(dtype=float) + 0.0  # -0.0 becomes 0.0, as for integers
        values[np.isin(values, list(file.written.gaps))] = np.nan
    return FileColumn(file, name, codes.astype(np.int32), values)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError) as error:
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def _parquet(path: Path, rows: bool = True) -> pd.DataFrame:
    try:
        import pyarrow.parquet as parquet  # optional
    except ImportError:
        raise UserError(f"{path} is Parquet: pip install pyarrow, or save the table as CSV.") from None
    try:
        table = parquet.read_table(path) if rows else parquet.read_schema(path).empty_table()
        # integers stay integers if one is missing, so that the category 1 does not become 1.0 in other rows
        return table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise UserError(f"{path} cannot be read as a Parquet file: {error}.") from None


def _separator(path: Path, written: Dialect) -> str:
    # the separator that splits each of the first rows into equally many values; or else the most frequent one in the
    # first line
    with open_raw(path) as file:
        start = file.read(_START)
    if b"\0" in start and written.codec == _UTF8:
        raise UserError(f"{path} is not UTF-8 text: set dataset.encoding, for example utf-16.")
    lines = start.decode(written.codec, errors="replace").splitlines(keepends=True)
    lines = lines[:-1] if len(start) == _START else lines
    first = next((line for line in lines if line.strip()), "")

    def widths(separator: str) -> set[int]:
        rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        return {len(row) for row in islice((row for row in rows if "".join(row).strip()), 20)}

    even = [each for each in SEPARATORS if len(widths(each)) == 1 and widths(each) != {1}]
    return max(even, key=lambda each: max(widths(each))) if even else max(SEPARATORS, key=first.count)


def _check_names(path: Path, names: Sequence[str]) -> None:
    if not names:
        raise UserError(f"{path} is empty: its first line must name the columns.")
    if "" in names:
        raise UserError(
            f"{path}, line 1: column {names.index('') + 1} has no name (maybe it has row numbers): name every column, "
            "and leave out columns that are not features with dataset.drop=[NAME]."
        )
    if len(names) < 2:
        raise UserError(
            f"{path}, line 1: there is only one column, {names[0][:60]!r}, but a label and a feature are needed: set "
            "dataset.separator if it is not a comma, semicolon, tab or bar, and delete lines above the names."
        )
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UserError(f"{path}, line 1: two columns are called {name!r}; rename one.")
        if _float(name) is not None and not name.isdecimal():  # years and pixel numbers are allowed as names
            raise UserError(
                f"{path}, line 1: {name} is a number where the name of a column is expected; the first line must name "
                "the columns."
            )


def _check(file: CsvFile) -> None:
    for _ in _rows(file.path, file.written) if file.is_text else ():
        pass  # reading all rows raises UserError at the first wrong one


def _rows(path: Path, written: Dialect) -> Iterator[tuple[int, list[str]]]:
    # yields the rows that are not blank, beginning with the names, each with the line on which it starts; raises
    # UserError at the first invalid byte, unclosed quote, or row of another length
    start, columns = 1, 0
    try:
        with open_raw(path) as raw, io.TextIOWrapper(raw, encoding=written.codec, newline="") as file:
            reader = csv.reader(file, delimiter=written.separator, skipinitialspace=True, strict=True)
            for row in reader:
                if len(row) > 1 or "".join(row).strip():
                    columns = columns or len(row)
                    if len(row) != columns:
                        counted = "there is 1 value" if len(row) == 1 else f"there are {len(row)} values"
                        raise UserError(f"{path}, line {start}: {counted}, but line 1 names {columns} columns.")
                    yield start, row
                start = reader.line_num + 1
    except UnicodeError:
        raise _wrong_bytes(path, written) from None
    except csv.Error as error:
        what = "a quote is opened and never closed" if "unexpected end" in str(error) else str(error)
        raise UserError(f"{path}, line {start} is not valid CSV: {what}.") from None


def _wrong_bytes(path: Path, written: Dialect) -> UserError:
    if written.codec == _UTF8:
        with open_raw(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return UserError(
                        f"{path}, line {number} is not UTF-8 text (byte {line[error.start]:#04x}): set "
                        "dataset.encoding (--encoding), for example cp1252, or save the file as UTF-8."
                    )
    return UserError(f"{path} is not {written.encoding} text: set another dataset.encoding, or save it as UTF-8.")
