"""What is known about a data set and its files before any of them is opened: plain values, written once.

The loaders, the downloads, `dpml data` and the pages in docs/data all read these.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dpml.errors import UserError

Task = Literal["binary", "multiclass", "regression"]
Bounds = Literal["fitted", "public"]
"""What preprocessing takes its scales from: the training rows, or ranges that are stated without a look at them."""


@dataclass(frozen=True)
class Range:
    """The values that a numeric column can have, by its documentation or its meaning, never by its rows.

    Values outside are clipped, so that no guarantee rests on the statement being right.

    Attributes:
        low: The least value, in the column's own unit.
        high: The largest.
        log: The column goes on the scale log(1 + value), as amounts of money, bytes and durations do.

    Raises:
        UserError: the ends are not finite, not in order, or without a logarithm.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise UserError(f"a range needs finite ends, low < high, got {self.low:g} and {self.high:g}.")
        if self.log and self.low <= -1:
            raise UserError(f"a range on the scale log(1 + value) must begin above -1, got {self.low:g}.")

    def __str__(self) -> str:
        return f"{self.low:,.10g} to {self.high:,.10g}{', on a log scale' if self.log else ''}"


Column = Range | tuple[str, ...]
"""What is stated of a column: the range of a numeric one, or all values that a symbolic one can have."""


def values(text: str) -> tuple[str, ...]:
    """A list of symbolic values that is written with spaces between them."""
    return tuple(text.split())


@dataclass(frozen=True)
class Raw:
    """One file of a data set, as its publisher names it.

    Attributes:
        name: Its path inside the data set's folder, without a compression suffix.
        urls: Where it can be fetched, the official place first. ``URL!MEMBER`` is a file inside an archive, and
            ``URL!INNER!MEMBER`` one inside an archive inside that.
        sha256: Every accepted checksum of the uncompressed content. Empty where none is known: then `lines` and
            `fields` are checked instead, and the checksum is recorded at the first download.
        lines: Lines of text in it.
        fields: Values on its first line, which `separator` sets apart (None: any white space).
    """

    name: str
    urls: tuple[str, ...] = ()
    sha256: tuple[str, ...] = ()
    lines: int | None = None
    fields: int | None = None
    separator: str | None = None


@dataclass(frozen=True)
class Info:
    """A data set: where it comes from, what it must look like, and how the papers used it.

    Attributes:
        rows: Rows after cleaning; `train_rows` of them come first and are the official training part, if there is one.
        features: Columns after one-hot coding, before any PCA.
        classes: Rows of each label, over all rows after cleaning. Empty for regression.
        folders: Further names that the folder of its files may have.
        parties, schema, papers, differences: Sentences for people.
        columns: What is stated of every column of its table, by name, in the table's order. Empty where nothing is.
        target: The stated range of a regression target.
        bounds: Where `columns` and `target` are from, in sentences; without them, a clause that says why, no full stop.
    """

    name: str
    title: str
    task: Task
    citation: str
    how_to_get: str = "It ships with a dependency."
    homepage: str = ""
    licence: str = ""
    files: tuple[Raw, ...] = ()
    folders: tuple[str, ...] = ()
    rows: int = 0
    train_rows: int | None = None
    features: int = 0
    classes: Mapping[float, int] = field(default_factory=dict)
    parties: str = ""
    schema: str = ""
    papers: str = ""
    differences: str = ""
    columns: Mapping[str, Column] = field(default_factory=dict)
    target: Range | None = None
    bounds: str = "its class states none"

    @property
    def width(self) -> int:
        """K of a multiclass task whose labels, 0 to K-1, are known; else 1."""
        return 1 + int(max(self.classes)) if self.task == "multiclass" and self.classes else 1
