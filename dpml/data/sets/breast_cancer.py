"""Breast Cancer Wisconsin (Original) (UCI 15): 699 x 9, malignant (+1) against benign (-1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpml.data import Info, Range, Raw
from dpml.data.info import Column
from dpml.data.table import RandomSplit, Table, read_csv

_FILE = "breast-cancer-wisconsin.data"
_UCI = "https://archive.ics.uci.edu"
_GRADED = (
    "Clump Thickness",
    "Uniformity of Cell Size",
    "Uniformity of Cell Shape",
    "Marginal Adhesion",
    "Single Epithelial Cell Size",
    "Bare Nuclei",
    "Bland Chromatin",
    "Normal Nucleoli",
    "Mitoses",
)
_COLUMNS: dict[str, Column] = {name: Range(1, 10) for name in _GRADED}


@dataclass(frozen=True)
class BreastCancer(RandomSplit):
    """699 rows, nine features graded 1 to 10. Used by Kang et al. 2019. Not the same as `wdbc`."""

    info: ClassVar[Info] = Info(
        name="breast_cancer",
        title="Breast Cancer Wisconsin (Original)",
        task="binary",
        citation="W. Wolberg, Breast Cancer Wisconsin (Original), UCI, 1990, doi:10.24432/C5HP4Z",
        how_to_get=f"It is {_FILE} of https://archive.ics.uci.edu/dataset/15/breast+cancer+wisconsin+original.",
        homepage="https://archive.ics.uci.edu/dataset/15/breast+cancer+wisconsin+original",
        licence="CC BY 4.0",
        files=(
            Raw(
                _FILE,
                urls=(
                    f"{_UCI}/static/public/15/breast+cancer+wisconsin+original.zip!{_FILE}",
                    f"{_UCI}/ml/machine-learning-databases/breast-cancer-wisconsin/{_FILE}",
                ),
                sha256=("402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",),
            ),
        ),
        folders=("breast_cancer_wisconsin",),
        rows=699,
        features=9,
        classes={-1: 458, +1: 241},
        parties="M = 2, 4, 8, 16, 32 (Kang et al. 2019)",
        schema="Nine features graded 1 to 10; the sample number is left out. Label +1: malignant (class 4). "
        "`Bare nuclei` is missing in 16 rows. The 699 rows have 645 sample numbers: a row is not a patient. In a "
        "random split 9 to 26 of the 140 test rows share their number with a training row (200 splits), and 47 to 64 "
        "equal one in all features and the label (10 splits): accuracy is partly recall, and privacy for a row is less "
        "than privacy for a patient.",
        papers="Kang et al. 2019 use all 699 rows; how the 16 missing values were filled is not stated.",
        differences="Missing values become the median over the training rows. A fifth of the rows is for testing; each "
        "feature is scaled to [0, 1], then all rows by the largest training norm.",
        columns=_COLUMNS,
        bounds="Every feature has the domain 1 - 10 in breast-cancer-wisconsin.names. A missing value becomes 5.5, the "
        "middle.",
    )
    steps: tuple[str, ...] = ("impute", "min_max", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        table = read_csv(paths[_FILE], header=None, na_values="?")
        return Table(table.iloc[:, 1:10].to_numpy(np.float64), np.where(table[10] == 4, 1.0, -1.0))
