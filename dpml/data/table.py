"""Define base classes of data sets, which parse files, draw and preprocess rows, and cache the results."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.random import Generator
from scipy import sparse

from dpml import code
from dpml.arrays import Array, Index
from dpml.data import Dataset, Files, check_rows, sha256, training_rows
from dpml.data.dataset import TestFraction
from dpml.data.info import Bounds, Column, Info, Range
from dpml.data.preprocess import Features, Preprocessed, check_bounds, coded_width, levels_of, split_apply, width
from dpml.data.sources import cache
from dpml.data.sources.files import open_raw
from dpml.errors import UserError
from dpml.options import check_options

if TYPE_CHECKING:
    import pandas as pd

AFTER_PARSING = {"steps", "test_fraction"}  # options that `parse` does not use
_PARTS = ("X", "y", "X_test", "y_test")


@dataclass(frozen=True)
class Table:
    """The parsed rows of a data set's files; the training part comes first.

    Attributes:
        X: Features (n, p), dense or sparse; NaN: missing. Categorical values are coded 0, 1, ..., or -1 if unknown.
        y: Labels (n,), coded as in `Dataset`, but regression targets are not scaled.
        levels: The number of values of each categorical column, 0 for a numeric column; empty if all are numeric.
        party: The party of each row, 0..P-1; with an official split, only of each row of the training part.
        left_out: The number of rows that are left out because of their values.
    """

    X: Features
    y: Array
    levels: tuple[int, ...] = ()
    party: Index | None = None
    left_out: int = 0
    truth: Array | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return coded_width(self.levels) or self.X.shape[1]


@dataclass(frozen=True)
class Tabular:
    """The base class of data sets in files: a subclass has the metadata (`info`) and parses the files (`parse`).

    The data set has an official split, and its training rows come first, unless it is a `RandomSplit`.

    Attributes:
        bounds: The source of scales: the training rows (`fitted`), or the ranges in `info.columns` (`public`).
        steps: Preprocessing, in order.
    """

    info: ClassVar[Info]
    bounds: Bounds = "fitted"
    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_options(self, "dataset")
        check_bounds(self.info, self.bounds, self.steps)

    def parse(self, paths: Mapping[str, Path]) -> Table:
        """Parse the raw files of the data set, where `paths` maps their names to their paths."""
        raise NotImplementedError

    def split(self, y: Array, N: int | None, rng: Generator) -> tuple[Index, Index | slice]:
        """Return the indices of the training rows (N rows, or all if N is None) and of the test rows."""
        return rng.permutation(self.available())[:N], slice(self.available(), None)

    def available(self) -> int:
        assert self.info.train_rows is not None
        return self.info.train_rows

    def drawn(self) -> int:
        return self.info.rows

    @property
    def stated(self) -> Mapping[str, Column]:
        """The public range or values of each column; empty unless dataset.bounds=public."""
        return self.info.columns if self.bounds == "public" else {}

    def size(self, N: int | None) -> tuple[int, int]:
        return N or self.available(), width(self.steps, self.stated or self.info.features)

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        check_rows(self.info, N, self.available())
        table, source = self.table(files)
        train, test = self.split(table.y, N, rng)
        if isinstance(test, slice) and len(train) == self.available():  # the whole official split
            arrays, facts = self._prepared(table, source)
            # rows stay mapped in the file's order: all are used, and the partition shuffles them anyway
            (X, y, X_test, y_test), record = (arrays[name] for name in _PARTS), facts["preprocessing"]
            train = np.arange(self.available())
        else:
            X, y, X_test, y_test, record = self.preprocess(table, train, test)
        provenance = source | {"rows": self.drawn(), "rows_left_out": table.left_out, "preprocessing": record}
        party = None if table.party is None else table.party[train]
        info = self.info
        return Dataset(info.name, info.task, X, y, X_test, y_test, provenance, table.truth, party, info.width)

    def table(self, files: Files) -> tuple[Table, dict[str, Any]]:
        """Return the parsed files, from the cache if possible, and their provenance."""
        verified = files.verified(self.info)
        paths = {name: path for name, (path, _) in verified.items()}
        digests = {name: digest for name, (_, digest) in verified.items()}
        place, digest = ", ".join(str(path) for path in paths.values()), joint_checksum(digests)

        def build() -> Table:
            table = self.parse(paths)
            self._check(table, place)
            if self.checksum(files) != digest:
                raise UserError(f"{place} changed while it was read: run the command again.")
            return table

        return cached(self.info.name, self.key(digest), build), {"source": place, "sha256": digest, "files": digests}

    def checksum(self, files: Files) -> str:
        return joint_checksum({name: digest for name, (_, digest) in files.verified(self.info).items()})

    def key(self, digest: str) -> dict[str, Any]:
        """Return the cache key of the parsed files: the files' checksum, and the code and options of the parser."""
        loader = type(self)
        options = {f.name: repr(getattr(self, f.name)) for f in fields(self) if f.name not in AFTER_PARSING}
        version = code.digest(code.DATA, code.named(loader))
        return {"loader": loader.__qualname__, "code": version, "options": options, "sha256": digest}

    def _prepared(self, table: Table, source: Mapping[str, Any]) -> tuple[cache.Arrays, cache.Facts]:
        # the arrays of an official split do not depend on random numbers
        def build() -> tuple[cache.Arrays, cache.Facts]:
            split = self.available()
            *arrays, record = self.preprocess(table, slice(split), slice(split, None))
            return dict(zip(_PARTS, arrays, strict=True)), {"preprocessing": record}

        return cache.load_or_build(self.info.name, self.key(source["sha256"]) | {"steps": list(self.steps)}, build)

    def preprocess(self, table: Table, train: Index | slice, test: Index | slice) -> Preprocessed:
        target = None if self.info.task != "regression" else self.info.target if self.stated else "fitted"
        columns = self.stated or table.levels
        return split_apply(table.X, table.y, (train, test), self.steps, columns, target)

    def _check(self, table: Table, source: str) -> None:
        info = self.info
        expected = coded_width(levels_of(self.stated)) or info.features
        facts = [("rows", len(table.y), info.rows), ("features", table.width, expected)]
        for label, rows in info.classes.items():
            facts.append((f"rows of class {label:g}", int(np.sum(table.y == label)), rows))
        for what, count, expected in facts:
            if count != expected:
                raise UserError(
                    f"dataset={info.name} has {count:,} {what} instead of {expected:,} in {source}: "
                    f"the file is damaged or not the official one. {info.how_to_get}"
                )


@dataclass(frozen=True)
class RandomSplit(Tabular):
    """A data set without an official split: a random share `test_fraction` of its rows is for testing.

    Args:
        test_fraction: The share of the rows that is drawn at random for testing.
    """

    test_fraction: TestFraction = 0.2

    def available(self) -> int:
        return training_rows(self.drawn(), self.test_fraction)

    def draw(self, y: Array, rng: Generator) -> Index:
        return rng.permutation(len(y))[: self.drawn()]

    def split(self, y: Array, N: int | None, rng: Generator) -> tuple[Index, Index | slice]:
        order = self.draw(y, rng)
        return order[: self.available()][:N], order[self.available() :]


def cached(name: str, key: Mapping[str, Any], build: Callable[[], Table], private: bool = False) -> Table:
    """Return a table from the cache, or else call `build` and cache its table."""

    def entry() -> cache.Entry:
        table = build()
        X = table.X
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr} if sparse.issparse(X) else {"X": X}
        others = {"y": table.y, "party": table.party, "truth": table.truth}
        arrays |= {name: array for name, array in others.items() if array is not None}
        plain = {"levels": table.levels, "left_out": table.left_out, "shape": X.shape, "facts": table.facts}
        return arrays, plain

    arrays, facts = cache.load_or_build(name, key, entry, private)
    X: Features | None = arrays.get("X")
    if X is None:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        X = sparse.csr_matrix(parts, shape=facts["shape"], copy=False)
    levels, party, truth = tuple(facts["levels"]), arrays.get("party"), arrays.get("truth")
    return Table(X, arrays["y"], levels, party, facts["left_out"], truth, facts["facts"])


def joint_checksum(digests: Mapping[str, str]) -> str:
    """Return one checksum for several files, given a dict from file names to checksums."""
    if len(digests) == 1:
        return next(iter(digests.values()))
    return sha256("".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())).encode())


def read_csv(path: Path, **options: Any) -> "pd.DataFrame":
    """Read a plain or compressed CSV file by calling `pandas.read_csv` with the `options`."""
    import pandas as pd  # slow to load, and only parsing needs it

    with open_raw(path) as file:
        return pd.read_csv(file, **options)


def encode(
    parts: "Sequence[pd.DataFrame]", categorical: Collection[int], stated: Mapping[str, Column]
) -> tuple[Array, tuple[int, ...]]:
    """Join tables with the same columns; return the array, and each categorical column's number of distinct values.

    A categorical value becomes its index in the list `stated` or in the first table's sorted values; -1 if unknown.
    """
    import pandas as pd  # slow to load, and only parsing needs it

    listed = {place: column for place, column in enumerate(stated.values()) if not isinstance(column, Range)}
    X = np.empty((sum(map(len, parts)), parts[0].shape[1]))
    levels = [0] * X.shape[1]
    for column in range(X.shape[1]):
        cells: list[Any] = [part.iloc[:, column] for part in parts]
        if column in categorical:
            values = pd.Index(sorted(listed.get(column) or cells[0].unique()))
            levels[column] = len(values)
            cells = [values.get_indexer(pd.Index(each)) for each in cells]
        X[:, column] = np.concatenate(cells)
    return X, tuple(levels)
