"""Read the metadata of data sets from YAML files, without opening the data sets' raw files."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpml.errors import UserError

Task = Literal["binary", "multiclass", "regression"]
Bounds = Literal["fitted", "public"]
"""The source of the scales in preprocessing: the training rows, or public ranges."""


@dataclass(frozen=True)
class Range:
    """A numeric column's public range, from documentation or a bounds file; values outside the range are clipped.

    Attributes:
        low, high: The smallest and the largest value, in the unit of the column.
        log: Whether the column is transformed by log(1 + value), as is common for amounts of money.
        edges: The values at which the steps `bin` and `spline` cut the range, in the unit of the column.
    """

    low: float
    high: float
    log: bool = False
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise UserError(f"the ends of a range must be finite with low < high, got {self.low:g} and {self.high:g}.")
        if self.log and self.low <= -1:
            raise UserError(f"a range on the scale log(1 + value) must begin above -1, got {self.low:g}.")
        if len(self.edges) >= 1000:
            raise UserError(f"a feature's range must have fewer than 1,000 bin edges, got {len(self.edges):,}.")
        ends = np.array([self.low, *self.edges, self.high])
        apart = np.diff(np.log1p(ends) if self.log else ends)  # on the scale on which the edges are used
        if self.edges and not np.all(apart > 0):
            listed = ", ".join(f"{edge:g}" for edge in self.edges)
            scale = " on the scale log(1 + value)" if self.log else ""
            raise UserError(f"the edges must increase{scale}, between {self.low:g} and {self.high:g}, got [{listed}].")

    def parts(self, count: float) -> tuple[float, ...]:
        """Return the edges that cut this range into `count` parts of equal length, on a log scale if `log` is set."""
        if count not in range(1, 1001):
            raise UserError(f"edges must be a list, or a whole number (1 to 1,000) of equal parts, got {count}.")
        low, high = np.log1p([self.low, self.high]) if self.log else (self.low, self.high)
        edges = np.linspace(low, high, int(count) + 1)[1:-1]
        return tuple((np.expm1(edges) if self.log else edges).tolist())

    def __str__(self) -> str:
        scale = ", on a log scale" if self.log else ""
        return f"{self.low:,.10g} to {self.high:,.10g}{scale}{f', {len(self.edges)} edges' if self.edges else ''}"


Column = Range | tuple[str, ...]
"""The public facts about a column: the range of a numeric column, or all values of a categorical column."""


@dataclass(frozen=True)
class Raw:
    """A raw file of a data set.

    Attributes:
        name: The path of the file inside the data set's folder, without a compression suffix.
        urls: The addresses of the file, the official address first. ``URL!MEMBER`` is a file inside an archive, and
            ``URL!INNER!MEMBER`` is a file inside an archive within an archive.
        sha256: All accepted checksums of the uncompressed content. If there is none, the number of `lines` is checked,
            and the checksum is recorded at the first download.
    """

    name: str
    urls: tuple[str, ...] = ()
    sha256: tuple[str, ...] = ()
    lines: int | None = None


@dataclass(frozen=True)
class Info:
    """The metadata of a data set: its source, the expected shape of its content, and how the papers used it.

    Attributes:
        rows: The number of rows after cleaning.
        train_rows: The number of rows in the official training part, which comes first; None without an official split.
        features: The number of columns after one-hot coding, before any PCA.
        classes: The number of rows of each label after cleaning; empty for a regression.
        folders: Alternative names of the folder of its files.
        columns: The public range or values of every column of the table, by name and in order; empty if there are none.
        bounds: Where the public ranges come from or, without `columns` or a regression's `target`, a clause on why.
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
        """The number of classes K of a multiclass task with the public labels 0 to K-1; 1 for other tasks."""
        return 1 + int(max(self.classes)) if self.task == "multiclass" and self.classes else 1


def described(module: str) -> dict[str, Info]:
    """Return all data sets' metadata by name, from the YAML file at the path `module` with .yaml instead of .py."""
    return {name: info_of(name, said) for name, said in beside(module).items()}


@cache
def beside(module: str) -> dict[str, Any]:
    """Return the content of NAME.yaml next to the file NAME.py (`module`); callers must not change the content."""
    import yaml  # slow to load

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is ten times as fast
    content: dict[str, Any] = yaml.load(Path(module).with_suffix(".yaml").read_text("utf-8"), loader)
    return content


def info_of(name: str, said: Mapping[str, Any]) -> Info:
    """Return the metadata of a data set, given its `name` and its parsed YAML entry `said`.

    In the entry, `urls` has the default addresses of all `files`, where ``{name}`` stands for the file's name. A key
    ``NAME, NAME`` of `columns` sets several columns.
    """
    fields = {key: value for key, value in said.items() if key not in ("urls", "files", "columns", "target", "folders")}
    files = tuple(_raw(file, {"urls": said.get("urls", ()), **about}) for file, about in said.get("files", {}).items())
    columns: dict[str, Column] = {
        name: tuple(statement.split()) if isinstance(statement, str) else _range(statement)
        for names, statement in said.get("columns", {}).items()
        for name in names.split(", ")
    }
    target = _range(said["target"]) if "target" in said else None
    return Info(name, files=files, columns=columns, target=target, folders=tuple(said.get("folders", ())), **fields)


def _raw(name: str, about: Mapping[str, Any]) -> Raw:
    known = about.get("sha256", ())
    urls = tuple(url.replace("{name}", name) for url in about["urls"])
    return Raw(name, **{**about, "urls": urls, "sha256": (known,) if isinstance(known, str) else tuple(known)})


def _range(statement: Mapping[str, Any]) -> Range:
    return Range(**{**statement, "edges": tuple(statement.get("edges", ()))})
