"""UCI HAR (UCI 240): which of six activities does a person with a smartphone do? 561 features, PCA to d = 50."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpml.arrays import Array, Index
from dpml.data import Info, Range, Raw
from dpml.data.sources.files import open_raw
from dpml.data.table import OfficialSplit, Table, read_csv

_UCI = "https://archive.ics.uci.edu"
_ARCHIVES = (
    f"{_UCI}/static/public/240/human+activity+recognition+using+smartphones.zip!UCI HAR Dataset.zip",
    f"{_UCI}/ml/machine-learning-databases/00240/UCI%20HAR%20Dataset.zip",
    "https://d396qusza40orc.cloudfront.net/getdata%2Fprojectfiles%2FUCI%20HAR%20Dataset.zip",
)


def _raw(name: str, **known: Any) -> Raw:
    return Raw(name, urls=tuple(f"{archive}!UCI HAR Dataset/{name}" for archive in _ARCHIVES), **known)


_LABELS = (
    _raw("train/y_train.txt", sha256=("415b3357e2e2d5e70a45c781947c6bdd80e0410a579d862eedcd6bbce3c694ef",)),
    _raw("test/y_test.txt", sha256=("2a94cb53ca46b956c1b2aebd4a09a72badd8a8e9ea9cdfe9f31b3306a08666bb",)),
)
_PEOPLE = _raw("train/subject_train.txt", sha256=("66e1e2fbe9b396fa5155f531dc3348c803f503be663e2318772d49947db9153a",))


def _labels(paths: Mapping[str, Path]) -> Array:
    parts = []
    for raw in _LABELS:
        with open_raw(paths[raw.name]) as file:
            parts.append(np.loadtxt(file))
    return np.concatenate(parts) - 1


def _people(paths: Mapping[str, Path]) -> Index:
    """The person who wore the phone in each training row: the 21 people are numbered from 0 in ascending order."""
    with open_raw(paths[_PEOPLE.name]) as file:
        return np.unique(np.loadtxt(file, dtype=np.intp), return_inverse=True)[1]


@dataclass(frozen=True)
class HAR(OfficialSplit):
    """7,352 training rows of 21 people and 2,947 test rows of 9 others. Used by Hamm et al. 2016, fig. 2."""

    info: ClassVar[Info] = Info(
        name="har",
        title="Human Activity Recognition Using Smartphones",
        task="multiclass",
        citation="D. Anguita, A. Ghio, L. Oneto, X. Parra, J. L. Reyes-Ortiz, A Public Domain Dataset for Human "
        "Activity Recognition Using Smartphones, ESANN 2013",
        how_to_get="It is part of https://archive.ics.uci.edu/dataset/240.",
        homepage="https://archive.ics.uci.edu/dataset/240",
        licence="not for commercial use (the data set's README)",
        files=(
            _raw("train/X_train.txt", lines=7_352, fields=561),
            _raw("test/X_test.txt", lines=2_947, fields=561),
            *_LABELS,
            _PEOPLE,
        ),
        rows=10_299,
        train_rows=7_352,
        features=561,
        classes={0: 1_722, 1: 1_544, 2: 1_406, 3: 1_777, 4: 1_906, 5: 1_944},
        parties="M = 1000 of 6 rows each (Hamm et al. 2016); `partition=natural M=21`: one per person",
        schema="561 statistics of 2.56 s windows, in [-1, 1] as published. The publisher scaled training and test rows "
        "together: test rows have a share in the scales, which no budget counts. Classes 0..5: walking, upstairs, "
        "downstairs, sitting, standing, laying.",
        papers="Hamm et al. 2016 reduce to d = 50 by PCA and use about 1,000 auxiliary rows; which rows the PCA saw "
        "and how the features were scaled is not stated.",
        differences="The PCA is fitted on the training rows in use; then all rows are divided by the largest training "
        "norm. `dataset.steps=[pca:D,max_norm]` chooses another d.",
        columns={f"feature {number}": Range(-1, 1) for number in range(1, 562)},
        bounds="README.txt: features are normalized and bounded within [-1, 1]. The publisher did that over all rows, "
        "which no budget counts; the files as published are taken as the data. pca:D is fitted to training rows, so "
        "that dataset.bounds=public needs other steps, as dataset.steps=[sample_norm].",
    )
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

    info: ClassVar[Info] = replace(
        HAR.info,
        name="har_73of561",
        title="Human Activity Recognition, 73 of the 561 features",
        how_to_get="It is not published: use dataset=har, whose files are.",
        files=(
            Raw(
                "X_partial_73of561/X_train_73.csv",
                sha256=("3d816c7e38a767a7cfc87b785db565089838f84269d01e1c63af9614a1db8df4",),
            ),
            Raw(
                "X_partial_73of561/X_test_73.csv",
                sha256=("eec43bad60bec05d930329807d65cf08a83aee6136c8791954568e28b3da8d61",),
            ),
            *_LABELS,
            _PEOPLE,
        ),
        folders=("har",),
        features=73,
        columns={f"feature {number}": Range(-1, 1) for number in range(1, 74)},
        schema="As har, but only the 73 features whose names have mean(), std() or angle().",
        differences="A substitute, and named so: 488 of the features are not there. Otherwise as har.",
    )
    steps: tuple[str, ...] = ("pca:50", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        parts = [read_csv(paths[raw.name], dtype=np.float64).to_numpy() for raw in self.info.files[:2]]
        return Table(np.concatenate(parts), _labels(paths), party=_people(paths))
