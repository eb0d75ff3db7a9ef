"""What the programs in this folder share: they run in environments of their own, without dpml."""

import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPS = (0.05, 0.1, 0.5, 1.0)
DELTA = 1e-5
SEEDS = range(5)
DRAWS = 4

Row = tuple[str, float, int, int, str, str, float]
"""Data set, eps, seed, draw, name, metric, value."""


@dataclass(frozen=True)
class Data:
    """Rows of length at most 1 with labels -1 and +1, or targets in [-1, 1], for training and for testing."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    def accuracy(self, weights: Array) -> Array:
        """The share of test rows that models (d,) or (d, B) label right."""
        right = ((self.X_test @ weights) >= 0) == (self.y_test > 0).reshape(-1, *[1] * (weights.ndim - 1))
        return np.asarray(right.mean(axis=0))


def load(folder: Path, name: str, seed: int) -> Data:
    """The rows that `peers.py` wrote."""
    with np.load(folder / f"{name}_{seed}.npz") as content:
        return Data(**{key: content[key] for key in ("X", "y", "X_test", "y_test")})


def run(measure: Callable[[Path], tuple[list[Row], list[str]]], packages: Sequence[str]) -> None:
    """Call ``measure(folder of the data)`` and write its rows, and its notes with the packages' versions.

    The command line: the folder of the data, and the file for the rows; the notes go to the same name with .txt.
    """
    folder, target = map(Path, sys.argv[1:3])
    rows, notes = measure(folder)
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["dataset", "eps", "seed", "draw", "algo", "metric", "value"])
        writer.writerows(rows)
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    target.with_suffix(".txt").write_text("\n".join([*notes, f"with {versions}"]) + "\n", encoding="utf-8")
