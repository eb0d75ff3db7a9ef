"""Read the user's own CSV or Parquet file: `dpml-run dataset=csv dataset.path=FILE.csv dataset.label=COLUMN`."""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from multiprocessing import parent_process
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from dpml import code
from dpml.data import Dataset, Files, Info, check_rows, preprocess, training_rows
from dpml.data.csv.column_bounds import USUAL, ColumnBounds, load
from dpml.data.csv.columns import Kinds, features_of, matrix
from dpml.data.csv.labels import Labels, TaskChoice, find_labels, to_labels
from dpml.data.csv.profile import profile_of, refuse_problems
from dpml.data.csv.reading import Columns, CsvFile, Dialect, dialect, open_file, read
from dpml.data.dataset import PLACE, TestFraction, sha256
from dpml.data.preprocess import PRIVATE, SCHEMA, STATED, levels_of, split_apply
from dpml.data.sources.files import open_raw, stamp
from dpml.data.table import AFTER_PARSING, Table, cached, joint_checksum
from dpml.errors import UserError, nearest
from dpml.options import Bound, check_options

FITTED = "fitted"
UNSET: Any = None
"""The value of an option that the user does not set; it is the empty text if null is a possible value of the option."""


@dataclass(frozen=True)
class CSV:
    """The rows of your own file `path`; the test rows are a random share `test_fraction` or the file `test_path`.

    A bounds file may set the options that the command line does not set.

    Args:
        path: FILE.csv, .csv.gz, or .parquet (needs pyarrow).
        label: The column to predict.
        task: `binary`, `multiclass`, `regression`, or `auto`: determined from the labels.
        positive: The label that becomes +1; null: the second of the two labels in sorted order.
        drop: Columns that are not used, such as ids: [COLUMN, ...].
        party: The column that names the party of each row; this column is not a feature.
        missing: How rows with missing values are treated: `drop` (the default), `keep` (needs the step `impute`), or
            `refuse`.
        bounds: The source of scales, categories and classes: the rows (`fitted`), or FILE.yaml with public bounds.
        test_path: A file of test rows with the same columns, which replaces `test_fraction`.
        encoding: The character encoding: `utf-8` (the default), `utf-16`, `latin-1`, `cp1252`, or another of Python's.
        separator: The character between values, or its name: `comma`, `semicolon`, `tab`, `bar`; null: it is detected.
        decimal: The decimal separator of numbers: `point` (the default) or `comma`.
        na: Texts that mean a missing value, in addition to the usual ones: [TEXT, ...].
        cache: Whether to keep the parsed rows in the user's cache, which only the user can read, for the next run.
        test_fraction: The share of the rows that is drawn at random for testing.
        steps: Preprocessing, in order; by default [one_hot,symmetric,bias,sample_norm].
    """

    own: ClassVar[bool] = True
    path: str | None = field(default=None, metadata=PLACE)
    label: str | None = ""
    task: TaskChoice = "auto"
    positive: Annotated[Any, Bound("a label", lambda label: isinstance(label, str | int | float))] = ""
    drop: tuple[str, ...] = UNSET
    party: str | None = ""
    missing: Literal["drop", "keep", "refuse"] | None = UNSET
    bounds: str = field(default=FITTED, metadata=PLACE)
    test_path: str | None = field(default=None, metadata=PLACE)
    encoding: str = UNSET
    separator: str | None = ""
    decimal: str = UNSET
    na: tuple[Any, ...] = UNSET
    cache: bool = field(default=False, metadata=PLACE)
    test_fraction: TestFraction = 0.2
    steps: tuple[str, ...] = UNSET
    stamp: tuple[tuple[int, ...], ...] = field(default=(), init=False, repr=False, metadata=PLACE)

    def __post_init__(self) -> None:
        stated = load(self.paths["bounds"]).reading if self.bounds != FITTED and self.paths["bounds"].is_file() else {}
        for key, usual in USUAL.items():
            if getattr(self, key) == getattr(CSV, key):  # its default
                object.__setattr__(self, key, stated.get(key, usual))
        check_options(self, "dataset")
        _ = self.written  # raises UserError if the dialect is invalid
        # the stamp makes objects of a changed file unequal, so that no remembered result is reused
        object.__setattr__(self, "stamp", tuple(stamp(path) for path in self.paths.values() if path.is_file()))

    @property
    def written(self) -> Dialect:
        return dialect(self.encoding, self.separator, self.decimal, self.na)

    @property
    def paths(self) -> dict[str, Path]:
        named = {"rows": self.path, "test": self.test_path, "bounds": None if self.bounds == FITTED else self.bounds}
        return {name: Path(path).expanduser() for name, path in named.items() if path is not None}

    @property
    def file(self) -> CsvFile:
        """The file `path`, opened to read the names of its columns; raise UserError if `path` is not set."""
        if self.path is None:
            raise UserError("dataset=csv needs a file: dataset.path=FILE.csv dataset.label=COLUMN.")
        return open_file(self.paths["rows"], self.written)

    @property
    def statements(self) -> ColumnBounds | None:
        return load(self.paths["bounds"]) if "bounds" in self.paths else None

    @property
    def info(self) -> Info:
        table, labels, _ = read_rows(self)
        return Info(
            name="csv",
            title=self.paths["rows"].name,
            task=labels.task,
            citation="a file of one's own",
            rows=len(table.y),
            features=table.width,
            classes={number: int(np.sum(table.y == number)) for number in labels.numbers},
        )

    def size(self, N: int | None) -> tuple[int, int]:
        table, _, stated = read_rows(self)
        d = preprocess.width(self.steps, stated.columns if stated else table.width)
        return N or self._available(table.facts["rows"]), d

    def _available(self, rows: int) -> int:
        return rows if self.test_path is not None else training_rows(rows, self.test_fraction)

    @property
    def holdings(self) -> str | None:
        """A digest of the file and of every row's party; the digest must stay private. None if rows have no parties."""
        party = read_rows(self)[0].party
        return None if party is None else sha256(checksums(self)["rows"].encode(), party.tobytes())

    def checksum(self, files: Files) -> str:
        return joint_checksum(checksums(self))

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        (table, labels, stated), info = read_rows(self), self.info
        rows: int = table.facts["rows"]
        available, order = self._available(rows), rng.permutation(rows)
        check_rows(info, N, available)
        train, test = order[:available][:N], slice(rows, None) if self.test_path is not None else order[available:]
        target = None if labels.task != "regression" else stated.target if stated else "fitted"
        columns = stated.columns if stated else table.levels
        X, y, X_test, y_test, record = split_apply(table.X, table.y, (train, test), self.steps, columns, target)
        # without a bounds file, types, categories and classes come from the rows
        source = STATED if stated else PRIVATE
        found = [entry | {"fitted_on": PRIVATE} if entry["fitted_on"] == SCHEMA else entry for entry in record]
        provenance = {
            "source": ", ".join(str(path) for path in self.paths.values()),
            "sha256": self.checksum(files),
            "rows": len(table.y),
            "rows_left_out": table.left_out,
            "classes": labels.names,
            "preprocessing": [{"step": "types", "fitted_on": source}, *found],
        }
        party = None if table.party is None else table.party[train]
        return Dataset(info.name, info.task, X, y, X_test, y_test, provenance, None, party, info.width)


@lru_cache(maxsize=8)
def checksums(options: CSV) -> dict[str, str]:
    """Return a dict from the roles "rows", "test" and "bounds" to the checksums of the files that are read."""
    _ = options.file, options.statements  # raises UserError if one of them is invalid
    digests = {}
    for name, path in options.paths.items():
        if name == "test":
            _ = open_file(path, options.written)
        with open_raw(path) as content:
            digests[name] = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
    return digests


@lru_cache(maxsize=2)
def read_rows(options: CSV) -> tuple[Table, Labels, ColumnBounds | None]:
    """Return the rows of the data, the prediction task with its classes, and the content of the bounds file or None.

    The rows of the file `path`, as many as ``facts["rows"]`` says, come first; the rows of the file `test_path` follow.
    ``dataset.cache=true`` keeps the rows of both files in the user's cache.
    """
    file, stated = options.file, options.statements
    stated = stated.of(roles(file, options), file.path) if stated else None

    def build() -> Table:
        table = _build(options, file, stated)
        if options.stamp != replace(options).stamp:
            raise UserError(f"{options.path} changed while it was read: run the command again.")
        return table

    if options.cache:
        used = [f.name for f in fields(CSV) if not f.metadata.get("place") and f.name not in AFTER_PARSING]
        values = {name: repr(getattr(options, name)) for name in used}
        key = {"code": code.digest(code.DATA), "options": values, "files": checksums(options)}
        table = cached("csv", key, build, private=True)
    else:
        table = build()
    facts = table.facts
    labels = Labels(facts["task"], tuple(facts["classes"]), facts["rest"])
    if table.left_out and parent_process() is None:
        print(
            f"note: dataset=csv leaves out {table.left_out:,} of {len(table.y) + table.left_out:,} rows that have a "
            f"missing value (dataset.missing={options.missing}).",
            file=sys.stderr,
        )
    return table, labels, stated


def _build(options: CSV, file: CsvFile, stated: ColumnBounds | None) -> Table:
    features = roles(file, options)
    if options.label is None:
        raise UserError(f"dataset.label is missing: name the column to predict, one of {', '.join(file.names[:20])}.")
    columns = read_columns(file, features, options, stated)
    if stated:
        kinds = stated.kinds
    else:
        profiles = [profile_of(columns[name]) for name in features]
        refuse_problems(file, profiles)
        kinds = {each.name: each.kind for each in profiles}
    labels = find_labels(columns[options.label], options.task, options.positive, stated)
    table = _complete_rows(columns, kinds, labels, options, least=2)
    facts = {"rows": len(table.y), **asdict(labels)}
    if "test" in options.paths:
        test = _test(kinds, labels, options)
        X, y = np.concatenate([table.X, test.X]), np.concatenate([table.y, test.y])
        table = replace(table, X=X, y=y, left_out=table.left_out + test.left_out)
    return replace(table, X=np.ascontiguousarray(table.X), facts=facts)


def roles(file: CsvFile, options: CSV) -> list[str]:
    """Return the names of the features: all columns except the label, the party and the dropped columns."""
    named = [("label", options.label), ("party", options.party), *(("drop", name) for name in options.drop)]
    keys: dict[str, str] = {}
    for key, name in ((key, name) for key, name in named if name is not None):
        if name not in file.names:
            raise UserError(
                f"{file.path} has no column {name!r} (dataset.{key}): {nearest(name, file.names)} "
                "The first line of the file must name the columns."
            )
        if keys.setdefault(name, key) != key:
            raise UserError(f"dataset.{keys[name]} and dataset.{key} both name the column {name!r}.")
    features = [name for name in file.names if name not in keys]
    if not features:
        raise UserError(f"{file.path} has no feature: every column is the label, the party, or dropped.")
    return features


def read_columns(file: CsvFile, features: Sequence[str], options: CSV, stated: ColumnBounds | None) -> Columns:
    """Read the features, the label and the party of all rows; the label and the party are read as texts."""
    other = [name for name in (options.label, options.party) if name is not None]
    return read(file, [*features, *other], {*other, *(stated.texts if stated else ())})


def _complete_rows(columns: Columns, kinds: Kinds, labels: Labels, options: CSV, least: int) -> Table:
    label = columns[str(options.label)]
    file, y, X, levels = label.file, to_labels(label, labels), matrix(columns, kinds), levels_of(features_of(kinds))
    party = columns[options.party].codes if options.party is not None and options.party in columns else None
    incomplete, what = np.isnan(y) if party is None else np.isnan(y) | (party < 0), "the label or the party"
    if options.missing == "keep":
        categorical = np.flatnonzero(levels)
        X[:, categorical] = np.nan_to_num(X[:, categorical], nan=-1.0)
    else:
        incomplete, what = incomplete | np.isnan(X).any(axis=1), "a value"
    left = int(incomplete.sum())
    if left and options.missing != "drop":
        others = f", as in {left - 1:,} more rows" if left > 1 else ""
        fill = "set dataset.missing=keep and add the step impute, or " if options.missing == "refuse" else ""
        raise UserError(
            f"{file.where(int(incomplete.argmax()))}: {what} is missing{others}, but dataset.missing={options.missing} "
            f"forbids this: {fill}set dataset.missing=drop (in experiments only) to leave out such rows."
        )
    if len(y) - left < least:
        raise UserError(
            f"{file.path} has a missing value in {left:,} of {len(y):,} rows, so too few rows remain: leave out "
            "columns with dataset.drop, or set dataset.missing=keep with the step impute."
        )
    whose = None if party is None else np.unique(party[~incomplete], return_inverse=True)[1]
    return Table(X[~incomplete], y[~incomplete], levels, whose, left)


def _test(kinds: Kinds, labels: Labels, options: CSV) -> Table:
    file = open_file(options.paths["test"], options.written)
    names = [*kinds, str(options.label)]
    columns = read(file, names, [name for name in names if name not in kinds or kinds[name].is_text])
    return _complete_rows(columns, kinds, labels, options, least=1)
