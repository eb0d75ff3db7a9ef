"""Code that the programs in this folder share; they run in their own environments, without dpml."""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPS = (0.05, 0.1, 0.5, 1.0, 4.0)
DELTA = 1e-5
SEEDS = range(5)
DRAWS = 4

Row = tuple[str, float, int, int, str, str, float]
"""Data set, eps, seed, draw, name, metric, value."""


@dataclass(frozen=True)
class Data:
    """Training and test rows of length at most 1, with labels -1 and +1 or targets in [-1, 1]."""

    name: str
    X: Array
    y: Array
    X_test: Array
    y_test: Array
    plain: Array | None = None
    plain_test: Array | None = None
    levels: Array | None = None

    @property
    def binary(self) -> bool:
        """Whether the data set has two classes."""
        return set(np.unique(self.y)) == {-1.0, 1.0}

    def scored(self, scores: Array) -> dict[str, float]:
        """Return accuracy and area under the ROC curve, or the RMSE, of scores of the test rows (n,)."""
        if not self.binary:
            return {"rmse": float(np.sqrt(np.mean((scores - self.y_test) ** 2)))}
        return {"accuracy": float(np.mean((scores >= 0) == (self.y_test > 0))), "auc": self.auc(scores)}

    def auc(self, scores: Array) -> float:
        """Return the share of pairs of a positive and a negative test row in the right order; ties count half."""
        _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
        rank = (np.cumsum(count) - (count - 1) / 2)[place]  # mean rank of equal scores
        positive = self.y_test > 0
        pairs = int(positive.sum()) * int((~positive).sum())
        return float((rank[positive].sum() - positive.sum() * (positive.sum() + 1) / 2) / pairs)

    def accuracy(self, weights: Array) -> Array:
        """Return the share of test rows that models (d,) or (d, B) label correctly."""
        right = ((self.X_test @ weights) >= 0) == (self.y_test > 0).reshape(-1, *[1] * (weights.ndim - 1))
        return np.asarray(right.mean(axis=0))


def load(folder: Path, name: str, seed: int) -> Data:
    """Return the rows that `peers.py` wrote."""
    with np.load(folder / f"{name}_{seed}.npz") as content:
        return Data(name, **content)


def names(folder: Path) -> list[str]:
    """Return the names of the data sets that `peers.py` wrote, in its order."""
    return list(dict.fromkeys(path.stem.rpartition("_")[0] for path in sorted(folder.glob("*.npz"))))


def on_every_set(
    folder: Path, algo: str, scores: Callable[[Data, float, int, int], Array], draws: Callable[[Data], int]
) -> Iterator[Row]:
    """Measure ``scores(data, eps, seed, draw)`` of the test rows on every data set, with `draws` per seed."""
    for name, seed in product(names(folder), SEEDS):
        data = load(folder, name, seed)
        for eps, draw in product(EPS, range(draws(data))):
            for metric, value in data.scored(scores(data, eps, seed, draw)).items():
                yield name, eps, seed, draw, algo, metric, value


def run(measure: Callable[[Path], tuple[list[Row], list[str]]], packages: Sequence[str]) -> None:
    """Call ``measure(folder of the data)``, and write its rows, and its notes with the packages' versions.

    The command line has the folder of the data and the file for the rows. Notes go to the same name with .txt.
    """
    folder, target = map(Path, sys.argv[1:3])
    rows, notes = measure(folder)
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["dataset", "eps", "seed", "draw", "algo", "metric", "value"])
        writer.writerows(rows)
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    target.with_suffix(".txt").write_text("\n".join([*notes, f"with {versions}"]) + "\n", encoding="utf-8")
