"""Bank Marketing (UCI 222), bank-additional-full: does a client subscribe to a term deposit? 41,188 rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpml.data import Info
from dpml.data.info import described
from dpml.data.table import RandomSplit, Table, encode, read_csv

_SYMBOLIC = (1, 2, 3, 4, 5, 6, 7, 8, 9, 14)


@dataclass(frozen=True)
class Bank(RandomSplit):
    """41,188 rows, ten numeric and ten symbolic features. Used by Kang et al. 2019."""

    info: ClassVar[Info] = described(__file__)["bank"]
    steps: tuple[str, ...] = ("one_hot", "min_max", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        table = read_csv(paths["bank-additional-full.csv"], sep=";")
        X, levels = encode([table.iloc[:, :20]], _SYMBOLIC, self.stated)
        return Table(X, np.where(table["y"] == "yes", 1.0, -1.0), levels)
