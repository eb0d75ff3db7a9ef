"""A CSV file as text: the names in its first line, and the line and description of the first mistake.

Pandas, with which `dpml.data.csv.reading` reads files, fills rows that are too short and reports no line numbers. The
functions here read row by row with Python's own `csv`, for the first line and for messages about mistakes.
"""

import codecs
import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from dpml.data.csv.dialect import SEPARATORS, Dialect
from dpml.data.sources.files import open_raw
from dpml.errors import UserError

_LONGEST = 1 << 24  # characters of a value; the default limit of the csv module is lower
csv.field_size_limit(_LONGEST)

_START = 1 << 16  # bytes of a file, from which its separator is guessed
_EXAMPLES = 100
_LIKELY = ("cp1252", "cp1250", "mac_roman", "cp850", "cp1251", "iso8859-2", "cp1253", "shift_jis", "gb18030", "euc_kr")


def header(path: Path, written: Dialect) -> tuple[tuple[str, ...], Dialect]:
    """The names of a CSV file's columns, and its dialect with the separator.

    Raises:
        UserError: the file is empty, is not text of this encoding, or its first line does not name every column once.
    """
    written = replace(written, separator=written.separator or _separator(path, written))
    rows = _rows(path, written)
    _, names = next(rows, (1, []))
    _, values = next(rows, (2, names))
    names = [name.rstrip() for name in names]
    _check_names(path, names)
    if len(values) != len(names):  # Pandas would take an extra value for the name of the row
        check(path, written)
    return tuple(names), written


def _separator(path: Path, written: Dialect) -> str:
    """The separator that splits the first rows into equally many values, the most; or else the first line."""
    with open_raw(path) as file:
        start = file.read(_START)
    if b"\0" in start and codecs.lookup(written.encoding).name == "utf-8":
        marked = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        name = "utf-16" if marked else "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
        raise WrongEncodingError(f"{path}, line 1: it is not UTF-8 text: say dataset.encoding={name}.", name)
    lines = start.decode(written.codec, errors="replace").splitlines(keepends=True)
    lines = lines[:-1] if len(start) == _START else lines
    first = next((line for line in lines if line.strip()), "")

    def width(separator: str) -> tuple[int, int]:
        rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        widths = {len(row) for row in islice((row for row in rows if "".join(row).strip()), 20)}
        return max(widths, default=0) if len(widths) == 1 else 0, first.count(separator)

    found = max(SEPARATORS, key=width)
    return found if width(found)[0] > 1 else max(SEPARATORS, key=first.count)


def _check_names(path: Path, names: Sequence[str]) -> None:
    if not names:
        raise UserError(f"{path} is empty: its first line must name the columns.")
    for place, name in enumerate(names, start=1):
        if not name:
            raise UserError(
                f"{path}, line 1: column {place} has no name (row numbers that a program wrote?); name every column, "
                "and leave out those that are no features with dataset.drop=[NAME]."
            )
    if len(names) < 2:
        raise UserError(
            f"{path}, line 1: there is one column only, {names[0][:60]!r}, and a label and a feature are needed; "
            "values are parted by commas, semicolons, tabs or bars, or by dataset.separator. Lines above the names "
            "must be deleted."
        )
    for place, name in enumerate(names, start=1):
        if names.index(name) < place - 1:
            first = names.index(name) + 1
            raise UserError(f"{path}, line 1: columns {first} and {place} are both called {name!r}; rename one.")
    for name in names:
        if Dialect().number(name) is not None and not name.isdecimal():  # years and pixels are names, too
            raise UserError(
                f"{path}, line 1: {name} is a number where the name of a column is expected; the first line must name "
                "the columns."
            )


def check(path: Path, written: Dialect) -> None:
    """Raise UserError at the first place where a file's text is not a table.

    That is where there are wrong bytes, a quote that is never closed, or a row of another length.
    """
    columns = 0
    for line, row in _rows(path, written):
        columns = columns or len(row)
        if len(row) != columns:
            counted = "there is 1 value" if len(row) == 1 else f"there are {len(row)} values"
            raise UserError(f"{path}, line {line}: {counted}, and line 1 names {columns} columns.")


def line_of(path: Path, written: Dialect, row: int) -> int:
    """The line on which row number `row` (0 is the first after the names) begins.

    Raises:
        UserError: the rows up to there cannot be read.
    """
    for number, (line, _) in enumerate(_rows(path, written), start=-1):
        if number == row:
            return line
    raise IndexError(row)


def _rows(path: Path, written: Dialect) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file that are not blank, the names first, each with the line on which it begins."""
    start = 1
    try:
        with open_raw(path) as raw, io.TextIOWrapper(raw, encoding=written.codec, newline="") as file:
            reader = csv.reader(file, delimiter=written.separator, skipinitialspace=True, strict=True)
            for row in reader:
                if len(row) > 1 or "".join(row).strip():
                    yield start, row
                start = reader.line_num + 1
    except UnicodeError:
        raise _wrong_bytes(path, written) from None
    except csv.Error as error:
        what = "a quote is opened and never closed" if "unexpected end" in str(error) else str(error)
        raise UserError(f"{path}, line {start}: {what}.") from None


class WrongEncodingError(UserError):
    """A file is not text of the encoding that was said; `likely` is an encoding with which it is text, or empty."""

    def __init__(self, sentence: str, likely: str = "") -> None:
        super().__init__(sentence)
        self.likely = likely


def _wrong_bytes(path: Path, written: Dialect) -> WrongEncodingError:
    """What is said of the first line that cannot be decoded: how encodings in use would read the value there."""
    if codecs.lookup(written.encoding).name == "utf-8":
        with open_raw(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    shown = f"{path}, line {number}: it is not UTF-8 text (byte {line[error.start]:#04x})"
                    return _readings(shown, _beyond_ascii(chain([line], file)))
    return WrongEncodingError(
        f"{path} is not {written.encoding} text: name another dataset.encoding, or save the file as UTF-8."
    )


def _beyond_ascii(lines: Iterable[bytes]) -> list[bytes]:
    """The first different values that have other characters than those of ASCII."""
    found = (value for line in lines for value in re.findall(rb"[^,;\t|\"\r\n]*[\x80-\xff][^,;\t|\"\r\n]*", line))
    values: dict[bytes, None] = {}
    for value in found:
        values[value.strip()] = None
        if len(values) == _EXAMPLES:
            break
    return list(values)


def _readings(shown: str, values: list[bytes]) -> WrongEncodingError:
    """How encodings in use read the values: those that find words of one script in all of them."""
    readings: dict[str, str] = {}
    for encoding in _LIKELY:
        with suppress(UnicodeDecodeError):
            texts = [value.decode(encoding) for value in values]
            if all(map(_is_language, texts)):
                readings.setdefault(texts[0], encoding)
    # a word without any letter of ASCII is hardly of a Latin script
    foreign = not re.search(rb"[A-Za-z]", values[0])
    found = sorted(readings.items(), key=lambda reading: foreign and _scripts(reading[0]) == {"LATIN"})
    if not found:
        return WrongEncodingError(f"{shown}: name its dataset.encoding, or save it as UTF-8.")
    (text, likely), *others = found
    more = "".join(f", {other} for {text[:30]!r}" for text, other in others[:3])
    sentence = f"{shown}: say dataset.encoding={likely} to read {text[:30]!r} there{more}; or save it as UTF-8."
    return WrongEncodingError(sentence, likely)


def _is_language(text: str) -> bool:
    """Whether a text has letters of one script only, besides characters of ASCII, and no capitals inside of words."""
    words = re.findall(r"[^\W\d_]+", text)
    cased = all(word.islower() or word.isupper() or word.istitle() for word in words if word.lower() != word.upper())
    return len(_scripts(text)) == 1 and cased and all(letter.isascii() or letter.isalpha() for letter in text)


def _scripts(text: str) -> set[str]:
    return {unicodedata.name(letter, "").split(" ")[0] for letter in text if letter.isalpha()}
