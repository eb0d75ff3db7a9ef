"""Load the samples that Imtiaz et al. 2019 published with their code; the authors have scaled these samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from dpml.arrays import Index
from dpml.data import Info
from dpml.data.dataset import TestFraction
from dpml.data.info import beside, info_of
from dpml.data.preprocess import PRIVATE, Preprocessed, split_apply
from dpml.data.table import RandomSplit, Table

_BESIDE = beside(__file__)

Sizes = Literal[500, 1000, 2000, 5000, 10_000, 20_000]


@dataclass(frozen=True)
class Authors(RandomSplit):
    """A sample with `rows` rows that Imtiaz et al. 2019 published; by default, all rows are training rows."""

    name: ClassVar[str]
    d: ClassVar[int]
    rows: Sizes = 5000
    test_fraction: TestFraction = 0.0
    steps: tuple[str, ...] = ("clip",)

    @property
    def filename(self) -> str:
        return f"{self.name.partition('_')[0].replace('synthetic', 'synth')}_D_{self.d}_N_{self.rows}.mat"

    @property
    def info(self) -> Info:  # type: ignore[override]
        said = {
            "how_to_get": f"The file is datasets/{self.filename} of https://github.com/hafizimtiaz/capeFM.",
            "files": {self.filename: {"sha256": _BESIDE["sha256"].get(self.filename, ())}},
            "rows": self.rows,
            "features": self.d,
        }
        return info_of(self.name, _BESIDE[self.name] | said)

    def parse(self, paths: Mapping[str, Path]) -> Table:
        from scipy.io import loadmat  # slow to load, and only this data set needs it

        content = loadmat(paths[self.filename])
        X, y = content["X"].astype(np.float64), content["y"].ravel().astype(np.float64)
        return Table(X, y, truth=content["beta"].ravel() if "beta" in content else None)

    def preprocess(self, table: Table, train: Index | slice, test: Index | slice) -> Preprocessed:
        # the authors scaled the targets, too
        X, y, X_test, y_test, record = split_apply(table.X, table.y, (train, test), self.steps, (), None)
        return X, y, X_test, y_test, [{"step": "the authors' scaling", "fitted_on": PRIVATE}, *record]


@dataclass(frozen=True)
class CrimeAuthors(Authors):
    """The samples of Communities and Crime that Imtiaz et al. 2019 published, with d = 101 features.

    Args:
        rows: The size of the sample: 200, 400, ..., 1800.
    """

    name: ClassVar[str] = "crime_authors"
    d: ClassVar[int] = 101
    rows: Literal[200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800] = 800  # type: ignore[assignment]


@dataclass(frozen=True)
class TwitterAuthors(Authors):
    """Samples of the data set "Buzz in social media (Twitter)", published by Imtiaz et al. 2019, with d = 77 features.

    Args:
        rows: The size of the sample: 500, 1000, 2000, 5000, 10000 or 20000.
    """

    name: ClassVar[str] = "twitter_authors"
    d: ClassVar[int] = 77
    rows: Sizes = 20_000


@dataclass(frozen=True)
class SyntheticAuthors(Authors):
    """Synthetic samples of Imtiaz et al. 2019: rows uniform on [0, 1]^d, scaled to norm 1; y = x'w* for weights w*.

    Args:
        rows: The size of the sample: 500, 1000, 2000, 5000, 10000 or 20000.
        d: The number of features: 20 or 50.
    """

    name: ClassVar[str] = "synthetic_authors"
    d: Literal[20, 50] = 20  # type: ignore[misc]
