"""What is known about a data set and its files before any of them is opened: plain values, written once.

The loaders, the downloads, `dpml data` and the pages in docs/data all read these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Task = Literal["binary", "multiclass", "regression"]


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
