"""Define the arrays that a run uses (`Dataset`), and the interface of a configurable data set (`Source`)."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data.info import Info, Task
from dpml.data.sources.files import Files
from dpml.errors import UserError
from dpml.options import Bound
from dpml.seeds import generator


@dataclass(frozen=True)
class Dataset:
    """Training and test arrays after preprocessing: every training row has an L2 norm of at most 1.

    Labels are -1 and +1, or 0..K-1 for K classes; regression targets lie in [-1, 1]. Only test data may slightly exceed
    these ranges. Arrays may be read-only and mapped from a file.

    Attributes:
        provenance: The source, its checksum, the number of rows, and every preprocessing step.
        truth: The weights that generated the labels, if they are known.
        party: The party of each training row, (N,) of 0..P-1, if the data set has parties.
        classes: The number of classes that labels may have; 1 if this number is not public.
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
    """A configurable data set: a frozen dataclass whose fields are the options in its YAML file.

    An optional method ``checksum(files: Files) -> str | None`` returns the `sha256` of the provenance without loading
    the rows. A field with the metadata `PLACE` names a file whose content belongs to the checksum. The class attribute
    ``own = True`` marks private rows: results are then stored without path and checksum.
    """

    @property
    def info(self) -> Info:
        """The metadata of the data set."""

    def size(self, N: int | None) -> tuple[int, int]:
        """Return how many training rows (N, or all if N is None) and features `load` gives, without calling `load`."""

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        """Return the arrays with N training rows (None: all); with equal `rng`, a smaller N gives part of them."""


def checksum(source: Source, files: Files) -> str | None:
    """Return the checksum of a data set's content for its provenance; None for synthetic data."""
    own: Callable[[Files], str | None] | None = getattr(source, "checksum", None)
    if own is not None:
        return own(files)
    return source.load(files, None, generator(0, "data")).provenance.get("sha256")


def sha256(*contents: bytes) -> str:
    """Return the SHA-256 of some bytes as hexadecimal digits."""
    return hashlib.sha256(b"".join(contents)).hexdigest()


TestFraction = Annotated[float, Bound("in [0, 1)", lambda share: 0 <= share < 1)]
"""The share of the rows that is drawn at random for testing."""


def training_rows(rows: int, test_fraction: float) -> int:
    """Return how many of `rows` rows are for training if a share of `test_fraction` is for testing."""
    return rows - round(rows * test_fraction)


def check_rows(info: Info, N: int | None, available: int) -> None:
    """Raise UserError if N training rows are requested, but fewer are available."""
    if N is not None and not 1 <= N <= available:
        raise UserError(f"N={N} is too large: dataset={info.name} has {available} training rows.")
