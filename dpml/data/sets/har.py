"""UCI HAR (UCI 240): which of six activities does a person with a smartphone do? 561 features, PCA to d = 50."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpml.arrays import Array, Index
from dpml.data import Info, Range
from dpml.data.info import described
from dpml.data.sources.files import open_raw
from dpml.data.table import OfficialSplit, Table, read_csv

_INFOS = {
    name: replace(info, columns={f"feature {number}": Range(-1, 1) for number in range(1, info.features + 1)})
    for name, info in described(__file__).items()
}


def _labels(paths: Mapping[str, Path]) -> Array:
    parts = []
    for name in ("train/y_train.txt", "test/y_test.txt"):
        with open_raw(paths[name]) as file:
            parts.append(np.loadtxt(file))
    return np.concatenate(parts) - 1


def _people(paths: Mapping[str, Path]) -> Index:
    """The person who wore the phone in each training row: the 21 people are numbered from 0 in ascending order."""
    with open_raw(paths["train/subject_train.txt"]) as file:
        return np.unique(np.loadtxt(file, dtype=np.intp), return_inverse=True)[1]


@dataclass(frozen=True)
class HAR(OfficialSplit):
    """7,352 training rows of 21 people and 2,947 test rows of 9 others. Used by Hamm et al. 2016, fig. 2."""

    info: ClassVar[Info] = _INFOS["har"]
    steps: tuple[str, ...] = ("pca:50", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        parts = [
            read_csv(paths[name], header=None, sep=r"\s+", dtype=np.float64).to_numpy()
            for name in ("train/X_train.txt", "test/X_test.txt")
        ]
        return Table(np.concatenate(parts), _labels(paths), party=_people(paths))


@dataclass(frozen=True)
class HAR73(OfficialSplit):
    """73 of the 561 features (every mean, standard deviation and angle), all rows: used if X_train.txt is missing."""

    info: ClassVar[Info] = _INFOS["har_73of561"]
    steps: tuple[str, ...] = ("pca:50", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        parts = [read_csv(paths[raw.name], dtype=np.float64).to_numpy() for raw in self.info.files[:2]]
        return Table(np.concatenate(parts), _labels(paths), party=_people(paths))
