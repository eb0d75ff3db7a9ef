"""Read a CSV or Parquet file as an array of numbers and codes of texts, in blocks; any error rejects the whole file."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.data.csv import csv_errors
from dpml.data.csv.dialect import MISSING, PLAIN, Dialect
from dpml.data.sources.files import open_raw
from dpml.errors import UserError

# numbers to the nearest float, as Python reads them: Pandas before 3.1 needs an option for this, later versions do not
_EXACT: dict[str, Any] = (
    {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
)

_WHOLE = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")


@dataclass(frozen=True)
class CsvFile:
    """A table on disk: the names of its columns in order, and how it is written (without a separator: Parquet)."""

    path: Path
    names: tuple[str, ...]
    written: Dialect = PLAIN

    @property
    def is_text(self) -> bool:
        """Whether it is a CSV file."""
        return bool(self.written.separator)

    def where(self, row: int) -> str:
        """How an error message names row number `row` (0 is the first): by its line, or by its number."""
        if not self.is_text:
            return f"{self.path}, row {row + 1}"
        return f"{self.path}, line {csv_errors.line_of(self.path, self.written, row)}"


@dataclass(frozen=True)
class CsvColumns:
    """Some columns of a file.

    Attributes:
        file: The file they come from.
        names: Their names.
        X: Their values (n, p); NaN is missing. In a text column the number k stands for text number k.
        texts: The texts of each text column, sorted.
    """

    file: CsvFile
    names: tuple[str, ...]
    X: Array
    texts: Mapping[str, tuple[str, ...]]

    def __getitem__(self, name: str) -> Array:
        """The values of one column (n,)."""
        return self.X[:, self.names.index(name)]

    def text(self, name: str, row: int) -> str:
        """A value as an error message shows it."""
        value = self[name][row]
        return repr(self.texts[name][int(value)]) if name in self.texts else f"{value:g}"

    def refuse(self, name: str, wrong: NDArray[np.bool_], what: str) -> None:
        """Raise UserError if a value of a column is wrong, (n,): the first of them is `what`."""
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise UserError(f"{self.file.where(row)}, column {name!r}: {self.text(name, row)} is {what}.")


def open_file(path: Path, written: Dialect = PLAIN) -> CsvFile:
    """Open a file for reading, with the names of its columns.

    Raises:
        UserError: there is no such file, it is not a table, or its columns have no names.
    """
    if not path.exists():
        raise UserError(f"there is no file {path} (dataset.path, dataset.test_path).")
    if not path.is_file():
        raise UserError(f"{path} is a folder, not a file: name a CSV file in it.")
    try:
        if _is_parquet(path):
            return CsvFile(path, tuple(map(str, _parquet(path, rows=False).columns)))
        return CsvFile(path, *csv_errors.header(path, written))
    except (OSError, EOFError) as error:
        raise _unreadable(path, error) from error


def read(
    file: CsvFile, names: Sequence[str], texts: Collection[str] = (), block: int = 1 << 16, peek: int = 1000
) -> CsvColumns:
    """The columns `names`. A column is numeric if all its values are numbers and it is not in `texts`; else it is text.

    Blanks after a text do not count.

    Text columns are guessed from the first `peek` rows; a wrong guess only costs a second reading. Rows are read in
    blocks of `block`.

    Raises:
        UserError: the file is not a table of numbers and texts; the message names the line.
    """
    as_text = set(texts)
    try:
        if file.is_text:
            as_text |= _not_numbers(next(_frames(file, as_text, peek), pd.DataFrame()), names)
        while True:
            columns, late = _read(file, tuple(names), as_text, block)
            if not late:
                return _numbers(columns, as_text - set(texts))
            as_text |= late
    except (pd.errors.ParserError, UnicodeError) as error:
        if file.is_text:
            csv_errors.check(file.path, file.written)
        raise UserError(f"{file.path} cannot be read as a table: {error}.") from None
    except (OSError, EOFError) as error:
        raise _unreadable(file.path, error) from error


def _unreadable(path: Path, error: OSError | EOFError) -> UserError:
    return UserError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.")


def _read(file: CsvFile, names: tuple[str, ...], as_text: Collection[str], rows: int) -> tuple[CsvColumns, set[str]]:
    """The columns, and the names of those that turned out to be text although they are not in `as_text`."""
    blocks: list[Array] = []
    known: dict[str, dict[str, int]] = {name: {} for name in names if name in as_text}
    late: set[str] = set()
    short, missing = False, {*MISSING, *file.written.na} if file.is_text else set()
    gaps = sorted(file.written.gaps)
    for frame in _frames(file, as_text, rows):
        late |= _not_numbers(frame, names) - known.keys()
        short |= bool(frame.iloc[:, -1].isna().any())
        if late:  # the rest is read only to find other such columns
            continue
        block = np.empty((len(frame), len(names)), order="F")  # the layout in which it is processed: column by column
        for place, name in enumerate(names):
            column = frame[name]
            numbers = name not in known
            block[:, place] = _floats(column, gaps) if numbers else _codes(column, known[name], missing)
        blocks.append(block)
    if short and file.is_text:  # Pandas fills rows that are too short
        csv_errors.check(file.path, file.written)
    X = np.concatenate(blocks) if blocks else np.empty((0, len(names)))
    del blocks
    return CsvColumns(
        file, names, X, {name: _sort(X[:, names.index(name)], codes) for name, codes in known.items()}
    ), late


def _not_numbers(frame: pd.DataFrame, names: Sequence[str]) -> set[str]:
    return {name for name in names if name in frame and frame[name].dtype.kind not in "iuf"}


def _numbers(columns: CsvColumns, guessed: Collection[str]) -> CsvColumns:
    """The same with numbers, in place, where texts turn out to be nothing else: blanks had hidden missing values."""
    texts = dict(columns.texts)
    for name in [name for name in columns.names if name in guessed]:
        values = [columns.file.written.number(text) for text in texts[name]]
        if values and None not in values:
            columns[name][:] = look_up(columns[name], [value for value in values if value is not None])
            del texts[name]
    return replace(columns, texts=texts)


def look_up(codes: Array, numbers: Sequence[float]) -> Array:
    """The number at the index given by each code; NaN stays NaN."""
    return np.array([*numbers, np.nan])[np.where(np.isnan(codes), len(numbers), codes).astype(np.intp)]


def _floats(column: "pd.Series[Any]", gaps: Sequence[float]) -> Array:
    """A column of numbers, NaN for the numbers that stand for a missing value.

    Pandas finds -999.00 by itself only where a column has a fraction, and no text: where another row says so.
    """
    numbers = column.to_numpy(float, na_value=np.nan)
    return np.where(np.isin(numbers, gaps), np.nan, numbers) if gaps else numbers


def _codes(column: "pd.Series[Any]", known: dict[str, int], missing: Collection[str]) -> Array:
    """The code of every text, NaN for a missing value; a text that is not in `known` gets the next code."""
    codes, values = pd.factorize(column)
    texts = [str(value).rstrip() for value in values]
    places = [np.nan if text in missing else float(known.setdefault(text, len(known))) for text in texts]
    return np.array([*places, np.nan])[codes]  # the code of a missing value is -1


def _sort(column: Array, known: Mapping[str, int]) -> tuple[str, ...]:
    """Renumber a column of codes, in place, into the order of the sorted texts; return these texts."""
    texts = sorted(known)
    rank = np.full(len(texts) + 1, np.nan)
    rank[[known[value] for value in texts]] = np.arange(len(texts))
    column[:] = rank[np.where(np.isnan(column), len(texts), column).astype(np.intp)]
    return tuple(texts)


def _frames(file: CsvFile, as_text: Collection[str], rows: int) -> Iterator[pd.DataFrame]:
    """A file's rows with all columns, `rows` at a time; the columns in `as_text` are read as raw text."""
    if not file.is_text:
        yield _parquet(file.path)
        return
    with (
        open_raw(file.path) as raw,
        pd.read_csv(
            raw,
            sep=file.written.separator,
            encoding=file.written.codec,
            decimal=file.written.decimal,
            header=0,
            names=list(file.names),
            index_col=False,
            dtype=dict.fromkeys(as_text, str),
            keep_default_na=False,
            na_values=[*MISSING, *file.written.na],
            skipinitialspace=True,
            low_memory=False,  # one type for each column of a block
            chunksize=rows,
            **_EXACT,
        ) as frames,
    ):
        yield from frames


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _parquet(path: Path, rows: bool = True) -> pd.DataFrame:
    try:
        import pyarrow  # optional
        import pyarrow.parquet as parquet
    except ImportError:
        raise UserError(f"{path} is a Parquet file: pip install pyarrow to read it, or save it as CSV.") from None
    try:
        if rows:
            # whole numbers stay whole where one is missing, so that the category 1 is not read as 1.0 in all other rows
            whole = {getattr(pyarrow, kind.lower())(): pd.api.types.pandas_dtype(kind) for kind in _WHOLE}
            return parquet.read_table(path).to_pandas(ignore_metadata=True, types_mapper=whole.get)
        return parquet.read_schema(path).empty_table().to_pandas(ignore_metadata=True)
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise UserError(f"{path} cannot be read as a Parquet file: {error}.") from None
