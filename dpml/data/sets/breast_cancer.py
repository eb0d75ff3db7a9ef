"""Breast Cancer Wisconsin (Original) (UCI 15): 699 x 9, malignant (+1) against benign (-1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpml.data import Info
from dpml.data.info import described
from dpml.data.table import RandomSplit, Table, read_csv


@dataclass(frozen=True)
class BreastCancer(RandomSplit):
    """699 rows, nine features graded 1 to 10. Used by Kang et al. 2019. Not the same as `wdbc`."""

    info: ClassVar[Info] = described(__file__)["breast_cancer"]
    steps: tuple[str, ...] = ("impute", "min_max", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        (path,) = paths.values()
        table = read_csv(path, header=None, na_values="?")
        return Table(table.iloc[:, 1:10].to_numpy(np.float64), np.where(table[10] == 4, 1.0, -1.0))
