"""What a column of a file is: numbers, categories, or true and false."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpml.arrays import Array
from dpml.data.own.reading import Columns
from dpml.data.own.text import is_number
from dpml.errors import UserError

Kind = Literal["number", "category", "boolean"]

WORDS = ({"false", "true"}, {"no", "yes"})
"""Pairs of words that are no categories, however they are capitalised: false and no are 0, true and yes are 1."""

CATEGORIES = 1000
"""Categories that a column may have, unless they are stated: each becomes a feature."""

_IDS = 20  # texts from which on a column without any repetition counts as names of the rows


@dataclass(frozen=True)
class Found:
    """What is found of a column.

    Attributes:
        kind: What it is.
        missing: How many of its values are missing.
        low, high: The least and the largest number; NaN where there is none.
        values: The texts of a column of categories or of booleans, sorted.
        problem: Why it cannot be a feature, a clause without its name; empty where it can.
        hint: What may be wrong with it, though it can.
    """

    name: str
    kind: Kind
    missing: int
    low: float
    high: float
    values: tuple[str, ...] = ()
    problem: str = ""
    hint: str = ""

    @property
    def levels(self) -> int:
        """How many features one-hot coding makes of it, 0 for one that is a number already."""
        return len(self.values) if self.kind == "category" else 0


def find(columns: Columns, name: str) -> Found:
    """What a column is, by its values."""
    cells, texts = columns[name], columns.texts.get(name, ())
    missing = int(np.isnan(cells).sum())
    if missing == len(cells):
        return Found(name, "number", missing, np.nan, np.nan, problem="has no values")
    low, high = float(np.nanmin(cells)), float(np.nanmax(cells))
    if name not in columns.texts:
        problem = ""
        if np.isinf([low, high]).any():
            row = int(np.flatnonzero(np.isinf(cells))[0])
            problem = f"has an infinite value ({columns.file.where(row)})"
        return Found(name, "number", missing, low, high, problem=problem)
    if is_boolean(texts):
        yes = to_booleans(cells, texts)
        return Found(name, "boolean", missing, float(np.nanmin(yes)), float(np.nanmax(yes)), texts)
    problem = ""
    if len(texts) == len(cells) - missing and len(texts) > _IDS:
        problem = f"has another text in every row, such as {texts[0][:40]!r}, so that it tells nothing about new rows"
    elif len(texts) > CATEGORIES:
        problem = f"has {len(texts):,} texts, such as {texts[0][:40]!r}, and {CATEGORIES:,} categories are the most"
    return Found(name, "category", missing, np.nan, np.nan, texts, problem)


def is_boolean(texts: tuple[str, ...]) -> bool:
    """Whether all of some texts are words for true and false."""
    return any({value.lower() for value in texts} <= words for words in WORDS)


def to_booleans(codes: Array, texts: tuple[str, ...]) -> Array:
    """Codes of words for true and false as 1 and 0; NaN stays."""
    return look_up(codes, [float(value.lower() in ("true", "yes")) for value in texts])


def recode(codes: Array, texts: tuple[str, ...], values: tuple[str, ...]) -> Array:
    """Codes of `texts` as codes of `values`: -1 for a text that is not among them; NaN stays."""
    place = {value: float(number) for number, value in enumerate(values)}
    return look_up(codes, [place.get(value, -1.0) for value in texts])


def look_up(codes: Array, numbers: Sequence[float]) -> Array:
    """The number at the place that each code says; NaN stays."""
    return np.array([*numbers, np.nan])[np.where(np.isnan(codes), len(numbers), codes).astype(np.intp)]


def feature(columns: Columns, name: str, kind: Kind, values: tuple[str, ...]) -> Array:
    """A column as a feature of that kind: numbers, codes of `values` (-1: another text), or 0 and 1; NaN is missing.

    Raises:
        UserError: a value is of another kind; says on which line.
    """
    cells, texts = columns[name], columns.texts.get(name)
    if kind == "category":
        return recode(cells, columns.texts[name], values)
    if texts is not None and kind == "boolean" and is_boolean(texts):
        return to_booleans(cells, texts)
    wrong = np.isinf(cells) if texts is None else np.isin(cells, _no_numbers(texts))
    if texts is None and kind == "boolean":
        wrong |= ~np.isin(cells, (0.0, 1.0)) & ~np.isnan(cells)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        value = f"{cells[row]:g}" if texts is None else repr(texts[int(cells[row])])
        what = "no number" if kind == "number" else "not true or false, yes or no"
        raise UserError(f"{columns.file.where(row)}, column {name!r}: {value} is {what}.")
    return cells


def as_text(value: float) -> str:
    """A number as the name of a class: a whole one without a point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _no_numbers(texts: tuple[str, ...]) -> list[int]:
    return [code for code, value in enumerate(texts) if not is_number(value)]
