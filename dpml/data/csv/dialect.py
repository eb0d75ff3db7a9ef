"""How a CSV file is written: its encoding, its separator, its decimal point, and what stands for a missing value."""

import codecs
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpml.errors import UserError, nearest

MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL")
"""Texts that stand for a missing value in every file."""

MARKS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "point": "."}
"""Names for the characters that a command line would need quotes for."""

SEPARATORS = (",", ";", "\t", "|")
"""The separators that are recognised without being named."""


@dataclass(frozen=True)
class Dialect:
    """How a file is written.

    Attributes:
        encoding: What its bytes mean, by a name that Python knows; `utf-8` takes a byte order mark, too.
        separator: The character between values; empty: the one that splits the first lines evenly.
        decimal: The character before the decimals of a number: a point or a comma.
        na: Texts that stand for a missing value, besides `MISSING`.
    """

    encoding: str = "utf-8"
    separator: str = ""
    decimal: str = "."
    na: tuple[str, ...] = ()

    @property
    def codec(self) -> str:
        """The encoding for reading from the first byte."""
        return "utf-8-sig" if codecs.lookup(self.encoding).name == "utf-8" else self.encoding

    @cached_property
    def gaps(self) -> frozenset[float]:
        """The numbers in `na`: in a column of numbers a value is missing however it is written, -999 or -999.00."""
        return frozenset(value for text in self.na for value in (_float(text), self._parsed(text)) if value is not None)

    def number(self, text: str) -> float | None:
        """Return the number that a text is in such a file, NaN for one of `gaps`, or None."""
        value = self._parsed(text)
        return float("nan") if value in self.gaps else value

    def numbers(self, texts: Sequence[str]) -> list[float | None]:
        """Return `number` of every text."""
        if self.decimal == "." and not any("_" in text for text in texts):
            with suppress(ValueError):  # a fast path for texts that all are numbers
                return [float("nan") if value in self.gaps else value for value in map(float, texts)]
        return list(map(self.number, texts))

    def _parsed(self, text: str) -> float | None:
        return _float(text if self.decimal == "." else "_" if "." in text else text.replace(self.decimal, "."))


def _float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)  # Python also accepts 1_000, which is no number
    except ValueError:
        return None


PLAIN = Dialect()
"""UTF-8, points, and the separator that is found."""


def dialect(encoding: Any = "utf-8", separator: Any = None, decimal: Any = ".", na: Sequence[Any] = ()) -> Dialect:
    """The dialect that options describe: characters as they are or by name, missing values as texts or numbers."""
    try:
        codecs.lookup(str(encoding)).incrementaldecoder  # noqa: B018 - a codec of bytes to bytes has none
        if not b"\xff".decode(str(encoding), "replace"):  # punycode, since Python 3.13; it raised an error before
            raise LookupError
    except (LookupError, ValueError):  # not known, or no encoding of any text
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
