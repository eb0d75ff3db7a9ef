"""Data sets: their metadata (`Info`), the location of their files (`Files`), and the arrays of a run (`Dataset`)."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data.info import Info, Task
from dpml.data.sources.files import Files
from dpml.errors import UserError
from dpml.seeds import generator


@dataclass(frozen=True)
class Dataset:
    """Training and test arrays, ready for an algorithm: ||x||_2 <= 1, and labels in the form of `task`.

    Binary labels are -1 and +1, classes are 0..K-1, regression targets lie in [-1, 1]. Test rows and targets may lie
    slightly outside. Arrays may be read-only and memory-mapped.

    Attributes:
        provenance: The source, its checksum, the number of rows, and every preprocessing step.
        truth: The weights that generated the labels, if they are known.
        party: The party of each training row, (N,) of 0..P-1, if the data set has parties.
        classes: The number of classes that labels may have; 1 if it is not public.
    """

    name: str
    task: Task
    X: Array
    y: Array
    X_test: Array
    y_test: Array
    provenance: Mapping[str, Any] = field(default_factory=dict)
    truth: Array | None = None
    party: Index | None = None
    classes: int = 1


PLACE: Mapping[str, Any] = {"place": True}
"""Metadata of a `Source` field that only locates a file: results depend on the file's content, not its path."""


class Source(Protocol):
    """A data set that can be configured: a frozen dataclass whose fields are the options of its YAML file.

    An optional method ``checksum(files: Files) -> str | None`` returns the `sha256` of the provenance without loading
    the rows. A field with `PLACE` as its metadata names a file, whose content the checksum covers. ``own = True`` marks
    private rows: results are stored without path and checksum.
    """

    @property
    def info(self) -> Info:
        """The metadata of the data set; a class attribute is sufficient."""

    def size(self, N: int | None) -> tuple[int, int]:
        """Return (training rows, features) without touching any data; N overrides the rows."""

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        """Return the arrays, with N training rows (None: all); a smaller N gives a subset of the same rows."""


def checksum(source: Source, files: Files) -> str | None:
    """Return the checksum of a data set's content, as in its provenance; None for synthetic data."""
    own: Callable[[Files], str | None] | None = getattr(source, "checksum", None)
    if own is not None:
        return own(files)
    return source.load(files, None, generator(0, "data")).provenance.get("sha256")


def sha256(*contents: bytes) -> str:
    """Return the checksum of some bytes, for a data set's provenance."""
    return hashlib.sha256(b"".join(contents)).hexdigest()


def split_rows(info: Info, rows: int, N: int | None, rng: Generator, test_fraction: float) -> tuple[Index, Index]:
    """Draw the training rows and the test rows among `rows` rows without an official split."""
    order = rng.permutation(rows)
    available = training_rows(rows, test_fraction)
    check_rows(info, N, available)
    return order[:available][:N], order[available:]


def training_rows(rows: int, test_fraction: float) -> int:
    """Return the number of training rows when `test_fraction` of `rows` rows are for testing."""
    if not 0 <= test_fraction < 1:
        raise UserError(f"dataset.test_fraction must be in [0, 1), got {test_fraction}.")
    return rows - round(rows * test_fraction)


def check_rows(info: Info, N: int | None, available: int) -> None:
    """Raise UserError when N training rows are requested and fewer are available."""
    if N is not None and not 1 <= N <= available:
        raise UserError(f"N={N} is too large: dataset={info.name} has {available} training rows.")
