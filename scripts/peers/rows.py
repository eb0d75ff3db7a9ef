"""Provide code that all programs in this folder share, such as loading the rows of data sets with dpml."""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from dpml.arrays import Array
from dpml.config.catalogue import source
from dpml.data import Files
from dpml.data.table import Tabular
from dpml.running.metrics import accuracies
from dpml.seeds import generator

EPS = (0.05, 0.1, 0.5, 1.0, 4.0)
DELTA = 1e-5
SEEDS = range(5)
DRAWS = 4

CENTRE, HELDOUT = ("one_hot", "symmetric", "sample_norm"), ("one_hot", "symmetric", "bias", "sample_norm")
DATA = {
    "adult": CENTRE,
    "bank": CENTRE,
    "crime": ("max_abs", "sample_norm"),
    **dict.fromkeys(("mroz", "loanapp", "german_credit", "orange_juice", "affairs", "caravan"), HELDOUT),
    "kddcup99_70k": HELDOUT,
    "wdbc": HELDOUT[1:],
    "breast_cancer": ("impute", *HELDOUT[1:]),
    **dict.fromkeys(("bikeshare", "diamonds", "birthweight", "college", "credit_balance"), HELDOUT),
}
"""The sets of two classes and of regression in frontier/centre and frontier/heldout, with their preprocessing."""

Row = tuple[str, float, int, int, str, str, float]
"""Data set, eps, seed, draw, name, metric, value."""


@dataclass(frozen=True)
class Data:
    """Training and test rows of length at most 1, with labels -1 and +1 or targets in [-1, 1].

    Attributes:
        plain, plain_test: the rows before the `steps`, with missing values replaced by the median of training rows.
        levels: the number of values of each categorical column of plain rows, 0 for a numeric column.
    """

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    steps: tuple[str, ...]
    plain: Array
    plain_test: Array
    levels: tuple[int, ...]

    @property
    def binary(self) -> bool:
        """Whether the data set has two classes."""
        return set(np.unique(self.y)) == {-1.0, 1.0}

    def scored(self, scores: Array) -> dict[str, float]:
        """Return accuracy and area under the ROC curve, or the RMSE, of scores of the test rows (n,)."""
        if not self.binary:
            return {"rmse": float(np.sqrt(np.mean((scores - self.y_test) ** 2)))}
        positive = self.y_test > 0
        right = float(np.mean((scores >= 0) == positive))
        return {"accuracy": right, "auc": float(roc_auc_score(positive, scores))}

    def accuracy(self, weights: Array) -> Array:
        """Return the share of test rows that models (B, d) label correctly."""
        return accuracies(weights, self.X_test, self.y_test)[0]


def load(files: Files, name: str, seed: int) -> Data:
    """Return the rows of a data set, as a fit (cell) of dpml uses them."""
    found = replace(source(name), steps=DATA[name])  # type: ignore[type-var]
    data = found.load(files, None, generator(seed, "data"))
    arrays = data.X, data.y, data.X_test, data.y_test
    if not isinstance(found, Tabular):  # the rows come with scikit-learn or dpml
        return Data(*arrays, ("sample_norm",), data.X, data.X_test, (0,) * data.X.shape[1])
    table, _ = found.table(files)
    train, test = found.split(table.y, None, generator(seed, "data"))
    if isinstance(test, slice):  # the official split keeps the file's order
        train = np.sort(train)
    middle = np.nanmedian(table.X[train], axis=0)
    plain, plain_test = (np.where(np.isnan(X), middle, X) for X in (table.X[train], table.X[test]))
    return Data(*arrays, DATA[name], plain, plain_test, tuple(table.levels or [0] * len(middle)))


def on_every_set(
    files: Files, algo: str, scores: Callable[[Data, float, int, int], Array], draws: Callable[[Data], int]
) -> Iterator[Row]:
    """Yield metrics of the test rows' ``scores(data, eps, seed, draw)`` on every data set, with `draws` per seed."""
    for name, seed in product(sorted(DATA), SEEDS):
        data = load(files, name, seed)
        for eps, draw in product(EPS, range(draws(data))):
            for metric, value in data.scored(scores(data, eps, seed, draw)).items():
                yield name, eps, seed, draw, algo, metric, value


def run(measure: Callable[[Files], tuple[list[Row], list[str]]], packages: Sequence[str]) -> None:
    """Call ``measure(files)``, and write its rows, and its notes with the packages' versions.

    The command line has the file for the rows, and the folder of the data unless it is dpml's usual one. Notes go to
    the same name with .txt.
    """
    target = Path(sys.argv[1])
    rows, notes = measure(Files(*sys.argv[2:]))
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["dataset", "eps", "seed", "draw", "algo", "metric", "value"])
        writer.writerows(rows)
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    target.with_suffix(".txt").write_text("\n".join([*notes, f"with {versions}"]) + "\n", encoding="utf-8")
