"""The samples that Imtiaz et al. 2019 used, as published with the authors' code, already scaled by the authors."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.data import Dataset, Files, Info, preprocess, split_rows, training_rows
from dpml.data.info import beside, info_of
from dpml.data.preprocess import PRIVATE
from dpml.errors import UserError

_BESIDE = beside(__file__)


@dataclass(frozen=True)
class Authors:
    """One of the authors' files, selected by `rows`. All its rows are for training unless `test_fraction` is set.

    Args:
        test_fraction: The share of the rows, drawn at random, that is for testing.
        steps: Preprocessing, in order.
    """

    name: ClassVar[str]
    d: ClassVar[int]
    choices: ClassVar[tuple[int, ...]] = (500, 1000, 2000, 5000, 10_000, 20_000)
    rows: int = 0
    test_fraction: float = 0.0
    steps: tuple[str, ...] = ("clip",)

    def __post_init__(self) -> None:
        if self.rows not in self.choices:
            sizes = ", ".join(map(str, self.choices))
            raise UserError(f"dataset.rows={self.rows}: the authors have samples of {sizes} rows; choose one of them.")

    @property
    def filename(self) -> str:
        """Which of the authors' files it is."""
        return f"{self.name.partition('_')[0].replace('synthetic', 'synth')}_D_{self.d}_N_{self.rows}.mat"

    @property
    def info(self) -> Info:
        said = {
            "how_to_get": f"It is datasets/{self.filename} of https://github.com/hafizimtiaz/capeFM.",
            "files": {self.filename: {"sha256": _BESIDE["sha256"].get(self.filename, ())}},
            "rows": self.rows,
            "features": self.d,
            "papers": "This is what the authors' figures were computed on; they train on all rows and report the "
            f"training loss. Samples of {', '.join(map(str, self.choices))} rows exist.",
        }
        return info_of(self.name, _BESIDE[self.name] | said)

    def size(self, N: int | None) -> tuple[int, int]:
        return N or training_rows(self.rows, self.test_fraction), preprocess.width(self.steps, self.d)

    def checksum(self, files: Files) -> str:
        """The checksum of the file's content, as in a loaded data set's provenance."""
        _, digest = files.verified(self.info)[self.filename]
        return digest

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        from scipy.io import loadmat  # slow to load, and only this data set needs it

        info = self.info
        path, digest = files.verified(info)[self.filename]
        content = loadmat(path)
        X, y = content["X"].astype(np.float64), content["y"].ravel().astype(np.float64)
        if X.shape != (self.rows, self.d) or y.shape != (self.rows,):
            raise UserError(f"{path} holds {X.shape[0]} x {X.shape[1]} values instead of {self.rows} x {self.d}.")
        train, test = split_rows(info, self.rows, N, rng, self.test_fraction)
        X_train, X_test, record = preprocess.fit_apply(self.steps, X[train], X[test])
        provenance = {
            "source": str(path),
            "sha256": digest,
            "files": {self.filename: digest},
            "rows": self.rows,
            "preprocessing": [{"step": "the authors' scaling", "fitted_on": PRIVATE}, *record],
        }
        truth = content["beta"].ravel() if "beta" in content else None
        return Dataset(info.name, info.task, X_train, y[train], X_test, y[test], provenance, truth)


@dataclass(frozen=True)
class CrimeAuthors(Authors):
    """Communities and Crime, d = 101.

    Args:
        rows: 200, 400, ..., 1800.
    """

    name: ClassVar[str] = "crime_authors"
    d: ClassVar[int] = 101
    choices: ClassVar[tuple[int, ...]] = tuple(range(200, 2000, 200))
    rows: int = 800


@dataclass(frozen=True)
class TwitterAuthors(Authors):
    """Buzz in social media (Twitter), d = 77.

    Args:
        rows: 500, 1000, 2000, 5000, 10000 or 20000.
    """

    name: ClassVar[str] = "twitter_authors"
    d: ClassVar[int] = 77
    rows: int = 20_000


@dataclass(frozen=True)
class SyntheticAuthors(Authors):
    """Rows uniform on [0, 1]^d scaled to norm 1, y = x'w* without noise, d = 20 or 50; the file includes w*.

    Args:
        rows: 500, 1000, 2000, 5000, 10000 or 20000.
        d: 20 or 50.
    """

    name: ClassVar[str] = "synthetic_authors"
    rows: int = 5000
    d: int = 20  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d not in (20, 50):
            raise UserError(f"dataset.d={self.d}: the authors have samples with d = 20 and d = 50; choose one of them.")
