"""The user's own file, CSV or Parquet: `dpml-run dataset=csv dataset.path=FILE.csv dataset.label=COLUMN`."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Index
from dpml.data import Dataset, Files, Info, check_rows, preprocess, split_rows, training_rows
from dpml.data.csv.csv_rows import FITTED, UNSET, CsvOptions, CsvRows, checksum, read_rows
from dpml.data.preprocess import maps, split_apply
from dpml.data.steps import PRIVATE, SCHEMA, STATED, after_one_hot
from dpml.errors import UserError


@dataclass(frozen=True)
class CSV(CsvOptions):
    """The rows of `path`, of which `test_fraction`, drawn at random, are for testing unless there is a `test_path`.

    Args:
        test_fraction: The share of the rows, drawn at random, that is for testing.
        steps: Preprocessing, in order; null: what the bounds file says, or else [one_hot,symmetric,bias,sample_norm].
    """

    own: ClassVar[bool] = True
    test_fraction: float = 0.2
    steps: tuple[str, ...] = UNSET

    @property
    def info(self) -> Info:
        """The metadata of the data set, derived from the content of the file."""
        rows = self._rows()
        return Info(
            name="csv",
            title=self.paths["rows"].name,
            task=rows.task,
            citation="a file of one's own",
            how_to_get="It is your own file: dataset.path.",
            licence="your own",
            rows=len(rows.y),
            train_rows=rows.rows if self.test_path is not None else None,
            features=_width(rows),
            classes=dict(zip(rows.labels.numbers, rows.counts, strict=True)),
            columns=rows.stated,
            target=rows.labels.range,
            bounds=f"its ranges are stated in {self.bounds}." if rows.stated else "nothing is stated of its columns",
        )

    def size(self, N: int | None) -> tuple[int, int]:
        """(training rows, features); the file is read once to get them."""
        rows = self._rows()
        available = rows.rows if self.test_path is not None else training_rows(rows.rows, self.test_fraction)
        return N or available, preprocess.width(self.steps, rows.stated or _width(rows))

    @property
    def holdings(self) -> str | None:
        """A digest of which party has which rows of which file, as private as the rows; None without parties."""
        return self._rows().holdings

    def checksum(self, files: Files) -> str:
        """The checksum of the files' content: of `path`, and of `test_path` and `bounds` if they are named."""
        return checksum(self)

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        """The arrays, with N training rows (None: all). Equal rng states draw the same rows, fewer rows a subset."""
        rows, info = self._rows(), self.info
        test: Index | slice
        if self.test_path is None:
            train, test = split_rows(info, rows.rows, N, rng, self.test_fraction)
        else:
            check_rows(info, N, rows.rows)
            train, test = rng.permutation(rows.rows)[:N], slice(rows.rows, None)
        if self.missing == "keep" and "impute" not in self.steps and np.isnan(rows.X).any():  # in test rows, perhaps
            raise UserError(
                "dataset.missing=keep needs the step impute, because numbers are missing: "
                f"dataset.steps=[{','.join(['impute', *self.steps])}]."
            )
        target = None if rows.task != "regression" else rows.labels.range or "fitted"
        columns = rows.stated or rows.levels
        X, y, X_test, y_test, record = split_apply(rows.X, rows.y, (train, test), self.steps, columns, target)
        # without a bounds file, types, categories and classes are derived from the rows
        source = STATED if rows.stated else PRIVATE
        found = [entry | {"fitted_on": PRIVATE} if entry["fitted_on"] == SCHEMA else entry for entry in record]
        record = [{"step": "types", "fitted_on": source}, *found]
        provenance: dict[str, Any] = {
            "source": ", ".join(str(path) for path in self.paths.values()),
            "sha256": checksum(self),
            "rows": len(rows.y),
            "rows_left_out": sum(rows.left_out),
            "classes": rows.labels.names,
            "preprocessing": record,
        }
        party = None if rows.party is None else rows.party[train]
        return Dataset(info.name, info.task, X, y, X_test, y_test, provenance, party=party, classes=info.width)

    def _rows(self) -> CsvRows:
        rows = read_rows(self)
        steps = preprocess.parse(self.steps)
        if self.bounds != FITTED:
            if "pca" in dict(steps):
                raise UserError(
                    "dataset.steps must not have pca where dataset.bounds names a file, because it is fitted to "
                    "training rows: leave it out, or set dataset.bounds=fitted."
                )
            maps(self.steps, rows.stated)
        return rows


def _width(rows: CsvRows) -> int:
    """The number of columns after one-hot coding."""
    return after_one_hot(rows.stated) if rows.stated else sum(count or 1 for count in rows.levels)
