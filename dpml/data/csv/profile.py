"""Find the kind of a column and its likely problems from its values."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpml.arrays import Array
from dpml.data.csv.columns import ISO, ZERO_ONE, ColumnKind, day_number
from dpml.data.csv.labels import Labels
from dpml.data.csv.reading import COMMA, WORDS_FOR_MISSING, CsvFile, FileColumn, mend
from dpml.errors import UserError

CATEGORIES = 1000
"""The largest number of categories of a column without bounds: each category becomes a feature."""

LARGEST = 1e100
"""The largest absolute value of a number: squares of larger ones overflow."""

_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d.%m.%y")
FORMS = (ISO, *_DATES, *(f"{form} %H:%M" for form in _DATES))
"""The forms of dates that are recognised; a bounds file may name any other form of `strptime`."""

_FEW = 20  # up to this many texts may be categories if none repeats; up to this many values may determine the class
_NUMBERS_FOR_MISSING = (-9.0, -99.0, -999.0, -9999.0, 999.0, 9999.0, 99999.0)
_GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?|[-+]?\d{1,3}(\.\d{3})+(,\d+)?")  # 1,000 or 1.000
_UNIT = re.compile(r"[-+]?\d+(?:[.,]\d+)?\s?(%|[^\W\d_]{1,3}(?:/[^\W\d_]{1,3})?)")
_ID = re.compile(r"(^|[_ ])(id|nr|no|key|code|number)$|Id$|ID$")


@dataclass(frozen=True)
class ColumnProfile:
    """The properties of a column, determined from its values."""

    name: str
    kind: ColumnKind
    missing: int
    low: float = np.nan  # the smallest number, or date in days since 1970-01-01; NaN if there is none
    high: float = np.nan
    problem: str = ""  # why the column cannot be a feature, as words that follow its name; empty if it can
    hint: str = ""  # a possible problem with a column that can be a feature
    values: tuple[str, ...] = ()  # the sorted texts of a categorical or boolean column


def refuse_problems(file: CsvFile, profiles: Iterable[ColumnProfile]) -> None:
    """Raise UserError if a column cannot be a feature."""
    for each in profiles:
        if each.problem:
            raise UserError(
                f"the column {each.name!r} of {file.path} {each.problem}: correct the column, or leave it out with "
                f"dataset.drop=[{each.name}]."
            )


def profile_of(column: FileColumn) -> ColumnProfile:
    """Determine the kind and the other properties of a column from its values."""
    forms = [] if column.is_number else forms_of(column.texts)
    kind = ColumnKind("category", column.texts)
    if column.is_number:
        kind = ColumnKind("number")
    elif any({text.lower() for text in column.texts} <= words for words in ({"false", "true"}, {"no", "yes"})):
        kind = ColumnKind("boolean", ZERO_ONE)
    elif forms:
        kind = ColumnKind("date", form=forms[0])
    cells = _cells(column, kind)
    problem = _problem(column, kind, forms, cells)
    if problem and (unit := with_unit(column)):
        problem = f"has numbers with a unit, such as {unit!r} (write numbers only)"
    low = high = np.nan
    if kind.name != "category" and len(forms) < 2 and not np.isnan(cells).all():
        low, high = np.nanmin(cells), np.nanmax(cells)
    values = column.texts if kind.name in ("category", "boolean") else ()
    return ColumnProfile(column.name, kind, int(column.missing.sum()), low, high, problem, values=values)


def _cells(column: FileColumn, kind: ColumnKind) -> Array:
    return column.cells() if kind.name == "number" else kind.cells(column)


def _problem(column: FileColumn, kind: ColumnKind, forms: Sequence[str], cells: Array) -> str:
    texts, where = column.texts, column.file.where
    if np.isnan(cells).all():
        return "has no values"
    if len(large := np.flatnonzero(np.abs(cells) > LARGEST)):
        size = "an infinite value" if np.isinf(cells[large[0]]) else f"a value beyond {LARGEST:g}"
        return f"has {size} ({where(int(large[0]))})"
    if len(forms) > 1:
        return f"has dates such as {texts[0]!r}, in which the day may be the month (set format in a bounds file)"
    if kind.name != "category":
        return ""
    if column.file.written.decimal == "." and with_commas(texts):
        example = next(text for text in texts if COMMA.fullmatch(text))
        return f"has numbers with a decimal comma, such as {example!r} (dataset.decimal=comma reads them)"
    word = column.words[0]
    if _FEW < len(texts) > 2 * len(column.words):
        row = int(np.flatnonzero(column.codes == texts.index(word))[0])
        return f"has numbers, but {word[:40]!r} is not a number ({where(row)}){mend(word)}"
    if _FEW < len(texts) == np.sum(column.codes >= 0):
        return f"has a different text in every row, such as {texts[0][:40]!r}, like an identifier"
    if len(texts) > CATEGORIES:
        return f"has {len(texts):,} texts, such as {texts[0][:40]!r}, but at most {CATEGORIES:,} may be categories"
    return ""


def forms_of(texts: Sequence[str]) -> list[str]:
    """Return the date formats, such as %d.%m.%Y, that fit all texts."""
    if any(len(text) < 8 or not text[:1].isdigit() for text in texts):
        return []
    return [form for form in FORMS if all(day_number(text, form) < np.inf for text in texts)]


def with_commas(texts: Sequence[str]) -> bool:
    """Return whether all texts that contain digits are numbers, and at least one number has a decimal comma."""
    numbers = [text for text in texts if any(letter.isdigit() for letter in text)]
    with_comma = [text for text in numbers if COMMA.fullmatch(text)]
    whole = [text for text in numbers if text.lstrip("+-").isdigit()]
    grouped = all(_GROUPED.fullmatch(text) for text in with_comma)  # 1,000 is more probably a thousand
    return not grouped and len(with_comma) + len(whole) == len(numbers)


def with_unit(column: FileColumn) -> str:
    """Return an example such as "50 kg" if a column has numbers with one unit of measurement; otherwise ""."""
    found = [_UNIT.fullmatch(text) for text in column.words]
    same = len(found) > 1 and None not in found and len({each and each[1] for each in found}) == 1
    return column.words[0] if same else ""


def gap_words(column: FileColumn) -> list[str]:
    """Return the words that mean a missing value in a column of numbers; [] if the column has any other word."""
    likely = all(text.lower() in WORDS_FOR_MISSING for text in column.words)
    return column.words if likely and len(column.words) < len(column.texts) else []


def hint(column: FileColumn, profile: ColumnProfile, y: Array | None, labels: Labels | None) -> str:
    """Return a text that names a likely problem of a column and the option that repairs it; "" without a problem."""
    if profile.problem:
        return ""
    cells, kind, values = _cells(column, profile.kind), profile.kind, profile.values
    if y is not None and labels is not None and _tells(cells, y, labels):
        return f"predicts the label exactly: is it the label under another name? dataset.drop=[{profile.name}]"
    if kind.name == "number":
        return _number_hint(profile, cells)
    if kind.name == "date":
        return f"dates: write {{unit: days, low: ..., high: ..., format: '{kind.form}'}} in a bounds file"
    if unit := with_unit(column):
        return f"numbers with a unit, such as {unit!r}? write numbers only"
    if likely := [value for value in values if value.lower() in WORDS_FOR_MISSING]:
        return f"{likely[0]!r} is a category; dataset.na=[{likely[0]}] makes it a missing value"
    if kind.name == "category" and len({value.lower() for value in values}) < len(values):
        return "values that differ in capitals only are different categories"
    if any(_GROUPED.fullmatch(value) for value in values):
        return "numbers with grouped digits? write 1000 instead of 1,000"
    return ""


def _number_hint(profile: ColumnProfile, cells: Array) -> str:
    n, values = len(cells), np.unique(cells[~np.isnan(cells)])
    different = len(values) == n > 2 and bool(np.all(values == np.round(values)))
    if different and profile.high - profile.low == n - 1:
        return f"row numbers? dataset.drop=[{profile.name}]"
    if different and n > _FEW and _ID.search(profile.name):
        return f"a different number in every row: an identifier? dataset.drop=[{profile.name}]"
    for number, rest in ((profile.low, values[1:]), (profile.high, values[:-1])):
        # a number may stand for a missing value only if all other numbers are >= 0 and far from it
        far = len(rest) > 1 and rest[0] >= 0 and (number < 0 or number > 3 * rest[-1])
        if far and number in _NUMBERS_FOR_MISSING:
            return f"is {number:g} a missing value? dataset.na=[{number:g}]"
    return ""


def _tells(cells: Array, y: Array, labels: Labels) -> bool:
    known = ~np.isnan(cells) & ~np.isnan(y)
    x, y = cells[known], y[known]
    # a column may determine the label by few values, by a threshold, or linearly
    if len(x) < _FEW or np.ptp(x) == 0 or np.ptp(y) == 0:
        return False
    if labels.task == "regression":
        return bool(abs(np.corrcoef(x, y)[0, 1]) > 1 - 1e-9)
    values = len(np.unique(x))
    if values <= _FEW:
        return len(np.unique(np.column_stack([x, y]), axis=0)) == values
    ends = sorted((x[y == label].min(), x[y == label].max()) for label in np.unique(y))
    return all(before[1] < after[0] for before, after in pairwise(ends))
