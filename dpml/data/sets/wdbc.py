"""Breast Cancer Wisconsin (Diagnostic): 569 x 30, malignant (+1) against benign (-1); ships with scikit-learn."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.data import Dataset, Files, Info, fold_rows, preprocess, sha256, split_rows, training_rows
from dpml.data.info import Bounds, described
from dpml.data.preprocess import check_bounds
from dpml.errors import UserError

_FILE = "breast_cancer.csv"


@dataclass(frozen=True)
class WDBC:
    """569 rows, 30 real features, 212 malignant. Used by Rajkumar & Agarwal 2012, fig. 2.

    Args:
        bounds: `fitted`: scales are those of the training rows; `public` is refused, as no ranges are stated.
        test_fraction: The share of the rows, drawn at random, that is for testing.
        folds: Cross-validation instead of `test_fraction`: with 5, seeds 0 to 4 test on one fifth each; None: none.
        steps: Preprocessing, in order.
    """

    info: ClassVar[Info] = described(__file__)["wdbc"]
    bounds: Bounds = "fitted"
    test_fraction: float = 0.2
    folds: int | None = None
    steps: tuple[str, ...] = ("min_max", "centre", "max_norm")

    def __post_init__(self) -> None:
        check_bounds(self.info, self.bounds, self.steps)
        if self.folds is not None and not 2 <= self.folds <= 569:
            raise UserError(f"dataset.folds of wdbc must be null or in 2..569, got {self.folds}.")

    def size(self, N: int | None) -> tuple[int, int]:
        """(training rows, features); with `folds`, of a round with the larger test part."""
        rows = training_rows(569, self.test_fraction) if self.folds is None else 569 - math.ceil(569 / self.folds)
        return N or rows, preprocess.width(self.steps, 30)

    def checksum(self, files: Files) -> str:
        """The checksum of all rows and labels in scikit-learn's copy, as in a loaded data set's provenance."""
        return _checksum(*_table())

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        X, y = _table()
        if self.folds is None:
            train, test = split_rows(self.info, len(y), N, rng, self.test_fraction)
        else:
            train, test = fold_rows(self.info, len(y), N, rng, self.folds)
        X_train, X_test, record = preprocess.fit_apply(self.steps, X[train], X[test])
        provenance = {
            "source": "sklearn.datasets.load_breast_cancer",
            "sha256": _checksum(X, y),
            "rows": len(y),
            "preprocessing": record,
        }
        return Dataset(self.info.name, self.info.task, X_train, y[train], X_test, y[test], provenance)


def _table() -> tuple[Array, Array]:
    """All features (569, 30) and labels (569,).

    They are read directly from scikit-learn's own file if it exists, as importing scikit-learn takes longer than a run.
    """
    spec = find_spec("sklearn")
    if spec and spec.origin and (file := Path(spec.origin).with_name("datasets") / "data" / _FILE).is_file():
        content = np.loadtxt(file, delimiter=",", skiprows=1)
        X, target = np.ascontiguousarray(content[:, :-1]), content[:, -1]
    else:
        from sklearn.datasets import load_breast_cancer

        X, target = load_breast_cancer(return_X_y=True)
    return X, np.where(target == 0, 1.0, -1.0)  # scikit-learn codes malignant as 0


def _checksum(X: Array, y: Array) -> str:
    return sha256(np.ascontiguousarray(X).tobytes(), y.tobytes())
